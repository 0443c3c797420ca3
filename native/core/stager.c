#include "core/stager.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/join.h"
#include "core/pack.h"

/* The op gets no further chunks. */
static void give_up(struct npux_engine *e, struct npux_op *op, const struct npux_err *err,
                    struct npux_ringer *ringer)
{
    npux_engine_refuse_op(e, op, err, ringer);
}

static void empty_chunk(struct npux_engine *e, struct npux_chunk *chunk, struct npux_ringer *ringer)
{
    npux_chunk_write_out(chunk);
    npux_engine_retire_chunk(e, chunk, ringer);
}

/* Sleeps until staging memory for uploads has come back since `seen`. Their stream may stand still, and
 * downloads go on all the same: what is queued before this is counted as starved is emptied here, and who
 * queues more when all are starved wakes them. */
static void starve(struct npux_engine *e, uint64_t seen, struct npux_ringer *ringer)
{
    struct npux_chunk *chunk;

    npux_open_pack_starve(e, true);
    while ((chunk = npux_sched_take_drain(&e->sched)) != NULL)
        empty_chunk(e, chunk, ringer);
    npux_ringer_flush(ringer); /* nobody else would, for as long as this sleeps */
    npux_arena_wait(e->staging_arena[NPUX_H2D], seen);
    npux_open_pack_starve(e, false);
}

/* A staging block, waiting for one to come back if the cap is reached. */
static int get_stage(struct npux_engine *e, const struct npux_op *op, size_t nbytes,
                     struct npux_block **stage, struct npux_err *err, struct npux_ringer *ringer)
{
    struct npux_arena *arena = e->staging_arena[NPUX_H2D];

    for (;;) {
        uint64_t seen = npux_arena_returns(arena);
        int rc = npux_arena_get(arena, nbytes, stage, err);
        if (rc != -ENOSPC)
            return rc;
        if (atomic_load(&e->abandon) || atomic_load(&e->dead))
            return npux_fail(err, -ESHUTDOWN, "close", "closed while waiting for staging memory");
        if (npux_op_withdrawn(op))
            return npux_fail_dropped(op, err);
        starve(e, seen, ringer);
    }
}

/* Cuts the next chunk off. If more is left, the op goes back to its queue at once, for the other stagers. */
static bool cut(struct npux_engine *e, struct npux_op *op, size_t *offset, size_t *nbytes)
{
    size_t left, most = npux_engine_chunk_nbytes(e, op);
    bool is_last;

    pthread_mutex_lock(&e->sched.mu);
    *offset = op->planned;
    left = op->host.nbytes - op->planned;
    is_last = left <= most;
    *nbytes = is_last ? left : most;
    op->planned += *nbytes;
    atomic_fetch_add_explicit(&op->n_chunks_left, 1, memory_order_relaxed);
    if (!is_last)
        npux_sched_push_stager_locked(&e->sched, op);
    pthread_mutex_unlock(&e->sched.mu);
    return is_last;
}

/* A chunk with staging memory, or NULL. */
static struct npux_chunk *get_chunk(struct npux_engine *e, struct npux_op *op, size_t offset, size_t nbytes,
                                    struct npux_err *err, struct npux_ringer *ringer)
{
    struct npux_block *stage;
    struct npux_chunk *chunk;

    if (get_stage(e, op, nbytes, &stage, err, ringer) != 0)
        return NULL;
    chunk = npux_chunk_new(op, offset, nbytes);
    if (chunk != NULL) {
        chunk->stage = stage;
        return chunk;
    }
    npux_block_unref(stage);
    npux_fail(err, -ENOMEM, "malloc", "no host memory for the chunks of a transfer");
    return NULL;
}

/* Fills and hands over one chunk. Who cuts the last one off gives back the count that stood for the planning.
 */
static void stage_chunk(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer)
{
    size_t offset, nbytes;
    bool is_last = cut(e, op, &offset, &nbytes);
    struct npux_err err;
    struct npux_chunk *chunk = get_chunk(e, op, offset, nbytes, &err, ringer);
    bool wanted;

    if (chunk != NULL) {
        npux_host_read(&op->host, offset, chunk->stage->address, nbytes);
        /* Acquire and release: whoever reads the last bytes knows that the others have been read. */
        if (atomic_fetch_sub_explicit(&op->n_unfilled, nbytes, memory_order_acq_rel) == nbytes)
            npux_engine_captured(op, ringer);
        pthread_mutex_lock(&e->sched.mu);
        wanted = !npux_op_withdrawn(op); /* a sweep may have passed already */
        if (wanted)
            npux_sched_push_ready_locked(&e->sched, NPUX_H2D, chunk);
        pthread_mutex_unlock(&e->sched.mu);
        if (!wanted) {
            npux_fail_dropped(op, &err);
            npux_engine_fail_op(e, op, -1, &err);
            npux_engine_retire_chunk(e, chunk, ringer);
        }
    } else {
        npux_engine_fail_op(e, op, -1, &err);
        npux_engine_retire(e, op, ringer);
    }
    if (is_last)
        npux_engine_retire(e, op, ringer);
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
    if (get_stage(e, leader, nbytes, &stage, &err, ringer) != 0) {
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
    if (atomic_load(&e->dead) || atomic_load(&e->abandon) || npux_op_withdrawn(op)) {
        if (atomic_load(&e->dead))
            err = e->death;
        else if (npux_op_withdrawn(op))
            npux_fail_dropped(op, &err);
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
    if (op->path != NPUX_STAGED)
        npux_engine_plan(e, op, ringer);
    else
        stage_chunk(e, op, ringer);
}

static bool do_work(struct npux_engine *e, const struct npux_staging *work, struct npux_ringer *ringer)
{
    if (work->wants_memory) {
        npux_open_pack_warm(e);
    } else if (work->drain != NULL) {
        empty_chunk(e, work->drain, ringer);
    } else if (work->op != NULL) {
        step(e, work->op, ringer);
    } else {
        return false;
    }
    return true;
}

enum { STAGER_NICE = 5 };

/* Copying is not urgent to the microsecond, and the loop's thread is: where they share a core, it goes first.
 * Counted from what the thread inherited: a process may run at a nicer priority than this already. */
static void step_back(void)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + STAGER_NICE);
}

static void *stager_main(void *argument)
{
    struct npux_engine *e = argument;
    struct npux_ringer ringer = {0};
    struct npux_staging work;
    bool more;
    int code = e->acl->aclrtSetCurrentContext(e->context);

    step_back();
    if (code != ACL_SUCCESS) {
        struct npux_err err;
        npux_runtime_fail(e->acl, &err, code, "aclrtSetCurrentContext");
        npux_engine_die(e, &err, &ringer);
        npux_ringer_flush(&ringer);
    }
    do {
        npux_sched_take_stager(&e->sched, &work);
        more = do_work(e, &work, &ringer);
        npux_ringer_flush(&ringer);
    } while (more);
    return NULL;
}

int npux_stagers_start(struct npux_engine *e)
{
    int rc = 0;

    e->stagers = calloc(e->opts.n_stagers, sizeof(*e->stagers));
    if (e->stagers == NULL)
        return -ENOMEM;
    while (rc == 0 && e->n_stagers < e->opts.n_stagers) {
        rc = pthread_create(&e->stagers[e->n_stagers], NULL, stager_main, e);
        e->n_stagers += rc == 0;
    }
    return -rc;
}

unsigned npux_stagers_join(struct npux_engine *e, uint64_t deadline_ns)
{
    unsigned n_stuck = 0;

    while (e->n_stagers > 0)
        n_stuck += !npux_join(e->stagers[--e->n_stagers], deadline_ns);
    if (n_stuck == 0) { /* else it goes the way of the engine: kept for good */
        free(e->stagers);
        e->stagers = NULL;
    }
    return n_stuck;
}
