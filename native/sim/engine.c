/* engine.c - the DMA engines: one thread per (device, direction) executes the copies, in threads mode.
 *
 * Threads: the engine threads, started on first use, never joined, all signals blocked; in the driven modes
 *          (drive.h) there are none, and the owner of the drive runs one task at a time.
 * Locks:   sim.mu, released while bytes move, while modelled time passes and while callbacks run.
 * Owns:    the front tasks of a running stream: between "running = true" and the publication nobody else
 *          reads or finishes them.
 * Invariant: a copy becomes visible as finished after its bytes, its counts and its callbacks, and not before
 *          its modelled end.
 */
#include "sim/copy.h"

#include <sys/prctl.h>

enum {
    BATCH_TASKS = 64,         /* tasks per turn without a time model ... */
    BATCH_BYTES = 256 * 1024, /* ... and bytes after which the turn ends */
    STALL_NS = 2000000000,    /* in virtual mode, where it is simulated */
    IDLE_SPIN_NS = 15000      /* an idle engine looks this long before it sleeps */
};

struct turn {
    struct sim_engine *e;
    struct sim_stream *s;
    bool move;
    struct sim_ref dst, src; /* pinned from one task to the next */
    uint64_t n_copies, n_bytes, moved;
    uint64_t cost_ns;  /* of the one copy of a timed turn, by the link model */
    uint64_t extra_ns; /* what a fault adds to it */
};

const char *const sim_dir_names[ACLSIM_N_DIRECTIONS] = {"h2d", "d2h", "d2d"};

bool sim_link_timed(const struct aclsim_link *link)
{
    return (link->h2d_bytes_per_s | link->d2h_bytes_per_s | link->d2d_bytes_per_s | link->latency_ns) != 0;
}

uint64_t sim_engine_charge(struct sim_engine *e, const struct aclsim_link *link, uint64_t ready_ns,
                           uint64_t nbytes)
{
    const uint64_t rates[] = {link->h2d_bytes_per_s, link->d2h_bytes_per_s, link->d2d_bytes_per_s};
    uint64_t rate = rates[e->dir], start = e->free_ns, cost = link->latency_ns;

    if (start < ready_ns) {
        start = ready_ns;
        e->rest = 0;
    }
    if (rate != 0) { /* exact over many copies: the rest goes to the next one */
        unsigned __int128 units = (unsigned __int128)nbytes * 1000000000u + e->rest;

        cost += (uint64_t)(units / rate);
        e->rest = (uint64_t)(units % rate);
    }
    e->free_ns = start + cost;
    return e->free_ns;
}

/* --- one task --- */

static aclError execute(struct turn *turn, const struct sim_task *t)
{
    aclError code;

    if (t->kind == SIM_COPY && atomic_load_explicit(&sim_n_copy_faults, memory_order_acquire) != 0) {
        bool stall;

        turn->extra_ns = turn->cost_ns;
        code = sim_fault_copy(turn->s, t, &turn->extra_ns, &stall);
        if (stall && !sim_driven())
            sim_fault_stall_wait(turn->s);
        else if (stall) /* no thread to stop; simulated time goes on until the waits of a program are over */
            turn->extra_ns += STALL_NS;
        if (code != 0)
            return code;
    }
    code = sim_move(t, &turn->dst, &turn->src, turn->move, &turn->n_bytes);
    if (code == 0 && t->kind == SIM_COPY)
        turn->n_copies++;
    return code;
}

/* Counts come before the publication, so that who saw a copy end also sees it counted. */
static void count_copies(struct turn *turn)
{
    if (turn->n_copies == 0)
        return;
    atomic_fetch_add_explicit(&sim.tally.copies[turn->e->dir], turn->n_copies, memory_order_relaxed);
    atomic_fetch_add_explicit(&sim.tally.bytes[turn->e->dir], turn->n_bytes, memory_order_relaxed);
    turn->n_copies = turn->n_bytes = 0;
}

/* Without sim.mu: what came before the failed task becomes visible, then the callbacks run, then the failure
 * is left for the next synchronisation. */
static void report_failure(struct sim_stream *s, uint64_t seq, aclError code)
{
    const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];
    struct sim_failure failure = {.code = code,
                                  .task_id = (uint32_t)(seq & 0xFFFF),
                                  .dir = t->dir,
                                  .nbytes = t->copy.nbytes,
                                  .dst = t->copy.dst,
                                  .src = sim_task_src(t)};

    atomic_fetch_add_explicit(&sim.tally.failed, 1, memory_order_relaxed);
    pthread_mutex_lock(&sim.mu);
    sim_stream_publish(s, seq);
    sim_sched_run();
    pthread_mutex_unlock(&sim.mu);
    sim_exception_report(s, &failure, t->tid);
    pthread_mutex_lock(&sim.mu);
    sim_stream_failed(s, &failure);
    pthread_mutex_unlock(&sim.mu);
}

static void fail_task(struct turn *turn, uint64_t seq, aclError code)
{
    count_copies(turn);
    report_failure(turn->s, seq, code);
}

static void end_pins(struct turn *turn)
{
    if (turn->dst.block != NULL)
        sim_block_unpin(turn->dst.block);
    if (turn->src.block != NULL)
        sim_block_unpin(turn->src.block);
}

/* --- one task, for the driven modes --- */

aclError sim_engine_run_one(struct sim_stream *s, uint64_t seq, bool move, uint64_t *extra_ns)
{
    const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];
    struct turn turn = {.e = &s->dev->engine[t->dir], .s = s, .move = move, .cost_ns = *extra_ns};
    aclError code = execute(&turn, t);

    end_pins(&turn);
    count_copies(&turn);
    *extra_ns = turn.extra_ns;
    return code;
}

void sim_engine_finish(struct sim_stream *s, uint64_t seq, aclError code)
{
    if (code != 0) {
        pthread_mutex_unlock(&sim.mu);
        report_failure(s, seq, code);
        pthread_mutex_lock(&sim.mu);
    }
    sim_stream_publish(s, seq + 1);
    s->running = false;
    sim_sched_push(s);
    sim_sched_run();
    sim_drive_wake();
}

/* --- one turn of one stream --- */

static bool paused(const struct turn *turn)
{
    return (atomic_load_explicit(&turn->s->pause, memory_order_relaxed) |
            atomic_load_explicit(&turn->e->holds, memory_order_relaxed)) != 0;
}

static void mark_record(const struct sim_task *t, uint64_t *when)
{
    if ((t->record.event->flags & ACL_EVENT_TIME_LINE) != 0)
        *when = sim_now_ns();
}

/* Runs the front copies of the stream, with the records between them, up to the limits of a batch. Returns
 * the first task that is not finished. Without sim.mu. */
static uint64_t run_batch(struct turn *turn, uint64_t seq, uint64_t tail)
{
    struct sim_stream *s = turn->s;
    uint64_t end = tail - seq > BATCH_TASKS ? seq + BATCH_TASKS : tail;
    bool first = true;

    for (; seq < end; seq++) {
        struct sim_task *t = &s->ring[seq & SIM_RING_MASK];
        aclError code;

        if (t->kind == SIM_RECORD) {
            mark_record(t, &t->when);
            continue;
        }
        if ((t->kind != SIM_COPY && t->kind != SIM_MEMSET) || t->dir != turn->e->dir)
            break;
        if (!first && (turn->moved >= BATCH_BYTES || paused(turn)))
            break;
        first = false;
        code = execute(turn, t);
        turn->moved += t->copy.nbytes;
        if (turn->extra_ns != 0)
            sim_sleep_until(sim_now_ns() + turn->extra_ns);
        turn->extra_ns = 0;
        if (code != 0) {
            fail_task(turn, seq, code);
            return seq + 1;
        }
    }
    return seq;
}

/* One copy, visible when its modelled time is over. */
static uint64_t run_timed(struct turn *turn, uint64_t seq, uint64_t end_ns)
{
    aclError code = execute(turn, &turn->s->ring[seq & SIM_RING_MASK]);

    sim_sleep_until(end_ns + turn->extra_ns);
    if (code != 0)
        fail_task(turn, seq, code);
    return seq + 1;
}

static struct sim_stream *pop(struct sim_engine *e)
{
    struct sim_stream *s = e->ready_head;

    e->ready_head = s->ready_next;
    if (e->ready_head == NULL)
        e->ready_tail = NULL;
    s->queued = false;
    atomic_fetch_sub_explicit(&e->n_ready, 1, memory_order_relaxed);
    return s;
}

/* With sim.mu held, and held again at the end. */
static void take_turn(struct sim_engine *e)
{
    struct sim_stream *s = pop(e);
    struct aclsim_link link = e->dev->link;
    struct turn turn = {.e = e, .s = s, .move = link.move_bytes != 0};
    bool timed = sim_link_timed(&link);
    uint64_t seq = atomic_load_explicit(&s->done, memory_order_relaxed), end_ns = 0;
    uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);

    if (atomic_load_explicit(&s->pause, memory_order_relaxed) != 0)
        return; /* who ends the pause pushes the stream again */
    if (timed) {
        const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];

        uint64_t before = e->free_ns, ready = t->when > s->last_end_ns ? t->when : s->last_end_ns;

        end_ns = sim_engine_charge(e, &link, ready, t->copy.nbytes);
        turn.cost_ns = end_ns - (before > ready ? before : ready);
    }
    s->running = true;
    pthread_mutex_unlock(&sim.mu);
    seq = timed ? run_timed(&turn, seq, end_ns) : run_batch(&turn, seq, tail);
    end_pins(&turn);
    count_copies(&turn);
    pthread_mutex_lock(&sim.mu);
    end_ns += turn.extra_ns;
    if (e->free_ns < end_ns)
        e->free_ns = end_ns;
    if (timed && end_ns > s->last_end_ns)
        s->last_end_ns = end_ns;
    sim_stream_publish(s, seq);
    s->running = false;
    if (s->closing || s->aborting != 0)
        pthread_cond_broadcast(&s->cv);
    sim_sched_push(s);
    sim_sched_run();
}

/* --- the thread --- */

static void spin_idle(struct sim_engine *e)
{
    enum { LOOKS = 16 };
    uint64_t end =
        sim_real_ns() + IDLE_SPIN_NS; /* the mode may change meanwhile, and with it the other clock */

    while (sim_real_ns() < end)
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&e->n_ready, memory_order_relaxed) != 0)
                return;
            sim_relax();
        }
}

static bool has_work(const struct sim_engine *e)
{
    return e->ready_head != NULL && atomic_load_explicit(&e->holds, memory_order_relaxed) == 0;
}

static void *engine_main(void *arg)
{
    static const char *const names[] = {"aclsim-h2d", "aclsim-d2h", "aclsim-d2d"};
    struct sim_engine *e = arg;

    prctl(PR_SET_TIMERSLACK, 1UL); /* modelled times are microseconds */
    prctl(PR_SET_NAME, names[e->dir]);
    pthread_mutex_lock(&sim.mu);
    for (;;) {
        if (!has_work(e) && atomic_load_explicit(&e->holds, memory_order_relaxed) == 0) {
            pthread_mutex_unlock(&sim.mu);
            spin_idle(e);
            pthread_mutex_lock(&sim.mu);
        }
        while (!has_work(e)) {
            e->sleeping = true;
            pthread_cond_wait(&e->cv, &sim.mu);
        }
        e->sleeping = false;
        while (has_work(e))
            take_turn(e);
    }
    return NULL;
}

void sim_engine_wake(struct sim_engine *e)
{
    if (sim_driven()) {
        sim_ready_released(e);
        return;
    }
    if (!e->sleeping || !has_work(e))
        return;
    e->sleeping = false;
    pthread_cond_signal(&e->cv);
}

void sim_engine_queue(struct sim_engine *e, struct sim_stream *s)
{
    if (sim_driven()) {
        sim_ready_queue(e, s);
        return;
    }
    s->queued = true;
    s->ready_next = NULL;
    if (e->ready_tail != NULL)
        e->ready_tail->ready_next = s;
    else
        e->ready_head = s;
    e->ready_tail = s;
    atomic_fetch_add_explicit(&e->n_ready, 1, memory_order_relaxed);
    if (!e->started) {
        e->started = true;
        sim_worker_start(engine_main, e);
    }
    sim_engine_wake(e);
}

void sim_engine_unqueue(struct sim_engine *e, struct sim_stream *s)
{
    struct sim_stream *before = NULL, *at = e->ready_head;

    if (sim_driven()) {
        sim_ready_unqueue(e, s);
        return;
    }
    while (at != s) {
        before = at;
        at = at->ready_next;
    }
    if (before != NULL)
        before->ready_next = s->ready_next;
    else
        e->ready_head = s->ready_next;
    if (e->ready_tail == s)
        e->ready_tail = before;
    s->queued = false;
    atomic_fetch_sub_explicit(&e->n_ready, 1, memory_order_relaxed);
}
