#include "core/report.h"

#include <string.h>

#include "base/clock.h"
#include "core/after.h"

static void mark_pack(struct npux_chunk *chunk, enum npux_stage stage)
{
    for (; chunk != NULL; chunk = chunk->packed)
        if (chunk->op != NULL)
            chunk->op->stage = (uint8_t)stage;
}

/* Queues that an op may be in, each walked once; what is in none of them is at work. */
static void mark_queues_locked(struct npux_sched *s)
{
    for (int p = 0; p < NPUX_N_PRIORITIES; p++) {
        for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
            for (struct npux_chunk *c = s->ready[d].queues[p].head; c != NULL; c = c->next)
                mark_pack(c, NPUX_AT_READY);
        for (struct npux_op *op = s->stager[p].head; op != NULL; op = op->next) {
            op->stage = NPUX_AT_STAGER;
            if (npux_op_leads_pack(op))
                mark_pack(op->chunk0.packed, NPUX_AT_STAGER);
        }
    }
}

/* Where an op is that is in no queue. */
static enum npux_stage stage_locked(const struct npux_op *op)
{
    const struct npux_after *after = op->request->after;

    if (op->n_blockers != 0)
        return after != NULL && after->n_follows_left != 0 ? NPUX_AT_FOLLOW : NPUX_AT_ORDER;
    if (after != NULL && after->n_waits != 0 && !after->met)
        return NPUX_AT_STREAM;
    return atomic_load_explicit(&op->issued_on, memory_order_relaxed) != 0 ? NPUX_AT_DEVICE : NPUX_AT_WORK;
}

static void mark_request_locked(struct npux_request *request)
{
    for (uint32_t i = 0; i < request->n_ops; i++) {
        struct npux_op *op = &request->ops[i];
        if (atomic_load(&op->n_chunks_left) == 0)
            op->stage = NPUX_AT_END;
        else
            op->stage = (uint8_t)stage_locked(op);
    }
}

static void fill(struct npux_report_row *row, const struct npux_op *op, uint32_t index, uint64_t now_ns)
{
    const struct npux_request *request = op->request;

    memset(row, 0, sizeof(*row));
    row->key = request->key;
    row->age_ns = now_ns > request->submitted_ns ? now_ns - request->submitted_ns : 0;
    row->nbytes = op->host.nbytes;
    row->planned = op->planned;
    row->index = index;
    row->direction = op->direction;
    row->path = op->path;
    row->priority = request->priority;
    row->stage = op->stage;
    row->stream = atomic_load_explicit(&op->issued_on, memory_order_relaxed) - NPUX_ISSUED_ON;
    if (row->stream < 0)
        row->stream = -1;
    row->withdrawn = atomic_load_explicit(&request->withdrawn, memory_order_relaxed);
}

size_t npux_engine_report(struct npux_engine *e, const void *key, struct npux_report_row *rows, size_t max)
{
    struct npux_sched *s = &e->sched;
    struct npux_request *oldest = NULL;
    uint64_t now_ns = npux_coarse_ns();
    size_t n = 0;

    pthread_mutex_lock(&s->mu);
    for (struct npux_request *r = s->live; r != NULL; r = r->next_live) {
        mark_request_locked(r);
        oldest = r;
    }
    mark_queues_locked(s);
    for (struct npux_request *r = oldest; r != NULL; r = r->prev_live) {
        if (key != NULL && r->key != key)
            continue;
        for (uint32_t i = 0; i < r->n_ops; i++) {
            if (r->ops[i].stage == NPUX_AT_END)
                continue;
            if (n < max)
                fill(&rows[n], &r->ops[i], i, now_ns);
            n++;
        }
    }
    pthread_mutex_unlock(&s->mu);
    return n;
}
