/* virtual.c - virtual mode: one discrete event after the other, in simulated time.
 *
 * Threads: the owner of the drive (drive.h). Locks: sim.mu, unlocked while bytes move and callbacks run.
 * Owns:    the front task of a stream with "ending" set, from its start to its end event.
 * Invariant: a single-threaded program never sees an event that lies after its own time, nor misses one that
 *          lies before it. Events are executed in the order of their times, ties by the order in which the
 *          tasks became the first of their streams.
 */
#include "sim/sim.h"

static struct sim_engine *engine_of(struct sim_stream *s)
{
    uint64_t seq = atomic_load_explicit(&s->done, memory_order_relaxed);

    return &s->dev->engine[s->ring[seq & SIM_RING_MASK].dir];
}

/* No earlier than its submission, the end of what came before it in its stream (waits included), and the end
 * of what the engine does. */
uint64_t sim_virtual_key(const struct sim_stream *s)
{
    uint64_t seq = atomic_load_explicit(&s->done, memory_order_relaxed);
    const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];
    uint64_t key = s->dev->engine[t->dir].free_ns;

    if (key < t->when)
        key = t->when;
    return key < s->last_end_ns ? s->last_end_ns : key;
}

/* The bytes move now, and nobody is told before the end event. */
static void begin(struct sim_stream *s, uint64_t start_ns)
{
    struct sim_engine *e = engine_of(s);
    struct aclsim_link link = s->dev->link;
    uint64_t seq = atomic_load_explicit(&s->done, memory_order_relaxed);
    uint64_t extra_ns;
    aclError code;

    s->queued = false;
    s->running = true;
    s->ending = true;
    s->end_ns = sim_engine_charge(e, &link, start_ns, s->ring[seq & SIM_RING_MASK].copy.nbytes);
    sim_ready_rekey(s, s->end_ns);
    pthread_mutex_unlock(&sim.mu);
    extra_ns = s->end_ns - start_ns;
    code = sim_engine_run_one(s, seq, link.move_bytes != 0, &extra_ns);
    pthread_mutex_lock(&sim.mu);
    if (extra_ns != 0) {
        s->end_ns += extra_ns;
        if (e->free_ns < s->end_ns)
            e->free_ns = s->end_ns;
        sim_ready_rekey(s, s->end_ns);
    }
    s->end_code = code;
}

static void end(struct sim_stream *s)
{
    uint64_t seq = atomic_load_explicit(&s->done, memory_order_relaxed);

    s->ending = false;
    sim_ready_remove(s);
    if (s->last_end_ns < s->end_ns)
        s->last_end_ns = s->end_ns;
    sim_engine_finish(s, seq, s->end_code);
}

enum sim_step sim_virtual_step(uint64_t limit_ns)
{
    while (sim_n_ready != 0) {
        struct sim_stream *s = sim_ready_set[0].s;
        uint64_t key = s->ending ? s->end_ns : sim_virtual_key(s);

        if (!s->ending && atomic_load_explicit(&engine_of(s)->holds, memory_order_relaxed) != 0) {
            sim_ready_aside(engine_of(s), s);
            continue;
        }
        if (!s->ending && atomic_load_explicit(&s->pause, memory_order_relaxed) != 0) {
            sim_ready_unqueue(engine_of(s), s); /* who ends the pause pushes the stream again */
            continue;
        }
        if (key > sim_ready_set[0].key) {
            sim_ready_rekey(s, key);
            continue;
        }
        if (key > limit_ns)
            return SIM_STEP_LATER;
        sim_clock_seen(key);
        if (s->ending)
            end(s);
        else
            begin(s, key);
        return SIM_STEP_DONE;
    }
    return SIM_STEP_NONE;
}
