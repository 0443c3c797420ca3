/* sim_longlife.c - what a process that runs for weeks does: nothing grows without bound, stale handles are
 * still noticed, and a call beside an abort neither spins nor invents a time-out. */
#include <malloc.h>
#include <unistd.h>

#include "tests/sim_util.h"

enum { NBYTES = 4096, WARM = 18000, MORE = 10000, ROOM = 64 * 1024 };

static size_t heap_bytes(void)
{
    return mallinfo2().uordblks; /* 0 under the sanitizers' allocators */
}

static void one_life(void)
{
    uint64_t me = (uint64_t)(uintptr_t)pthread_self();
    aclrtStream s = stream_new();
    aclrtEvent event;

    OK(aclrtCreateEvent(&event));
    OK(aclrtSubscribeReport(me, s));
    OK(aclrtRecordEvent(event, s));
    OK(aclrtUnSubscribeReport(me, s));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(s));
}

static void check_handles(void)
{
    size_t before;

    for (int i = 0; i < WARM; i++)
        one_life();
    before = heap_bytes();
    for (int i = 0; i < MORE; i++)
        one_life();
    CHECK(heap_bytes() <= before + ROOM);
}

/* A handle is used again only after thousands of others; until then it is known to be dead. */
static void check_stale(void)
{
    aclrtStream s = stream_new();
    aclrtEvent event;

    OK(aclrtCreateEvent(&event));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(s));
    for (int i = 0; i < 4000; i++)
        one_life();
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtSynchronizeEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
}

static void *thread_main(void *arg)
{
    uint32_t n;

    (void)arg;
    OK(aclrtGetDeviceCount(&n));
    (void)aclrtSetDevice(99); /* leaves a text that nobody reads */
    return NULL;
}

static void check_threads(void)
{
    int64_t before = aclsim_call_count("aclrtGetDeviceCount", 0);
    size_t bytes;

    for (int i = 0; i < 1100; i++)
        in_thread(thread_main, NULL);
    bytes = heap_bytes();
    for (int i = 0; i < 1000; i++)
        in_thread(thread_main, NULL);
    CHECK(heap_bytes() <= bytes + ROOM);
    CHECK_EQ(aclsim_call_count("aclrtGetDeviceCount", 0), before + 2100);
}

/* --- beside an abort --- */

static void *abort_main(void *arg)
{
    (void)arg;
    OK(aclrtDeviceTaskAbort(0, 0));
    return NULL;
}

/* A copy that runs and does not end keeps the abort waiting. */
static void check_beside_abort(void)
{
    aclrtStream s = stream_new();
    aclrtStreamStatus status;
    void *dev = device_alloc(NBYTES), *other = device_alloc(NBYTES), *pin = pinned_alloc(NBYTES);
    int64_t stall = aclsim_add_fault("stall nth=1");
    pthread_t thread;

    CHECK(stall > 0);
    alarm(60); /* a call that spins with the lock held would stop everything else, too */
    OK(aclrtMemcpyAsync(dev, NBYTES, pin, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
    while (aclsim_faults_fired(stall) != 1)
        ;
    OK(pthread_create(&thread, NULL, abort_main, NULL));
    while (aclrtStreamQuery(s, &status) != ACL_ERROR_RT_DEVICE_TASK_ABORT)
        ;
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_DEVICE_TASK_ABORT);
    OK(aclrtFreeWithDevSync(other));
    OK(aclsim_remove_fault(stall));
    OK(pthread_join(thread, NULL));
    alarm(0);
    OK(aclrtDestroyStream(s));
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
}

int main(void)
{
    OK(aclrtSetDevice(0));
    check_beside_abort();
    check_stale();
    check_handles();
    check_threads();
    OK(aclrtResetDevice(0));
    return 0;
}
