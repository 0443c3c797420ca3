/* sim_reentry.c - the end of one task changes what other streams have, while that task is being finished; and
 * calls that wait while others take what they wait for. Found by sim_fuzz.c and by reading. */
#include "tests/sim_util.h"

enum { NBYTES = 4096 };

/* A context in STOP mode with three streams. */
static struct {
    aclrtContext ctx;
    aclrtStream a, b, c;
    void *dev, *kept;
} rig;

static void set_up(void)
{
    OK(aclrtCreateContext(&rig.ctx, 0));
    rig.a = stream_new();
    rig.b = stream_new();
    rig.c = stream_new();
    rig.dev = device_alloc(NBYTES);
    rig.kept = device_alloc(NBYTES);
    OK(aclrtSetStreamFailureMode(rig.a, ACL_STOP_ON_FAILURE));
}

static void tear_down(void)
{
    CHECK_EQ(aclsim_pending_tasks(0), 0);
    OK(aclrtDestroyContext(rig.ctx)); /* does not end when a stream has finished more than it got */
    OK(aclrtSetDevice(0));
    OK(aclrtFree(rig.kept));
}

/* The wait fails at its first look; that stops the context, drops the work of b, and so looks at waits. */
static void check_failing_wait(void)
{
    set_up();
    OK(aclsim_hold_stream(rig.a));
    OK(aclsim_hold_stream(rig.b));
    OK(aclrtMemsetAsync(rig.kept, NBYTES, 1, NBYTES, rig.a));
    OK(aclrtMemsetAsync(rig.kept, NBYTES, 1, NBYTES, rig.b));
    OK(aclrtValueWait(rig.dev, 1, ACL_STREAM_WAIT_VALUE_EQ, rig.a));
    OK(aclrtFree(rig.dev));
    OK(aclsim_release_stream(rig.a));
    CHECK_EQ(aclrtSynchronizeStream(rig.a), ACL_ERROR_RT_TS_ERROR);
    tear_down();
}

/* a records the notify; the end of b's wait looks at c's, which fails and stops a in the middle of it. */
static void check_stopped_in_the_middle(void)
{
    enum { RING = 2048 }; /* every slot has a copy that owned its bytes, and must not end twice */
    static char bytes[NBYTES];
    aclrtNotify notify;

    set_up();
    for (int i = 0; i < RING; i++)
        OK(aclrtMemcpyAsync(rig.kept, NBYTES, bytes, NBYTES, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, rig.a));
    OK(aclrtSynchronizeStream(rig.a));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtWaitAndResetNotify(notify, rig.b, 0));
    OK(aclrtMemset(rig.dev, NBYTES, 0, NBYTES));
    OK(aclrtValueWait(rig.dev, 1, ACL_STREAM_WAIT_VALUE_EQ, rig.c));
    OK(aclrtFree(rig.dev));
    OK(aclrtRecordNotify(notify, rig.a));
    CHECK_EQ(aclrtSynchronizeStream(rig.c), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtDestroyNotify(notify));
    tear_down();
}

/* --- event ids --- */

static aclrtEvent contended;
static aclrtStream recorder;

static void *record_main(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtRecordEvent(contended, recorder));
    OK(aclrtResetDevice(0));
    return NULL;
}

static uint32_t ids_left(void)
{
    uint32_t n = 0;

    OK(aclrtGetEventAvailNum(&n));
    return n;
}

/* Two threads wait for an id for the same event; it takes one only. */
static void check_one_id(void)
{
    uint32_t n = ids_left(), left;
    aclrtEvent *taken = malloc(n * sizeof(*taken)), last[2];
    aclrtStream holder = stream_new();

    recorder = stream_new();
    OK(aclrtCreateEvent(&contended));
    for (int i = 0; i < 2; i++)
        OK(aclrtCreateEvent(&last[i]));
    for (uint32_t i = 0; i < n - 2; i++)
        OK(aclrtCreateEventWithFlag(&taken[i], ACL_EVENT_SYNC));
    void *dev = device_alloc(NBYTES);
    for (int round = 0; round < 30; round++) {
        int64_t before = aclsim_call_count("aclrtRecordEvent", 0);
        pthread_t thread[2];

        OK(aclsim_hold_stream(holder));
        OK(aclsim_hold_stream(recorder));
        OK(aclrtMemsetAsync(dev, NBYTES, 1, NBYTES, holder));
        OK(aclrtMemsetAsync(dev, NBYTES, 1, NBYTES, recorder));
        for (int i = 0; i < 2; i++)
            OK(aclrtRecordEvent(last[i], holder));
        CHECK_EQ(ids_left(), 0);
        for (int i = 0; i < 2; i++)
            OK(pthread_create(&thread[i], NULL, record_main, NULL));
        while (aclsim_call_count("aclrtRecordEvent", 0) != before + 4)
            ;
        for (int i = 0; i < 2000; i++) /* likely both are asleep by now */
            left = ids_left();
        OK(aclsim_release_stream(holder));
        for (int i = 0; i < 2; i++)
            OK(pthread_join(thread[i], NULL));
        OK(aclsim_release_stream(recorder));
        OK(aclrtSynchronizeStream(recorder));
        OK(aclrtSynchronizeStream(holder));
        left = ids_left();
        CHECK_EQ(left, 2);
    }
    for (uint32_t i = 0; i < n - 2; i++)
        OK(aclrtDestroyEvent(taken[i]));
    free(taken);
    OK(aclrtFree(dev));
    OK(aclrtDestroyStream(recorder));
    OK(aclrtDestroyStream(holder));
}

/* --- short waits in adversarial mode --- */

static int called;

static void on_callback(void *data)
{
    (void)data;
    called++;
}

/* A program that does nothing but ask for reports in short turns still gets its copy done. */
static void check_short_turns(void)
{
    aclrtStream s = stream_new();
    void *dev = device_alloc(NBYTES), *pin = pinned_alloc(NBYTES);

    OK(aclrtSubscribeReport((uint64_t)(uintptr_t)pthread_self(), s));
    OK(aclrtMemcpyAsync(dev, NBYTES, pin, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtLaunchCallback(on_callback, NULL, ACL_CALLBACK_BLOCK, s));
    for (int i = 0; i < 1000 && called == 0; i++)
        (void)aclrtProcessReport(1);
    CHECK_EQ(called, 1);
    OK(aclrtUnSubscribeReport((uint64_t)(uintptr_t)pthread_self(), s));
    OK(aclrtDestroyStream(s));
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
}

/* The process that records an event of two processes may wait for it itself. */
static void check_own_ipc_event(void)
{
    aclrtStream s = stream_new();
    void *dev = device_alloc(NBYTES), *pin = pinned_alloc(NBYTES);
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtMemcpyAsync(dev, NBYTES, pin, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtRecordEvent(event, s));
    OK(aclrtSynchronizeEventWithTimeout(event, 5000));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(s));
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
}

static void check_stops(void)
{
    OK(aclrtSetDevice(0));
    check_failing_wait();
    OK(aclrtResetDeviceForce(0));
}

static void check_middle(void)
{
    OK(aclrtSetDevice(0));
    check_stopped_in_the_middle();
    OK(aclrtResetDeviceForce(0));
}

static void check_ids(void)
{
    OK(aclsim_set_profile("310p-ep-9.1")); /* few ids */
    OK(aclrtSetDevice(0));
    check_one_id();
    OK(aclrtResetDevice(0));
    OK(aclsim_set_profile("a2-ep-9.1"));
}

static void adversarial(void (*check)(void))
{
    OK(aclsim_set_mode(ACLSIM_ADVERSARIAL, 1));
    OK(aclrtSetDevice(0));
    check();
    OK(aclrtResetDevice(0));
    OK(aclsim_set_mode(ACLSIM_THREADS, 0));
}

/* With a number: only that one. */
int main(int argc, char **argv)
{
    int only = argc > 1 ? atoi(argv[1]) : 0;

    if (only == 0 || only == 1)
        check_stops();
    if (only == 0 || only == 2)
        check_middle();
    if (only == 0 || only == 3)
        check_ids();
    if (only == 0 || only == 4)
        adversarial(check_short_turns);
    if (only == 0 || only == 5)
        adversarial(check_own_ipc_event);
    return 0;
}
