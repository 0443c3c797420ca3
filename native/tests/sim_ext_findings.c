/* sim_ext_findings.c - what the guards and the report say about notifies, callbacks, values and handles, and
 * what chips without these functions answer. */
#include "tests/sim_util.h"

enum { N = 4096 };

static aclrtStream s, other;
static char *dev, *pin;

static void open_all(const char *profile)
{
    OK(aclsim_set_profile(profile));
    OK(aclrtSetDevice(0));
    s = stream_new();
    other = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(2 * N);
}

static void close_all(void)
{
    OK(aclrtFreeHost(pin));
    OK(aclrtResetDeviceForce(0));
    aclsim_clear_findings();
}

static void up_and_down(void (*between)(void))
{
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    between();
    OK(aclrtMemcpyAsync(pin + N, N, dev, N, ACL_MEMCPY_DEFAULT, other));
    OK(aclrtSynchronizeDevice());
}

static aclrtNotify notify;

static void nothing(void)
{
}

static void record_then_wait(void)
{
    OK(aclrtRecordNotify(notify, s));
    OK(aclrtWaitAndResetNotify(notify, other, 0));
}

static void wait_then_record(void)
{
    OK(aclrtWaitAndResetNotify(notify, other, 0));
    OK(aclrtRecordNotify(notify, s));
}

static void by_value(void)
{
    OK(aclrtValueWrite(dev, 7, 0, s));
    OK(aclrtValueWait(dev, 7, ACL_STREAM_WAIT_VALUE_EQ, other));
}

static void unrelated(void)
{
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtWaitAndResetNotify(notify, other, 0));
}

static void wrong_way(void)
{
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtWaitAndResetNotify(notify, s, 0));
}

/* An order that a notify or a value makes is known, and only that one. */
static void check_order(int mode)
{
    static const struct {
        void (*between)(void);
        int found;
    } rows[] = {{nothing, 1},  {record_then_wait, 0}, {wait_then_record, 0},
                {by_value, 0}, {wrong_way, 1},        {unrelated, 1}};

    move_bytes(0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        OK(aclsim_set_mode(mode, 4 + i));
        open_all("a2-ep-9.1");
        OK(aclsim_set_guards(1));
        OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
        up_and_down(rows[i].between);
        CHECK_EQ(aclsim_finding_count("unordered") > 0, rows[i].found);
        OK(aclsim_set_guards(0));
        close_all();
    }
    move_bytes(1);
}

/* What stands behind a wait is submitted first and runs last. Without the wait it is a race. */
static void check_submitted_early(int waits, int mode)
{
    move_bytes(0);
    OK(aclsim_set_mode(mode, 3));
    open_all("a2-ep-9.1");
    OK(aclsim_set_guards(1));
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    if (waits)
        OK(aclrtWaitAndResetNotify(notify, other, 0));
    OK(aclrtMemcpyAsync(pin + N, N, dev, N, ACL_MEMCPY_DEFAULT, other));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtSynchronizeStream(s)); /* the host knows, and lets the other stream go on */
    OK(aclrtRecordNotify(notify, s));
    OK(aclrtSynchronizeDevice());
    CHECK_EQ(aclsim_finding_count("unordered") > 0, !waits);
    OK(aclsim_set_guards(0));
    close_all();
    move_bytes(1);
}

static void bad_callback(void *unused)
{
    void *ptr = NULL;

    (void)unused;
    (void)aclrtMallocHost(&ptr, 64);
    (void)aclrtFreeHost(ptr);
    (void)aclrtSynchronizeStream(other);
}

static void good_callback(void *event)
{
    CHECK(event_complete(event));
}

static void check_callbacks(void)
{
    aclrtEvent e;

    open_all("a2-ep-9.1");
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtLaunchHostFunc(s, good_callback, e));
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(aclsim_finding_count("in-callback"), 0);
    OK(aclrtLaunchHostFunc(s, bad_callback, NULL));
    OK(aclrtSynchronizeStream(s));
    CHECK(aclsim_finding_count("in-callback") >= 3);
    OK(aclrtMallocHost((void **)&e, 64)); /* outside of one it is nothing */
    OK(aclrtFreeHost(e));
    CHECK(aclsim_finding_count("in-callback") == 3);
    close_all();
}

static void check_stale(void)
{
    aclrtEvent e;

    open_all("a2-ep-9.1");
    OK(aclrtCreateEvent(&e));
    OK(aclrtDestroyEvent(e));
    CHECK_EQ(aclsim_finding_count("stale-handle"), 0);
    CHECK_EQ(aclrtRecordEvent(e, s), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclsim_finding_count("stale-handle"), 1);
    OK(aclrtDestroyStream(s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclsim_finding_count("stale-handle"), 2);
    close_all();
}

static void check_other_chips(void)
{
    const aclError none = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    aclrtStreamAttrValue value = {.userCustomTag = 5};
    aclrtIpcEventHandle handle = {{0}};
    aclrtEvent e, first, last;
    float ms = -1;

    open_all("310p-ep-9.1");
    CHECK_EQ(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC), none);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    CHECK_EQ(aclrtStreamAbort(s), none);
    CHECK_EQ(aclrtStreamStop(s), none);
    CHECK_EQ(aclrtDeviceTaskAbort(0, 0), none);
    CHECK_EQ(aclrtSetOpWaitTimeout(1), none);
    CHECK_EQ(aclrtValueWrite(dev, 1, 0, s), none);
    CHECK_EQ(aclrtValueWait(dev, 1, 0, s), none);
    CHECK_EQ(aclrtIpcGetEventHandle(e, &handle), none);
    CHECK_EQ(aclrtIpcOpenEventHandle(handle, &e), none);
    OK(aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value)); /* without effect */
    OK(aclrtGetStreamAttribute(s, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    close_all();
    open_all("950-ep-9.1"); /* a 950DT, which the documents leave out for events of two processes */
    CHECK_EQ(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC), none);
    CHECK_EQ(aclrtIpcOpenEventHandle(handle, &e), none);
    OK(aclrtValueWrite(dev, 1, 0, s));
    close_all();
    open_all("310b-ep-9.1"); /* 48000 ticks a millisecond: no whole number of nanoseconds each */
    OK(aclrtCreateEvent(&first));
    OK(aclrtCreateEvent(&last));
    OK(aclrtRecordEvent(first, s));
    OK(aclrtRecordEvent(last, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtEventElapsedTime(&ms, first, last));
    CHECK(ms >= 0 && (double)ms * 48000 - (double)(long long)((double)ms * 48000 + 0.5) < 0.01);
    close_all();
}

/* The longest limit of a kernel, as documented for each chip, in whole seconds. */
static void check_execute_limits(void)
{
    static const struct {
        const char *profile;
        uint64_t most_s;
    } rows[] = {{"910", 2199}, {"310p", 547}, {"310b", 1090}, {"a2", 1090}};
    uint64_t actual_us;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        open_all(rows[i].profile);
        OK(aclrtSetOpExecuteTimeOutV2(0, &actual_us));
        CHECK_EQ(actual_us / 1000000, rows[i].most_s);
        close_all();
    }
}

int main(void)
{
    check_order(ACLSIM_THREADS); /* without aclInit, which would fix the profile */
    check_order(ACLSIM_VIRTUAL);
    check_order(ACLSIM_ADVERSARIAL);
    for (int waits = 0; waits < 2; waits++) {
        check_submitted_early(waits, ACLSIM_THREADS);
        check_submitted_early(waits, ACLSIM_VIRTUAL);
        check_submitted_early(waits, ACLSIM_ADVERSARIAL);
    }
    OK(aclsim_set_mode(ACLSIM_THREADS, 0));
    check_callbacks();
    check_stale();
    check_other_chips();
    check_execute_limits();
    return 0;
}
