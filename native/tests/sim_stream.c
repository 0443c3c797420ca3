/* sim_stream.c - order, holds, full queues, timeouts, destruction, limits. */
#include "tests/sim_util.h"

#include <stdatomic.h>

enum { N = 1024, DEPTH = 2013 };

static char *dev, *dev2, *pin;

static void check_order(void)
{
    aclrtStream s = stream_new();

    /* H2D, D2D and D2H run on three engines; the stream keeps their order. */
    for (uint32_t round = 0; round < 200; round++) {
        fill(pin, N, round);
        OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
        OK(aclrtMemcpyAsync(dev2, N, dev, N, ACL_MEMCPY_DEFAULT, s));
        OK(aclrtMemsetAsync(dev, N, 0, N, s));
        OK(aclrtMemcpyAsync(pin + N, N, dev2, N, ACL_MEMCPY_DEFAULT, s));
        OK(aclrtMemsetAsync(dev2, N, 0, N, s));
        OK(aclrtSynchronizeStream(s));
        CHECK(holds(pin + N, N, round));
    }
    OK(aclrtDestroyStream(s));
}

static void check_holds(void)
{
    aclrtStream s = stream_new(), other = stream_new();
    char got[N];

    OK(aclrtMemset(dev, N, 0, N));
    OK(aclrtMemset(dev2, N, 0, N));
    fill(pin, N, 1);
    fill(pin + N, N, 2);
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    CHECK(!stream_complete(s));
    OK(aclrtMemcpyAsync(pin + 2 * N, N, dev2, N, ACL_MEMCPY_DEFAULT, other)); /* D2H is free */
    OK(aclrtSynchronizeStream(other));
    CHECK(holds_byte(pin + 2 * N, N, 0));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclsim_peek(dev, got, N));
    CHECK(holds_byte(got, N, 0));
    OK(aclsim_hold_stream(s));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK_EQ(aclsim_release_engine(0, ACLSIM_H2D), -1);
    OK(aclrtMemcpyAsync(dev2, N, pin + N, N, ACL_MEMCPY_DEFAULT, other)); /* passes the held stream */
    OK(aclrtSynchronizeStream(other));
    CHECK(device_holds(dev2, N, 2));
    CHECK(!stream_complete(s));
    CHECK_EQ(aclsim_pending_tasks(0), 1);
    OK(aclsim_release_stream(s));
    CHECK_EQ(aclsim_release_stream(s), -1);
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 1));
    CHECK_EQ(aclsim_pending_tasks(0), 0);
    CHECK_EQ(aclsim_hold_engine(0, 3), -1);
    CHECK_EQ(aclsim_pending_tasks(99), -1);
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyStream(other));
}

static atomic_int submitted;

static void *fill_queue(void *s)
{
    OK(aclrtSetDevice(0));
    for (int i = 0; i < DEPTH + 50; i++) {
        OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
        atomic_fetch_add(&submitted, 1);
    }
    OK(aclrtResetDevice(0));
    return NULL;
}

/* The queue takes 2013 tasks; the next call waits instead of failing. */
static void check_full(void)
{
    aclrtStream s = stream_new();
    pthread_t thread;

    OK(aclsim_hold_stream(s));
    aclsim_reset_counters();
    OK(pthread_create(&thread, NULL, fill_queue, s));
    while (aclsim_call_count("aclrtMemcpyAsync", 0) < DEPTH + 1)
        sched_yield();
    CHECK_EQ(aclsim_pending_tasks(0), DEPTH);
    CHECK_EQ(atomic_load(&submitted), DEPTH);
    OK(aclsim_release_stream(s));
    OK(pthread_join(thread, NULL));
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(atomic_load(&submitted), DEPTH + 50);
    OK(aclrtDestroyStream(s));
}

static void check_timeouts(void)
{
    aclrtStream s = stream_new();

    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1003)"));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, -2), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStreamWithTimeout(s, -1));
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    (void)aclGetRecentErrMsg();
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(message_has("(EE1002)"));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStreamWithTimeout(s, 60000)); /* still usable */
    OK(aclrtDestroyStream(s));
}

static void *destroy(void *s)
{
    OK(aclrtSetDevice(0));
    OK(aclrtDestroyStream(s));
    OK(aclrtResetDevice(0));
    return NULL;
}

static void *destroy_and_count(void *s)
{
    destroy(s);
    atomic_store(&submitted, 1);
    return NULL;
}

static void *submit_one_more(void *s)
{
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtResetDevice(0));
    return NULL;
}

/* A call that waits for room ends when the stream does, even while it is held. */
static void check_destroy_full(int force)
{
    aclrtStream s = stream_new();
    pthread_t blocked, destroyer;

    OK(aclsim_hold_stream(s));
    aclsim_reset_counters();
    for (int i = 0; i < DEPTH; i++)
        OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(pthread_create(&blocked, NULL, submit_one_more, s));
    while (aclsim_call_count("aclrtMemcpyAsync", 0) < DEPTH + 1)
        sched_yield();
    if (force)
        OK(aclrtDestroyStreamForce(s));
    else
        OK(pthread_create(&destroyer, NULL, destroy, s));
    OK(pthread_join(blocked, NULL));
    OK(aclsim_release_stream(s));
    if (!force)
        OK(pthread_join(destroyer, NULL));
}

static void check_destroy(void)
{
    aclrtStream s = stream_new(), held = stream_new();
    aclrtEvent e;
    pthread_t thread;

    CHECK_EQ(aclrtDestroyStream(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtMemset(dev, N, 0, N));
    fill(pin, N, 40);
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    atomic_store(&submitted, 0);
    OK(pthread_create(&thread, NULL, destroy_and_count, s));
    while (aclrtMemcpyAsync(dev2, N, pin, N, ACL_MEMCPY_DEFAULT, s) == 0)
        sched_yield(); /* until the handle is dead */
    CHECK_EQ(atomic_load(&submitted), 0);
    OK(aclsim_release_stream(s));
    OK(pthread_join(thread, NULL));
    CHECK(device_holds(dev, N, 40));

    /* Force drops what did not start; nobody waits for it any more. */
    OK(aclrtMemset(dev, N, 0, N));
    s = stream_new();
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtMemcpyAsync(dev2, N, pin, N, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, s));
    OK(aclrtRecordEvent(e, s));
    OK(aclrtStreamWaitEvent(held, e));
    CHECK(!stream_complete(held));
    OK(aclrtDestroyStreamForce(s));
    OK(aclrtSynchronizeStream(held));
    OK(aclrtSynchronizeEvent(e));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK(!device_holds(dev, N, 40));
    CHECK_EQ(aclrtDestroyStreamForce(s), ACL_ERROR_RT_INVALID_HANDLE);

    /* A stream that waits for an event that never comes can be forced, too. */
    s = stream_new();
    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(s, e));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtDestroyStreamForce(s));
    OK(aclrtRecordEvent(e, held));
    OK(aclrtDestroyStream(held));
    OK(aclrtDestroyEvent(e));
}

static void check_ids(void)
{
    aclrtStream s = stream_new();
    uint32_t first, next;
    int32_t id = -1;

    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtGetThreadLastTaskId(&first));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, NULL)); /* the default stream does not count */
    OK(aclrtGetThreadLastTaskId(&next));
    CHECK_EQ(next, first);
    for (int i = 0; i < 65536; i++)
        OK(aclrtMemcpyAsync(dev, 64, pin, 64, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtGetThreadLastTaskId(&next));
    CHECK_EQ(next, first); /* 16 bits */
    OK(aclrtStreamGetId(s, &id));
    CHECK(id >= 0);
    OK(aclrtSynchronizeDevice());
    CHECK(stream_complete(s));
    OK(aclrtDestroyStream(s));
}

static void check_limits(void)
{
    enum { LIMIT = 1983 }; /* and the default stream */
    aclrtStream *streams = malloc(LIMIT * sizeof(*streams)), more;
    struct aclsim_counters counters;

    for (int i = 0; i < LIMIT; i++)
        OK(aclrtCreateStreamWithConfig(&streams[i], 100, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    CHECK_EQ(aclrtCreateStream(&more), ACL_ERROR_RT_NO_STREAM_RESOURCE);
    CHECK(message_has("(EE1023)"));
    aclsim_counters(&counters);
    CHECK_EQ(counters.live_streams, LIMIT);
    for (int i = 0; i < LIMIT; i++)
        OK(aclrtDestroyStream(streams[i]));
    aclsim_counters(&counters);
    CHECK_EQ(counters.live_streams, 0);
    free(streams);
    OK(aclrtCreateStreamWithConfig(&more, 0, ACL_STREAM_PERSISTENT));
    OK(aclsim_hold_stream(more));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, more));
    CHECK(stream_complete(more)); /* not scheduled by the host: always success */
    OK(aclrtSynchronizeStream(more));
    OK(aclsim_release_stream(more));
    OK(aclrtDestroyStream(more));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    dev = device_alloc(N);
    dev2 = device_alloc(N);
    pin = pinned_alloc(3 * N);
    check_order();
    check_holds();
    check_full();
    check_timeouts();
    check_destroy_full(0);
    check_destroy_full(1);
    check_destroy();
    check_ids();
    check_limits();
    return 0;
}
