/* sim_fault_rules.c - fault rules: what the grammar takes, when rules fire, what each action does. */
#include "tests/sim_util.h"

#include <unistd.h>

enum { N = 4096 };

static char *dev, *pin;
static aclrtStream s;
static aclrtContext context;

static int64_t add(const char *rule)
{
    int64_t id = aclsim_add_fault(rule);

    if (id < 0)
        fprintf(stderr, "%s: %s\n", rule, aclsim_fault_error());
    CHECK(id > 0);
    return id;
}

static aclError copy_n(size_t nbytes)
{
    return aclrtMemcpyAsync(dev, nbytes, pin, nbytes, ACL_MEMCPY_HOST_TO_DEVICE, s);
}

/* One copy and its synchronisation. */
static aclError try_copy(void)
{
    OK(copy_n(N));
    return aclrtSynchronizeStream(s);
}

static void check_grammar(void)
{
    static const struct {
        const char *rule, *says;
    } bad[] = {{"", "no entry"},
               {"# copy", "no entry"},
               {"explode", "'explode' is no action"},
               {"copy code", "'code' is not key=value"},
               {"copy code=0", "the value of code=0 is not valid"},
               {"copy code=-1", "not valid"},
               {"copy nth=0", "not valid"},
               {"copy device=64", "not valid"},
               {"copy direction=up", "not valid"},
               {"copy probability=1.5", "not valid"},
               {"copy probability=nan", "not valid"},
               {"copy min_bytes=2KiB max_bytes=1KiB", "min_bytes is above max_bytes"},
               {"copy min_bytes=16777216TiB", "not valid"},
               {"copy limit=3", "copy has no key 'limit'; accepted: code"},
               {"call code=1", "call needs name="},
               {"call name=aclrtMalloc", "call needs code="},
               {"call name=aclrtNoSuchCall code=1", "the value of name=aclrtNoSuchCall is not valid"},
               {"streams", "streams needs limit="},
               {"slow", "slow needs delay_us= or factor="},
               {"sick code=507001", "sick needs a code from 507053 to 507057"},
               {"random seed=1", "random needs rate= below 1"},
               {"copy; copy", "more than 1 entry"}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(aclsim_add_fault(bad[i].rule), -1);
        if (strstr(aclsim_fault_error(), bad[i].says) == NULL) {
            fprintf(stderr, "%s: %s\n", bad[i].rule, aclsim_fault_error());
            exit(1);
        }
    }
    CHECK_EQ(aclsim_add_fault(NULL), -1);
    add("  copy\tcode=507013 nth=2 # a comment; with a semicolon\n");
    CHECK_EQ(aclsim_clear_faults(), 1);
}

static void check_when(void)
{
    static const struct {
        const char *rule, *fires; /* '1' for each copy that fails */
    } rows[] = {{"copy", "1000000"},
                {"copy nth=3", "0010000"},
                {"copy nth=2 times=2", "0110000"},
                {"copy nth=2 every=2 times=0", "0101010"},
                {"copy times=0", "1111111"},
                {"copy probability=0", "0000000"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t id = add(rows[i].rule), fired = 0;

        for (const char *f = rows[i].fires; *f != '\0'; f++) {
            CHECK_EQ(try_copy(), *f == '1' ? ACL_ERROR_RT_TS_ERROR : 0);
            fired += *f == '1';
            CHECK_EQ(aclsim_faults_fired(id), fired);
        }
        OK(aclsim_remove_fault(id));
        CHECK_EQ(aclsim_remove_fault(id), -1);
        CHECK_EQ(aclsim_faults_fired(id), -1);
    }
}

static void check_selectors(void)
{
    char rule[64];
    aclrtStream other = stream_new();
    int32_t id;

    OK(aclrtStreamGetId(other, &id));
    snprintf(rule, sizeof(rule), "copy stream=%d", id);
    add(rule);
    add("copy device=1");
    add("copy direction=d2h");
    add("copy min_bytes=4097");
    add("copy max_bytes=4095");
    OK(try_copy());
    CHECK_EQ(aclsim_clear_faults(), 5);
    add("copy min_bytes=4KiB max_bytes=4KiB direction=h2d device=0");
    OK(copy_n(N - 1));
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(try_copy(), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtDestroyStream(other));
}

/* The same seed gives the same copies; another seed others. */
static void check_probability(void)
{
    char seen[3][65] = {{0}};
    static const char *const rules[] = {"copy probability=0.5 seed=7", "copy probability=0.5 seed=7",
                                        "copy probability=0.5 seed=8"};

    for (int run = 0; run < 3; run++) {
        int64_t id = add(rules[run]);

        for (int i = 0; i < 64; i++)
            seen[run][i] = try_copy() != 0 ? '1' : '0';
        CHECK(aclsim_faults_fired(id) > 16 && aclsim_faults_fired(id) < 48);
        OK(aclsim_remove_fault(id));
    }
    CHECK(strcmp(seen[0], seen[1]) == 0);
    CHECK(strcmp(seen[0], seen[2]) != 0);
}

static void check_events(void)
{
    aclrtEvent e;

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    add("event code=507899 nth=2");
    OK(aclrtRecordEvent(e, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtRecordEvent(e, s));
    OK(aclrtSynchronizeEvent(e));
    CHECK(event_complete(e));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    CHECK(message_has("task failed, device_id=0"));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyEvent(e));
}

static void check_limits(void)
{
    struct aclsim_counters c;
    aclrtStream more, refused = NULL;
    aclrtEvent e, no_event = NULL;
    void *a = NULL, *b = NULL;
    char rule[64];

    aclsim_counters(&c);
    snprintf(rule, sizeof(rule), "streams limit=%d", (int)c.live_streams + 1);
    add(rule);
    more = stream_new();
    CHECK_EQ(aclrtCreateStream(&refused), ACL_ERROR_RT_NO_STREAM_RESOURCE);
    CHECK(message_has("(EE1023)"));
    OK(aclrtDestroyStream(more));
    OK(aclrtDestroyStream(stream_new()));
    snprintf(rule, sizeof(rule), "events limit=%d", (int)c.live_events + 1);
    add(rule);
    OK(aclrtCreateEvent(&e));
    CHECK_EQ(aclrtCreateEventExWithFlag(&no_event, ACL_EVENT_SYNC), ACL_ERROR_RT_NO_EVENT_RESOURCE);
    OK(aclrtDestroyEvent(e));
    aclsim_clear_faults();

    add("alloc kind=pinned per_call=1MiB");
    CHECK_EQ(aclrtMallocHost(&a, (1 << 20) + 1), ACL_ERROR_RT_MEMORY_ALLOCATION);
    a = pinned_alloc(1 << 20);
    b = device_alloc(2 << 20);
    OK(aclrtFree(b));
    snprintf(rule, sizeof(rule), "alloc kind=pinned total=%llu",
             (unsigned long long)(c.live_pinned_bytes + (1 << 20) + N));
    add(rule);
    CHECK_EQ(aclrtMallocHost(&b, 2 * N), ACL_ERROR_RT_MEMORY_ALLOCATION);
    b = pinned_alloc(N);
    OK(aclrtFreeHost(b));
    OK(aclrtFreeHost(a));
    aclsim_counters(&c);
    snprintf(rule, sizeof(rule), "alloc kind=device total=%llu",
             (unsigned long long)(c.live_device_bytes + 4 * N));
    add(rule);
    CHECK_EQ(aclrtMalloc(&b, 8 * N, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK(message_has("has no room"));
    OK(aclrtFree(device_alloc(N)));
    aclsim_clear_faults();
    add("alloc kind=device nth=2 times=1");
    a = device_alloc(N);
    CHECK_EQ(aclrtMalloc(&b, N, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    OK(aclrtFree(a));
    OK(aclrtFree(device_alloc(N)));
}

static void check_frees(void)
{
    struct aclsim_counters before, after;
    void *a = device_alloc(N), *b = pinned_alloc(N);

    aclsim_counters(&before);
    add("free times=2");
    CHECK_EQ(aclrtFree(a), ACL_ERROR_RT_MEMORY_FREE);
    CHECK_EQ(aclrtFreeHost(b), ACL_ERROR_RT_MEMORY_FREE);
    add("free name=aclrtFreeHost code=507899");
    aclsim_counters(&after);
    CHECK_EQ(after.live_device_blocks, before.live_device_blocks);
    CHECK_EQ(after.live_pinned_blocks, before.live_pinned_blocks);
    OK(aclrtFree(a));
    CHECK_EQ(aclrtFreeHost(b), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    OK(aclrtFreeHost(b));
}

static void check_register(void)
{
    char *host = aligned_alloc(4096, 4096);
    void *mapped = NULL;

    add("register code=507899 nth=2");
    OK(aclrtHostRegister(host, 4096, ACL_HOST_REGISTER_MAPPED, &mapped));
    OK(aclrtHostUnregister(host));
    CHECK_EQ(aclrtHostRegisterV2(host, 4096, ACL_HOST_REG_MAPPED), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    CHECK_EQ(aclrtHostUnregister(host), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED); /* it did nothing */
    OK(aclrtHostRegisterV2(host, 4096, ACL_HOST_REG_MAPPED));
    OK(aclrtHostUnregister(host));
    free(host);
}

static void check_slow(void)
{
    double start;

    add("slow delay_us=30000");
    start = now_s();
    OK(try_copy());
    CHECK(now_s() - start >= 0.03);
    OK(aclsim_set_link(0, &(struct aclsim_link){.latency_ns = 5000000, .move_bytes = 1}));
    add("slow factor=6");
    start = now_s();
    OK(try_copy());
    CHECK(now_s() - start >= 0.03);
    OK(aclsim_set_link(0, &(struct aclsim_link){.move_bytes = 1}));
    OK(try_copy());
}

static void check_stall(void)
{
    int64_t id = add("stall direction=h2d");
    unsigned char got[N];

    fill(pin, N, 70);
    OK(aclrtMemset(dev, N, 0, N));
    OK(copy_n(N));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclsim_peek(dev, got, N));
    CHECK(holds_byte(got, N, 0));
    CHECK_EQ(aclsim_faults_fired(id), 1);
    OK(aclsim_remove_fault(id));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 70));
    add("stall");
    OK(copy_n(N));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(aclsim_clear_faults(), 0); /* it had fired */
    OK(aclrtSynchronizeStream(s));
}

static aclrtDeviceStatus device_status(void)
{
    aclrtDeviceStatus status = (aclrtDeviceStatus)9;

    OK(aclrtQueryDeviceStatus(0, &status));
    return status;
}

static void check_sick(void)
{
    aclrtErrorInfo info;

    add("sick code=507053 nth=2");
    OK(try_copy());
    CHECK_EQ(try_copy(), ACL_ERROR_RT_DEVICE_MEM_ERROR);
    CHECK_EQ(try_copy(), ACL_ERROR_RT_DEVICE_MEM_ERROR); /* and it stays */
    OK(aclrtGetErrorVerbose(0, &info));
    CHECK_EQ(info.errorType, ACL_RT_ERROR_MEMORY);
    CHECK_EQ(info.tryRepair, 1);
    CHECK_EQ(info.detail.uceInfo.arraySize, 1);
    CHECK(info.detail.uceInfo.memUceInfoArray[0].addr == dev);
    CHECK_EQ(info.detail.uceInfo.memUceInfoArray[0].len, N);
    OK(aclrtRepairError(0, &info)); /* without the abort of its tasks before, it does not help */
    CHECK_EQ(try_copy(), ACL_ERROR_RT_DEVICE_MEM_ERROR);
    OK(aclrtGetErrorVerbose(0, &info));
    CHECK_EQ(info.errorType, ACL_RT_ERROR_MEMORY);
    CHECK_EQ(device_status(), ACL_RT_DEVICE_STATUS_NORMAL);
    CHECK_EQ(aclsim_clear_faults(), 0);
    OK(try_copy());
    OK(aclrtGetErrorVerbose(0, &info));
    CHECK_EQ(info.errorType, ACL_RT_NO_ERROR);
}

static void *wait_lost(void *stream)
{
    OK(aclrtSetCurrentContext(context));
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_LOST_HEARTBEAT);
    return NULL;
}

/* A copy on the way, an event behind it, a thread that waits: all learn that the device is gone. */
static void check_lose(void)
{
    aclrtEvent e;
    aclrtStream again;
    void *none = NULL;
    int64_t id = add("stall");

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    OK(copy_n(N));
    OK(aclrtRecordEvent(e, s));
    CHECK_EQ(aclrtSynchronizeEventWithTimeout(e, 1), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    CHECK_EQ(device_status(), ACL_RT_DEVICE_STATUS_NORMAL);
    CHECK_EQ(aclsim_faults_fired(id), 1);
    add("lose device=0");
    CHECK_EQ(device_status(), ACL_RT_DEVICE_STATUS_ABNORMAL);
    CHECK_EQ(aclrtSynchronizeEvent(e), ACL_ERROR_RT_LOST_HEARTBEAT);
    CHECK(message_has("device 0 is lost"));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_LOST_HEARTBEAT);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_LOST_HEARTBEAT);
    CHECK_EQ(copy_n(N), ACL_ERROR_RT_LOST_HEARTBEAT);
    CHECK_EQ(aclrtMalloc(&none, N, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_LOST_HEARTBEAT);
    CHECK_EQ(aclrtSetDevice(0), ACL_ERROR_RT_LOST_HEARTBEAT);
    OK(aclrtDestroyEvent(e));
    OK(aclrtFreeHost(pin));
    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    CHECK_EQ(device_status(), ACL_RT_DEVICE_STATUS_NORMAL);
    again = stream_new();
    s = again;
    dev = device_alloc(4 * N);
    pin = pinned_alloc(4 * N);
    OK(try_copy());
}

/* A thread that waits for a stream when the nth copy loses the device. */
static void check_lose_by_copy(void)
{
    add("lose code=507901 nth=3");
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    for (int i = 0; i < 5; i++)
        OK(copy_n(N));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_SOCKET_CLOSE);
    aclsim_clear_faults();
    (void)aclrtSynchronizeStream(s); /* the failure of the copies may still be there */
    OK(try_copy());
    add("lose name=aclrtGetMemInfo nth=2");
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &(size_t){0}, &(size_t){0}));
    CHECK_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &(size_t){0}, &(size_t){0}), ACL_ERROR_RT_LOST_HEARTBEAT);
    CHECK_EQ(device_status(), ACL_RT_DEVICE_STATUS_ABNORMAL);
}

/* Neither a held engine nor an event that nobody records keeps a thread from learning it. */
static void check_lose_while_blocked(void)
{
    aclrtEvent never;
    aclrtStream other = stream_new();
    pthread_t waiter;

    OK(aclrtGetCurrentContext(&context));
    OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    fill(pin, N, 71);
    OK(aclrtMemset(dev, N, 0, N));
    OK(copy_n(N));
    OK(aclrtStreamWaitEvent(other, never));
    OK(pthread_create(&waiter, NULL, wait_lost, other));
    add("lose");
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_LOST_HEARTBEAT);
    OK(pthread_join(waiter, NULL));
    CHECK_EQ(aclsim_pending_tasks(0), 0);
    aclsim_clear_faults();
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_LOST_HEARTBEAT); /* the copy's own, still untold */
    CHECK(!device_holds(dev, N, 71));
    OK(try_copy());
    OK(aclrtDestroyEvent(never));
    OK(aclrtDestroyStream(other));
}

static void check_random(void)
{
    int refused = 0, failed = 0;
    int64_t id = add("random seed=3 rate=0.3");

    for (int i = 0; i < 300; i++) {
        if (copy_n(N) != 0)
            refused++;
        else if (aclrtSynchronizeStream(s) != 0)
            failed++;
    }
    CHECK(refused > 10 && failed > 10);
    CHECK(aclsim_faults_fired(id) > refused + failed);
    CHECK(refused + failed < 200);
}

int main(void)
{
    void (*const checks[])(void) = {check_grammar,      check_when,
                                    check_selectors,    check_probability,
                                    check_events,       check_limits,
                                    check_frees,        check_register,
                                    check_slow,         check_stall,
                                    check_sick,         check_lose,
                                    check_lose_by_copy, check_lose_while_blocked,
                                    check_random};

    OK(setenv("ACLSIM_FAULTS", "# from the start\ncall name=aclInit code=500000 ; copy nth=2\n", 1));
    CHECK_EQ(aclInit(NULL), 500000);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(4 * N);
    pin = pinned_alloc(4 * N);
    OK(try_copy());
    CHECK_EQ(try_copy(), ACL_ERROR_RT_TS_ERROR);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        checks[i]();
        aclsim_clear_faults();
        (void)aclGetRecentErrMsg();
    }
    OK(aclrtDestroyStream(s));
    return 0;
}
