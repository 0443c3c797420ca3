#include "core/stager.h"

#include <errno.h>

#include "base/join.h"
#include "core/pack.h"

/* The op gets no further chunks. */
static void give_up(struct npux_engine *e, struct npux_op *op, const struct npux_err *err,
                    struct npux_ringer *ringer)
{
    npux_engine_refuse_op(e, op, err, ringer);
}

/* A staging block, waiting for one to come back if the cap is reached. */
static int get_stage(struct npux_engine *e, size_t nbytes, struct npux_block **stage, struct npux_err *err)
{
    struct npux_arena *arena = e->staging_arena[NPUX_H2D];

    for (;;) {
        uint64_t seen = npux_arena_returns(arena);
        int rc = npux_arena_get(arena, nbytes, stage, err);
        if (rc != -ENOSPC)
            return rc;
        if (atomic_load(&e->abandon) || atomic_load(&e->dead))
            return npux_fail(err, -ESHUTDOWN, "close", "closed while waiting for staging memory");
        npux_arena_wait(arena, seen);
    }
}

/* Fills and hands over one chunk. Returns true when the op has more. */
static bool stage_chunk(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer)
{
    size_t left = op->host.nbytes - op->planned;
    size_t nbytes = left < e->opts.chunk_nbytes ? left : e->opts.chunk_nbytes;
    struct npux_block *stage;
    struct npux_chunk *chunk;
    struct npux_err err;

    if (get_stage(e, nbytes, &stage, &err) != 0) {
        give_up(e, op, &err, ringer);
        return false;
    }
    chunk = npux_chunk_new(op, op->planned, nbytes);
    if (chunk == NULL) {
        npux_block_unref(stage);
        npux_fail(&err, -ENOMEM, "malloc", "no host memory for the chunks of a transfer");
        give_up(e, op, &err, ringer);
        return false;
    }
    npux_host_read(&op->host, op->planned, stage->address, nbytes);
    chunk->stage = stage;
    op->planned += nbytes;
    if (nbytes == left)
        npux_engine_captured(op, ringer);
    atomic_fetch_add_explicit(&op->n_chunks_left, 1, memory_order_relaxed);
    pthread_mutex_lock(&e->sched.mu);
    npux_sched_push_ready_locked(&e->sched, NPUX_H2D, chunk);
    pthread_mutex_unlock(&e->sched.mu);
    if (nbytes < left)
        return true;
    npux_engine_retire(e, op, ringer);
    return false;
}

/* Finds memory for a pack and fills it. */
static void stage_pack(struct npux_engine *e, struct npux_op *leader, struct npux_ringer *ringer)
{
    size_t nbytes = npux_pack_nbytes(leader);
    struct npux_block *device, *stage;
    struct npux_err err;

    if (nbytes > e->opts.staging_nbytes || npux_arena_get(e->device_arena, nbytes, &device, &err) != 0) {
        npux_engine_unpack(e, leader);
        return;
    }
    if (get_stage(e, nbytes, &stage, &err) != 0) {
        npux_block_unref(device);
        give_up(e, leader, &err, ringer);
        return;
    }
    npux_engine_stage_pack(e, leader, device, stage, ringer);
}

static void step(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer)
{
    struct npux_err err;

    if (atomic_load(&op->failed)) {
        npux_engine_retire(e, op, ringer);
        return;
    }
    if (atomic_load(&e->dead) || atomic_load(&e->abandon)) {
        if (atomic_load(&e->dead))
            err = e->death;
        else
            npux_fail(&err, -ESHUTDOWN, "close", "the scheduler was closed before this transfer started");
        give_up(e, op, &err, ringer);
        return;
    }
    if (npux_op_leads_pack(op)) {
        stage_pack(e, op, ringer);
        return;
    }
    if (op->device == NULL && npux_arena_get(e->device_arena, op->host.nbytes, &op->device, &err) != 0) {
        give_up(e, op, &err, ringer);
        return;
    }
    if (op->path == NPUX_DIRECT) {
        npux_engine_plan(e, op, ringer);
    } else if (stage_chunk(e, op, ringer)) {
        pthread_mutex_lock(&e->sched.mu);
        npux_sched_push_stager_locked(&e->sched, op);
        pthread_mutex_unlock(&e->sched.mu);
    }
}

static void *stager_main(void *argument)
{
    struct npux_engine *e = argument;
    struct npux_ringer ringer = {0};
    struct npux_op *op;
    bool wants_memory;
    int code = e->acl->aclrtSetCurrentContext(e->context);

    if (code != ACL_SUCCESS) {
        struct npux_err err;
        npux_runtime_fail(e->acl, &err, code, "aclrtSetCurrentContext");
        npux_engine_die(e, &err, &ringer);
        npux_ringer_flush(&ringer);
    }
    while ((op = npux_sched_take_stager(&e->sched, &wants_memory)) != NULL || wants_memory) {
        if (wants_memory)
            npux_open_pack_warm(e);
        else
            step(e, op, &ringer);
        npux_ringer_flush(&ringer);
    }
    return NULL;
}

int npux_stager_start(struct npux_engine *e)
{
    int rc = pthread_create(&e->stager, NULL, stager_main, e);
    e->stager_started = rc == 0;
    return -rc;
}

bool npux_stager_join(struct npux_engine *e, uint64_t deadline_ns)
{
    if (!e->stager_started)
        return true;
    e->stager_started = false;
    return npux_join(e->stager, deadline_ns);
}
