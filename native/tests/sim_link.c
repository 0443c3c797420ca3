/* sim_link.c - the time model: rate, latency, full duplex, time stamps. Bounds from below are exact, since
 * nothing ends before its modelled time; those from above leave room for a busy machine. */
#include "tests/sim_util.h"

enum { MIB = 1 << 20 };

static char *dev, *pin;
static aclrtStream up, down;

static void set_link(struct aclsim_link link)
{
    struct aclsim_link back;

    OK(aclsim_set_link(-1, &link));
    OK(aclsim_get_link(0, &back));
    CHECK(memcmp(&link, &back, sizeof(link)) == 0);
}

/* 64 copies of 1 MiB at 1 GiB/s are 62.5 ms, in one direction or in both at once. */
static void check_rate(void)
{
    const double ideal_s = 64.0 * MIB / (double)(1 << 30);
    double one_s, both_s;

    set_link((struct aclsim_link){.h2d_bytes_per_s = 1 << 30, .d2h_bytes_per_s = 1 << 30, .move_bytes = 1});
    fill(pin, MIB, 1);
    one_s = now_s();
    for (int i = 0; i < 64; i++)
        OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    OK(aclrtSynchronizeStream(up));
    one_s = now_s() - one_s;
    CHECK(device_holds(dev, MIB, 1));
    CHECK(one_s >= ideal_s && one_s < 20 * ideal_s);

    both_s = now_s();
    for (int i = 0; i < 64; i++) {
        OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
        OK(aclrtMemcpyAsync(pin + MIB, MIB, dev + MIB, MIB, ACL_MEMCPY_DEFAULT, down));
    }
    OK(aclrtSynchronizeDevice());
    both_s = now_s() - both_s;
    CHECK(both_s >= ideal_s && both_s < 20 * ideal_s);
}

/* The model's own clock, read through time stamps, has no slack at all. */
static void check_time_stamps(void)
{
    aclrtEvent a, b, c;
    float first = 0, second = 0;

    OK(aclrtCreateEventWithFlag(&a, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&b, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&c, ACL_EVENT_TIME_LINE));
    set_link((struct aclsim_link){.h2d_bytes_per_s = 1 << 30, .latency_ns = 100000, .move_bytes = 1});
    OK(aclsim_hold_stream(up));
    OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    OK(aclrtRecordEvent(a, up));
    for (int i = 0; i < 4; i++)
        OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    OK(aclrtRecordEvent(b, up));
    OK(aclrtMemcpyAsync(pin, 4096, dev, 4096, ACL_MEMCPY_DEFAULT, up)); /* no rate set: latency only */
    OK(aclrtRecordEvent(c, up));
    OK(aclsim_release_stream(up));
    OK(aclrtSynchronizeStream(up));
    OK(aclrtEventElapsedTime(&first, a, b));
    OK(aclrtEventElapsedTime(&second, b, c));
    CHECK(first > 4 * (0.97656f + 0.1f) - 0.001f && first < 4 * (0.97656f + 0.1f) + 0.001f);
    CHECK(second > 0.0999f && second < 0.1001f);
    OK(aclrtDestroyEvent(a));
    OK(aclrtDestroyEvent(b));
    OK(aclrtDestroyEvent(c));
}

/* An immediate copy shares the link: it comes after what the engine has begun. */
static void check_sync_copy(void)
{
    double start;

    set_link((struct aclsim_link){.h2d_bytes_per_s = 100 * MIB, .move_bytes = 1});
    start = now_s();
    OK(aclrtMemcpy(dev, MIB, pin, MIB, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(now_s() - start >= 0.01);
    set_link((struct aclsim_link){.submit_ns = 2000000, .move_bytes = 1});
    start = now_s();
    OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    CHECK(now_s() - start >= 0.002);
    OK(aclrtSynchronizeStream(up));
}

static void check_no_bytes(void)
{
    OK(aclrtMemset(dev, MIB, 0, MIB));
    fill(pin, MIB, 8);
    set_link((struct aclsim_link){.move_bytes = 0});
    OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    OK(aclrtSynchronizeStream(up));
    set_link((struct aclsim_link){.move_bytes = 1});
    CHECK(!device_holds(dev, 16, 8));
    OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    OK(aclrtSynchronizeStream(up));
    CHECK(device_holds(dev, MIB, 8));
}

static void check_failure_takes_time(void)
{
    double start = now_s();

    set_link((struct aclsim_link){.latency_ns = 3000000, .move_bytes = 1});
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(aclrtMemcpyAsync(dev, MIB, pin, MIB, ACL_MEMCPY_DEFAULT, up));
    CHECK_EQ(aclrtSynchronizeStream(up), ACL_ERROR_RT_TS_ERROR);
    CHECK(now_s() - start >= 0.003);
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclsim_set_link(99, &(struct aclsim_link){0}), -1);
    CHECK_EQ(aclsim_set_link(0, NULL), -1);
    dev = device_alloc(2 * MIB);
    pin = pinned_alloc(2 * MIB);
    up = stream_new();
    down = stream_new();
    check_rate();
    check_time_stamps();
    check_sync_copy();
    check_no_bytes();
    check_failure_takes_time();
    return 0;
}
