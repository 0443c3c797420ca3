/* sim_copy2d.c - copies of rows. */
#include "tests/sim_util.h"

enum { WIDTH = 37, HEIGHT = 11, PITCH = 64, DPITCH = 80, N = 4096 };

static char *dev, *dev2, *pin, *heap;
static aclrtStream s;

static aclError rows(void *dst, const void *src, int kind)
{
    return aclrtMemcpy2dAsync(dst, DPITCH, src, PITCH, WIDTH, HEIGHT, (aclrtMemcpyKind)kind, s);
}

/* The rows arrived and nothing between them changed. */
static int arrived(const char *dst, uint32_t seed, char between)
{
    for (size_t at = 0; at < N; at++) {
        size_t row = at / DPITCH, column = at % DPITCH;
        char want = row < HEIGHT && column < WIDTH ? (char)pattern(seed, row * PITCH + column) : between;

        if (dst[at] != want)
            return 0;
    }
    return 1;
}

static int device_arrived(const char *ptr, uint32_t seed, char between)
{
    char got[N];

    OK(aclsim_peek(ptr, got, N));
    return arrived(got, seed, between);
}

static void check_arguments(void)
{
    const aclrtMemcpyKind kind = ACL_MEMCPY_HOST_TO_DEVICE;

    OK(aclrtMemcpy2d(NULL, 0, NULL, 0, 0, 5, kind));
    OK(aclrtMemcpy2dAsync(NULL, 0, NULL, 0, 5, 0, kind, s));
    CHECK_EQ(aclrtMemcpy2d(NULL, 8, pin, 8, 8, 1, kind), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy2d(dev, 8, NULL, 8, 8, 1, kind), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy2d(dev, 7, pin, 8, 8, 1, kind), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy2dAsync(dev, 8, pin, 7, 8, 1, kind, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(rows(dev, pin, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(rows(dev, pin, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy2dAsync(dev, 5000001, pin, 5000001, 5000001, 1, kind, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpy2dAsync(dev, 8, pin, 8, 8, 5242881, kind, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpy2d(dev2, PITCH, dev, PITCH, 8, 1, ACL_MEMCPY_DEVICE_TO_DEVICE),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtMemcpy2d(dev2, PITCH, dev, PITCH, 8, 1, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(rows(pin + N, pin, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(rows(dev, heap, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
}

static void check_sync(void)
{
    OK(aclrtMemset(dev, N, 1, N));
    fill(pin, N, 2);
    OK(aclrtMemcpy2d(dev, DPITCH, pin, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEFAULT));
    CHECK(device_arrived(dev, 2, 1));
    fill(heap, N, 3);
    OK(aclrtMemcpy2d(dev, DPITCH, heap, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(device_arrived(dev, 3, 1));
    OK(aclrtMemcpy(dev2, N, heap, N, ACL_MEMCPY_DEFAULT));
    memset(pin, 5, N);
    OK(aclrtMemcpy2d(pin, DPITCH, dev2, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(arrived(pin, 3, 5));
    /* The last row may not leave the block, though its start is inside. */
    OK(aclrtMemcpy2d(dev, N - 64, pin, PITCH, WIDTH, 2, ACL_MEMCPY_DEFAULT));
    CHECK_EQ(aclrtMemcpy2d(dev, N + 64, pin, PITCH, WIDTH, 2, ACL_MEMCPY_DEFAULT),
             ACL_ERROR_RT_PARAM_INVALID);
}

/* One task between host and device, one a row inside a device; all in stream order. */
static void check_async(void)
{
    struct aclsim_counters before, after;

    OK(aclrtMemset(dev, N, 1, N));
    OK(aclrtMemset(dev2, N, 1, N));
    fill(pin, N, 6);
    aclsim_counters(&before);
    OK(aclsim_hold_stream(s));
    OK(rows(dev, pin, ACL_MEMCPY_DEVICE_TO_HOST)); /* corrected */
    CHECK_EQ(aclsim_pending_tasks(0), 1);
    fill(pin, N, 7);
    OK(aclrtMemcpy2dAsync(dev2, DPITCH, dev, DPITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    CHECK_EQ(aclsim_pending_tasks(0), 1 + HEIGHT);
    CHECK(!device_arrived(dev, 7, 1));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_arrived(dev, 7, 1));
    CHECK(device_arrived(dev2, 7, 1));
    aclsim_counters(&after);
    CHECK_EQ(after.copies[ACLSIM_H2D] - before.copies[ACLSIM_H2D], 1);
    CHECK_EQ(after.bytes[ACLSIM_H2D] - before.bytes[ACLSIM_H2D], WIDTH * HEIGHT);
    CHECK_EQ(after.copies[ACLSIM_D2D] - before.copies[ACLSIM_D2D], HEIGHT);
    fill(pin, N, 8);
    OK(aclrtMemcpy(dev, N, pin, N, ACL_MEMCPY_DEFAULT));
    memset(pin, 9, N);
    OK(rows(pin, dev, ACL_MEMCPY_DEFAULT));
    OK(aclrtSynchronizeStream(s));
    CHECK(arrived(pin, 8, 9));
}

static void check_pageable(void)
{
    struct aclsim_counters before, after;

    aclsim_counters(&before);
    OK(aclrtMemset(dev, N, 1, N));
    fill(heap, N, 10);
    OK(rows(dev, heap, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(device_arrived(dev, 10, 1)); /* without a synchronisation */
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies - before.pageable_copies, 1);
}

/* Rows that leave the block fault when they execute, and move nothing. */
static void check_fault(void)
{
    OK(aclrtMemset(dev, N, 1, N));
    OK(aclrtMemcpy2dAsync(dev, N + 64, pin, PITCH, WIDTH, 2, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtMemcpy(heap, N, dev, N, ACL_MEMCPY_DEFAULT));
    CHECK(holds_byte(heap, N, 1));
}

/* What a dropped task owns is freed; the sanitizers look. */
static void check_dropped(void)
{
    aclrtStream doomed = stream_new();

    OK(aclsim_hold_stream(doomed));
    OK(aclrtMemcpy2dAsync(dev, DPITCH, pin, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEFAULT, doomed));
    OK(aclrtDestroyStreamForce(doomed));
}

/* The mode that spoils destinations leaves what is between the rows alone. */
static void check_adversarial(void)
{
    OK(aclrtResetDevice(0));
    OK(aclsim_set_mode(ACLSIM_ADVERSARIAL, 1));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    fill(pin, N, 11);
    OK(aclrtMemcpy(dev, N, pin, N, ACL_MEMCPY_DEFAULT));
    memset(pin, 12, N);
    OK(rows(pin, dev, ACL_MEMCPY_DEFAULT));
    OK(aclrtSynchronizeStream(s));
    CHECK(arrived(pin, 11, 12));
    OK(aclrtResetDevice(0));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    dev2 = device_alloc(N);
    pin = pinned_alloc(2 * N);
    heap = malloc(N);
    check_arguments();
    check_sync();
    check_async();
    check_pageable();
    check_fault();
    check_dropped();
    check_adversarial();
    free(heap);
    return 0;
}
