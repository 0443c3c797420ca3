/* sim_classic.c - copies as releases up to 8.3 make them: exact kinds, ordinary memory queued like any other.
 *
 * The profile is chosen by the environment, before the first call. */
#include "tests/sim_util.h"

#include <sys/mman.h>

enum { N = 4096 };

static char *dev, *dev2, *pin, *pin2, *heap;
static aclrtStream s;

static aclError copy(void *dst, const void *src, int kind)
{
    return aclrtMemcpyAsync(dst, N, src, N, (aclrtMemcpyKind)kind, s);
}

/* Only the kind of the direction will do. Ordinary memory looks like pinned memory. */
static void check_kinds(void)
{
    enum { BAD = ACL_ERROR_RT_PARAM_INVALID, H2H = ACL_ERROR_RT_FEATURE_NOT_SUPPORT };
    const struct {
        char *src, *dst;
        int want[5];
    } rows[] = {
        {pin, dev, {BAD, 0, BAD, BAD, 0}},      {dev, pin, {BAD, BAD, 0, BAD, 0}},
        {dev, dev2, {BAD, BAD, BAD, 0, 0}},     {pin, pin2, {H2H, BAD, BAD, BAD, H2H}},
        {heap, dev, {BAD, 0, BAD, BAD, 0}},     {dev, heap, {BAD, BAD, 0, BAD, 0}},
        {heap, pin, {H2H, BAD, BAD, BAD, H2H}},
    };

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (int kind = 0; kind < 5; kind++) {
            CHECK_EQ(copy(rows[r].dst, rows[r].src, kind), rows[r].want[kind]);
            OK(aclrtSynchronizeStream(s));
        }
    (void)aclGetRecentErrMsg();
    CHECK_EQ(copy(dev2, dev, ACL_MEMCPY_HOST_TO_DEVICE), BAD);
    /* Locations count from 1: 2 is a device. */
    CHECK(message_has("src loc type=2, dst loc type=2, kind=1 is invalid!"));
}

static void check_zero(void)
{
    CHECK_EQ(aclrtMemcpyAsync(dev, N, pin, 0, ACL_MEMCPY_HOST_TO_DEVICE, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpyAsync(NULL, N, pin, 0, ACL_MEMCPY_HOST_TO_DEVICE, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy(dev, N, pin, 0, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
}

/* The call returns at once; the bytes are those at the time of execution. */
static void check_ordinary_is_queued(void)
{
    struct aclsim_counters before, after;

    aclsim_counters(&before);
    fill(heap, N, 1);
    OK(aclsim_hold_stream(s));
    OK(copy(dev, heap, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_EQ(aclsim_pending_tasks(0), 1);
    fill(heap, N, 2);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 2));
    OK(aclsim_hold_stream(s));
    memset(heap, 0, N);
    OK(copy(heap, dev, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(holds_byte(heap, N, 0));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(holds(heap, N, 2));
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies - before.pageable_copies, 2);
}

/* These releases document 64 bytes for both addresses, and check nothing. */
static void check_alignment(void)
{
    aclsim_clear_findings();
    OK(aclrtMemcpyAsync(dev + 64, 64, pin, 63, ACL_MEMCPY_HOST_TO_DEVICE, s));
    CHECK_EQ(aclsim_finding_count("unaligned"), 0);
    OK(aclrtMemcpyAsync(dev + 32, 64, pin, 64, ACL_MEMCPY_HOST_TO_DEVICE, s));
    CHECK_EQ(aclsim_finding_count("unaligned"), 1);
    OK(aclrtSynchronizeStream(s));
}

/* Memory that is gone by then is a fault of the device and not of this process. */
static void check_unmapped(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *low = mmap(NULL, 2 * N, PROT_READ | PROT_WRITE, flags, -1, 0);

    CHECK(low != MAP_FAILED);
    OK(aclsim_hold_stream(s));
    OK(copy(dev, low, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(munmap(low, 2 * N));
    OK(aclsim_release_stream(s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    low = mmap(NULL, 2 * N, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(low != MAP_FAILED);
    OK(aclsim_hold_stream(s));
    OK(copy(low + N / 2, dev, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(mprotect(low + N, N, PROT_NONE)); /* the second half of the destination */
    OK(aclsim_release_stream(s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(munmap(low, 2 * N));
    OK(copy(dev, pin, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtSynchronizeStream(s));
}

int main(void)
{
    OK(setenv("ACLSIM_PROFILE", "a2-8.0", 1));
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    dev2 = device_alloc(N);
    pin = pinned_alloc(N);
    pin2 = pinned_alloc(N);
    heap = malloc(N);
    check_kinds();
    check_zero();
    check_ordinary_is_queued();
    check_alignment();
    check_unmapped();
    free(heap);
    return 0;
}
