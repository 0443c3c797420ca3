/* submit.c - a request comes in: checked, admitted, and put on its way; declared in engine.h. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "core/after.h"
#include "core/pack.h"

static void stage_filled(struct npux_engine *e, struct npux_chunk *leader, struct npux_ringer *ringer)
{
    for (struct npux_chunk *c = leader; c != NULL; c = c->packed)
        npux_engine_captured(c->op, ringer);
    pthread_mutex_lock(&e->sched.mu);
    npux_sched_push_ready_locked(&e->sched, NPUX_H2D,
                                 leader); /* takes over the one count of n_chunks_left of each */
    pthread_mutex_unlock(&e->sched.mu);
}

void npux_engine_stage_pack(struct npux_engine *e, struct npux_op *leader, struct npux_block *device,
                            struct npux_block *stage, struct npux_ringer *ringer)
{
    struct npux_chunk *chunk = npux_pack_fill(leader, device, stage);

    if (chunk != NULL)
        stage_filled(e, chunk, ringer);
    else
        npux_engine_unpack(e, leader);
}

void npux_engine_unpack(struct npux_engine *e, struct npux_op *leader)
{
    struct npux_op *op = npux_pack_undo(leader);

    pthread_mutex_lock(&e->sched.mu);
    while (op != NULL) {
        struct npux_op *following = op->next;
        npux_sched_push_stager_locked(&e->sched, op);
        op = following;
    }
    pthread_mutex_unlock(&e->sched.mu);
}

/* Puts what was collected on its way: filled here if it is little and all memory is at hand, else by the
 * stager. */
static void start_pack(struct npux_engine *e, struct npux_packing *p, struct npux_ringer *ringer)
{
    struct npux_op *leader = p->first;
    struct npux_block *device, *stage = NULL;

    if (leader == NULL)
        return;
    if (p->nbytes <= e->opts.inline_nbytes) {
        device = npux_arena_try_get(e->device_arena, p->nbytes);
        if (device != NULL)
            stage = npux_arena_try_get(e->staging_arena[NPUX_H2D], p->nbytes);
        if (stage != NULL) {
            npux_engine_stage_pack(e, leader, device, stage, ringer);
            memset(p, 0, sizeof(*p));
            return;
        }
        if (device != NULL)
            npux_block_unref(device);
    }
    memset(p, 0, sizeof(*p));
    npux_engine_start_op(e, leader, ringer);
}

/* The op as one chunk that a lane can issue now, or NULL. H2D from pageable memory: small, with all memory at
 * hand, and filled by the caller's thread. */
static struct npux_chunk *ready_chunk(struct npux_engine *e, struct npux_op *op)
{
    bool is_filled = op->direction == NPUX_H2D && op->path == NPUX_STAGED;
    struct npux_block *stage = NULL;
    struct npux_chunk *chunk;

    if (op->host.nbytes > (is_filled ? e->opts.inline_nbytes : npux_engine_chunk_nbytes(e, op)))
        return NULL;
    if (op->device == NULL)
        op->device = npux_arena_try_get(e->device_arena, op->host.nbytes);
    if (op->device == NULL)
        return NULL;
    if (is_filled) {
        stage = npux_arena_try_get(e->staging_arena[NPUX_H2D], op->host.nbytes);
        if (stage == NULL)
            return NULL;
        npux_host_read(&op->host, 0, stage->address, op->host.nbytes);
    }
    chunk = npux_chunk_new(op, 0, op->host.nbytes); /* takes over the one count of n_chunks_left */
    chunk->stage = stage;
    return chunk;
}

/* The path of an op, before any lock. */
static void prepare_op(struct npux_engine *e, struct npux_op *op)
{
    if (op->host.nbytes == 0) {
        op->path = NPUX_NOTHING;
        op->fresh = true;
        return;
    }
    if (op->from == NULL)
        npux_host_bounds(&op->host, &op->host_low, &op->host_high);
    if (op->from == NULL && op->host.nd == NULL)
        op->pinned = npux_arena_find(e->pinned_arena, op->host.base, op->host.nbytes);
    op->path = op->pinned != NULL || op->from != NULL ? NPUX_DIRECT : NPUX_STAGED;
    op->fresh = op->device == NULL;
    atomic_init(&op->n_unfilled, op->host.nbytes);
}

static bool is_foreign(const struct npux_engine *e, const struct npux_block *block)
{
    return block != NULL && npux_block_arena(block) != e->device_arena &&
           npux_block_arena(block) != e->lent_arena;
}

/* Who waits for a block is known, under its sched->mu, to the engine that made it. */
static int refuse_foreign(const struct npux_engine *e, const struct npux_request *request,
                          struct npux_err *err)
{
    for (uint32_t i = 0; i < request->n_ops; i++) {
        if (is_foreign(e, request->ops[i].device) || is_foreign(e, request->ops[i].from))
            return npux_fail(err, -EXDEV, "submit", "the device memory belongs to another scheduler");
    }
    return 0;
}

static int refuse_locked(const struct npux_engine *e, struct npux_err *err)
{
    if (e->dead) {
        *err = e->death;
        return err->status = -EOWNERDEAD;
    }
    if (e->closing)
        return npux_fail(err, -ESHUTDOWN, "submit", "the scheduler is closed");
    return 0;
}

/* How a request of one op fits into this turn of its loop, see turn.h. */
struct place {
    struct npux_open_pack *pack;  /* it has a place here */
    struct npux_open_pack *spare; /* to become the open pack */
    bool wants_spare;             /* nothing was decided yet */
    bool opens_turn;
    bool quiet; /* no lane is woken for it */
};

static bool is_deferred_locked(const struct npux_sched *s, const struct npux_op *op)
{
    return op->request->n_ops == 1 && op->request->port->has_turns && op->request->priority == NPUX_NORMAL &&
           (s->turn.open[op->direction] || s->n_on_way[op->direction] > 1);
}

/* Finds the place of an op that starts now. A turn is opened only by one whose source is captured by submit
 * for sure, because its note takes the place of CAPTURED. */
static void find_place_locked(struct npux_engine *e, struct npux_op *op, struct place *place)
{
    struct npux_turn *turn = &e->sched.turn;
    bool is_sure;

    if (!op->starts_now || op->path == NPUX_NOTHING || op->request->after != NULL ||
        !is_deferred_locked(&e->sched, op))
        return;
    if (npux_may_pack(op) && op->host.nbytes <= e->opts.inline_nbytes) {
        place->pack = npux_open_pack_reserve_locked(e, op, &place->spare);
        if (place->pack == NULL && turn->n_refused > 0) {
            turn->n_refused--;
        } else if (place->pack == NULL && !place->wants_spare) {
            place->wants_spare = true;
            return;
        }
    }
    place->wants_spare = false;
    is_sure =
        place->pack != NULL || ((op->direction == NPUX_D2H || op->path == NPUX_DIRECT) &&
                                op->device != NULL && op->host.nbytes <= npux_engine_chunk_nbytes(e, op));
    place->opens_turn = is_sure && !turn->open[op->direction];
    place->quiet = is_sure || turn->open[op->direction];
    if (is_sure)
        turn->open[op->direction] = true;
}

static void push_chunks(struct npux_engine *e, struct npux_chunk *chunks, bool quiet)
{
    enum npux_direction direction;

    if (chunks == NULL)
        return;
    direction = (enum npux_direction)chunks->op->direction;
    pthread_mutex_lock(&e->sched.mu);
    npux_sched_append_ready_locked(&e->sched, direction, chunks);
    if (!quiet)
        npux_sched_wake_locked(&e->sched, direction);
    pthread_mutex_unlock(&e->sched.mu);
}

static void start_in_pack(struct npux_engine *e, struct npux_op *op, struct npux_open_pack *pack,
                          struct npux_ringer *ringer)
{
    npux_open_pack_fill(pack, op);
    npux_engine_captured(op, ringer);
    npux_open_pack_commit(e, pack);
}

static void start_one(struct npux_engine *e, struct npux_op *op, const struct place *place,
                      struct npux_ringer *ringer)
{
    struct npux_chunk *chunk;

    if (op->request->after != NULL) {
        npux_engine_start_op(e, op, ringer);
        return;
    }
    if (place->opens_turn) { /* before the op can be done, so that its note comes before DONE */
        op->request->captured_note.what = NPUX_FLUSH;
        npux_port_push(op->request->port, &op->request->captured_note);
        npux_port_ring(op->request->port);
    }
    if (place->pack != NULL) {
        start_in_pack(e, op, place->pack, ringer);
        return;
    }
    chunk = ready_chunk(e, op);
    if (chunk == NULL) {
        npux_engine_start_op(e, op, ringer);
        return;
    }
    if (op->direction == NPUX_D2H || op->path != NPUX_SYNC)
        npux_engine_captured(op, ringer);
    push_chunks(e, chunk, place->quiet);
}

/* Several ops: small uploads to new memory are packed; the rest that can be issued now goes to the lanes at
 * once. */
static void start_many(struct npux_engine *e, struct npux_request *request, struct npux_ringer *ringer)
{
    struct npux_packing packing = {0};
    struct npux_chunk *ready[NPUX_N_DIRECTIONS] = {0}, **end[NPUX_N_DIRECTIONS];

    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        end[d] = &ready[d];
    for (uint32_t i = 0; i < request->n_ops; i++) {
        struct npux_op *op = &request->ops[i];
        struct npux_chunk *chunk;
        if (!op->starts_now)
            continue;
        if (op->path == NPUX_NOTHING) {
            npux_engine_retire(e, op, ringer);
            continue;
        }
        if (request->after != NULL) {
            npux_engine_start_op(e, op, ringer);
            continue;
        }
        if (npux_packing_add(&packing, op))
            continue;
        if (npux_may_pack(op)) { /* that one is full */
            start_pack(e, &packing, ringer);
            npux_packing_add(&packing, op);
            continue;
        }
        chunk = ready_chunk(e, op);
        if (chunk == NULL) {
            npux_engine_start_op(e, op, ringer);
            continue;
        }
        npux_engine_captured(op, ringer);
        *end[op->direction] = chunk;
        end[op->direction] = &chunk->next;
    }
    start_pack(e, &packing, ringer);
    ready[NPUX_D2H] = npux_pack_merge(ready[NPUX_D2H]);
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        push_chunks(e, ready[d], false);
}

/* The window has no room for the request. An empty one takes anything, or a large request would wait for
 * ever. */
static bool is_window_full(const struct npux_engine *e, const struct npux_request *request, uint64_t nbytes)
{
    const struct npux_sched *s = &e->sched;

    if (s->n_pending == 0)
        return false;
    return (e->opts.window_ops != 0 && s->n_pending + request->n_ops > e->opts.window_ops) ||
           (e->opts.window_nbytes != 0 && s->pending_nbytes + nbytes > e->opts.window_nbytes);
}

/* A transfer whose end somebody waits for may be copied synchronously, unless it goes with others. */
static void choose_path_locked(struct npux_sched *s, struct npux_op *op, const struct place *place)
{
    enum npux_direction d = (enum npux_direction)op->direction;
    bool alone = s->n_on_way[d] == 1;

    if (op->request->n_ops != 1 || op->request->after != NULL || !op->starts_now || op->path != NPUX_STAGED ||
        op->host.nd != NULL || place->pack != NULL || place->wants_spare ||
        (d == NPUX_H2D && !op->request->awaits_end))
        return;
    if (npux_plan_choose_sync(&s->plan, d, op->host.nbytes, alone))
        op->path = NPUX_SYNC;
    if (alone) {
        op->alone_ns = npux_now_ns();
        op->n_earlier = s->n_submitted[d] - 1;
    }
}

static void count_in(struct npux_sched *s, int direction)
{
    s->n_submitted[direction]++;
    s->n_on_way[direction]++;
}

/* Its ops start when the requests that it follows are over. */
static void hold_back(struct npux_request *request)
{
    for (uint32_t i = 0; i < request->n_ops; i++) {
        request->ops[i].n_blockers++;
        request->ops[i].starts_now = false;
    }
}

/* Enters the request into the books. */
static int admit(struct npux_engine *e, struct npux_request *request, struct place *place,
                 struct npux_err *err)
{
    uint64_t nbytes = 0;
    int rc;

    for (uint32_t i = 0; i < request->n_ops; i++)
        nbytes += request->ops[i].host.nbytes;
    request->submitted_ns = npux_coarse_ns();
    pthread_mutex_lock(&e->sched.mu);
    rc = refuse_locked(e, err);
    if (rc == 0 && is_window_full(e, request, nbytes))
        rc = npux_fail(err, -EAGAIN, "submit", "the window is full");
    if (rc == 0 && request->after != NULL)
        rc = npux_after_admit_locked(e, request, err);
    if (rc == 0) {
        e->sched.pending_nbytes += nbytes;
        e->sched.n_pending += request->n_ops;
        npux_sched_live_add_locked(&e->sched, request);
        for (uint32_t i = 0; i < request->n_ops; i++)
            request->ops[i].starts_now = npux_order_admit_locked(&e->sched.order, &request->ops[i]);
        if (request->after != NULL && request->after->n_follows_left != 0)
            hold_back(request);
        for (uint32_t i = 0; i < request->n_ops; i++)
            count_in(&e->sched, request->ops[i].direction);
        find_place_locked(e, &request->ops[0], place);
        choose_path_locked(&e->sched, &request->ops[0], place);
    }
    pthread_mutex_unlock(&e->sched.mu);
    return rc;
}

/* A second look, with the memory for a new pack. */
static void place_with_spare(struct npux_engine *e, struct npux_op *op, struct place *place)
{
    place->spare = npux_open_pack_new(e);
    pthread_mutex_lock(&e->sched.mu);
    if (place->spare == NULL && e->sched.turn.spare == NULL)
        npux_sched_want_memory_locked(&e->sched);
    find_place_locked(e, op, place);
    pthread_mutex_unlock(&e->sched.mu);
    npux_open_pack_free(place->spare);
}

int npux_engine_submit(struct npux_engine *e, struct npux_request *request, bool *captured,
                       struct npux_err *err)
{
    struct npux_ringer ringer = {0};
    struct npux_op *first = request->ops;
    struct place place = {0};
    int rc;

    if (request->n_ops == 0)
        return npux_fail(err, -EINVAL, "submit", "a request without transfers has no end to wait for");
    rc = refuse_foreign(e, request, err);
    if (rc == 0)
        rc = npux_engine_enter(e, "submit", err); /* close waits for us before it takes the arenas away */
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < request->n_ops; i++)
        prepare_op(e, &request->ops[i]);
    rc = admit(e, request, &place, err);
    if (rc != 0) {
        npux_engine_leave(e);
        return rc;
    }
    /* From here on an op may finish at any time; the request stays, because submit holds one capture count
     * and nobody frees it before the user's thread, which is this one, drains the port. */
    if (place.wants_spare)
        place_with_spare(e, first, &place);
    if (request->n_ops > 1)
        start_many(e, request, &ringer);
    else if (first->path == NPUX_NOTHING && first->starts_now)
        npux_engine_retire(e, first, &ringer);
    else if (first->starts_now)
        start_one(e, first, &place, &ringer);
    *captured = npux_request_uncount_capture(request);
    npux_ringer_flush(&ringer);
    npux_engine_leave(e);
    return 0;
}

void npux_engine_flush(struct npux_engine *e)
{
    struct npux_sched *s = &e->sched;

    pthread_mutex_lock(&s->mu);
    s->turn.open[NPUX_H2D] = s->turn.open[NPUX_D2H] = false;
    npux_sched_append_ready_locked(s, NPUX_H2D, npux_open_pack_close_locked(&s->turn));
    npux_sched_wake_locked(s, NPUX_H2D);
    npux_sched_wake_locked(s, NPUX_D2H);
    pthread_mutex_unlock(&s->mu);
}
