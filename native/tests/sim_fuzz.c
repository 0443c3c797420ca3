/* sim_fuzz.c - random calls from several threads: nothing may crash, hang, or return what it never returns.
 *
 *   sim_fuzz [mode [seconds [seed [profile]]]]     mode: threads, virtual, adversarial, all
 *
 * FUZZ_LOUD in the environment names each round, so that one that fails can be played again.
 *
 * Threads: 1 to 4 callers in each round, and the main thread as referee.
 * Locks:   none.
 * Owns:    the world of fuzz_world.h. Invariant: a caller that does not get on although the referee has ended
 *          every hold, fault and wait that the callers may have left is a hang, and ends the program.
 */
#include <sched.h>

#include "tests/fuzz_world.h"

#include "tests/fuzz_ops.h"

#include "tests/fuzz_info.h"

enum { ROUND_CALLS = 3000, STUCK_MS = 8, HANG_MS = 20000 };

/* The bytes of two copies that nothing orders are the program's race, here on purpose; what the library
 * knows about them is not. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:move_run\nrace:move_now\nrace:sim_move\nrace:fill_now\nrace:staged\n"
           "race:sim_guard_check_source\nrace:sim_guard_sum_source\nrace:sim_guard_spoil_destination\n"
           "race:aclsim_peek\nrace:aclsim_poke\nrace:aclrtSetMemcpyDesc\n";
}

static void random_call(struct fuzz *f)
{
    static void (*const ops[])(struct fuzz *) = {
        op_device,     op_alloc,   op_pinned,   op_register,  op_memory_info, op_copy,        op_copy,
        op_copy,       op_copy,    op_batch,    op_described, op_fill,        op_fill,        op_stream,
        op_stream,     op_stream,  op_event,    op_event,     op_event,       op_event,       op_event_life,
        op_event_life, op_notify,  op_callback, op_callback,  op_errors,      op_device_info, op_time_limits,
        op_fault,      op_control, op_control,
    };

    ops[below(f, sizeof(ops) / sizeof(ops[0]))](f);
}

static void *caller_main(void *arg)
{
    struct fuzz *f = arg;

    self_fuzz = f;
    T(aclrtSetDevice, f->index % FUZZ_DEVICES);
    for (int64_t i = 0; i < f->n_until; i++)
        random_call(f);
    while (f->own != NULL && T(aclrtDestroyContext, f->own) != 0) /* faults that others leave */
        (void)aclsim_clear_faults();
    while (T(aclrtSetDevice, 0) != 0)
        (void)aclsim_clear_faults();
    for (int i = 0; i < PINNED; i++)
        while (f->pinned[i] != NULL && T(aclrtFreeHost, f->pinned[i]) != 0)
            (void)aclsim_clear_faults();
    memset(f->pinned, 0, sizeof(f->pinned));
    (void)aclrtHostUnregister(plain[f->index]);
    aclGetRecentErrMsg();
    atomic_store(&f->ended, true);
    return NULL;
}

/* --- the referee --- */

static void end_holds(void)
{
    for (int d = 0; d < FUZZ_DEVICES; d++)
        for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++)
            while (aclsim_release_engine(d, dir) == 0)
                ;
    for (int i = 0; i < STREAMS; i++)
        while (atomic_load(&world.stream[i]) != NULL &&
               aclsim_release_stream(atomic_load(&world.stream[i])) == 0)
            ;
}

/* A lost device drops everything that streams wait for. */
static void rescue(void)
{
    end_holds();
    (void)aclsim_clear_faults();
    (void)aclsim_add_fault("lose");
    (void)aclsim_clear_faults();
}

static void print_state(int n)
{
    for (int i = 0; i < n; i++)
        fprintf(stderr, "caller %d: %s in %s after %llu calls\n", i,
                atomic_load(&world.fuzz[i].ended) ? "ended" : "hangs", atomic_load(&world.fuzz[i].at),
                (unsigned long long)atomic_load(&world.fuzz[i].n_calls));
    for (int d = 0; d < FUZZ_DEVICES; d++)
        fprintf(stderr, "device %d: %lld unfinished tasks\n", d, (long long)aclsim_pending_tasks(d));
}

static void referee(int n)
{
    unsigned long long seen[FUZZ_THREADS] = {0};
    double since[FUZZ_THREADS], rescued = 0;
    bool over = false;

    for (int i = 0; i < n; i++)
        since[i] = now_s();
    while (!over) {
        struct timespec pause = {.tv_nsec = 2000000};
        double now = now_s();

        over = true;
        for (int i = 0; i < n; i++) {
            struct fuzz *f = &world.fuzz[i];
            unsigned long long calls = atomic_load(&f->n_calls);

            over = over && atomic_load(&f->ended);
            if (calls != seen[i] || atomic_load(&f->ended))
                since[i] = now;
            seen[i] = calls;
            if ((now - since[i]) * 1000 > STUCK_MS && (now - rescued) * 1000 > STUCK_MS) {
                rescue();
                rescued = now_s();
            }
            if ((now - since[i]) * 1000 > HANG_MS) {
                print_state(n);
                abort();
            }
        }
        if (!over)
            nanosleep(&pause, NULL);
    }
}

/* --- rounds --- */

static void clean_up(const char *what)
{
    struct aclsim_counters counters;
    uint64_t references;

    rescue();
    for (int d = 0; d < FUZZ_DEVICES; d++)
        while (aclrtResetDeviceForce(d) == 0)
            ;
    for (int d = 0; d < FUZZ_DEVICES; d++) /* a profile without it */
        while (aclrtResetDevice(d) == 0)
            ;
    for (int i = 0; i < EVENTS; i++)
        atomic_store(&world.event[i], NULL);
    for (int i = 0; i < STREAMS; i++)
        atomic_store(&world.stream[i], NULL);
    for (int i = 0; i < NOTIFIES; i++)
        atomic_store(&world.notify[i], NULL);
    for (int i = 0; i < BLOCKS; i++)
        atomic_store(&world.block[i], NULL);
    (void)aclrtSetExceptionInfoCallback(NULL);
    (void)aclrtSetOpWaitTimeout(0);
    aclsim_counters(&counters);
    if (counters.live_streams != 0 || counters.live_device_blocks != 0 || counters.live_pinned_blocks != 0) {
        fprintf(stderr, "%s: %llu streams, %llu device blocks, %llu pinned blocks are left\n", what,
                (unsigned long long)counters.live_streams, (unsigned long long)counters.live_device_blocks,
                (unsigned long long)counters.live_pinned_blocks);
        exit(1);
    }
    for (int i = 0; i < 1000 && aclFinalizeReference(&references) == 0 && references != 0; i++)
        ;
    (void)aclFinalize();
}

static uint64_t play_round(int mode, uint64_t seed, const char *profile)
{
    static const char *const profiles[] = {"a2-ep-9.1",  "a3-ep-9.1",  "a2-ep-8.0",  "310p-ep-9.0",
                                           "950-ep-9.1", "a2-ep-8.5",  "910-ep-9.1", "310b-rc-9.1",
                                           "a2-ep-9.0",  "310p-rc-8.5"};
    int n = 1 + (int)(seed % FUZZ_THREADS);
    pthread_t thread[FUZZ_THREADS];
    uint64_t calls = 0;
    char what[96];

    if (profile == NULL)
        profile = profiles[seed / FUZZ_THREADS % (sizeof(profiles) / sizeof(profiles[0]))];
    snprintf(what, sizeof(what), "mode %d, seed %llu, profile %s, %d threads", mode, (unsigned long long)seed,
             profile, n);
    if (atomic_load(&world.loud))
        fprintf(stderr, "%s\n", what);
    CHECK_EQ(aclsim_set_device_count(FUZZ_DEVICES), 0);
    CHECK_EQ(aclsim_set_profile(profile), 0);
    CHECK_EQ(aclsim_set_mode(mode, seed), 0);
    CHECK_EQ(aclsim_set_guards(-1), 0);
    for (int i = 0; i < n; i++) {
        struct fuzz *f = &world.fuzz[i];

        *f = (struct fuzz){.random = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)i * 77777 + 1,
                           .index = i,
                           .n_until = ROUND_CALLS};
        OK(pthread_create(&thread[i], NULL, caller_main, f));
    }
    referee(n);
    for (int i = 0; i < n; i++) {
        OK(pthread_join(thread[i], NULL));
        calls += atomic_load(&world.fuzz[i].n_calls);
    }
    clean_up(what);
    return calls;
}

static int never_called(void)
{
    int n = 0;

#define ACL_FN(result, name, need, since, parameters)    \
    if (aclsim_call_count(#name, 0) == 0) {              \
        fprintf(stderr, "%s was never called\n", #name); \
        n++;                                             \
    }
#include "acl/symbols.def"
#undef ACL_FN
    return n;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"threads", "virtual", "adversarial"};
    const char *mode = argc > 1 ? argv[1] : "all";
    double seconds = argc > 2 ? atof(argv[2]) : 2, start = now_s();
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1, calls = 0, rounds = 0;

    atomic_store(&world.loud, getenv("FUZZ_LOUD") != NULL);
    do {
        for (int m = 0; m < 3; m++)
            if (strcmp(mode, "all") == 0 || strcmp(mode, modes[m]) == 0) {
                calls += play_round(m, seed, argc > 4 ? argv[4] : NULL);
                rounds++;
            }
        seed++;
        CHECK(rounds != 0);
    } while (now_s() - start < seconds);
    printf("%s: %llu rounds, %llu calls, next seed %llu\n", mode, (unsigned long long)rounds,
           (unsigned long long)calls, (unsigned long long)seed);
    return seconds > 20 && strcmp(mode, "all") == 0 && never_called() != 0;
}
