/* sim_copy.c - return values and effects of the copy functions, by argument, location and kind. */
#include "tests/sim_util.h"

#include <stdatomic.h>

enum { N = 4096 };

static char *dev, *dev2, *pin, *pin2, *heap, *heap2;
static aclrtStream s;

static aclError copy(void *dst, const void *src, int kind)
{
    return aclrtMemcpyAsync(dst, N, src, N, (aclrtMemcpyKind)kind, s);
}

static void check_arguments(void)
{
    aclrtContext primary, other;
    aclrtStream gone = stream_new(), foreign;

    OK(aclrtMemcpyAsync(NULL, 0, NULL, 0, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtMemcpyAsync(NULL, N, pin, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has("(EH0008)"));
    CHECK_EQ(aclrtMemcpyAsync(dev, N, NULL, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has("(EH0008)"));
    CHECK_EQ(aclrtMemcpyAsync(dev, 4, pin, 8, ACL_MEMCPY_HOST_TO_DEVICE, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1003)"));
    CHECK_EQ(copy(dev, pin, 6), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has("(EH0007)"));
    CHECK_EQ(copy(dev, pin, 99), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(copy(dev, pin, -1), ACL_ERROR_INVALID_PARAM);
    (void)aclGetRecentErrMsg();
    CHECK_EQ(copy(pin2, pin, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclGetRecentErrMsg() == NULL);
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclsim_hold_stream(s));
    OK(copy(dev, dev, ACL_MEMCPY_DEFAULT));
    CHECK_EQ(aclsim_pending_tasks(0), 0); /* nothing to do, so no task */
    OK(aclsim_release_stream(s));
    OK(aclrtDestroyStream(gone));
    CHECK_EQ(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, gone), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(message_has("(EE1017)"));
    OK(aclrtGetCurrentContext(&primary));
    OK(aclrtCreateContext(&other, 0));
    foreign = stream_new();
    OK(aclrtSetCurrentContext(primary));
    CHECK_EQ(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, foreign), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(message_has("(EE1010)"));
    OK(aclrtSynchronizeStream(foreign));
    OK(aclrtDestroyContext(other));
    fill(pin, N, 3);
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, NULL)); /* default stream */
    OK(aclrtSynchronizeStream(NULL));
    CHECK(device_holds(dev, N, 3));
}

static atomic_int returned;

static void *copy_ordinary(void *arg)
{
    OK(aclrtSetDevice(0));
    OK(copy(dev2, heap, ACL_MEMCPY_HOST_TO_DEVICE));
    atomic_store(&returned, 1);
    OK(aclrtResetDevice(0));
    return arg;
}

/* The call waits for what the stream has queued, and copies only then. */
static void check_pageable_blocks(void)
{
    pthread_t thread;
    struct aclsim_counters before, now;

    aclsim_counters(&before);
    fill(pin, N, 5);
    fill(heap, N, 6);
    OK(aclsim_hold_stream(s));
    OK(copy(dev2, pin, ACL_MEMCPY_HOST_TO_DEVICE)); /* the same place: the last one stays */
    OK(pthread_create(&thread, NULL, copy_ordinary, NULL));
    do {
        sched_yield();
        aclsim_counters(&now);
    } while (now.pageable_copies == before.pageable_copies);
    CHECK_EQ(atomic_load(&returned), 0);
    CHECK(!device_holds(dev2, N, 6));
    OK(aclsim_release_stream(s));
    OK(pthread_join(thread, NULL));
    CHECK(device_holds(dev2, N, 6));
}

/* 3.6: an ordinary host address makes the call drain the stream and copy by itself. */
static void check_pageable(void)
{
    struct aclsim_counters before, after;

    aclsim_counters(&before);
    fill(pin, N, 7);
    fill(heap, N, 8);
    OK(copy(dev, pin, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(copy(dev2, heap, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(stream_complete(s));
    CHECK(device_holds(dev, N, 7));
    CHECK(device_holds(dev2, N, 8));
    OK(copy(heap2, dev, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(holds(heap2, N, 7));
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies - before.pageable_copies, 2);
    CHECK_EQ(after.copies[ACLSIM_H2D] - before.copies[ACLSIM_H2D], 2);
    CHECK_EQ(after.bytes[ACLSIM_D2H] - before.bytes[ACLSIM_D2H], N);
    before = after;
    OK(copy(dev, pin, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpyAsync(dev + 1, N - 1, pin, 100, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtSynchronizeStream(s));
    aclsim_counters(&after);
    CHECK_EQ(after.unaligned_copies - before.unaligned_copies, 1);
}

/* Kind 5 reads the source during the call, every other kind when the copy executes. */
static void check_when_bytes_are_read(void)
{
    fill(pin, N, 20);
    fill(heap, N, 21);
    OK(aclsim_hold_stream(s));
    OK(copy(dev, pin, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE));
    OK(copy(dev2, heap, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE));
    CHECK_EQ(copy(pin, dev, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    fill(pin, N, 22);
    fill(heap, N, 23);
    CHECK_EQ(aclsim_pending_tasks(0), 2);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 20));
    CHECK(device_holds(dev2, N, 21));

    OK(aclsim_hold_stream(s));
    OK(copy(dev, pin, ACL_MEMCPY_HOST_TO_DEVICE));
    fill(pin, N, 24);
    CHECK(device_holds(dev, N, 20));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 24));
}

/* 3.5: at most 64 MiB a task, and a chunk count that shows in the task ids. */
static void check_chunks(void)
{
    const size_t nbytes = ((size_t)130 << 20) + 5;
    char *big_pin = pinned_alloc(nbytes), *big_dev = device_alloc(nbytes), *big_dev2 = device_alloc(nbytes);
    uint32_t before, after;
    struct aclsim_counters c0, c1;

    for (size_t i = 0; i < nbytes; i += 4093)
        big_pin[i] = (char)pattern(5, i);
    big_pin[nbytes - 1] = 77;
    OK(copy(dev, pin, ACL_MEMCPY_DEFAULT));
    OK(aclrtSynchronizeStream(s));
    aclsim_counters(&c0);
    OK(aclrtGetThreadLastTaskId(&before));
    OK(aclrtMemcpyAsync(big_dev, nbytes, big_pin, nbytes, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtGetThreadLastTaskId(&after));
    CHECK_EQ((uint16_t)(after - before), 3);
    OK(aclrtMemcpyAsync(big_dev2, nbytes, big_dev, nbytes, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    OK(aclrtGetThreadLastTaskId(&after));
    CHECK_EQ((uint16_t)(after - before), 4);
    OK(aclrtSynchronizeStream(s));
    memset(big_pin, 0, nbytes);
    OK(aclrtMemcpyAsync(big_pin, nbytes, big_dev2, nbytes, ACL_MEMCPY_DEVICE_TO_HOST, s));
    OK(aclrtSynchronizeStream(s));
    for (size_t i = 0; i < nbytes - 1; i += 4093)
        CHECK(big_pin[i] == (char)pattern(5, i));
    CHECK_EQ(big_pin[nbytes - 1], 77);
    aclsim_counters(&c1);
    CHECK_EQ(c1.copies[ACLSIM_H2D] - c0.copies[ACLSIM_H2D], 3);
    CHECK_EQ(c1.copies[ACLSIM_D2D] - c0.copies[ACLSIM_D2D], 1);
    CHECK_EQ(c1.copies[ACLSIM_D2H] - c0.copies[ACLSIM_D2H], 3);
    CHECK_EQ(c1.bytes[ACLSIM_H2D] - c0.bytes[ACLSIM_H2D], nbytes);
    OK(aclrtFree(big_dev));
    OK(aclrtFree(big_dev2));
    OK(aclrtFreeHost(big_pin));
}

static void check_sync_copies(void)
{
    char got[N];

    fill(pin, N, 30);
    OK(aclrtMemcpy(dev, N, pin, N, ACL_MEMCPY_DEVICE_TO_HOST)); /* the kind is not enforced */
    CHECK(device_holds(dev, N, 30));
    OK(aclrtMemcpy(pin2, N, pin, N, ACL_MEMCPY_HOST_TO_HOST));
    CHECK(holds(pin2, N, 30));
    OK(aclrtMemcpy(got, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(holds(got, N, 30));
    CHECK_EQ(aclrtMemcpy(dev, 4, pin, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpy(dev, 2 * N, pin, 2 * N, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    /* It overtakes what is queued. */
    fill(pin, N, 31);
    OK(aclsim_hold_stream(s));
    OK(copy(dev, pin, ACL_MEMCPY_HOST_TO_DEVICE));
    fill(heap, N, 32);
    OK(aclrtMemcpy(dev, N, heap, N, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(device_holds(dev, N, 32));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 31));
}

static void check_fills(void)
{
    char got[N];

    OK(aclrtMemset(dev, N, 0x11, N));
    OK(aclrtMemset(heap, N, 0x12, N));
    CHECK(holds_byte(heap, N, 0x12));
    OK(aclrtMemcpy(got, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(holds_byte(got, N, 0x11));
    CHECK_EQ(aclrtMemset(dev, 4, 0, 8), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclsim_hold_stream(s));
    OK(aclrtMemsetAsync(dev, N, 0x13, N, s));
    OK(aclrtMemsetAsync(pin, N, 0x14, N, s)); /* host memory: not in stream order */
    CHECK(holds_byte(pin, N, 0x14));
    OK(aclsim_peek(dev, got, N));
    CHECK(holds_byte(got, N, 0x11));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclsim_peek(dev, got, N));
    CHECK(holds_byte(got, N, 0x13));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    dev2 = device_alloc(N);
    pin = pinned_alloc(N);
    pin2 = pinned_alloc(N);
    heap = malloc(N);
    heap2 = malloc(N);
    check_arguments();
    check_pageable_blocks();
    check_pageable();
    check_when_bytes_are_read();
    check_chunks();
    check_sync_copies();
    check_fills();
    free(heap);
    free(heap2);
    OK(aclrtDestroyStream(s));
    OK(aclrtResetDevice(0));
    return 0;
}
