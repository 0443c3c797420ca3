/* adversarial.c - adversarial mode: every copy at the last legal moment, strangers at random ones.
 *
 * Threads: the owner of the drive (drive.h). Locks: sim.mu, unlocked while bytes move and callbacks run.
 * Owns:    the generator. Invariant: with one host thread, the seed and the calls determine every step.
 */
#include "sim/sim.h"

enum {
    STRANGER = 4,  /* one step in so many, on average, goes to another stream ... */
    BYSTANDER = 3, /* ... and one unsuccessful query in so many runs a task */
    MAX_POLLS = 6, /* so many queries find a stream unfinished before one completes it */
    LUCKY = 8      /* and one in so many completes it at once */
};

static uint64_t state;

void sim_random_seed(uint64_t seed)
{
    state = seed;
}

/* Below n. splitmix64: one addition and a finaliser, and every seed is good. */
static uint32_t random_below(uint32_t n)
{
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(((z ^ (z >> 31)) >> 32) * n >> 32);
}

static struct sim_task *front_of(struct sim_stream *s)
{
    return &s->ring[atomic_load_explicit(&s->done, memory_order_relaxed) & SIM_RING_MASK];
}

/* false, and out of the set, while its engine or the stream itself is held. */
static bool may_run(struct sim_stream *s)
{
    struct sim_engine *e = &s->dev->engine[front_of(s)->dir];

    if (s->slot == SIM_NOT_READY)
        return false;
    if (atomic_load_explicit(&e->holds, memory_order_relaxed) != 0) {
        sim_ready_aside(e, s);
        return false;
    }
    if (atomic_load_explicit(&s->pause, memory_order_relaxed) != 0) {
        sim_ready_unqueue(e, s);
        return false;
    }
    return true;
}

static struct sim_stream *anybody(void)
{
    while (sim_n_ready != 0) {
        struct sim_stream *s = sim_ready_set[random_below(sim_n_ready)].s;

        if (may_run(s))
            return s;
    }
    return NULL;
}

/* What has to run next so that s gets on: its front, or what that waits for, and so on. A wait names a record
 * that was submitted before it, so the walk ends. *unknown: something that is no copy stops the walk. */
static struct sim_stream *needed(struct sim_stream *s, bool *unknown)
{
    *unknown = false;
    while (!s->queued) {
        if (s->running || s->ring == NULL || s->pause != 0)
            return NULL;
        if (s->dep_list == NULL || front_of(s)->kind != SIM_WAIT || front_of(s)->wait.on == NULL) {
            *unknown = true;
            return NULL;
        }
        s = front_of(s)->wait.on;
    }
    return may_run(s) ? s : NULL;
}

static void run(struct sim_stream *s)
{
    uint64_t seq = atomic_load_explicit(&s->done, memory_order_relaxed);
    bool move = s->dev->link.move_bytes != 0;
    aclError code;

    sim_ready_unqueue(&s->dev->engine[front_of(s)->dir], s);
    s->running = true;
    s->n_polls = 0;
    pthread_mutex_unlock(&sim.mu);
    if (move)
        sim_guard_check_source(s, seq);
    code = sim_engine_run_one(s, seq, move, &(uint64_t){0}); /* no time model: nothing is slow */
    pthread_mutex_lock(&sim.mu);
    sim_engine_finish(s, seq, code);
}

enum sim_step sim_adversarial_step(struct sim_stream *need)
{
    struct sim_stream *s = NULL;
    bool unknown = false;

    if (need != NULL) {
        s = needed(need, &unknown);
        if (s == NULL)
            return unknown ? SIM_STEP_LATER : SIM_STEP_NONE;
        if (random_below(STRANGER) == 0)
            s = anybody();
    } else {
        s = anybody();
    }
    if (s == NULL)
        return SIM_STEP_NONE;
    run(s);
    return SIM_STEP_DONE;
}

bool sim_adversarial_poll(struct sim_thread *self, struct sim_stream *s)
{
    uint32_t *n_polls = s != NULL ? &s->n_polls : &self->n_polls;

    if (++*n_polls > MAX_POLLS || random_below(LUCKY) == 0) {
        *n_polls = 0;
        return true;
    }
    if (random_below(BYSTANDER) == 0)
        sim_adversarial_step(NULL);
    return false;
}
