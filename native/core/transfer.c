/* transfer.c - the life of an op between submit (submit.c) and done; declared in engine.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/after.h"

void npux_ringer_flush(struct npux_ringer *ringer)
{
    if (ringer->port == NULL)
        return;
    npux_port_ring(ringer->port);
    npux_port_unref(ringer->port);
    ringer->port = NULL;
}

/* Pushes a note and remembers to ring. Our reference keeps the port when the drain frees the request. */
static void notify(struct npux_ringer *ringer, struct npux_port *port, struct npux_note *note)
{
    if (ringer->port != port) {
        npux_ringer_flush(ringer);
        npux_port_ref(port);
        ringer->port = port;
    }
    npux_port_push(port, note);
}

void npux_engine_fail_op(struct npux_engine *e, struct npux_op *op, int32_t stream_id,
                         const struct npux_err *err)
{
    struct npux_err *copy = malloc(sizeof(*copy));

    pthread_mutex_lock(&e->sched.mu);
    if (op->err == NULL && copy != NULL) {
        *copy = *err;
        op->err = copy;
        op->err_stream = stream_id;
        copy = NULL;
    }
    atomic_store_explicit(&op->failed, true, memory_order_relaxed);
    pthread_mutex_unlock(&e->sched.mu);
    free(copy);
}

void npux_engine_fail_chunk(struct npux_engine *e, const struct npux_chunk *leader, int32_t stream_id,
                            const struct npux_err *err)
{
    for (const struct npux_chunk *c = leader; c != NULL; c = c->packed)
        npux_engine_fail_op(e, c->op, stream_id, err);
}

bool npux_request_uncount_capture(struct npux_request *request)
{
    /* Release: the reads of the source are over. Acquire: for whoever tells the user so. */
    return atomic_fetch_sub_explicit(&request->n_uncaptured, 1, memory_order_acq_rel) == 1;
}

void npux_engine_captured(struct npux_op *op, struct npux_ringer *ringer)
{
    struct npux_request *request = op->request;

    if (op->captured)
        return;
    op->captured = true;
    if (npux_request_uncount_capture(request) && !request->awaits_end)
        notify(ringer, request->port, &request->captured_note);
}

/* Counts an op out of its request (sched->mu held). True: it was the last, and the user is to be told. */
static bool finish_request_locked(struct npux_engine *e, struct npux_request *request)
{
    if (atomic_fetch_sub_explicit(&request->n_ops_left, 1, memory_order_acq_rel) != 1)
        return false;
    if (request->abandoned) /* close has told the user already; the request is leaked on purpose */
        return false;
    npux_sched_live_remove_locked(&e->sched, request);
    return true;
}

/* Starts a list of ops, and those that wait for them if they are refused. */
static void start_ops(struct npux_engine *e, struct npux_op *ops, struct npux_ringer *ringer)
{
    if (ops == NULL)
        return;
    if (ringer->started == NULL)
        ringer->started = ops;
    else
        ringer->started_tail->next = ops;
    for (; ops != NULL; ops = ops->next)
        ringer->started_tail = ops;
    if (ringer->starting) /* called by npux_engine_start_op below */
        return;
    ringer->starting = true;
    while (ringer->started != NULL) {
        struct npux_op *op = ringer->started;
        ringer->started = op->next;
        npux_engine_start_op(e, op, ringer);
    }
    ringer->starting = false;
}

/* What an op took that had its direction to itself goes into the plan. */
static void measure_locked(struct npux_sched *s, const struct npux_op *op)
{
    if (op->alone_ns != 0 && !atomic_load(&op->failed) && s->n_submitted[op->direction] == op->n_earlier + 1)
        npux_plan_note(&s->plan, op->direction, op->host.nbytes, op->path == NPUX_SYNC,
                       npux_now_ns() - op->alone_ns);
}

/* Ends a list of ops, linked by next, under one lock. */
static void finish_ops(struct npux_engine *e, struct npux_op *ops, struct npux_ringer *ringer)
{
    struct npux_counters *counters = &e->sched.counters;
    struct npux_op *told = NULL, **told_end = &told; /* the last ones of their requests */
    struct npux_op *started = NULL, **started_end = &started;

    for (struct npux_op *op = ops; op != NULL; op = op->next)
        npux_engine_captured(op, ringer);
    pthread_mutex_lock(&e->sched.mu);
    while (ops != NULL) {
        struct npux_op *op = ops;
        ops = op->next;
        if (atomic_load(&op->failed)) {
            counters->failed[op->direction]++;
        } else {
            counters->transfers[op->direction][op->path]++;
            counters->nbytes[op->direction][op->path] += op->host.nbytes;
        }
        measure_locked(&e->sched, op);
        e->sched.pending_nbytes -= op->host.nbytes;
        e->sched.n_on_way[op->direction]--;
        *started_end = npux_order_release_locked(&e->sched.order, op);
        while (*started_end != NULL)
            started_end = &(*started_end)->next;
        if (finish_request_locked(e, op->request)) {
            if (op->request->followers != NULL) {
                *started_end = npux_followers_release_locked(e, op->request, NULL);
                while (*started_end != NULL)
                    started_end = &(*started_end)->next;
            }
            *told_end = op;
            told_end = &op->next;
        }
        if (--e->sched.n_pending ==
            0) /* close may go on, but it joins this thread before it frees anything */
            pthread_cond_broadcast(&e->sched.drained_cv);
    }
    *told_end = NULL;
    if (e->sched.n_room_waiters != 0)
        pthread_cond_broadcast(&e->sched.room_cv);
    pthread_mutex_unlock(&e->sched.mu);
    while (told != NULL) {
        struct npux_request *request = told->request;
        told = told->next;
        notify(ringer, request->port, &request->done_note); /* its ops may be gone from here on */
    }
    start_ops(e, started, ringer);
}

/* True: that was the last count. Acquire and release: whoever takes it sees what every chunk did. */
static bool uncount_chunk(struct npux_op *op)
{
    return atomic_fetch_sub_explicit(&op->n_chunks_left, 1, memory_order_acq_rel) == 1;
}

void npux_engine_retire(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer)
{
    if (!uncount_chunk(op))
        return;
    op->next = NULL; /* it is in no list any more */
    finish_ops(e, op, ringer);
}

void npux_engine_retire_chunk(struct npux_engine *e, struct npux_chunk *chunk, struct npux_ringer *ringer)
{
    struct npux_op *finished = NULL, **end = &finished;

    if (chunk->stage != NULL)
        npux_block_unref(chunk->stage);
    chunk->stage = NULL;
    while (chunk != NULL) {
        struct npux_chunk *following = chunk->packed;
        struct npux_op *op = chunk->op;
        if (chunk->heap)
            free(chunk);
        if (uncount_chunk(op)) {
            *end = op;
            end = &op->next;
        }
        chunk = following;
    }
    *end = NULL;
    if (finished != NULL)
        finish_ops(e, finished, ringer);
}

void npux_engine_refuse_op(struct npux_engine *e, struct npux_op *op, const struct npux_err *err,
                           struct npux_ringer *ringer)
{
    if (npux_op_leads_pack(op)) {
        npux_engine_fail_chunk(e, &op->chunk0, -1, err);
        npux_engine_retire_chunk(e, &op->chunk0, ringer);
    } else {
        npux_engine_fail_op(e, op, -1, err);
        npux_engine_retire(e, op, ringer);
    }
}

static void push_ready(struct npux_engine *e, struct npux_op *op, struct npux_chunk *chunks)
{
    pthread_mutex_lock(&e->sched.mu);
    npux_sched_push_ready_locked(&e->sched, op->direction, chunks);
    pthread_mutex_unlock(&e->sched.mu);
}

size_t npux_engine_chunk_nbytes(const struct npux_engine *e, const struct npux_op *op)
{
    size_t nbytes = e->opts.chunk_nbytes; /* so that others get a turn; BULK gives way sooner, see sched.c */

    return op->request->priority == NPUX_BULK && nbytes > 1 ? nbytes / 2 : nbytes;
}

void npux_engine_plan(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer)
{
    size_t step = npux_engine_chunk_nbytes(e, op);
    struct npux_chunk *first = NULL, **end = &first;
    struct npux_err err;

    for (size_t offset = op->planned; offset < op->host.nbytes; offset += step) {
        size_t left = op->host.nbytes - offset;
        struct npux_chunk *chunk = npux_chunk_new(op, offset, left < step ? left : step);
        if (chunk == NULL) {
            npux_fail(&err, -ENOMEM, "malloc", "no host memory for the chunks of a transfer");
            npux_engine_fail_op(e, op, -1, &err);
            break;
        }
        atomic_fetch_add_explicit(&op->n_chunks_left, 1, memory_order_relaxed);
        *end = chunk;
        end = &chunk->following;
    }
    if (op->direction == NPUX_D2H || op->path == NPUX_DIRECT) /* a destination, or borrowed for all to know */
        npux_engine_captured(op, ringer);
    push_ready(e, op, first);
    npux_engine_retire(e, op, ringer);
}

void npux_engine_start_op(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer)
{
    bool to_stager = op->direction == NPUX_H2D && (op->path == NPUX_STAGED || op->device == NULL);
    bool refused, held;

    if (op->request->after != NULL && (op->direction == NPUX_D2H || op->path == NPUX_DIRECT))
        npux_engine_captured(op, ringer);
    pthread_mutex_lock(&e->sched.mu);
    refused = e->dead || e->sched.stop;
    held = !refused && npux_after_hold_locked(e, op);
    if (!refused && !held && to_stager)
        npux_sched_push_stager_locked(&e->sched, op);
    pthread_mutex_unlock(&e->sched.mu);
    if (refused) {
        struct npux_err err;
        if (e->dead)
            err = e->death;
        else
            npux_fail(&err, -ESHUTDOWN, "close", "the scheduler was closed before this transfer started");
        npux_engine_refuse_op(e, op, &err, ringer);
    } else if (!held && !to_stager) {
        npux_engine_plan(e, op, ringer);
    }
}

static void refuse_ops(struct npux_engine *e, struct npux_op *ops, const struct npux_err *cause,
                       struct npux_ringer *ringer)
{
    while (ops != NULL) {
        struct npux_op *op = ops;
        ops = op->next;
        npux_engine_refuse_op(e, op, cause, ringer);
    }
}

void npux_engine_fail_queued(struct npux_engine *e, const struct npux_err *cause, struct npux_ringer *ringer)
{
    struct npux_op *ops, *held;
    struct npux_chunk *chunks;

    pthread_mutex_lock(&e->sched.mu);
    npux_sched_purge_locked(&e->sched, &ops, &chunks);
    held = npux_afters_purge_locked(e);
    pthread_mutex_unlock(&e->sched.mu);
    refuse_ops(e, ops, cause, ringer);
    refuse_ops(e, held, cause, ringer);
    while (chunks != NULL) {
        struct npux_chunk *chunk = chunks;
        chunks = chunk->next;
        npux_engine_fail_chunk(e, chunk, -1, cause);
        npux_engine_retire_chunk(e, chunk, ringer);
    }
}

void npux_engine_die(struct npux_engine *e, const struct npux_err *cause, struct npux_ringer *ringer)
{
    pthread_mutex_lock(&e->sched.mu);
    if (!e->dead)
        e->death = *cause;
    e->dead = true;
    pthread_mutex_unlock(&e->sched.mu);
    npux_engine_fail_queued(e, &e->death,
                            ringer); /* what is queued after this is refused where it is taken */
}
