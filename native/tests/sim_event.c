/* sim_event.c - the three kinds of events, record and wait, timeouts, time stamps. */
#include "tests/sim_util.h"

enum { PLAIN, FLAG, EX, N_MODES };
enum { N = 4096 };

static char *dev, *pin;

static aclrtEvent event_new(int mode, uint32_t flags)
{
    aclrtEvent e = NULL;

    if (mode == PLAIN)
        OK(aclrtCreateEvent(&e));
    else if (mode == FLAG)
        OK(aclrtCreateEventWithFlag(&e, flags));
    else
        OK(aclrtCreateEventExWithFlag(&e, flags));
    return e;
}

static void check_flags(void)
{
    aclrtEvent e;

    CHECK_EQ(aclrtCreateEvent(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtCreateEventWithFlag(&e, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1003)"));
    CHECK_EQ(aclrtCreateEventExWithFlag(&e, 0x4), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1003)"));
    CHECK_EQ(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC | ACL_EVENT_SYNC), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1006)"));
    CHECK_EQ(aclrtCreateEventWithFlag(&e, ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1006)"));
    CHECK_EQ(aclrtCreateEventWithFlag(&e, ACL_EVENT_IPC), ACL_ERROR_RT_PARAM_INVALID); /* Ex only */
    CHECK_EQ(aclrtCreateEventExWithFlag(&e, ACL_EVENT_EXTERNAL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtCreateEventExWithFlag(&e, ACL_EVENT_DEVICE_USE_ONLY), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1003)"));
    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_DEVICE_USE_ONLY));
    OK(aclrtDestroyEvent(e));
}

/* The table of 5.4: what an event that nobody recorded answers. */
static void check_before_record(void)
{
    const int recorded[] = {0, 0, 1}, wait[] = {ACL_ERROR_RT_PARAM_INVALID, 0, 0};
    aclrtStream s = stream_new(), other = stream_new();

    for (int mode = 0; mode < N_MODES; mode++) {
        aclrtEvent e = event_new(mode, ACL_EVENT_SYNC);
        aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
        aclrtEventWaitStatus waited = ACL_EVENT_WAIT_STATUS_RESERVED;
        const int unsupported = mode == EX ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : 0;

        CHECK_EQ(event_complete(e), recorded[mode]);
        CHECK_EQ(aclrtQueryEvent(e, &old), unsupported);
        if (mode == FLAG)
            CHECK_EQ(old, ACL_EVENT_STATUS_COMPLETE);
        CHECK_EQ(aclrtQueryEventWaitStatus(e, &waited), unsupported);
        if (mode != EX)
            CHECK_EQ(waited, ACL_EVENT_WAIT_STATUS_COMPLETE);
        OK(aclrtSynchronizeEvent(e));
        OK(aclrtSynchronizeEventWithTimeout(e, 1));
        CHECK_EQ(aclrtStreamWaitEvent(s, e), wait[mode]);
        CHECK_EQ(stream_complete(s), mode != FLAG);
        if (mode == FLAG) { /* blocks until somebody records */
            OK(aclrtQueryEventWaitStatus(e, &waited));
            CHECK_EQ(waited, ACL_EVENT_WAIT_STATUS_NOT_READY);
            CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
            OK(aclrtRecordEvent(e, other));
            OK(aclrtSynchronizeStream(s));
            OK(aclrtQueryEventWaitStatus(e, &waited));
            CHECK_EQ(waited, ACL_EVENT_WAIT_STATUS_COMPLETE);
        }
        CHECK_EQ(aclrtResetEvent(e, s), unsupported);
        OK(aclrtDestroyEvent(e));
    }
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyStream(other));
}

static void check_without_sync_bit(void)
{
    aclrtEvent e = event_new(FLAG, ACL_EVENT_TIME_LINE);
    aclrtStream s = stream_new();

    OK(aclrtRecordEvent(e, s));
    OK(aclrtSynchronizeEvent(e));
    CHECK_EQ(aclrtStreamWaitEvent(s, e), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtResetEvent(e, s), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(s));
}

static void check_record(int mode)
{
    aclrtEvent e = event_new(mode, ACL_EVENT_SYNC);
    aclrtStream s = stream_new();
    aclrtEventStatus old;

    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtRecordEvent(e, s));
    CHECK(!event_complete(e));
    if (mode != EX) {
        OK(aclrtQueryEvent(e, &old));
        CHECK_EQ(old, ACL_EVENT_STATUS_NOT_READY);
    }
    CHECK_EQ(aclrtSynchronizeEventWithTimeout(e, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSynchronizeEventWithTimeout(e, -2), ACL_ERROR_RT_PARAM_INVALID);
    (void)aclGetRecentErrMsg();
    CHECK_EQ(aclrtSynchronizeEventWithTimeout(e, 1), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    CHECK(message_has("(EE9999)"));
    OK(aclrtRecordEvent(e, s)); /* again, while pending */
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeEvent(e));
    CHECK(event_complete(e));
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtRecordEvent(e, s));
    CHECK(!event_complete(e)); /* the latest record counts */
    OK(aclrtDestroyEvent(e));  /* legal while pending */
    CHECK_EQ(aclrtDestroyEvent(e), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtRecordEvent(e, s), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclsim_release_stream(s));
    OK(aclrtDestroyStream(s));
}

/* A wait keeps the record that was the latest when it was issued. */
static void check_capture(void)
{
    aclrtEvent e = event_new(EX, ACL_EVENT_SYNC);
    aclrtStream first = stream_new(), second = stream_new(), waiter = stream_new();
    char *dev2 = device_alloc(N);
    char got[N];

    fill(pin, N, 1);
    OK(aclrtMemset(dev, N, 0, N));
    OK(aclsim_hold_stream(first));
    OK(aclsim_hold_stream(second));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, first));
    OK(aclrtRecordEvent(e, first));
    OK(aclrtStreamWaitEvent(waiter, e));
    OK(aclrtMemcpyAsync(dev2, N, dev, N, ACL_MEMCPY_DEVICE_TO_DEVICE, waiter));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, second));
    OK(aclrtRecordEvent(e, second));
    CHECK(!stream_complete(waiter));
    OK(aclsim_release_stream(first));
    OK(aclrtSynchronizeStream(waiter)); /* although the second record is pending */
    CHECK(!event_complete(e));
    CHECK(device_holds(dev2, N, 1));

    OK(aclrtStreamWaitEvent(waiter, e)); /* now the second one */
    OK(aclrtMemsetAsync(dev2, N, 9, N, waiter));
    OK(aclrtStreamWaitEvent(second, e)); /* same stream: nothing */
    CHECK(!stream_complete(waiter));
    OK(aclsim_release_stream(second));
    OK(aclrtSynchronizeStream(waiter));
    OK(aclsim_peek(dev2, got, N));
    CHECK(holds_byte(got, N, 9));
    OK(aclsim_hold_stream(waiter));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, waiter));
    OK(aclrtStreamWaitEvent(waiter, e)); /* complete already: no task */
    CHECK_EQ(aclsim_pending_tasks(0), 1);
    OK(aclsim_release_stream(waiter));
    OK(aclrtSynchronizeStream(waiter));
    OK(aclrtFree(dev2));
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(first));
    OK(aclrtDestroyStream(second));
    OK(aclrtDestroyStream(waiter));
}

static void check_other_device(void)
{
    aclrtContext here, there;
    aclrtStream s = stream_new(), far;
    aclrtEvent e = event_new(EX, ACL_EVENT_SYNC);

    OK(aclrtGetCurrentContext(&here));
    OK(aclrtCreateContext(&there, 1));
    far = stream_new();
    CHECK_EQ(aclrtRecordEvent(e, s), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtSetCurrentContext(here));
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtRecordEvent(e, s));
    CHECK_EQ(aclrtStreamWaitEvent(far, e), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtSetCurrentContext(there));
    OK(aclrtStreamWaitEvent(far, e));
    CHECK(!stream_complete(far));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(far));
    OK(aclrtDestroyContext(there));
    OK(aclrtSetCurrentContext(here));
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(s));
}

static void check_elapsed(void)
{
    aclrtEvent a = event_new(FLAG, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE),
               b = event_new(EX, ACL_EVENT_TIME_LINE);
    aclrtEvent bare = event_new(FLAG, ACL_EVENT_SYNC);
    aclrtStream s = stream_new();
    float ms = -1;

    CHECK_EQ(aclrtEventElapsedTime(&ms, a, b), ACL_ERROR_RT_INTERNAL_ERROR);
    OK(aclrtRecordEvent(a, s));
    OK(aclrtRecordEvent(bare, s));
    CHECK_EQ(aclrtEventElapsedTime(&ms, a, bare), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtRecordEvent(b, s));
    CHECK_EQ(aclrtEventElapsedTime(&ms, a, b), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeEvent(b));
    OK(aclrtEventElapsedTime(&ms, a, b));
    CHECK(ms > 0 && ms < 60000);
    CHECK_EQ(aclrtEventElapsedTime(&ms, b, a), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
    OK(aclrtDestroyEvent(a));
    OK(aclrtDestroyEvent(b));
    OK(aclrtDestroyEvent(bare));
    OK(aclrtDestroyStream(s));
}

static void *no_context(void *e)
{
    OK(aclrtSynchronizeEvent(e));
    CHECK(event_complete(e));
    OK(aclrtDestroyEvent(e));
    return NULL;
}

/* 65536 hardware events at most; those made with Ex take none until they are recorded. */
static void check_limit(void)
{
    enum { LIMIT = 65536 };
    aclrtEvent *events = malloc(LIMIT * sizeof(*events)), more;

    for (int i = 0; i < LIMIT; i++)
        OK(aclrtCreateEventWithFlag(&events[i], ACL_EVENT_SYNC));
    CHECK_EQ(aclrtCreateEventWithFlag(&more, ACL_EVENT_SYNC), ACL_ERROR_RT_NO_EVENT_RESOURCE);
    OK(aclrtCreateEventExWithFlag(&more, ACL_EVENT_SYNC));
    OK(aclrtDestroyEvent(more));
    for (int i = 0; i < LIMIT; i++)
        OK(aclrtDestroyEvent(events[i]));
    free(events);
}

int main(void)
{
    struct aclsim_counters counters;

    OK(aclInit(NULL));
    OK(aclsim_set_device_count(2));
    OK(aclrtSetDevice(0));
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    check_flags();
    check_before_record();
    check_without_sync_bit();
    for (int mode = 0; mode < N_MODES; mode++)
        check_record(mode);
    check_capture();
    check_other_device();
    check_elapsed();
    in_thread(no_context, event_new(EX, ACL_EVENT_SYNC));
    check_limit();
    aclsim_counters(&counters);
    CHECK_EQ(counters.live_events, 0);
    CHECK_EQ(counters.live_streams, 0);
    return 0;
}
