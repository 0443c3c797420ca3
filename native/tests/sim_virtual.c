/* sim_virtual.c - virtual mode: exact simulated times, no matter how long the test itself takes. */
#include "tests/sim_util.h"

enum { KB = 1000, MB = 1000 * 1000 };

/* 1 byte per ns, 10 us for each copy, 1 us for each submission. */
static const struct aclsim_link plain = {.h2d_bytes_per_s = 1000000000,
                                         .d2h_bytes_per_s = 1000000000,
                                         .d2d_bytes_per_s = 1000000000,
                                         .latency_ns = 10000,
                                         .submit_ns = 1000,
                                         .move_bytes = 1};

static char *dev, *pin;
static aclrtStream up, down;

static void open_device(const struct aclsim_link *link)
{
    OK(aclsim_set_mode(ACLSIM_VIRTUAL, 1));
    OK(aclsim_set_link(-1, link));
    OK(aclrtSetDevice(0));
    dev = device_alloc(4 * MB);
    pin = pinned_alloc(4 * MB);
    up = stream_new();
    down = stream_new();
}

static void close_device(void)
{
    OK(aclrtDestroyStream(up));
    OK(aclrtDestroyStream(down));
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
    OK(aclrtResetDevice(0));
}

static void h2d(size_t offset, size_t nbytes, aclrtStream stream)
{
    OK(aclrtMemcpyAsync(dev + offset, nbytes, pin + offset, nbytes, ACL_MEMCPY_DEFAULT, stream));
}

static void d2h(size_t offset, size_t nbytes, aclrtStream stream)
{
    OK(aclrtMemcpyAsync(pin + offset, nbytes, dev + offset, nbytes, ACL_MEMCPY_DEFAULT, stream));
}

static void check_mode(void)
{
    CHECK_EQ(aclsim_get_mode(), ACLSIM_VIRTUAL);
    CHECK_EQ(aclsim_set_mode(ACLSIM_THREADS, 0), -1);
    CHECK_EQ(aclsim_set_mode(ACLSIM_ADVERSARIAL + 1, 0), -1);
    CHECK_EQ(aclsim_get_mode(), ACLSIM_VIRTUAL);
}

/* Nothing but calls moves the clock, and a wait moves it to the end of what it waited for. */
static void check_one_copy(void)
{
    uint64_t start = aclsim_now_ns();

    fill(pin, MB, 1);
    CHECK_EQ(aclsim_now_ns(), start);
    h2d(0, MB, up);
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB);
    OK(aclrtSynchronizeStream(up));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + MB);
    CHECK(device_holds(dev, MB, 1));
    OK(aclrtSynchronizeStream(up));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + MB);
}

/* One engine takes one copy at a time, two directions go at once, streams of one direction take turns. */
static void check_engines(void)
{
    uint64_t start = aclsim_now_ns();

    h2d(0, MB, up);
    h2d(MB, MB, down); /* the same engine: begins when the first ends */
    d2h(2 * MB, 500 * KB, down);
    OK(aclrtSynchronizeDevice());
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 2 * (10 * KB + MB) + (10 * KB + 500 * KB));
    start = aclsim_now_ns();
    h2d(0, MB, up);
    d2h(2 * MB, MB, down); /* begins at 2 us, after two submissions */
    OK(aclrtSynchronizeDevice());
    CHECK_EQ(aclsim_now_ns() - start, 2 * KB + 10 * KB + MB);
}

static void check_events(void)
{
    aclrtEvent a, b, both;
    uint64_t start;
    float ms = 0;

    OK(aclrtCreateEventWithFlag(&a, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&b, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventExWithFlag(&both, ACL_EVENT_SYNC));
    start = aclsim_now_ns();
    h2d(0, MB, up);
    OK(aclrtRecordEvent(both, up));
    OK(aclrtRecordEvent(a, up));
    OK(aclrtStreamWaitEvent(down, both));
    d2h(0, 250 * KB, down);
    OK(aclrtRecordEvent(b, down));
    CHECK(!event_complete(both)); /* a query that finds nothing costs 1 us */
    OK(aclrtSynchronizeEvent(both));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + MB);
    CHECK(event_complete(both) && event_complete(a) && !event_complete(b));
    OK(aclrtSynchronizeEvent(b));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + MB + 10 * KB + 250 * KB);
    OK(aclrtEventElapsedTime(&ms, a, b));
    CHECK(ms > 0.2599f && ms < 0.2601f);
    OK(aclrtDestroyEvent(a));
    OK(aclrtDestroyEvent(b));
    OK(aclrtDestroyEvent(both));
}

/* A polling loop ends at the first microsecond after the end, and never sees the end before. */
static void check_polling(void)
{
    uint64_t start = aclsim_now_ns(), end = start + 1 * KB + 10 * KB + 123456, n_polls = 0;

    h2d(0, 123456, up);
    while (!stream_complete(up)) {
        CHECK(aclsim_now_ns() - 1 * KB < end);
        n_polls++;
    }
    CHECK(aclsim_now_ns() >= end && aclsim_now_ns() < end + 1 * KB);
    CHECK_EQ(n_polls, 10 + 124);
}

static void check_timeouts(void)
{
    uint64_t start = aclsim_now_ns();

    h2d(0, 3 * MB, up);
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(up, 2), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 2 * MB);
    OK(aclrtSynchronizeStreamWithTimeout(up, 2));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + 3 * MB);
    /* With nothing left that could happen, the time passes for real. */
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    start = aclsim_now_ns();
    h2d(0, KB, up);
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(up, 5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 5 * MB);
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    OK(aclrtSynchronizeStreamWithTimeout(up, 5));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 5 * MB + 10 * KB + 1 * KB);
}

static void *release(void *arg)
{
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    OK(aclsim_release_stream(arg));
    return NULL;
}

/* A waiting thread sleeps while everything is held, and another thread's release wakes it. */
static void check_holds(void)
{
    pthread_t thread;

    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    OK(aclsim_hold_stream(down));
    fill(pin, 64 * KB, 3);
    h2d(0, 32 * KB, up);
    h2d(32 * KB, 32 * KB, down);
    CHECK(!stream_complete(up) && !stream_complete(down));
    CHECK_EQ(aclsim_pending_tasks(0), 2);
    OK(pthread_create(&thread, NULL, release, down));
    OK(aclrtSynchronizeDevice());
    OK(pthread_join(thread, NULL));
    CHECK(device_holds(dev, 64 * KB, 3));
}

static void check_failure_and_immediate_copy(void)
{
    uint64_t start;

    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    h2d(0, KB, up);
    h2d(0, KB, up);
    CHECK_EQ(aclrtSynchronizeStream(up), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSynchronizeStream(up));
    start = aclsim_now_ns();
    h2d(0, MB, up); /* begins at 1 us and keeps the engine from the next one */
    OK(aclrtMemcpy(dev + 2 * MB, KB, pin, KB, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + MB + 10 * KB + 1 * KB);
    OK(aclrtSynchronizeStream(up));
    CHECK_EQ(aclsim_now_ns() - start, 1 * KB + 10 * KB + MB + 10 * KB + 1 * KB);
}

/* A full queue executes its front: no other thread would. A forced end drops the rest. */
static void check_full_queue(void)
{
    aclrtStream s = stream_new();

    for (int i = 0; i < 5000; i++)
        h2d((size_t)i % 1000 * 64, 64, s);
    CHECK(aclsim_pending_tasks(0) > 1000 && aclsim_pending_tasks(0) < 2048);
    OK(aclrtDestroyStreamForce(s));
    CHECK_EQ(aclsim_pending_tasks(0), 0);
}

/* --- the same program, the same times --- */

enum { N_COPIES = 20000, N_DEVICES = 8 };

static uint64_t sum_of_times(void)
{
    char *memory[N_DEVICES], *host[N_DEVICES];
    aclrtStream stream[N_DEVICES][3];
    aclrtEvent event[N_DEVICES];
    uint64_t sum = 0, start;
    uint32_t x = 12345;

    OK(aclsim_set_mode(ACLSIM_VIRTUAL, 1));
    start = aclsim_now_ns();
    for (int d = 0; d < N_DEVICES; d++) {
        OK(aclrtSetDevice(d));
        memory[d] = device_alloc(64 * KB);
        host[d] = pinned_alloc(64 * KB);
        memset(host[d], d, 64 * KB);
        OK(aclrtCreateEventExWithFlag(&event[d], ACL_EVENT_SYNC));
        for (int i = 0; i < 3; i++)
            stream[d][i] = stream_new();
    }
    for (int i = 0; i < N_COPIES; i++) {
        int d = i / 50 % N_DEVICES, lane;
        size_t nbytes;

        x = x * 1664525u + 1013904223u;
        lane = (int)(x >> 28) % 3;
        nbytes = 1 + (x >> 8) % (30 * KB);
        if (i % 50 == 0)
            OK(aclrtSetDevice(d));
        if (lane == 0)
            OK(aclrtMemcpyAsync(memory[d], nbytes, host[d], nbytes, ACL_MEMCPY_DEFAULT, stream[d][lane]));
        else
            OK(aclrtMemcpyAsync(host[d] + 32 * KB, nbytes, memory[d], nbytes, ACL_MEMCPY_DEFAULT,
                                stream[d][lane]));
        if (x % 16 == 0) {
            OK(aclrtRecordEvent(event[d], stream[d][lane]));
            OK(aclrtStreamWaitEvent(stream[d][(lane + 1) % 3], event[d]));
        }
        if (x % 64 == 1)
            sum += (uint64_t)event_complete(event[d]);
        if (x % 1024 == 2) {
            OK(aclrtSynchronizeStream(stream[d][lane]));
            sum = sum * 31 + (aclsim_now_ns() - start);
        }
    }
    for (int d = 0; d < N_DEVICES; d++) {
        OK(aclrtSetDevice(d));
        OK(aclrtSynchronizeDevice());
        OK(aclrtDestroyEvent(event[d]));
        OK(aclrtFree(memory[d]));
        OK(aclrtFreeHost(host[d]));
        OK(aclrtResetDeviceForce(d));
    }
    return sum * 31 + (aclsim_now_ns() - start);
}

static void check_reproducible(void)
{
    uint64_t first;

    OK(aclsim_set_device_count(N_DEVICES));
    OK(aclsim_set_link(-1, &plain));
    first = sum_of_times();
    for (int i = 0; i < 3; i++)
        CHECK(sum_of_times() == first);
}

int main(void)
{
    OK(aclInit(NULL));
    open_device(&plain);
    check_mode();
    check_one_copy();
    check_engines();
    check_events();
    check_polling();
    check_timeouts();
    check_holds();
    check_failure_and_immediate_copy();
    check_full_queue();
    close_device();
    check_reproducible();
    OK(aclsim_set_mode(ACLSIM_THREADS, 0));
    return 0;
}
