/* state.c - the state of the process, its one-time set-up, clocks.
 *
 * Threads: any; sim_once is a pthread_once. Locks: none of its own.
 * Owns:    the one struct sim_state.
 * Invariant: the environment is read once (settings.c), before the first other action of the library.
 */
#include "sim/settings.h"
#include "sim/sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <time.h>

struct sim_state sim;

uint64_t sim_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

void sim_sleep_until(uint64_t when_ns)
{
    enum { SPIN_NS = 80000 }; /* how late a sleeping thread is usually woken */
    uint64_t now = sim_now_ns();

    if (now + SPIN_NS < when_ns) {
        struct timespec ts = to_timespec(when_ns - SPIN_NS);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
            ;
    }
    while (sim_now_ns() < when_ns)
        sched_yield(); /* gives the core to anybody who has work */
}

void sim_cond_init(pthread_cond_t *cv)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cv, &attr);
    pthread_condattr_destroy(&attr);
}

bool sim_cond_wait_until(pthread_cond_t *cv, uint64_t deadline_ns)
{
    struct timespec ts;

    if (deadline_ns == SIM_FOREVER) {
        pthread_cond_wait(cv, &sim.mu);
        return true;
    }
    ts = to_timespec(deadline_ns);
    return pthread_cond_timedwait(cv, &sim.mu, &ts) != ETIMEDOUT;
}

/* Engine threads run this library's code for ever, so dlclose must not unmap it. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr((void *)&sim, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void init_once(void)
{
    pthread_mutexattr_t attr;

    stay_loaded();
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* held for well under a microsecond */
    pthread_mutex_init(&sim.mu, &attr);
    pthread_mutexattr_destroy(&attr);
    sim_profile_once();
    for (int32_t d = 0; d < SIM_MAX_DEVICES; d++) {
        sim.dev[d].id = d;
        for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++) {
            sim.dev[d].engine[dir].dev = &sim.dev[d];
            sim.dev[d].engine[dir].dir = dir;
            sim_cond_init(&sim.dev[d].engine[dir].cv);
        }
    }
    sim_settings_read();
}

void sim_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, init_once);
}
