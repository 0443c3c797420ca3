/* sim_abort.c - dropped work: aclrtStreamAbort, aclrtDeviceTaskAbort, aclrtStreamStop. */
#include "tests/sim_util.h"

#include <stdatomic.h>

enum { N = 512 };

static aclrtContext ctx;
static aclrtStream s;
static char *dev, *pin;
static atomic_int in_callback, may_return;

static atomic_int n_told;

/* Waits again until it is told of an abort; a wait between two aborts finds nothing to wait for. */
static void *sync_aborted(void *unused)
{
    aclError code = 0;

    (void)unused;
    OK(aclrtSetCurrentContext(ctx));
    while (code == 0)
        code = aclrtSynchronizeStream(s);
    CHECK_EQ(code, ACL_ERROR_RT_STREAM_ABORT);
    atomic_fetch_add(&n_told, 1);
    return NULL;
}

static void *sync_event_aborted(void *event)
{
    aclError code = 0;

    while (code == 0)
        code = aclrtSynchronizeEvent(event);
    CHECK_EQ(code, ACL_ERROR_RT_STREAM_ABORT);
    atomic_fetch_add(&n_told, 1);
    return NULL;
}

static void prepare(uint32_t seed)
{
    OK(aclrtMemset(dev, N, 0, N));
    fill(pin, N, seed);
}

static aclError copy(aclrtStream on)
{
    return aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, on);
}

static void check_stream_abort(void)
{
    aclrtStream other = stream_new(), dead = stream_new();
    pthread_t waiter, event_waiter;
    aclrtEvent e;

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    prepare(1);
    OK(aclsim_hold_stream(s));
    OK(pthread_create(&waiter, NULL, sync_aborted, NULL));
    OK(pthread_create(&event_waiter, NULL, sync_event_aborted, e));
    while (atomic_load(&n_told) < 2) {
        OK(copy(s));
        OK(aclrtRecordEvent(e, s));
        sched_yield();
        OK(aclrtStreamAbort(s));
    }
    OK(pthread_join(waiter, NULL));
    OK(pthread_join(event_waiter, NULL));
    CHECK(stream_complete(s));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s)); /* usable again, and says nothing more about it */
    CHECK(!device_holds(dev, N, 1));
    OK(copy(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 1));
    OK(aclrtStreamAbort(s)); /* nothing to drop */
    OK(aclrtStreamAbort(NULL));
    OK(aclrtDestroyStream(dead));
    CHECK_EQ(aclrtStreamAbort(dead), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtDestroyStream(other));
    OK(aclrtDestroyEvent(e));
}

/* Whatever a stream waits for, aborting it ends the wait. */
static void check_abort_parked(void)
{
    aclrtNotify notify;
    aclrtEvent never;

    OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    prepare(2);
    OK(aclrtStreamWaitEvent(s, never));
    OK(copy(s));
    OK(aclrtStreamAbort(s));
    OK(aclrtWaitAndResetNotify(notify, s, 0));
    OK(copy(s));
    OK(aclrtStreamAbort(s));
    OK(aclrtValueWait(dev, 77, ACL_STREAM_WAIT_VALUE_EQ, s));
    OK(copy(s));
    OK(aclrtStreamAbort(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(holds_byte(pin, 0, 0) && !device_holds(dev, N, 2));
    OK(aclrtRecordNotify(notify, s));          /* nobody waits: the notify stays set ... */
    OK(aclrtWaitAndResetNotify(notify, s, 0)); /* ... for the next */
    OK(aclrtRecordEvent(never, s));
    OK(copy(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 2));
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyEvent(never));
}

static void hold_engine_thread(aclrtExceptionInfo *info)
{
    (void)info;
    atomic_store(&in_callback, 1);
    while (!atomic_load(&may_return))
        sched_yield();
}

static void *abort_device(void *result)
{
    *(aclError *)result = aclrtDeviceTaskAbort(0, 0);
    return NULL;
}

/* A running task keeps the call waiting; meanwhile nothing else is taken. */
static void check_device_abort(void)
{
    aclrtStream other = stream_new();
    aclrtStreamStatus status;
    aclrtEventStatus old;
    aclrtEventWaitStatus waited;
    aclrtEvent e;
    aclError result = -1;
    pthread_t thread;

    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtDeviceTaskAbort(0, 0));
    CHECK_EQ(aclrtDeviceTaskAbort(0, 36 * 60 * 1000 + 1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtDeviceTaskAbort(9, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    prepare(3);
    atomic_store(&in_callback, 0);
    atomic_store(&may_return, 0);
    OK(aclrtSetExceptionInfoCallback(hold_engine_thread));
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(copy(s));
    while (!atomic_load(&in_callback))
        sched_yield();
    OK(copy(s));
    OK(aclsim_hold_stream(other));
    OK(copy(other));
    CHECK_EQ(aclrtDeviceTaskAbort(0, 5), ACL_ERROR_RT_WAIT_TIMEOUT);
    CHECK_EQ(aclsim_pending_tasks(0), 2); /* of the running stream */
    aclsim_reset_counters();
    OK(pthread_create(&thread, NULL, abort_device, &result));
    while (copy(other) != ACL_ERROR_RT_DEVICE_TASK_ABORT)
        sched_yield();
    CHECK_EQ(aclrtStreamQuery(other, &status), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtDeviceTaskAbort(0, 0), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtStreamAbort(s), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtSynchronizeEvent(e), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtQueryEvent(e, &old), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtQueryEventWaitStatus(e, &waited), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtMemcpy(dev, N, pin, N, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtMemset(dev, N, 0, N), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtMemsetD32(dev, N, 0, 1), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    CHECK_EQ(aclrtMemFlush(dev, N), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    OK(aclrtMemInvalidate(dev, N));
    atomic_store(&may_return, 1);
    OK(pthread_join(thread, NULL));
    OK(result);
    CHECK_EQ(aclsim_pending_tasks(0), 0);
    OK(aclrtSetExceptionInfoCallback(NULL));
    OK(aclsim_release_stream(other));
    OK(aclrtSynchronizeDevice()); /* the failure before the abort went with the work */
    CHECK(!device_holds(dev, N, 3));
    OK(copy(other));
    OK(aclrtSynchronizeStream(other));
    CHECK(device_holds(dev, N, 3));
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(other));
}

/* Work that is dropped is not late work: a wait without limit does not end with a time-out. */
static void *sync_device_aborted(void *unused)
{
    aclError code = 0;

    (void)unused;
    OK(aclrtSetCurrentContext(ctx));
    while (code == 0)
        code = aclrtSynchronizeDevice();
    CHECK_EQ(code, ACL_ERROR_RT_STREAM_ABORT);
    atomic_fetch_add(&n_told, 1);
    return NULL;
}

static void check_device_sync_aborted(void)
{
    pthread_t waiter;

    prepare(5);
    atomic_store(&n_told, 0);
    OK(aclsim_hold_stream(s));
    OK(pthread_create(&waiter, NULL, sync_device_aborted, NULL));
    while (atomic_load(&n_told) < 1) {
        OK(copy(s));
        sched_yield();
        OK(aclrtStreamAbort(s));
    }
    OK(pthread_join(waiter, NULL));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeDevice());
}

static void check_stop(void)
{
    OK(aclrtStreamStop(s));
    CHECK_EQ(aclrtStreamStop(NULL), ACL_ERROR_RT_PARAM_INVALID);
    prepare(4);
    OK(aclsim_hold_stream(s));
    OK(copy(s));
    OK(aclrtStreamStop(s)); /* keeps what is queued */
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 4));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&ctx));
    s = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    check_stream_abort();
    check_abort_parked();
    check_device_abort();
    check_device_sync_aborted();
    check_stop();
    OK(aclrtDestroyStream(s));
    OK(aclrtResetDevice(0));
    return 0;
}
