/* sim_memory.c - allocation, poison, faults on device addresses, memory that is freed under a copy. */
#include "tests/sim_util.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4096, MIB = 1 << 20 };

static aclrtStream s;

static void check_arguments(void)
{
    void *ptr;
    char *dev = device_alloc(N), *pin = pinned_alloc(N);

    CHECK_EQ(aclrtMalloc(NULL, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMalloc(&ptr, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMallocHost(NULL, 8), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMallocHost(&ptr, 0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtFreeHost(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtFree(pin), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtFreeHost(dev), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtFree(dev + 32), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ((uintptr_t)dev % 64, 0);
    CHECK_EQ((uintptr_t)pin % 64, 0);
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
    CHECK_EQ(aclrtFree(dev), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtFreeHost(pin), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtMalloc(&ptr, 8, (aclrtMemMallocPolicy)77)); /* policies are not checked */
    OK(aclrtFree(ptr));
}

static void check_room(void)
{
    size_t free_bytes, total, after;
    void *big, *more = NULL;

    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(total, 1024 * (size_t)MIB); /* ACLSIM_DEVICE_MEMORY of the test's environment */
    big = device_alloc(900 * (size_t)MIB);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(free_bytes - after >= 900 * (size_t)MIB);
    CHECK_EQ(aclrtMalloc(&more, 200 * (size_t)MIB, ACL_MEM_MALLOC_HUGE_FIRST),
             ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK_EQ(aclrtMalloc(&more, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    OK(aclrtFree(big));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK_EQ(after, free_bytes);
    CHECK_EQ(aclrtGetMemInfo((aclrtMemAttr)99, &after, &total), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
}

static void check_attributes(void)
{
    char *dev = device_alloc(N), *pin = pinned_alloc(N), *heap = malloc(N);
    aclrtPtrAttributes a;

    OK(aclrtPointerGetAttributes(pin + 5, &a));
    CHECK_EQ(a.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    OK(aclrtPointerGetAttributes(dev + N - 1, &a));
    CHECK_EQ(a.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    CHECK_EQ(a.location.id, 0);
    OK(aclrtPointerGetAttributes(heap, &a));
    CHECK_EQ(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    CHECK_EQ(aclrtPointerGetAttributes(NULL, &a), ACL_ERROR_INVALID_PARAM);
    free(heap);
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
}

/* Contents of new memory are never zero and never what was there before. */
static void check_fresh(void)
{
    unsigned char got[N];

    for (int round = 0; round < 3; round++) {
        void *dev = device_alloc(N), *pin = pinned_alloc(N), *big = device_alloc(8 * (size_t)MIB);

        OK(aclsim_peek(dev, got, N));
        CHECK(holds_byte(got, N, 0xA5));
        CHECK(holds_byte(pin, N, 0xA5));
        OK(aclsim_peek((char *)big + 5 * MIB, got, N));
        CHECK(holds_byte(got, N, 0xA5));
        OK(aclrtMemset(dev, N, round, N));
        OK(aclrtMemset(big, 8 * (size_t)MIB, round, 8 * (size_t)MIB));
        OK(aclrtFree(dev));
        OK(aclrtFree(big));
        OK(aclrtFreeHost(pin));
        CHECK_EQ(aclsim_peek(dev, got, N), -1);
    }
}

/* The same for blocks so large that their pages come only with the first write. */
static void check_fresh_large(void)
{
    const size_t nbytes = 100 * (size_t)MIB + 777, step = 3 * (size_t)MIB + 1234;
    unsigned char got[N];

    for (int round = 0; round < 3; round++) {
        char *dev = device_alloc(nbytes), *pin = pinned_alloc(nbytes), *small;

        for (size_t at = 0; at + N <= nbytes; at += step) {
            OK(aclsim_peek(dev + at, got, N));
            CHECK(holds_byte(got, N, 0xA5));
            CHECK(holds_byte(pin + at, N, 0xA5));
        }
        OK(aclsim_peek(dev + nbytes - N, got, N));
        CHECK(holds_byte(got, N, 0xA5));
        OK(aclrtMemset(dev, nbytes, 0x11, nbytes));
        OK(aclrtFree(dev));
        OK(aclrtFreeHost(pin));
        small = device_alloc(N); /* in what was the large block */
        OK(aclsim_peek(small, got, N));
        CHECK(holds_byte(got, N, 0xA5));
        OK(aclrtFree(small));
    }
}

static void check_peek(void)
{
    char *dev = device_alloc(N), *pin = pinned_alloc(N), buffer[2 * N];

    fill(buffer, N, 3);
    OK(aclsim_poke(dev + 7, buffer, 100));
    CHECK(device_holds(dev + 7, 100, 3));
    CHECK_EQ(aclsim_peek(dev, buffer, 2 * N), -1);
    CHECK_EQ(aclsim_poke(pin, buffer, 8), -1);
    CHECK_EQ(aclsim_peek(NULL, buffer, 8), -1);
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
}

/* The host cannot touch a device address, as on hardware. */
static void check_fault(void)
{
    volatile char *dev = device_alloc(N);
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* not the sanitizer's */
        _exit(dev[0] == 0 ? 7 : 8);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

    child = fork(); /* and a child that does nothing ends normally */
    CHECK(child >= 0);
    if (child == 0)
        exit(0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(aclrtFree((void *)(uintptr_t)dev));
}

/* Freeing does not wait; the queued copy then fails, whatever took the place of the memory. */
static void check_free_under_copy(void)
{
    for (int which = 0; which < 2; which++) {
        char *dev = device_alloc(N), *pin = pinned_alloc(N), *dev2 = device_alloc(N), *again;
        struct aclsim_counters c0, c1;
        unsigned char got[N];

        aclsim_counters(&c0);
        fill(pin, N, 9);
        OK(aclsim_hold_stream(s));
        OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
        OK(aclrtMemsetAsync(dev2, N, 5, N, s));
        if (which == 0)
            OK(aclrtFree(dev));
        else
            OK(aclrtFreeHost(pin));
        again = device_alloc(N);
        OK(aclsim_release_stream(s));
        CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
        aclsim_counters(&c1);
        CHECK_EQ(c1.failed_copies - c0.failed_copies, 1);
        OK(aclsim_peek(again, got, N));
        CHECK(holds_byte(got, N, 0xA5));
        OK(aclsim_peek(dev2, got, N));
        CHECK(holds_byte(got, N, 5)); /* the stream went on */
        if (which == 0)
            OK(aclrtFreeHost(pin));
        else
            OK(aclrtFree(dev));
        OK(aclrtFree(dev2));
        OK(aclrtFree(again));
    }
}

/* Submitted with a freed or foreign device address: refused at once, never touched. */
static void check_stale_address(void)
{
    char *dev = device_alloc(N), *pin = pinned_alloc(N);

    OK(aclrtFree(dev));
    CHECK_EQ(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpy(pin, N, dev, N, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemset(dev, N, 0, N), ACL_ERROR_RT_PARAM_INVALID);
    dev = device_alloc(N); /* and past the end of a block: the copy fails when it executes */
    OK(aclrtMemcpyAsync(dev + 64, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtMemcpyAsync(dev, N, pin + 64, N, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
}

/* A running copy keeps both of its ends until it is over: large copies, freed at once after a small one
 * proved that the engine has reached them. */
static void check_free_while_running(void)
{
    const size_t nbytes = 48 * (size_t)MIB;

    for (int round = 0; round < 4; round++) {
        char *dev = device_alloc(nbytes), *pin = pinned_alloc(nbytes);
        aclError code;

        OK(aclrtMemcpyAsync(dev, nbytes, pin, nbytes, ACL_MEMCPY_DEFAULT, s));
        while (round > 1 && aclsim_pending_tasks(0) != 0)
            sched_yield();
        OK(aclrtFreeHost(pin));
        OK(aclrtFree(dev));
        code = aclrtSynchronizeStream(s);
        CHECK(code == 0 || code == ACL_ERROR_RT_TS_ERROR);
        CHECK(round < 2 || code == 0);
    }
}

/* Random sizes in random order: no overlap, contents stay, everything comes back. */
static void check_many_blocks(void)
{
    enum { SLOTS = 3000, ROUNDS = 20000 };
    static struct {
        char *ptr;
        size_t nbytes;
        unsigned char value;
    } slots[SLOTS];
    size_t before, after, total;
    uint32_t x = 1;
    struct aclsim_counters counters;

    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char head, tail;
        uint32_t k;

        x = x * 1664525u + 1013904223u;
        k = (x >> 8) % SLOTS;
        if (slots[k].ptr != NULL) {
            OK(aclsim_peek(slots[k].ptr, &head, 1));
            OK(aclsim_peek(slots[k].ptr + slots[k].nbytes - 1, &tail, 1));
            CHECK_EQ(head, slots[k].value);
            CHECK_EQ(tail, slots[k].value);
            OK(aclrtFree(slots[k].ptr));
            slots[k].ptr = NULL;
            continue;
        }
        slots[k].nbytes = 1 + (x >> 4) % (i % 16 == 0 ? 300000 : 5000);
        slots[k].value = (unsigned char)(x >> 24);
        slots[k].ptr = device_alloc(slots[k].nbytes);
        OK(aclrtMemset(slots[k].ptr, slots[k].nbytes, slots[k].value, slots[k].nbytes));
    }
    for (int k = 0; k < SLOTS; k++)
        if (slots[k].ptr != NULL)
            OK(aclrtFree(slots[k].ptr));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK_EQ(after, before);
    aclsim_counters(&counters);
    CHECK_EQ(counters.live_device_blocks, 0);
    CHECK_EQ(counters.live_device_bytes, 0);
    CHECK_EQ(counters.live_pinned_blocks, 0);
    OK(aclrtFree(device_alloc(1000 * (size_t)MIB))); /* coalesced into one piece again */
}

static void check_reset(void)
{
    struct aclsim_counters counters;
    void *dev = device_alloc(N), *pin = pinned_alloc(N);

    OK(aclrtResetDevice(0));
    aclsim_counters(&counters);
    CHECK_EQ(counters.live_device_blocks, 0); /* the device's memory goes with its last context ... */
    CHECK_EQ(counters.live_pinned_blocks, 1); /* ... the host's does not */
    CHECK_EQ(aclrtFree(dev), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(pin));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    check_arguments();
    check_room();
    check_attributes();
    check_fresh();
    check_fresh_large();
    check_peek();
    check_fault();
    check_free_under_copy();
    check_stale_address();
    check_free_while_running();
    check_many_blocks();
    check_reset();
    return 0;
}
