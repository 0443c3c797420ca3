/* drive.c - the mode, and how waiting and asking threads execute work in the driven modes. See drive.h.
 *
 * Threads: any. Locks: sim.mu.
 * Owns:    the right to execute: drive.owner, NULL when nobody does.
 * Invariant: a thread sleeps on drive.cv only while it can execute nothing, or another thread is the owner.
 */
#include "sim/sim.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
    POLL_NS = 1000,   /* simulated cost of a query that finds nothing finished; assumed */
    IDLE_NS = 1000000 /* real time without progress after which a wait for nothing in particular runs work */
};

atomic_int sim_mode_now;
const char *const sim_mode_names[] = {"threads", "virtual", "adversarial"};

static struct {
    pthread_cond_t cv;
    uint32_t n_waiters;
    struct sim_thread *owner;
    uint64_t seed;
} drive;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_cv(void)
{
    sim_cond_init(&drive.cv);
}

/* The functions of aclsim.h come without a record of the calling thread. */
static struct sim_thread *caller(void)
{
    return sim_self != NULL ? sim_self : sim_thread_slow();
}

/* --- mode --- */

static void apply(int mode, uint64_t seed)
{
    pthread_once(&once, make_cv);
    for (int d = 0; d < SIM_MAX_DEVICES; d++)
        for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++)
            sim.dev[d].engine[dir].free_ns = sim.dev[d].engine[dir].rest = 0;
    drive.seed = seed;
    sim_random_seed(seed);
    sim_clock_restart();
    atomic_store(&sim_mode_now, mode);
    sim_guard_mode(mode);
}

/* NULL keeps the seed. 0, or -1 for no mode and while a device is set. */
static int set_mode(int mode, const uint64_t *seed)
{
    bool in_use;

    if (mode < ACLSIM_THREADS || mode > ACLSIM_ADVERSARIAL)
        return -1;
    pthread_mutex_lock(&sim.mu);
    in_use = sim_any_device_set();
    if (!in_use)
        apply(mode, seed != NULL ? *seed : drive.seed);
    pthread_mutex_unlock(&sim.mu);
    return in_use ? -1 : 0;
}

int sim_config_mode(const char *name)
{
    for (int mode = ACLSIM_THREADS; mode <= ACLSIM_ADVERSARIAL; mode++)
        if (strcmp(name, sim_mode_names[mode]) == 0)
            return set_mode(mode, NULL);
    return -1;
}

int sim_config_seed(uint64_t seed)
{
    return set_mode(sim_mode(), &seed);
}

int aclsim_set_mode(int mode, uint64_t seed)
{
    sim_once();
    return set_mode(mode, &seed);
}

int aclsim_get_mode(void)
{
    sim_once();
    return sim_mode();
}

/* --- steps --- */

void sim_drive_wake(void)
{
    if (drive.n_waiters != 0)
        pthread_cond_broadcast(&drive.cv);
}

/* A callback that the owner runs may drive, too. */
static bool may_step(const struct sim_thread *self)
{
    return drive.owner == NULL || drive.owner == self;
}

static enum sim_step step(struct sim_thread *self, struct sim_stream *need, uint64_t limit_ns)
{
    struct sim_thread *before = drive.owner;
    enum sim_step result;

    drive.owner = self;
    result = sim_mode() == ACLSIM_VIRTUAL ? sim_virtual_step(limit_ns) : sim_adversarial_step(need);
    drive.owner = before;
    if (result == SIM_STEP_DONE)
        sim_drive_wake();
    return result;
}

/* Until somebody wakes the waiters; false: that real time has passed. */
static bool idle(uint64_t real_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(real_ns / 1000000000u),
                          .tv_nsec = (long)(real_ns % 1000000000u)};
    bool in_time = true;

    drive.n_waiters++;
    if (real_ns == SIM_FOREVER)
        pthread_cond_wait(&drive.cv, &sim.mu);
    else
        in_time = pthread_cond_timedwait(&drive.cv, &sim.mu, &ts) != ETIMEDOUT;
    drive.n_waiters--;
    return in_time;
}

/* --- waiting --- */

static bool wait_virtual(bool (*over)(void *arg), void *arg, struct sim_stream *need, uint64_t deadline_ns)
{
    struct sim_thread *self = caller();
    uint64_t now = sim_now_ns(), real_ns = 0, latest_ns = 0;

    while (!over(arg)) {
        if (may_step(self)) {
            enum sim_step result = step(self, need, deadline_ns);

            latest_ns = sim_clock_latest();
            if (result == SIM_STEP_DONE)
                continue;
            if (result == SIM_STEP_LATER) {
                sim_raise_to(deadline_ns);
                return false;
            }
        }
        if (real_ns == 0)
            real_ns = deadline_ns == SIM_FOREVER
                          ? SIM_FOREVER
                          : sim_real_ns() + (deadline_ns > now ? deadline_ns - now : 0);
        if (!idle(real_ns) && !over(arg)) {
            sim_raise_to(deadline_ns);
            return false;
        }
    }
    sim_raise_to(need != NULL ? need->last_end_ns : latest_ns);
    return true;
}

static bool wait_adversarial(bool (*over)(void *arg), void *arg, struct sim_stream *need,
                             uint64_t deadline_ns)
{
    struct sim_thread *self = caller();
    bool known = need != NULL, quiet = false;

    while (!over(arg)) {
        uint64_t now = sim_real_ns(), until = deadline_ns;

        if (now >= deadline_ns)
            return false;
        if (may_step(self) && (known || quiet)) {
            enum sim_step result = step(self, known ? need : NULL, 0);

            if (result == SIM_STEP_DONE)
                continue;
            if (result == SIM_STEP_LATER)
                known = false; /* it hangs on a callback, a notify, a value: anything may be what helps */
        }
        if (!known && !quiet && now + IDLE_NS < until)
            until = now + IDLE_NS;
        quiet = !idle(until);
        known = need != NULL && (known || !quiet);
    }
    return true;
}

bool sim_drive_wait(bool (*over)(void *arg), void *arg, struct sim_stream *need, pthread_cond_t *cv,
                    uint64_t deadline_ns)
{
    bool in_time = true;

    if (sim_mode() == ACLSIM_VIRTUAL)
        return wait_virtual(over, arg, need, deadline_ns);
    if (sim_mode() == ACLSIM_ADVERSARIAL)
        return wait_adversarial(over, arg, need, deadline_ns);
    while (!over(arg) && in_time)
        in_time = sim_cond_wait_until(cv, deadline_ns);
    return in_time || over(arg);
}

/* --- asking --- */

static void catch_up(struct sim_thread *self)
{
    while (may_step(self) && step(self, NULL, sim_now_ns()) == SIM_STEP_DONE)
        ;
}

void sim_drive_catch_up(void)
{
    if (sim_mode() != ACLSIM_VIRTUAL)
        return;
    pthread_mutex_lock(&sim.mu);
    catch_up(caller());
    pthread_mutex_unlock(&sim.mu);
}

static bool unfinished(const struct sim_stream *s, uint64_t target)
{
    return s == NULL || atomic_load_explicit(&s->done, memory_order_relaxed) < target;
}

static void poll_adversarial(struct sim_thread *self, struct sim_stream *s, uint64_t target)
{
    struct sim_thread *before = drive.owner;
    bool finish;

    if (!may_step(self))
        return;
    drive.owner = self;
    finish = sim_adversarial_poll(self, s);
    drive.owner = before;
    sim_drive_wake();
    if (finish && s == NULL)
        step(self, NULL, 0);
    while (finish && s != NULL && unfinished(s, target) && may_step(self) &&
           step(self, s, 0) == SIM_STEP_DONE)
        ;
}

/* With sim.mu held. */
static void poll(struct sim_stream *s, uint64_t target)
{
    if (sim_mode() == ACLSIM_VIRTUAL) {
        catch_up(caller());
        if (unfinished(s, target))
            sim_raise_to(sim_now_ns() + POLL_NS);
    } else if (unfinished(s, target)) {
        poll_adversarial(caller(), s, target);
    }
}

void sim_drive_poll(struct sim_stream *s, uint64_t target)
{
    if (!sim_driven())
        return;
    pthread_mutex_lock(&sim.mu);
    poll(s, target);
    pthread_mutex_unlock(&sim.mu);
}

void sim_drive_poll_event(struct sim_event *event)
{
    if (!sim_driven())
        return;
    pthread_mutex_lock(&sim.mu);
    if (event->rec_stream != NULL)
        poll(event->rec_stream, event->rec_seq + 1);
    pthread_mutex_unlock(&sim.mu);
}
