/* sim_rc.c - the form in which the program runs on the chip itself: one memory for both sides.
 *
 * The profile is chosen by the environment, before the first call. */
#include "tests/sim_util.h"

enum { N = 4096 };

static char *dev, *pin, *pin2, *heap;
static aclrtStream s;

static aclError copy(void *dst, const void *src, int kind)
{
    return aclrtMemcpyAsync(dst, N, src, N, (aclrtMemcpyKind)kind, s);
}

/* The processor reads and writes what aclrtMalloc returns. */
static void check_one_memory(void)
{
    CHECK(holds_byte(dev, N, 0xA5));
    fill(dev, N, 1);
    CHECK(device_holds(dev, N, 1));
    OK(aclrtMemcpy(pin, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(holds(pin, N, 1));
}

/* Every queued copy is one inside the device, also between two host buffers, and no kind is refused. */
static void check_direction(void)
{
    struct aclsim_counters before, after;
    const struct {
        char *src, *dst;
    } pairs[] = {{pin, dev}, {dev, pin}, {pin, pin2}};
    uint32_t seed = 10;

    aclsim_counters(&before);
    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++)
        for (int kind = 0; kind < 5; kind++, seed++) {
            fill(pairs[p].src, N, seed);
            OK(aclsim_hold_stream(s));
            OK(copy(pairs[p].dst, pairs[p].src, kind));
            CHECK_EQ(aclsim_pending_tasks(0), 1);
            CHECK(!holds(pairs[p].dst, N, seed));
            OK(aclsim_release_stream(s));
            OK(aclrtSynchronizeStream(s));
            CHECK(holds(pairs[p].dst, N, seed));
        }
    aclsim_counters(&after);
    CHECK_EQ(after.copies[ACLSIM_D2D] - before.copies[ACLSIM_D2D], 15);
    CHECK_EQ(after.copies[ACLSIM_H2D], before.copies[ACLSIM_H2D]);
    CHECK_EQ(after.copies[ACLSIM_D2H], before.copies[ACLSIM_D2H]);
}

static void check_ordinary(void)
{
    fill(heap, N, 50);
    OK(aclrtMemcpy(dev, N, heap, N, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(holds(dev, N, 50));
    fill(heap, N, 51);
    OK(copy(dev, heap, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtSynchronizeStream(s));
    CHECK(holds(dev, N, 51));
    fill(heap, N, 52);
    OK(copy(dev, heap, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE));
    fill(heap, N, 53);
    OK(aclrtSynchronizeStream(s));
    CHECK(holds(dev, N, 52));
}

int main(void)
{
    OK(setenv("ACLSIM_PROFILE", "310b-rc", 1));
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    pin2 = pinned_alloc(N);
    heap = malloc(N);
    check_one_memory();
    check_direction();
    check_ordinary();
    OK(aclrtFree(dev));
    free(heap);
    return 0;
}
