/* sim_stress.c - many threads on shared streams, every byte checked; holds, events and failures meanwhile. */
#include "tests/sim_util.h"

#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 150, N = 8192, STREAMS = 3 };

static aclrtContext ctx;
static aclrtStream streams[STREAMS];
static atomic_int running = THREADS;

/* Up on one stream, across on a second one, down on a third, ordered by events only. */
static void round_trip(char *pin, char *dev, aclrtEvent *events, uint32_t seed)
{
    size_t odd = seed % 61, nbytes = N - 61;

    fill(pin, N, seed);
    memset(pin + N, 0, N);
    OK(aclrtMemcpyAsync(dev + odd, nbytes, pin, nbytes, ACL_MEMCPY_DEFAULT, streams[seed % STREAMS]));
    OK(aclrtRecordEvent(events[0], streams[seed % STREAMS]));
    OK(aclrtStreamWaitEvent(streams[(seed + 1) % STREAMS], events[0]));
    OK(aclrtMemcpyAsync(dev + N, nbytes, dev + odd, nbytes, ACL_MEMCPY_DEFAULT,
                        streams[(seed + 1) % STREAMS]));
    OK(aclrtRecordEvent(events[1], streams[(seed + 1) % STREAMS]));
    OK(aclrtStreamWaitEvent(streams[(seed + 2) % STREAMS], events[1]));
    OK(aclrtMemcpyAsync(pin + N + odd, nbytes, dev + N, nbytes, ACL_MEMCPY_DEFAULT,
                        streams[(seed + 2) % STREAMS]));
    OK(aclrtRecordEvent(events[2], streams[(seed + 2) % STREAMS]));
    if (seed % 3 == 0)
        while (!event_complete(events[2]))
            sched_yield();
    else
        OK(aclrtSynchronizeEvent(events[2]));
    CHECK(holds(pin + N + odd, nbytes, seed));
}

static void *worker(void *arg)
{
    uint32_t id = (uint32_t)(uintptr_t)arg;
    aclrtEvent events[3];

    OK(aclrtSetCurrentContext(ctx));
    for (int i = 0; i < 3; i++)
        OK(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        char *pin = pinned_alloc(3 * N), *dev = device_alloc(2 * N);

        round_trip(pin, dev, events, id * ROUNDS + i);
        OK(aclrtFree(dev));
        OK(aclrtFreeHost(pin));
    }
    for (int i = 0; i < 3; i++)
        OK(aclrtDestroyEvent(events[i]));
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Holds and releases everything in turn, and churns streams of its own. */
static void *disturber(void *arg)
{
    (void)arg;
    OK(aclrtSetCurrentContext(ctx));
    for (int i = 0; atomic_load(&running) > 0; i++) {
        aclrtStream s = stream_new();
        char *pin = pinned_alloc(N), *dev = device_alloc(N);

        OK(aclsim_hold_engine(0, i % 3));
        OK(aclsim_hold_stream(streams[i % STREAMS]));
        fill(pin, N, (uint32_t)i);
        OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
        CHECK(aclsim_pending_tasks(0) >= 0);
        OK(aclsim_release_engine(0, i % 3));
        OK(aclsim_release_stream(streams[i % STREAMS]));
        if (i % 2 == 0) {
            OK(aclrtDestroyStream(s));
            CHECK(device_holds(dev, N, (uint32_t)i));
        } else {
            OK(aclrtDestroyStreamForce(s));
        }
        OK(aclrtFree(dev));
        OK(aclrtFreeHost(pin));
    }
    return NULL;
}

static void run(const struct aclsim_link *link)
{
    pthread_t threads[THREADS + 1];
    struct aclsim_counters counters;

    OK(aclsim_set_link(0, link));
    atomic_store(&running, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], NULL, worker, (void *)i));
    OK(pthread_create(&threads[THREADS], NULL, disturber, NULL));
    for (int i = 0; i <= THREADS; i++)
        OK(pthread_join(threads[i], NULL));
    OK(aclrtSynchronizeDevice());
    aclsim_counters(&counters);
    CHECK_EQ(counters.live_device_blocks, 0);
    CHECK_EQ(counters.live_pinned_blocks, 0);
    CHECK_EQ(counters.live_events, 0);
    CHECK_EQ(counters.live_streams, STREAMS);
    CHECK_EQ(counters.failed_copies, 0);
    CHECK_EQ(aclsim_pending_tasks(0), 0);
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&ctx));
    for (int i = 0; i < STREAMS; i++)
        streams[i] = stream_new();
    run(&(struct aclsim_link){.move_bytes = 1});
    run(&(struct aclsim_link){
        .h2d_bytes_per_s = 1 << 30, .d2h_bytes_per_s = 1 << 30, .latency_ns = 20000, .move_bytes = 1});
    return 0; /* with its streams alive and engine threads asleep: the process still ends */
}
