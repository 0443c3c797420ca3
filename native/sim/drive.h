/* drive.h - who executes the work: engine threads, or the threads that wait and ask.
 *
 * Modes (enum ACLSIM_THREADS, ACLSIM_VIRTUAL, ACLSIM_ADVERSARIAL of aclsim.h), chosen while no device is set:
 *   threads: engine threads of engine.c; time is the machine's monotonic clock.
 *
 *   virtual: no engine threads. A waiting or asking thread executes events in the order of simulated time.
 *   Each host thread has its own simulated time: a submission costs link.submit_ns, a wait raises it to the
 *   end of what it waited for, a query that finds nothing finished costs POLL_NS.
 *
 *   adversarial: no engine threads and no time model. A wait executes what it needs and, by a seeded coin,
 *   some front of another stream; a query executes at most one.
 *
 * "Driven" below means virtual or adversarial.
 *
 * Threads: any. In a driven mode at most one thread executes at a time (the owner); a callback that it runs
 *          may drive again.
 * Locks:   sim.mu, unlocked while a task's bytes move and while callbacks run.
 * Owns:    the set of ready streams: a stream is in it, or aside at its held engine, while s->queued; in
 *          virtual mode a running stream is in it, too, with the end of its copy as the key.
 * Invariant: whoever makes anything runnable or finished while drive waiters exist wakes them.
 */
#ifndef ACLSIM_DRIVE_H
#define ACLSIM_DRIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_stream;
struct sim_engine;
struct sim_event;
struct sim_thread;
struct sim_device;

/* --- mode --- */

extern atomic_int sim_mode_now;
extern const char *const sim_mode_names[]; /* by mode */

static inline int sim_mode(void)
{
    return atomic_load_explicit(&sim_mode_now, memory_order_relaxed);
}

static inline bool sim_driven(void)
{
    return sim_mode() != 0;
}

/* For the environment and the file of aclInit; they may run inside sim_once, and so call nothing that does.
 * 0; or -1 for a name that is none, and while a device is set. The mode keeps the seed that was set before.
 */
int sim_config_mode(const char *name);
int sim_config_seed(uint64_t seed);

/* --- waiting; with sim.mu held --- */

/* Waits until over(arg), which is called with sim.mu held; false when deadline_ns (on the clock of
 * sim_now_ns) passes first. The one wait of every blocking call. In threads mode it sleeps on cv, which the
 * caller's own signals wake. In the driven modes it executes work until over(arg), and sleeps where nothing
 * can be executed; cv is not used, and sim_drive_wake must follow every change of what over(arg) reads.
 * Publishing, committing, queueing and releasing do that already. need: the stream whose progress is waited
 * for, or NULL when that is not known. In adversarial mode only what need depends on is certain to run, and a
 * wait with NULL runs something only after IDLE_NS without any progress by others. In virtual mode a deadline
 * is simulated time while events are left; with none left, only another thread can end the wait, so the rest
 * of the time-out passes in real time and then ends in simulated time, too. A wait for ever for something
 * that nobody does is as endless as on hardware. */
bool sim_drive_wait(bool (*over)(void *arg), void *arg, struct sim_stream *need, pthread_cond_t *cv,
                    uint64_t deadline_ns);
void sim_drive_wake(void); /* cheap when nobody waits */

/* --- asking; without sim.mu. Nothing in threads mode --- */

/* Before the state of target tasks of s is looked at. s NULL: no particular stream. */
void sim_drive_poll(struct sim_stream *s, uint64_t target);
void sim_drive_poll_event(struct sim_event *event);
void sim_drive_catch_up(void); /* virtual: executes what is due up to the thread's time */

/* --- ready streams (ready.c); with sim.mu held, driven modes only --- */

enum { SIM_NOT_READY = UINT32_MAX }; /* s->slot */

struct sim_ready {
    uint64_t key; /* virtual: ns */
    uint64_t order;
    struct sim_stream *s;
};

extern struct sim_ready *sim_ready_set; /* virtual: a heap by (key, order); adversarial: in no order */
extern uint32_t sim_n_ready;

void sim_ready_remove(struct sim_stream *s);
void sim_ready_rekey(struct sim_stream *s, uint64_t key);           /* to a later key */
void sim_ready_queue(struct sim_engine *e, struct sim_stream *s);   /* the front copy of s may run */
void sim_ready_unqueue(struct sim_engine *e, struct sim_stream *s); /* it may not any more */
void sim_ready_aside(struct sim_engine *e, struct sim_stream *s);   /* until the engine's hold ends */
void sim_ready_released(struct sim_engine *e);

/* --- steps; with sim.mu held by the owner, unlocked inside --- */

enum sim_step { SIM_STEP_DONE, SIM_STEP_LATER, SIM_STEP_NONE }; /* later: the next event is past the limit */

enum sim_step sim_virtual_step(uint64_t limit_ns);
uint64_t sim_virtual_key(const struct sim_stream *s);                     /* when the front copy can start */
enum sim_step sim_adversarial_step(struct sim_stream *need);              /* NULL: any */
bool sim_adversarial_poll(struct sim_thread *self, struct sim_stream *s); /* true: finish what is asked */
void sim_random_seed(uint64_t seed);

/* --- clocks (clock.c) --- */

uint64_t sim_real_ns(void);             /* CLOCK_MONOTONIC */
void sim_raise_to(uint64_t ns);         /* the calling thread's simulated time, never back */
void sim_clock_restart(void);           /* new threads and old ones begin at SIM_VIRTUAL_START */
void sim_clock_seen(uint64_t event_ns); /* an event was executed; threads that come later begin here */
uint64_t sim_clock_latest(void);
bool sim_timed(const struct sim_device *dev); /* completions have modelled times in this mode */

#define SIM_VIRTUAL_START UINT64_C(1000000000) /* not 0, which means "no time stamp" */

#endif
