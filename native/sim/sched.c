/* sched.c - streams as queues: submission, progress, completion, waiting, closing.
 *
 * Threads: any; whoever makes a stream's front task runnable also advances the stream.
 * Locks:   sim.mu held in every function unless the name says otherwise.
 * Owns:    the rings, from sim_stream_new to the end of sim_stream_close.
 * Invariant: a stream with unfinished tasks is running on an engine, or queued for one, or in the list of
 *          what its front waits for, or paused, or in sim.work. sim.work is empty when sim.mu is unlocked.
 */
#include "sim/made.h"
#include "sim/sim.h"

#include <stdlib.h>

static uint64_t done_of(const struct sim_stream *s)
{
    return atomic_load_explicit(&s->done, memory_order_relaxed);
}

static uint64_t tail_of(const struct sim_stream *s)
{
    return atomic_load_explicit(&s->tail, memory_order_relaxed);
}

/* --- ids --- */

static int32_t id_take(struct sim_device *dev)
{
    for (uint32_t i = 0; i < SIM_ID_WORDS * 64; i++) {
        uint32_t id = (dev->next_id + i) % (SIM_ID_WORDS * 64);

        if ((dev->ids[id / 64] >> (id % 64) & 1) == 0) {
            dev->ids[id / 64] |= UINT64_C(1) << (id % 64);
            dev->next_id = id + 1; /* the next one is another id, so that a reused id is old */
            return (int32_t)id;
        }
    }
    return -1;
}

/* --- progress --- */

void sim_sched_push(struct sim_stream *s)
{
    if (s->in_work)
        return;
    s->in_work = true;
    s->work_next = sim.work;
    sim.work = s;
}

void sim_stream_depend(struct sim_stream *s, struct sim_stream **list)
{
    s->dep_list = list;
    s->dep_next = *list;
    *list = s;
}

void sim_stream_undepend(struct sim_stream *s)
{
    struct sim_stream **at = s->dep_list;

    while (*at != s)
        at = &(*at)->dep_next;
    *at = s->dep_next;
    s->dep_list = NULL;
}

static bool wait_over(const struct sim_task *t)
{
    return t->wait.on != NULL ? done_of(t->wait.on) > t->wait.seq : t->wait.event->n_done > 0;
}

/* Takes out of s->dependents those whose wait is over. */
static void free_dependents(struct sim_stream *s)
{
    struct sim_stream **at = &s->dependents;

    while (*at != NULL) {
        struct sim_stream *d = *at;

        if (wait_over(&d->ring[done_of(d) & SIM_RING_MASK])) {
            *at = d->dep_next;
            d->dep_list = NULL;
            sim_sched_push(d);
        } else {
            at = &d->dep_next;
        }
    }
}

/* As with a copy: the event completes, and the next synchronisation of the stream tells. */
static void fail_record(struct sim_stream *s, uint64_t seq)
{
    int32_t code = sim_fault_record(s);

    if (code != 0)
        sim_stream_failed(s, &(struct sim_failure){.code = code, .task_id = (uint32_t)(seq & 0xFFFF)});
}

void sim_stream_publish(struct sim_stream *s, uint64_t new_done)
{
    for (uint64_t seq = done_of(s); seq < new_done; seq++) {
        struct sim_task *t = &s->ring[seq & SIM_RING_MASK];

        if (t->kind == SIM_RECORD && atomic_load_explicit(&sim_n_record_faults, memory_order_acquire) != 0)
            fail_record(s, seq);
        if (t->kind == SIM_RECORD)
            sim_event_recorded(t->record.event, t->record.gen, t->when);
        else if (t->kind == SIM_WAIT)
            atomic_fetch_sub_explicit(&t->wait.event->n_waits, 1, memory_order_release);
        else if (t->kind >= SIM_EXT_FIRST)
            sim_ext_done(t);
        else if ((t->flags & SIM_TASK_OWNS_SRC) != 0)
            free((void *)(uintptr_t)t->copy.src);
    }
    /* Release pairs with the acquire of those who look without sim.mu. */
    atomic_store_explicit(&s->done, new_done, memory_order_release);
    if (sim_driven()) {
        sim_drive_wake();
    } else if (new_done >= s->wake_at || s->closing) {
        s->wake_at = UINT64_MAX;
        pthread_cond_broadcast(&s->cv);
    }
    if (s->dependents != NULL)
        free_dependents(s);
    if (sim_n_value_waits != 0)
        sim_value_recheck();
}

static void stamp_record(struct sim_stream *s, struct sim_task *t)
{
    if (sim_timed(s->dev))
        t->when = t->when > s->last_end_ns ? t->when : s->last_end_ns;
    else if ((t->record.event->flags & ACL_EVENT_TIME_LINE) != 0)
        t->when = sim_now_ns();
}

static void advance(struct sim_stream *s)
{
    while (!s->running && !s->queued && s->dep_list == NULL && done_of(s) != tail_of(s)) {
        struct sim_task *t = &s->ring[done_of(s) & SIM_RING_MASK];

        if (s->ctx->halt.code != 0) { /* STOP mode, after a failure */
            sim_ext_forget(s);
            sim_stream_publish(s, tail_of(s));
            return;
        }
        if (t->kind == SIM_COPY || t->kind == SIM_MEMSET) {
            if (atomic_load_explicit(&s->pause, memory_order_relaxed) == 0)
                sim_engine_queue(&s->dev->engine[t->dir], s);
            return;
        }
        if (t->kind == SIM_WAIT && !wait_over(t)) {
            sim_stream_depend(s, t->wait.on != NULL ? &t->wait.on->dependents : &t->wait.event->blocked);
            if (t->wait.timeout_s != 0)
                sim_timer_arm(s, t->wait.timeout_s);
            return;
        }
        if (t->kind >= SIM_EXT_FIRST && !sim_ext_front(s, t))
            return;
        if (t->kind == SIM_WAIT && t->wait.on != NULL && t->wait.on->last_end_ns > s->last_end_ns)
            s->last_end_ns = t->wait.on->last_end_ns;
        if (t->kind == SIM_RECORD)
            stamp_record(s, t);
        sim_stream_publish(s, done_of(s) + 1);
    }
}

void sim_sched_run(void)
{
    while (sim.work != NULL) {
        struct sim_stream *s = sim.work;

        sim.work = s->work_next;
        s->in_work = false;
        advance(s);
    }
}

/* --- submission --- */

/* Publishing wakes nobody before this; each look that finds nothing asks again. */
static void ask_wake(struct sim_stream *s, uint64_t done)
{
    if (done < s->wake_at)
        s->wake_at = done;
}

static bool has_room(void *arg)
{
    struct sim_stream *s = arg;

    if (s->closing || tail_of(s) - done_of(s) < sim_profile.queue_depth)
        return true; /* closing wakes those who wait, too */
    ask_wake(s, done_of(s) + 1);
    return false;
}

struct sim_task *sim_submit_begin(struct sim_thread *self, struct sim_stream *s, uint8_t kind)
{
    struct sim_task *t;

    if (!has_room(s))
        (void)sim_drive_wait(has_room, s, s, &s->cv, SIM_FOREVER);
    if (s->closing)
        return NULL;
    t = &s->ring[tail_of(s) & SIM_RING_MASK];
    t->kind = kind;
    t->flags = 0;
    t->tid = self->tid;
    t->when = sim_timed(s->dev) ? sim_now_ns() : 0;
    return t;
}

void sim_submit_commit(struct sim_thread *self, struct sim_stream *s)
{
    if (!s->is_default)
        self->last_task_id = (uint32_t)(tail_of(s) & 0xFFFF);
    if (sim_guards())
        sim_guard_submit(s, tail_of(s));
    atomic_store_explicit(&s->tail, tail_of(s) + 1, memory_order_release);
    if (!s->running && !s->queued && s->dep_list == NULL) {
        sim_sched_push(s);
        sim_sched_run();
    }
}

/* --- waiting --- */

struct goal {
    struct sim_stream *s;
    uint64_t target;
    uint32_t aborts;
};

static bool reached(void *arg)
{
    const struct goal *goal = arg;

    if (done_of(goal->s) >= goal->target || sim_stream_aborts(goal->s) != goal->aborts)
        return true;
    ask_wake(goal->s, goal->target);
    return false;
}

bool sim_stream_wait(struct sim_stream *s, uint64_t target, uint64_t deadline_ns)
{
    struct goal goal = {s, target, sim_stream_aborts(s)};

    if (s->aborting == 0) /* an abort ends every wait, at once */
        (void)sim_drive_wait(reached, &goal, s, &s->cv, deadline_ns);
    if (done_of(s) < target)
        return false;
    if (sim_guards())
        sim_guard_seen(s, target);
    return true;
}

void sim_stream_spin(struct sim_stream *s, uint64_t target)
{
    enum { SPIN_NS = 20000, LOOKS = 16 };
    uint64_t end_ns = 0;

    if (sim_driven())
        return; /* nobody else would do the work */
    while (atomic_load_explicit(&s->done, memory_order_acquire) < target) {
        uint64_t now = sim_now_ns();

        if (end_ns == 0)
            end_ns = now + SPIN_NS;
        if (now >= end_ns)
            return;
        for (int i = 0; i < LOOKS; i++)
            sim_relax();
    }
}

/* --- life --- */

struct sim_stream *sim_stream_new(struct sim_context *ctx, uint32_t flags, bool is_default)
{
    struct sim_device *dev = ctx->dev;
    struct sim_stream *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->ring = aligned_alloc(64, SIM_RING * sizeof(*s->ring)); /* untouched pages cost nothing */
    s->id = s->ring != NULL ? id_take(dev) : -1;
    if (s->id < 0) {
        free(s->ring);
        free(s);
        return NULL;
    }
    s->ctx = ctx;
    s->dev = dev;
    s->flags = flags;
    s->is_default = is_default;
    s->wake_at = UINT64_MAX;
    s->slot = SIM_NOT_READY;
    sim_cond_init(&s->cv);
    s->next = dev->streams;
    if (s->next != NULL)
        s->next->prev = s;
    dev->streams = s;
    if (!is_default) {
        dev->n_streams++;
        atomic_fetch_add(&sim.tally.live_streams, 1);
        s->made = sim_made_here(SIM_MADE_STREAM, 0);
    }
    atomic_store_explicit(&s->magic, SIM_MAGIC_STREAM, memory_order_release);
    return s;
}

void sim_stream_release(struct sim_stream *s)
{
    sim_stream_undepend(s);
    sim_stream_publish(s, done_of(s) + 1);
    sim_sched_push(s);
}

/* Nothing may point at the ring any more when it goes. */
void sim_stream_drop(struct sim_stream *s)
{
    if (s->queued)
        sim_engine_unqueue(&s->dev->engine[s->ring[done_of(s) & SIM_RING_MASK].dir], s);
    if (s->dep_list != NULL)
        sim_stream_undepend(s);
    sim_ext_forget(s);
    sim_stream_publish(s, tail_of(s));
    sim_sched_run();
}

static bool at_rest(void *arg)
{
    const struct sim_stream *s = arg;

    return !s->running && done_of(s) == tail_of(s);
}

static bool not_running(void *arg)
{
    return !((const struct sim_stream *)arg)->running;
}

void sim_stream_close(struct sim_stream *s, bool force)
{
    struct sim_device *dev = s->dev;

    s->closing = true;
    atomic_store_explicit(&s->magic, SIM_MAGIC_DEAD, memory_order_release);
    if (force)
        atomic_fetch_add_explicit(&s->pause, 1, memory_order_relaxed);
    pthread_cond_broadcast(&s->cv); /* to those who wait for room: there will be none for them */
    sim_drive_wake();
    /* Publish and the end of a turn wake a closing stream. */
    sim_drive_wait(force ? not_running : at_rest, s, s, &s->cv, SIM_FOREVER);
    sim_stream_drop(s);
    sim_ext_closed(s);
    if (sim_guards())
        sim_guard_closed(s);
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        dev->streams = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    if (!s->is_default) {
        dev->n_streams--;
        atomic_fetch_sub(&sim.tally.live_streams, 1);
        sim_made_gone(s->made, 0);
    }
    dev->ids[s->id / 64] &= ~(UINT64_C(1) << (s->id % 64));
    free(s->ring);
    s->ring = NULL;
    s->grave_next = sim.dead_streams;
    sim.dead_streams = s;
}
