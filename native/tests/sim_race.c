/* sim_race.c - planted bugs: in adversarial mode each one gives wrong bytes or a finding, with every seed,
 * and the corrected program gives neither. */
#include "tests/sim_util.h"

enum { NBYTES = 40000, N_SEEDS = 10 };

static char *dev, *pin, *back;
static aclrtStream first, second;

static void open_all(uint64_t seed)
{
    OK(aclsim_set_mode(ACLSIM_ADVERSARIAL, seed));
    OK(aclrtSetDevice(0));
    dev = device_alloc(2 * NBYTES);
    pin = pinned_alloc(2 * NBYTES);
    back = pinned_alloc(NBYTES);
    first = stream_new();
    second = stream_new();
}

static void close_all(void)
{
    OK(aclrtSynchronizeDevice());
    if (dev != NULL)
        OK(aclrtFree(dev));
    if (pin != NULL)
        OK(aclrtFreeHost(pin));
    OK(aclrtFreeHost(back));
    OK(aclrtResetDeviceForce(0));
}

static void up(char *dst, char *src, aclrtStream s)
{
    OK(aclrtMemcpyAsync(dst, NBYTES, src, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
}

static void down(char *dst, char *src, aclrtStream s)
{
    OK(aclrtMemcpyAsync(dst, NBYTES, src, NBYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
}

/* Each program returns whether the bytes are right. */

static int source_overwritten(int fixed)
{
    fill(pin, NBYTES, 1);
    up(dev, pin, first);
    if (fixed)
        OK(aclrtSynchronizeStream(first));
    fill(pin, NBYTES, 2);
    OK(aclrtSynchronizeStream(first));
    return device_holds(dev, NBYTES, 1);
}

/* Two uploads through one staging slab; the right program waits for the first one's event. */
static int slab_reused(int fixed)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    fill(pin, NBYTES, 3);
    up(dev, pin, first);
    OK(aclrtRecordEvent(event, first));
    while (fixed && !event_complete(event))
        ;
    fill(pin, NBYTES, 4);
    up(dev + NBYTES, pin, first);
    OK(aclrtSynchronizeStream(first));
    OK(aclrtDestroyEvent(event));
    return device_holds(dev, NBYTES, 3) && device_holds(dev + NBYTES, NBYTES, 4);
}

static int wait_missing(int fixed)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    fill(pin, NBYTES, 5);
    up(dev, pin, first);
    OK(aclrtRecordEvent(event, first));
    if (fixed)
        OK(aclrtStreamWaitEvent(second, event));
    down(back, dev, second);
    OK(aclrtSynchronizeStream(second));
    OK(aclrtDestroyEvent(event));
    return holds(back, NBYTES, 5);
}

/* The memory held the right answer before, so that only the spoiled destination can show it. */
static int result_read_early(int fixed)
{
    int right;

    fill(pin, NBYTES, 6);
    up(dev, pin, first);
    OK(aclrtSynchronizeStream(first));
    fill(back, NBYTES, 6);
    down(back, dev, first);
    if (fixed)
        OK(aclrtSynchronizeStream(first));
    right = holds(back, NBYTES, 6);
    OK(aclrtSynchronizeStream(first));
    return right;
}

static int device_block_freed(int fixed)
{
    int right = 1;

    fill(pin, NBYTES, 7);
    up(dev, pin, first);
    if (fixed) {
        OK(aclrtSynchronizeStream(first));
        right = device_holds(dev, NBYTES, 7);
    }
    OK(aclrtFree(dev));
    dev = NULL;
    (void)aclrtSynchronizeStream(first); /* the copy fails, since its block is gone */
    return right;
}

static int pinned_block_freed(int fixed)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    fill(pin, NBYTES, 8);
    up(dev, pin, first);
    OK(aclrtRecordEvent(event, first));
    OK(aclrtStreamWaitEvent(second, event));
    if (fixed) /* observes the copy through what the second stream had waited for */
        OK(aclrtSynchronizeStream(second));
    OK(aclrtFreeHost(pin));
    pin = NULL;
    (void)aclrtSynchronizeStream(first);
    OK(aclrtDestroyEvent(event));
    return !fixed || device_holds(dev, NBYTES, 8);
}

/* An immediate copy waits for no stream. */
static int immediate_copy(int fixed)
{
    fill(pin, NBYTES, 9);
    OK(aclrtMemset(dev, NBYTES, 0, NBYTES));
    up(dev, pin, first);
    if (fixed)
        OK(aclrtSynchronizeStream(first));
    OK(aclrtMemcpy(back, NBYTES, dev, NBYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    return holds(back, NBYTES, 9);
}

static void check(const char *name, int (*program)(int fixed), const char *finding)
{
    int n_findings = 0, n_wrong = 0;

    for (uint64_t seed = 1; seed <= N_SEEDS; seed++)
        for (int fixed = 0; fixed < 2; fixed++) {
            int64_t all = aclsim_finding_count(NULL), this = finding ? aclsim_finding_count(finding) : 0;
            int right;

            open_all(seed);
            right = program(fixed);
            close_all();
            all = aclsim_finding_count(NULL) - all;
            if (finding != NULL && !fixed)
                CHECK_EQ(aclsim_finding_count(finding) - this, all);
            if (fixed ? !right || all != 0 : right && all == 0) {
                fprintf(stderr, "%s, seed %d, %s: %lld findings, bytes %s\n", name, (int)seed,
                        fixed ? "corrected" : "planted", (long long)all, right ? "right" : "wrong");
                exit(1);
            }
            n_findings += !fixed && all != 0;
            n_wrong += !fixed && !right;
        }
    printf("%s: of %d seeds %d gave a finding, %d wrong bytes\n", name, (int)N_SEEDS, n_findings, n_wrong);
    if (finding != NULL)
        CHECK_EQ(n_findings, N_SEEDS);
}

/* --- what must raise no alarm --- */

static void check_orders(void)
{
    aclrtEvent a, b;
    aclrtStream third;
    int64_t before = aclsim_finding_count(NULL);

    open_all(11);
    third = stream_new();
    OK(aclrtCreateEventExWithFlag(&a, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&b, ACL_EVENT_SYNC));
    fill(pin, NBYTES, 1);
    up(dev, pin, first);
    OK(aclrtRecordEvent(a, first));
    OK(aclrtStreamWaitEvent(second, a));
    OK(aclrtRecordEvent(b, second));
    OK(aclrtStreamWaitEvent(third, b)); /* first before second before third */
    down(back, dev, third);
    down(pin + NBYTES, dev, first); /* two readers need no order */
    OK(aclrtRecordEvent(a, third)); /* recorded again: the earlier waits keep what they waited for */
    OK(aclrtSynchronizeEvent(a));
    CHECK(holds(back, NBYTES, 1));
    up(dev + NBYTES, pin, second); /* its source was read by what the host saw complete */
    OK(aclrtSynchronizeDevice());
    fill(pin, NBYTES, 2);
    up(dev, pin, second); /* after the host's observation, on any stream */
    OK(aclrtSynchronizeStream(second));
    CHECK(device_holds(dev, NBYTES, 2));
    OK(aclrtDestroyEvent(a));
    OK(aclrtDestroyEvent(b));
    close_all();
    CHECK_EQ(aclsim_finding_count(NULL) - before, 0);
}

/* A queue that is ordered on the device: what comes down goes up again, from the same pinned memory. */
static void check_round_trip_on_device(void)
{
    int64_t before = aclsim_finding_count(NULL);

    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        open_all(seed);
        fill(pin, NBYTES, 1);
        up(dev, pin, first);
        down(back, dev, first);
        up(dev + NBYTES, back, first);
        down(back, dev + NBYTES, first);
        OK(aclrtSynchronizeStream(first));
        CHECK(holds(back, NBYTES, 1));
        close_all();
    }
    CHECK_EQ(aclsim_finding_count(NULL) - before, 0);
}

/* --- guards in real time --- */

static void check_guards_with_threads(void)
{
    int64_t unordered = aclsim_finding_count("unordered"), freed = aclsim_finding_count("freed");

    CHECK_EQ(aclsim_finding_count("no such kind"), -1);
    CHECK_EQ(aclsim_set_guards(2), -1);
    OK(aclsim_set_guards(1));
    OK(aclsim_set_mode(ACLSIM_THREADS, 0));
    move_bytes(0);
    OK(aclrtSetDevice(0));
    dev = device_alloc(2 * NBYTES);
    pin = pinned_alloc(2 * NBYTES);
    back = pinned_alloc(NBYTES);
    first = stream_new();
    second = stream_new();
    up(dev, pin, first);
    down(back, dev, second);
    OK(aclrtSynchronizeStream(second));
    CHECK_EQ(aclsim_finding_count("unordered") - unordered, 1);
    CHECK_EQ(aclsim_finding_count("freed") - freed, 0);
    CHECK_EQ(aclrtFree(pin), ACL_ERROR_RT_PARAM_INVALID); /* a refused call frees nothing */
    CHECK_EQ(aclsim_finding_count("freed") - freed, 0);
    OK(aclrtFreeHost(back)); /* used by the second stream only */
    CHECK_EQ(aclsim_finding_count("freed") - freed, 0);
    OK(aclrtFree(dev));
    CHECK_EQ(aclsim_finding_count("freed") - freed, 1);
    OK(aclsim_set_guards(-1)); /* off in this mode */
    OK(aclrtFreeHost(pin));
    CHECK_EQ(aclsim_finding_count("freed") - freed, 1);
    OK(aclrtResetDeviceForce(0));
}

int main(void)
{
    OK(aclInit(NULL));
    check("source overwritten", source_overwritten, NULL);
    check("slab reused", slab_reused, NULL);
    check("wait missing", wait_missing, "unordered");
    check("result read early", result_read_early, NULL);
    check("device block freed", device_block_freed, "freed");
    check("pinned block freed", pinned_block_freed, "freed");
    check("immediate copy", immediate_copy, "unordered");
    check_orders();
    check_round_trip_on_device();
    check_guards_with_threads();
    return 0;
}
