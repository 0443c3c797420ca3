/* sim_event_table.c - what each kind of event answers in each state: ids, flags, limits, time. */
#include "tests/sim_util.h"

#include <stdatomic.h>

enum { PLAIN, FLAG, EX, N_MODES };
enum { N = 1024, MOST = 65536 };

static aclrtStream s, other;
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

static aclError copy(aclrtStream on)
{
    return aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, on);
}

static uint32_t ids_left(void)
{
    uint32_t left = 0;

    OK(aclrtGetEventAvailNum(&left));
    return left;
}

/* An id from creation to destruction, or from the record to its completion; none without the SYNC bit. */
static void check_ids(void)
{
    static const struct {
        int mode;
        uint32_t flags;
        int at_creation, at_record;
    } rows[] = {{PLAIN, 0, 0, 1},
                {FLAG, ACL_EVENT_SYNC, 1, 1},
                {FLAG, ACL_EVENT_TIME_LINE, 0, 0},
                {EX, ACL_EVENT_SYNC, 0, 1},
                {EX, ACL_EVENT_TIME_LINE, 0, 0}};

    CHECK_EQ(ids_left(), MOST);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        aclrtEvent e = event_new(rows[i].mode, rows[i].flags);
        uint32_t id = MOST;

        CHECK_EQ(ids_left(), MOST - (uint32_t)rows[i].at_creation);
        CHECK_EQ(aclrtGetEventId(e, &id), rows[i].at_creation ? 0 : ACL_ERROR_RT_PARAM_INVALID);
        OK(aclsim_hold_stream(s));
        OK(copy(s));
        OK(aclrtRecordEvent(e, s));
        OK(aclrtRecordEvent(e, s)); /* the same one */
        CHECK_EQ(ids_left(), MOST - (uint32_t)rows[i].at_record);
        if (rows[i].at_record) {
            OK(aclrtGetEventId(e, &id));
            CHECK(id < MOST);
        }
        OK(aclsim_release_stream(s));
        OK(aclrtSynchronizeStream(s));
        CHECK_EQ(ids_left(), MOST - (uint32_t)rows[i].at_creation);
        OK(aclrtDestroyEvent(e));
        CHECK_EQ(ids_left(), MOST);
    }
    CHECK_EQ(aclrtGetEventId(NULL, NULL), ACL_ERROR_INVALID_PARAM);
}

static atomic_int recorded;

static void *record_one_more(void *e)
{
    OK(aclrtSetDevice(0));
    OK(aclrtRecordEvent(e, other));
    atomic_store(&recorded, 1);
    OK(aclrtResetDevice(0));
    return NULL;
}

/* No id: creation fails; a record fails, too, unless a pending record is going to give its id back. */
static void check_out_of_ids(void)
{
    aclrtEvent *events = malloc(MOST * sizeof(*events)), more, late, pending;
    pthread_t thread;

    late = event_new(EX, ACL_EVENT_SYNC);
    pending = event_new(EX, ACL_EVENT_SYNC);
    for (int i = 0; i < MOST; i++)
        events[i] = event_new(FLAG, ACL_EVENT_SYNC);
    CHECK_EQ(aclrtCreateEventWithFlag(&more, ACL_EVENT_SYNC), ACL_ERROR_RT_NO_EVENT_RESOURCE);
    CHECK(message_has("(EE1023)"));
    more = event_new(FLAG, ACL_EVENT_TIME_LINE); /* not limited */
    OK(aclrtDestroyEvent(more));
    CHECK_EQ(aclrtRecordEvent(late, s), ACL_ERROR_RT_NO_EVENT_RESOURCE);
    OK(aclrtDestroyEvent(events[MOST - 1]));
    OK(aclsim_hold_stream(s));
    OK(copy(s));
    OK(aclrtRecordEvent(pending, s));
    aclsim_reset_counters();
    OK(pthread_create(&thread, NULL, record_one_more, late));
    while (aclsim_call_count("aclrtRecordEvent", 0) < 1)
        sched_yield();
    CHECK_EQ(atomic_load(&recorded), 0); /* waits for the id of the other */
    OK(aclsim_release_stream(s));
    OK(pthread_join(thread, NULL));
    OK(aclrtSynchronizeStream(other));
    for (int i = 0; i < MOST - 1; i++)
        OK(aclrtDestroyEvent(events[i]));
    CHECK_EQ(ids_left(), MOST);
    OK(aclrtDestroyEvent(late));
    OK(aclrtDestroyEvent(pending));
    free(events);
}

/* Destroyed while pending: the record still gives its id back, and the handle is dead at once. */
static void check_destroy_pending(void)
{
    aclrtEvent e = event_new(EX, ACL_EVENT_SYNC);

    OK(aclsim_hold_stream(s));
    OK(copy(s));
    OK(aclrtRecordEvent(e, s));
    OK(aclrtStreamWaitEvent(other, e));
    OK(aclrtDestroyEvent(e));
    CHECK_EQ(aclrtDestroyEvent(e), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtRecordEvent(e, s), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(!stream_complete(other));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(other));
    CHECK_EQ(ids_left(), MOST);
}

/* A wait is for the record of its time, whatever is recorded later. */
static void check_capture(void)
{
    aclrtEvent e = event_new(EX, ACL_EVENT_SYNC);
    aclrtStream third = stream_new();

    OK(aclsim_hold_stream(other));
    OK(copy(other));
    OK(aclrtRecordEvent(e, s)); /* complete soon */
    OK(aclsim_hold_stream(s));
    OK(copy(s));
    OK(aclrtRecordEvent(e, s));
    OK(aclrtStreamWaitEvent(third, e));
    OK(aclrtRecordEvent(e, other)); /* overrides it */
    CHECK(!event_complete(e));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(third));
    CHECK(!event_complete(e));
    OK(aclsim_release_stream(other));
    OK(aclrtSynchronizeEvent(e));
    CHECK(event_complete(e));
    OK(aclrtDestroyStream(third));
    OK(aclrtDestroyEvent(e));
}

static void check_two_devices(void)
{
    aclrtEvent e = event_new(EX, ACL_EVENT_SYNC), blocking = event_new(FLAG, ACL_EVENT_SYNC);
    aclrtStream there;

    OK(aclsim_hold_stream(s));
    OK(copy(s));
    OK(aclrtRecordEvent(e, s));
    OK(aclrtSetDevice(1));
    there = stream_new();
    CHECK_EQ(aclrtRecordEvent(e, s), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtStreamWaitEvent(there, e)); /* an event of another device orders, too */
    CHECK(!stream_complete(there));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(there));
    OK(aclrtStreamWaitEvent(there, blocking));
    CHECK(!stream_complete(there));
    OK(aclrtSetDevice(0));
    OK(aclrtRecordEvent(blocking, s));
    OK(aclrtSynchronizeStream(there));
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(0));
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyEvent(blocking));
}

/* --- operations by flag --- */

static void check_special_flags(void)
{
    const aclError none = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    aclrtEvent device_only = event_new(FLAG, ACL_EVENT_DEVICE_USE_ONLY);
    aclrtEvent external = event_new(FLAG, ACL_EVENT_EXTERNAL), shared = event_new(EX, ACL_EVENT_IPC);
    aclrtEvent no_sync = event_new(FLAG, ACL_EVENT_TIME_LINE), ex = event_new(EX, ACL_EVENT_SYNC);
    aclrtEventRecordedStatus status;
    aclrtEventWaitStatus waited;
    aclrtEventStatus old;
    uint64_t stamp;
    uint32_t id;
    float ms;

    CHECK_EQ(aclrtRecordEvent(device_only, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1006)"));
    CHECK_EQ(aclrtStreamWaitEvent(s, device_only), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtResetEvent(device_only, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtQueryEventStatus(external, &status), none);
    CHECK_EQ(aclrtQueryEventWaitStatus(external, &waited), none);
    CHECK_EQ(aclrtQueryEvent(external, &old), none);
    CHECK_EQ(aclrtEventGetTimestamp(external, &stamp), none);
    CHECK_EQ(aclrtEventElapsedTime(&ms, external, external), none);
    CHECK_EQ(aclrtEventElapsedTime(&ms, shared, shared), none);
    CHECK_EQ(aclrtEventGetTimestamp(shared, &stamp), none);
    CHECK_EQ(aclrtGetEventId(shared, &id), none);
    CHECK_EQ(aclrtQueryEvent(shared, &old), none);
    CHECK_EQ(aclrtResetEvent(shared, s), none);
    OK(aclrtRecordEvent(no_sync, s));
    CHECK_EQ(aclrtStreamWaitEvent(other, no_sync), none);
    CHECK_EQ(aclrtResetEvent(no_sync, s), none);
    OK(aclrtSynchronizeEvent(no_sync));
    CHECK(event_complete(no_sync));
    CHECK_EQ(aclrtResetEvent(ex, s), none);
    OK(aclrtDestroyEvent(device_only));
    OK(aclrtDestroyEvent(external));
    OK(aclrtDestroyEvent(shared));
    OK(aclrtDestroyEvent(no_sync));
    OK(aclrtDestroyEvent(ex));
}

static void check_with_flag(void)
{
    aclrtEvent e = event_new(EX, ACL_EVENT_SYNC), plain = event_new(PLAIN, 0);

    CHECK_EQ(aclrtRecordEventWithFlag(NULL, s, 0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtRecordEventWithFlag(e, s, 2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtStreamWaitEventWithFlag(s, e, 0, 2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtStreamWaitEventWithFlag(s, e, 1, ACL_EVENT_WAIT_EXTERNAL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtRecordEventWithFlag(plain, s, ACL_EVENT_RECORD_EXTERNAL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_DEFAULT));
    CHECK_EQ(aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_EXTERNAL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1018)")); /* once with one flag, always with it */
    CHECK_EQ(aclrtStreamWaitEventWithFlag(other, e, 0, ACL_EVENT_WAIT_EXTERNAL),
             ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    CHECK_EQ(aclrtStreamWaitEvent(other, e), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtStreamWaitEventWithFlag(other, plain, 0, ACL_EVENT_WAIT_DEFAULT),
             ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyEvent(plain));
}

/* --- time --- */

static aclError wait_plain(aclrtEvent e)
{
    return aclrtStreamWaitEvent(other, e);
}

static aclError wait_timeout(aclrtEvent e)
{
    return aclrtStreamWaitEventWithTimeout(other, e, 1);
}

static aclError wait_flag(aclrtEvent e)
{
    return aclrtStreamWaitEventWithFlag(other, e, 1, ACL_EVENT_WAIT_DEFAULT);
}

static void check_expired(aclError (*wait)(aclrtEvent))
{
    aclrtEvent never = event_new(FLAG, ACL_EVENT_SYNC);
    double begin = now_s();

    OK(wait(never));
    OK(copy(other));
    CHECK_EQ(aclrtSynchronizeStream(other), ACL_ERROR_RT_TASK_TIMEOUT); /* told here, once */
    CHECK(message_has("STREAM_WAIT_EVENT"));
    CHECK(now_s() - begin >= 1);
    OK(aclrtSynchronizeStream(other));
    CHECK(device_holds(dev, N, 9)); /* what came behind it was executed */
    OK(aclrtDestroyEvent(never));
}

static void check_wait_timeouts(void)
{
    aclrtEvent e = event_new(FLAG, ACL_EVENT_SYNC);

    CHECK_EQ(aclrtStreamWaitEventWithTimeout(other, e, -1), ACL_ERROR_RT_PARAM_INVALID);
    fill(pin, N, 9);
    check_expired(wait_timeout);
    check_expired(wait_flag);
    OK(aclrtSetOpWaitTimeout(1));
    check_expired(wait_plain);
    OK(aclrtStreamWaitEventWithTimeout(other, e, 0)); /* its own: never */
    OK(aclrtSetOpWaitTimeout(0));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(other, 1100), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordEvent(e, s));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtDestroyEvent(e));
}

static void check_stamps(void)
{
    aclrtEvent a = event_new(EX, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), b = event_new(PLAIN, 0);
    aclrtEvent none = event_new(EX, ACL_EVENT_SYNC);
    struct aclsim_link link = {.latency_ns = 3000000, .move_bytes = 1}, before;
    uint64_t at_a = 0, at_b = 0;
    float ms = -1;

    CHECK_EQ(aclrtEventGetTimestamp(a, &at_a), ACL_ERROR_RT_INTERNAL_ERROR);
    CHECK_EQ(aclrtEventElapsedTime(&ms, a, b), ACL_ERROR_RT_INTERNAL_ERROR);
    CHECK_EQ(aclrtEventGetTimestamp(none, &at_a), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_EQ(aclrtEventGetTimestamp(a, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclsim_get_link(0, &before));
    OK(aclsim_set_link(0, &link));
    OK(aclrtRecordEvent(a, s));
    OK(aclsim_hold_stream(s));
    OK(copy(s));
    OK(aclrtRecordEvent(b, s));
    CHECK_EQ(aclrtEventGetTimestamp(b, &at_b), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclsim_set_link(0, &before));
    OK(aclrtEventGetTimestamp(a, &at_a));
    OK(aclrtEventGetTimestamp(b, &at_b));
    OK(aclrtEventElapsedTime(&ms, a, b));
    CHECK(at_b - at_a >= 3000 && ms >= 2.9999f);
    CHECK((double)ms * 1000 - (double)(at_b - at_a) < 2 && (double)(at_b - at_a) - (double)ms * 1000 < 2);
    CHECK_EQ(aclrtEventElapsedTime(&ms, b, a), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
    OK(aclrtDestroyEvent(a));
    OK(aclrtDestroyEvent(b));
    OK(aclrtDestroyEvent(none));
}

static void check_execute_limits(void)
{
    uint64_t interval = 0, actual = 0;

    OK(aclrtGetOpTimeOutInterval(&interval));
    CHECK(interval > 0);
    OK(aclrtSetOpExecuteTimeOutV2(1, &actual));
    CHECK_EQ(actual, interval);
    OK(aclrtSetOpExecuteTimeOutV2(interval + 1, &actual));
    CHECK_EQ(actual, 2 * interval);
    OK(aclrtSetOpExecuteTimeOutV2(0, &actual));
    CHECK_EQ(actual, 254 * interval);
    OK(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual));
    CHECK_EQ(actual, 254 * interval);
    OK(aclrtSetOpExecuteTimeOut(5));
    OK(aclrtSetOpExecuteTimeOutWithMs(5));
    CHECK_EQ(aclrtSetOpExecuteTimeOutV2(1, NULL), ACL_ERROR_INVALID_PARAM);
}

/* --- streams: what they tell about themselves --- */

static struct {
    int created, destroyed;
    aclrtStream last;
} told;

static void on_state(aclrtStream stream, aclrtStreamState state, void *args)
{
    CHECK(args == &told);
    told.last = stream;
    told.created += state == ACL_RT_STREAM_STATE_CREATE_POST;
    told.destroyed += state == ACL_RT_STREAM_STATE_DESTROY_PRE;
}

static void check_streams(void)
{
    aclrtStreamAttrValue value = {.streamPriority = 3};
    aclrtContext first, ctx;
    aclrtStream own;
    uint32_t left, more, priority = 9, flags = 9;

    OK(aclrtGetCurrentContext(&first));
    CHECK_EQ(aclrtRegStreamStateCallback(NULL, on_state, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtRegStreamStateCallback("", on_state, NULL), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtRegStreamStateCallback("test", on_state, &told));
    CHECK_EQ(aclrtRegStreamStateCallback("test", on_state, &told), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtGetStreamAvailableNum(&left));
    OK(aclrtCreateStreamWithConfig(&own, 100, ACL_STREAM_FAST_SYNC | 0x1000));
    CHECK(told.created == 1 && told.last == own);
    OK(aclrtGetStreamAvailableNum(&more));
    CHECK_EQ(more, left - 1);
    OK(aclrtStreamGetPriority(own, &priority));
    OK(aclrtStreamGetFlags(own, &flags));
    CHECK_EQ(priority, 7);
    CHECK_EQ(flags, ACL_STREAM_FAST_SYNC);
    OK(aclrtSetStreamAttribute(own, ACL_STREAM_ATTR_PRIORITY, &value));
    OK(aclrtStreamGetPriority(own, &priority));
    CHECK_EQ(priority, 3);
    CHECK_EQ(aclrtSetStreamAttribute(NULL, ACL_STREAM_ATTR_PRIORITY, &value), ACL_ERROR_RT_PARAM_INVALID);
    value.overflowSwitch = 2;
    CHECK_EQ(aclrtSetStreamAttribute(own, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value),
             ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetStreamAttribute(own, ACL_STREAM_ATTR_CACHE_OP_INFO, &value), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSetStreamAttribute(own, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    value.userCustomTag = 0;
    OK(aclrtGetStreamAttribute(own, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    CHECK_EQ(value.userCustomTag, 2);
    CHECK_EQ(aclrtGetStreamAttribute(own, (aclrtStreamAttr)6, &value), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtDestroyStream(own));
    CHECK_EQ(told.destroyed, 1);
    OK(aclrtCreateContext(&ctx, 0)); /* default streams are streams */
    CHECK_EQ(told.created, 2);
    OK(aclrtDestroyContext(ctx));
    CHECK_EQ(told.destroyed, 2);
    OK(aclrtSetCurrentContext(first));
    OK(aclrtRegStreamStateCallback("test", NULL, NULL));
    own = stream_new();
    OK(aclrtDestroyStream(own));
    CHECK_EQ(told.created + told.destroyed, 4);
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclsim_set_device_count(2));
    OK(aclrtSetDevice(0));
    s = stream_new();
    other = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    check_ids();
    check_out_of_ids();
    check_destroy_pending();
    check_capture();
    check_two_devices();
    check_special_flags();
    check_with_flag();
    check_wait_timeouts();
    check_stamps();
    check_execute_limits();
    check_streams();
    return 0;
}
