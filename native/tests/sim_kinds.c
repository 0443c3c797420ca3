/* sim_kinds.c - what each pair of locations answers to each kind of copy, and the return codes around it. */
#include "tests/sim_util.h"

enum { N = 4096 };
enum { OKAY = 0, BAD = ACL_ERROR_RT_PARAM_INVALID, H2H = ACL_ERROR_RT_FEATURE_NOT_SUPPORT };

static char *dev, *dev2, *pin, *pin2, *heap, *heap2;
static aclrtStream s;

static aclError copy(void *dst, const void *src, int kind)
{
    return aclrtMemcpyAsync(dst, N, src, N, (aclrtMemcpyKind)kind, s);
}

static const struct row {
    char **src, **dst;
    int want[5]; /* H2H H2D D2H D2D DEFAULT */
} rows[] = {
    {&pin, &dev, {OKAY, OKAY, OKAY, OKAY, OKAY}},  {&dev, &pin, {OKAY, OKAY, OKAY, OKAY, OKAY}},
    {&dev, &dev2, {OKAY, OKAY, OKAY, OKAY, OKAY}}, {&pin, &pin2, {H2H, H2H, H2H, H2H, H2H}},
    {&heap, &dev, {BAD, OKAY, BAD, OKAY, OKAY}},   {&dev, &heap, {BAD, BAD, OKAY, OKAY, OKAY}},
    {&pin, &heap, {H2H, OKAY, BAD, BAD, H2H}},     {&heap, &pin, {H2H, BAD, OKAY, BAD, H2H}},
    {&heap, &heap2, {H2H, OKAY, OKAY, OKAY, H2H}},
};

/* A copy that is accepted moves the bytes, one that is refused none. */
static void check_table(void)
{
    uint32_t seed = 100;

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (int kind = 0; kind < 5; kind++, seed += 2) {
            char *src = *rows[r].src, *dst = *rows[r].dst, got[N];
            int want = rows[r].want[kind];

            fill(got, N, seed);
            OK(aclrtMemcpy(src, N, got, N, ACL_MEMCPY_DEFAULT));
            fill(got, N, seed + 1);
            OK(aclrtMemcpy(dst, N, got, N, ACL_MEMCPY_DEFAULT));
            CHECK_EQ(copy(dst, src, kind), want);
            OK(aclrtSynchronizeStream(s));
            OK(aclrtMemcpy(got, N, dst, N, ACL_MEMCPY_DEFAULT));
            CHECK(holds(got, N, want == OKAY ? seed : seed + 1));
        }
}

/* A wrong kind leaves a text that says what was found and what would do. */
static void check_text(void)
{
    (void)aclGetRecentErrMsg();
    CHECK_EQ(copy(dev, heap, ACL_MEMCPY_DEVICE_TO_HOST), BAD);
    CHECK(message_has("(EE1001): Memory async check kind and loc failed, retCode=0x7110001, "
                      "copyKind=MEMCPY_DEVICE_TO_HOST(2), srcLoc=MEMORY_LOC_UNREGISTERED(2), "
                      "dstLoc=MEMORY_LOC_DEVICE(1); the copy kind does not fit these locations, use one of "
                      "[MEMCPY_HOST_TO_DEVICE(1), MEMCPY_DEVICE_TO_DEVICE(3)]"));
}

/* Ordinary memory with the kind of a copy inside the device: queued, and read when it executes. */
static void check_host_as_d2d(void)
{
    struct aclsim_counters before, after;

    aclsim_counters(&before);
    fill(heap, N, 1);
    OK(aclsim_hold_stream(s));
    OK(copy(dev, heap, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK_EQ(aclsim_pending_tasks(0), 1);
    fill(heap, N, 2);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 2));
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies - before.pageable_copies, 0);
    CHECK_EQ(after.copies[ACLSIM_D2D] - before.copies[ACLSIM_D2D], 1);
}

/* What works here but not, or slowly, on hardware is a finding; what is right is none. */
static void check_findings(void)
{
    aclsim_clear_findings();
    OK(copy(dev, pin, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpyAsync(dev + 32, 64, pin, 64, ACL_MEMCPY_DEFAULT, s)); /* 9.1 documents no alignment */
    OK(copy(dev, heap, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE));
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(aclsim_finding_count(NULL), 0);
    OK(copy(dev, heap, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_EQ(aclsim_finding_count("pageable"), 1);
    CHECK_EQ(aclsim_finding_count("host-as-d2d"), 0);
    OK(copy(dev, heap, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(aclsim_finding_count("pageable"), 1);
    CHECK_EQ(aclsim_finding_count("host-as-d2d"), 1);
    CHECK_EQ(aclsim_finding_count("unaligned"), 0);
}

/* Kind 5 goes from any host memory to the device, whatever the other kinds may. */
static void check_buffered(void)
{
    CHECK_EQ(copy(dev, pin, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), 0);
    CHECK_EQ(copy(dev, heap, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), 0);
    CHECK_EQ(copy(dev2, dev, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), BAD);
    CHECK_EQ(copy(pin, dev, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), BAD);
    CHECK_EQ(copy(heap, pin, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE), BAD);
    OK(aclrtSynchronizeStream(s));
}

/* Freed device memory fits no kind; it fails in the call and not later. */
static void check_freed(void)
{
    char *gone = device_alloc(N);

    OK(aclrtFree(gone));
    for (int kind = 0; kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE; kind++) {
        CHECK_EQ(copy(gone, pin, kind), BAD);
        CHECK_EQ(copy(pin, gone, kind), BAD);
    }
    CHECK_EQ(aclrtMemcpy(gone, N, pin, N, ACL_MEMCPY_DEFAULT), BAD);
    OK(aclrtSynchronizeStream(s));
}

static void check_condition(void)
{
    OK(aclrtMemcpyAsyncWithCondition(NULL, 0, NULL, 0, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtMemcpyAsyncWithCondition(NULL, N, pin, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpyAsyncWithCondition(dev, 4, pin, N, ACL_MEMCPY_DEFAULT, s), BAD);
    fill(pin, N, 9);
    OK(aclrtMemcpyAsyncWithCondition(dev, N, pin, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 9));
}

static void check_strict(void)
{
    aclsim_set_strict(1);
    CHECK_EQ(aclrtMemcpyAsync(dev + 32, 64, pin, 64, ACL_MEMCPY_DEFAULT, s), BAD);
    CHECK(message_has("multiple of 64"));
    CHECK_EQ(aclrtMemcpyAsync(dev, 64, pin + 1, 64, ACL_MEMCPY_DEFAULT, s), BAD);
    OK(aclrtMemcpyAsync(dev + 64, 63, pin, 63, ACL_MEMCPY_DEFAULT, s)); /* sizes are free */
    aclsim_set_strict(0);
    OK(aclrtMemcpyAsync(dev + 32, 64, pin, 64, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtSynchronizeStream(s));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    dev2 = device_alloc(N);
    pin = pinned_alloc(N);
    pin2 = pinned_alloc(N);
    heap = aligned_alloc(64, N);
    heap2 = aligned_alloc(64, N);
    check_table();
    check_text();
    check_host_as_d2d();
    check_findings();
    check_buffered();
    check_freed();
    check_condition();
    check_strict();
    free(heap);
    free(heap2);
    return 0;
}
