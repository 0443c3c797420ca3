/* sim_adversarial.c - adversarial mode: what runs when, the same with the same seed, and no hang. */
#include "tests/sim_util.h"

enum { NBYTES = 4096, N_STREAMS = 6 };

static char *dev, *pin;
static aclrtStream stream[N_STREAMS];

static void open_all(uint64_t seed)
{
    OK(aclsim_set_mode(ACLSIM_ADVERSARIAL, seed));
    OK(aclrtSetDevice(0));
    dev = device_alloc(N_STREAMS * NBYTES);
    pin = pinned_alloc(N_STREAMS * NBYTES);
    fill(pin, N_STREAMS * NBYTES, (uint32_t)seed);
    for (int i = 0; i < N_STREAMS; i++)
        stream[i] = stream_new();
}

static void close_all(void)
{
    OK(aclrtSynchronizeDevice());
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
    OK(aclrtResetDeviceForce(0));
}

static void up(int i)
{
    OK(aclrtMemcpyAsync(dev + i * NBYTES, NBYTES, pin + i * NBYTES, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE,
                        stream[i]));
}

static int arrived(int i)
{
    char bytes[NBYTES];

    OK(aclsim_peek(dev + i * NBYTES, bytes, NBYTES));
    return memcmp(bytes, pin + i * NBYTES, NBYTES) == 0;
}

/* Submitting runs nothing, however long nobody waits. */
static void check_lazy(void)
{
    struct aclsim_counters before, now;

    open_all(1);
    aclsim_counters(&before);
    for (int i = 0; i < N_STREAMS; i++)
        for (int k = 0; k < 3; k++)
            up(i);
    aclsim_counters(&now);
    CHECK_EQ(now.copies[ACLSIM_H2D] - before.copies[ACLSIM_H2D], 0);
    close_all();
    aclsim_counters(&now);
    CHECK_EQ(now.copies[ACLSIM_H2D] - before.copies[ACLSIM_H2D], 3 * N_STREAMS);
}

/* Which streams were done when the first one was: not always all, not always none, the same for a seed. */
static unsigned run_seed(uint64_t seed)
{
    unsigned seen = 0;

    open_all(seed);
    for (int i = 0; i < N_STREAMS; i++)
        up(i);
    OK(aclrtSynchronizeStream(stream[0]));
    CHECK(arrived(0));
    for (int i = 1; i < N_STREAMS; i++)
        seen |= (unsigned)arrived(i) << i;
    for (int i = 1; i < N_STREAMS; i++)
        seen = seen * 31 + (unsigned)stream_complete(stream[i]);
    close_all();
    return seen;
}

static void check_seeds(void)
{
    unsigned n_kinds = 0, results[32];

    for (uint64_t seed = 0; seed < 32; seed++) {
        unsigned i = 0;

        results[seed] = run_seed(seed);
        CHECK_EQ(run_seed(seed), results[seed]);
        while (i < seed && results[i] != results[seed])
            i++;
        n_kinds += i == seed;
    }
    CHECK(n_kinds >= 4);
}

/* A wait runs what it depends on through events, over several streams. */
static void check_dependencies(void)
{
    for (uint64_t seed = 0; seed < 16; seed++) {
        aclrtEvent event[N_STREAMS];

        open_all(seed);
        for (int i = 0; i < N_STREAMS; i++) {
            OK(aclrtCreateEventExWithFlag(&event[i], ACL_EVENT_SYNC));
            if (i > 0)
                OK(aclrtStreamWaitEvent(stream[i], event[i - 1]));
            up(i);
            OK(aclrtRecordEvent(event[i], stream[i]));
        }
        OK(aclrtSynchronizeEventWithTimeout(event[N_STREAMS - 1], 10000));
        for (int i = 0; i < N_STREAMS; i++) {
            CHECK(arrived(i));
            CHECK(event_complete(event[i]));
            OK(aclrtDestroyEvent(event[i]));
        }
        close_all();
    }
}

/* Polling loops end, though most queries do nothing. */
static void check_polling(void)
{
    unsigned most = 0;

    for (uint64_t seed = 0; seed < 32; seed++) {
        unsigned n_polls = 0;

        open_all(seed);
        up(0);
        up(0);
        while (!stream_complete(stream[0]))
            n_polls++;
        CHECK(arrived(0));
        up(1);
        while (aclsim_pending_tasks(0) != 0)
            n_polls++;
        CHECK(n_polls < 100);
        most = n_polls > most ? n_polls : most;
        close_all();
    }
    CHECK(most > 4);
}

static void check_holds_and_timeouts(void)
{
    open_all(5);
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    up(0);
    up(1);
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream[0], 5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(!arrived(0) && !arrived(1));
    OK(aclsim_hold_stream(stream[0]));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream[0], 5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(!arrived(0));
    OK(aclsim_release_stream(stream[0]));
    OK(aclrtSynchronizeStream(stream[0]));
    CHECK(arrived(0));
    OK(aclrtDestroyStreamForce(stream[1]));
    close_all();
}

/* Threads that wait for each other's work: whoever waits runs it. */
static void *wait_for(void *arg)
{
    OK(aclrtSetDevice(0));
    OK(aclrtSynchronizeStream(arg));
    OK(aclrtResetDevice(0));
    return NULL;
}

static void check_threads(void)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        pthread_t thread[N_STREAMS];

        open_all(seed);
        OK(aclsim_hold_engine(0, ACLSIM_H2D));
        for (int i = 0; i < N_STREAMS; i++)
            for (int k = 0; k < 20; k++)
                up(i);
        for (int i = 0; i < N_STREAMS; i++)
            OK(pthread_create(&thread[i], NULL, wait_for, stream[i]));
        OK(aclsim_release_engine(0, ACLSIM_H2D));
        for (int i = 0; i < N_STREAMS; i++) {
            OK(pthread_join(thread[i], NULL));
            CHECK(arrived(i));
        }
        close_all();
    }
}

static void check_failure_and_full_queue(void)
{
    open_all(9);
    for (int i = 0; i < 5000; i++)
        up(0);
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    CHECK_EQ(aclrtSynchronizeStream(stream[0]), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSynchronizeStream(stream[0]));
    close_all();
}

int main(void)
{
    OK(aclInit(NULL));
    check_lazy();
    check_seeds();
    check_dependencies();
    check_polling();
    check_holds_and_timeouts();
    check_threads();
    check_failure_and_full_queue();
    return 0;
}
