/* clock.c - the clock of the simulation: the machine's, or one time per host thread in virtual mode.
 *
 * Threads: any; a thread's simulated time is its own. Locks: none; sim_clock_seen has sim.mu.
 * Owns:    nothing. Invariant: a thread's simulated time never goes back while the mode stays.
 */
#include "sim/sim.h"

#include <errno.h>
#include <time.h>

static atomic_ullong latest_ns; /* of the events executed so far */
static atomic_uint epoch = 1;   /* changes with the mode, so that every thread's time starts again */

uint64_t sim_real_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/* --- simulated time --- */

void sim_clock_restart(void)
{
    atomic_store(&latest_ns, SIM_VIRTUAL_START);
    atomic_fetch_add(&epoch, 1);
}

void sim_clock_seen(uint64_t event_ns)
{
    if (event_ns > atomic_load_explicit(&latest_ns, memory_order_relaxed))
        atomic_store_explicit(&latest_ns, event_ns, memory_order_relaxed);
}

uint64_t sim_clock_latest(void)
{
    return atomic_load_explicit(&latest_ns, memory_order_relaxed);
}

/* Threads that never meet have unrelated times; one that appears later begins where the simulation is. */
static uint64_t *own_clock(void)
{
    struct sim_thread *self = sim_self != NULL ? sim_self : sim_thread_slow();
    uint32_t now = atomic_load_explicit(&epoch, memory_order_relaxed);

    if (self->clock_epoch != now) {
        self->clock_epoch = now;
        self->clock_ns = atomic_load_explicit(&latest_ns, memory_order_relaxed);
    }
    return &self->clock_ns;
}

void sim_raise_to(uint64_t ns)
{
    uint64_t *clock = own_clock();

    if (*clock < ns)
        *clock = ns;
}

uint64_t sim_now_ns(void)
{
    return sim_mode() == ACLSIM_VIRTUAL ? *own_clock() : sim_real_ns();
}

uint64_t aclsim_now_ns(void)
{
    sim_once();
    return sim_now_ns();
}

bool sim_timed(const struct sim_device *dev)
{
    return sim_mode() == ACLSIM_VIRTUAL || (sim_mode() == ACLSIM_THREADS && sim_link_timed(&dev->link));
}

void sim_spend_submit(struct sim_device *dev)
{
    uint64_t ns = atomic_load_explicit(&dev->submit_ns, memory_order_relaxed), end;

    if (ns == 0 || sim_mode() == ACLSIM_ADVERSARIAL)
        return;
    if (sim_mode() == ACLSIM_VIRTUAL) {
        sim_raise_to(sim_now_ns() + ns);
        return;
    }
    for (end = sim_real_ns() + ns; sim_real_ns() < end;)
        sim_relax();
}

/* --- waiting for a time --- */

void sim_sleep_until(uint64_t when_ns)
{
    enum { SPIN_NS = 80000 }; /* how late a sleeping thread is usually woken */

    if (sim_mode() == ACLSIM_ADVERSARIAL)
        return;
    if (sim_mode() == ACLSIM_VIRTUAL) {
        sim_raise_to(when_ns);
        return;
    }
    if (sim_real_ns() + SPIN_NS < when_ns) {
        struct timespec ts = to_timespec(when_ns - SPIN_NS);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
            ;
    }
    while (sim_real_ns() < when_ns)
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
    uint64_t real_ns = deadline_ns;
    struct timespec ts;

    if (deadline_ns == SIM_FOREVER) {
        pthread_cond_wait(cv, &sim.mu);
        return true;
    }
    if (sim_mode() ==
        ACLSIM_VIRTUAL) /* nothing but another thread ends this wait, and that takes real time */
        real_ns = sim_real_ns() + (deadline_ns > sim_now_ns() ? deadline_ns - sim_now_ns() : 0);
    ts = to_timespec(real_ns);
    if (pthread_cond_timedwait(cv, &sim.mu, &ts) != ETIMEDOUT)
        return true;
    if (sim_mode() == ACLSIM_VIRTUAL)
        sim_raise_to(deadline_ns);
    return false;
}
