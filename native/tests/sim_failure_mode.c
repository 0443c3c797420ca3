/* sim_failure_mode.c - a context that stops at its first failure, and one that goes on. */
#include "tests/sim_util.h"

enum { N = 512 };

static aclrtContext ctx;
static aclrtStream s, other;
static char *dev, *pin;

static aclError copy(aclrtStream on)
{
    return aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, on);
}

static void open_context(void)
{
    OK(aclrtCreateContext(&ctx, 0));
    s = stream_new();
    other = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    OK(aclrtMemset(dev, N, 0, N));
    fill(pin, N, 3);
}

static void close_context(void)
{
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
    OK(aclrtDestroyStream(s)); /* does not hang, whatever the streams were left with */
    OK(aclrtDestroyContext(ctx));
}

static void check_modes(void)
{
    aclrtStreamAttrValue value = {.failureMode = 9};
    aclrtContext second;

    open_context();
    OK(aclrtGetStreamAttribute(s, ACL_STREAM_ATTR_FAILURE_MODE, &value));
    CHECK_EQ(value.failureMode, ACL_CONTINUE_ON_FAILURE);
    OK(aclrtSetStreamFailureMode(s, ACL_CONTINUE_ON_FAILURE));
    OK(aclrtCreateContext(&second, 0));
    OK(aclrtSetStreamFailureMode(s, ACL_CONTINUE_ON_FAILURE)); /* no change: from any context */
    CHECK_EQ(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtDestroyContext(second));
    OK(aclrtSetCurrentContext(ctx));
    value.failureMode = ACL_STOP_ON_FAILURE;
    OK(aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_FAILURE_MODE, &value));
    OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
    CHECK_EQ(aclrtSetStreamFailureMode(s, ACL_CONTINUE_ON_FAILURE), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtSetStreamFailureMode(other, ACL_CONTINUE_ON_FAILURE), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtGetStreamAttribute(other, ACL_STREAM_ATTR_FAILURE_MODE, &value)); /* the whole context */
    CHECK_EQ(value.failureMode, ACL_STOP_ON_FAILURE);
    CHECK_EQ(aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_FAILURE_MODE, NULL), ACL_ERROR_INVALID_PARAM);
    close_context();
}

static void check_continue(void)
{
    open_context();
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(copy(s));
    OK(copy(s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 3)); /* by the second copy */
    close_context();
}

/* Everything asynchronous gives the first failure, from the synchronisation that noticed it on. */
static void check_stop(aclrtStream (*failing)(void), aclError first_sync(void))
{
    aclrtStreamStatus status;
    aclrtEventRecordedStatus recorded;
    aclrtEvent e;
    aclrtStream on, later;
    void *ptr;

    open_context();
    on = failing();
    OK(aclrtSetStreamFailureMode(on, ACL_STOP_ON_FAILURE));
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(copy(on));
    OK(copy(on)); /* not executed */
    OK(copy(other));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    while (aclsim_pending_tasks(0) != 0)
        sched_yield();
    OK(aclrtStreamQuery(on, &status)); /* not noticed yet */
    OK(copy(on));
    OK(aclrtRecordEvent(e, other));
    CHECK_EQ(first_sync(), ACL_ERROR_RT_TS_ERROR);
    CHECK(message_has("(EE9999)"));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(aclrtSynchronizeStream(on), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtSynchronizeStream(other), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtSynchronizeStreamWithTimeout(other, 5), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtStreamQuery(other, &status), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtRecordEvent(e, other), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtQueryEventStatus(e, &recorded), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(copy(other), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(copy(NULL), ACL_ERROR_RT_TS_ERROR);
        CHECK_EQ(aclrtMemsetAsync(dev, N, 0, N, other), ACL_ERROR_RT_TS_ERROR);
    }
    later = stream_new();
    OK(aclrtDestroyStream(later));
    OK(aclrtMallocHost(&ptr, 64));
    OK(aclrtFreeHost(ptr));
    CHECK(!device_holds(dev, N, 3)); /* no copy was executed */
    OK(aclrtMemcpy(dev, N, pin, N, ACL_MEMCPY_DEFAULT));
    CHECK(device_holds(dev, N, 3));
    OK(aclrtDestroyEvent(e));
    close_context();
    CHECK_EQ(aclsim_pending_tasks(0), 0);
}

static aclrtStream user(void)
{
    return s;
}

static aclrtStream by_default(void)
{
    return NULL;
}

static aclError sync_stream(void)
{
    return aclrtSynchronizeStream(s);
}

static aclError sync_other(void)
{
    return aclrtSynchronizeStream(other);
}

static aclError sync_default(void)
{
    return aclrtSynchronizeStream(NULL);
}

static aclError sync_device(void)
{
    return aclrtSynchronizeDevice();
}

static void *wait_for_failure(void *on)
{
    OK(aclrtSetCurrentContext(ctx));
    CHECK_EQ(aclrtSynchronizeStream(on), ACL_ERROR_RT_TS_ERROR);
    return NULL;
}

/* Whoever waits for another stream of the context hears of it, too. */
static void check_waiting_threads(void)
{
    aclrtEvent never;
    pthread_t threads[2];
    aclrtStream both[2];

    open_context();
    both[0] = s;
    both[1] = other;
    OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
    OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(other, never));
    OK(copy(other));
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(copy(s));
    for (int i = 0; i < 2; i++)
        OK(pthread_create(&threads[i], NULL, wait_for_failure, both[i]));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    for (int i = 0; i < 2; i++)
        OK(pthread_join(threads[i], NULL));
    close_context();
    OK(aclrtDestroyEvent(never));
}

/* Another context of the device is not concerned. */
static void check_other_context(void)
{
    aclrtContext first;
    aclrtStream own;

    OK(aclrtGetCurrentContext(&first));
    own = stream_new();
    open_context();
    OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(copy(s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSetCurrentContext(first));
    OK(copy(own));
    OK(aclrtSynchronizeStream(own));
    CHECK(device_holds(dev, N, 3));
    OK(aclrtDestroyStream(own));
    OK(aclrtSetCurrentContext(ctx));
    close_context();
    OK(aclrtSetCurrentContext(first));
}

int main(void)
{
    aclrtContext primary;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&primary));
    check_other_context();
    check_modes();
    check_continue();
    check_stop(user, sync_stream);
    check_stop(user, sync_other);
    check_stop(user, sync_device);
    check_stop(by_default, sync_default);
    check_waiting_threads();
    OK(aclrtSetCurrentContext(primary));
    OK(aclrtResetDevice(0));
    return 0;
}
