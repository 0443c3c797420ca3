#include "core/lane.h"

#include <errno.h>

#include "base/join.h"
#include "core/faults.h"
#include "core/pack.h"

/* How long one timed wait on a stream lasts. A healthy batch is far shorter; a longer wait only delays how
 * soon a lane notices that it should give up, a shorter one wakes an idle machine. */
enum { SYNC_TICK_MS = 1000 };
static const size_t DRAIN_NBYTES = (size_t)256 << 10; /* from here on a stager empties what has landed */

static bool device_is_lost(int code)
{
    return code == ACL_ERROR_RT_LOST_HEARTBEAT || code == 507901 || code == 507899;
}

/* Finds a staging block for a D2H chunk. False: none now, and this lane holds some already. */
static bool stage_for_d2h(struct npux_lane *lane, struct npux_chunk *chunk, bool holding,
                          struct npux_err *err)
{
    struct npux_arena *arena = lane->d2h_staging;

    err->status = 0;
    for (;;) {
        uint64_t seen = npux_arena_returns(arena);
        int rc = npux_arena_get(arena, chunk->copy_nbytes, &chunk->stage, err);
        if (rc != -ENOSPC) {
            err->status = rc;
            return true;
        }
        err->status = 0;
        if (holding)
            return false;
        if (chunk->packed == NULL && npux_op_withdrawn(chunk->op)) {
            npux_fail_dropped(chunk->op, err);
            return true;
        }
        if (atomic_load(&lane->engine->abandon) || atomic_load(&lane->engine->dead)) {
            npux_fail(err, -ESHUTDOWN, "close", "closed while waiting for staging memory");
            return true;
        }
        npux_arena_wait(arena, seen); /* other lanes hold them, and never wait while they do */
    }
}

/* One aclrtMemcpyAsync for the chunk; fills acl_code and the ids of the tasks it became. */
static void copy_async(struct npux_lane *lane, struct npux_chunk *chunk)
{
    const struct npux_acl *acl = lane->engine->acl;
    struct npux_op *op = chunk->op;
    char *device = npux_op_device_address(op) + chunk->offset;
    char *host = chunk->stage != NULL ? chunk->stage->address : op->host.base + chunk->offset;
    uint32_t before = 0, after = 0;
    bool ids = lane->engine->runtime->faults_known && lane->stream_id >= 0;

    ids = ids && acl->aclrtGetThreadLastTaskId(&before) == ACL_SUCCESS;
    if (lane->direction == NPUX_H2D)
        chunk->acl_code = acl->aclrtMemcpyAsync(
            device, chunk->copy_nbytes, host, chunk->copy_nbytes,
            op->from != NULL ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_HOST_TO_DEVICE, lane->stream);
    else
        chunk->acl_code = acl->aclrtMemcpyAsync(host, chunk->copy_nbytes, device, chunk->copy_nbytes,
                                                ACL_MEMCPY_DEVICE_TO_HOST, lane->stream);
    chunk->issued = chunk->acl_code == ACL_SUCCESS;
    if (chunk->issued)
        atomic_store_explicit(&op->issued_on, lane->stream_id + NPUX_ISSUED_ON, memory_order_relaxed);
    if (ids && chunk->issued && acl->aclrtGetThreadLastTaskId(&after) == ACL_SUCCESS) {
        chunk->first_task = (uint16_t)(before + 1);
        chunk->last_task = (uint16_t)after;
        chunk->tasks_known = (uint16_t)after != (uint16_t)before;
    }
}

/* One synchronisation of the stream. *drained becomes false if we gave up waiting. */
static int sync_stream(struct npux_lane *lane, bool *drained)
{
    const struct npux_acl *acl = lane->engine->acl;
    int code;

    while ((code = acl->aclrtSynchronizeStreamWithTimeout(lane->stream, SYNC_TICK_MS)) ==
           ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) {
        acl->aclGetRecentErrMsg(); /* the expiry left a message; it must not turn up in a later report */
        if (atomic_load(&lane->engine->abandon)) {
            *drained = false;
            break;
        }
    }
    return code;
}

/* Waits until the stream is empty. Returns the runtime's code; *drained is false if we gave up first. The
 * error of a copy is returned once, by a synchronisation that did wait, but the call can also
 * fail by itself with copies still queued. So after an error a second one waits; if that fails too, nothing
 * can. */
static int drain_stream(struct npux_lane *lane, bool *drained)
{
    int code;

    *drained = true;
    code = sync_stream(lane, drained);
    if (code != ACL_SUCCESS && *drained)
        sync_stream(lane, drained);
    return code;
}

/* The stream may still use the memory of these chunks: they are kept for good. */
static void give_up(struct npux_lane *lane, struct npux_chunk *chunks)
{
    lane->kept = chunks;
    atomic_store(&lane->stuck, true);
}

static void count_copies(struct npux_lane *lane, size_t n_copies, size_t n_reissued)
{
    struct npux_sched *s = &lane->engine->sched;

    pthread_mutex_lock(&s->mu);
    s->counters.copies[lane->direction] += n_copies;
    s->counters.reissued[lane->direction] += n_reissued;
    pthread_mutex_unlock(&s->mu);
}

/* The chunk did not arrive: its op, and those packed with it, fail with this error. */
static void settle_failed(struct npux_lane *lane, struct npux_chunk *chunk, const struct npux_err *err,
                          struct npux_ringer *ringer)
{
    npux_engine_fail_chunk(lane->engine, chunk, lane->stream_id, err);
    npux_engine_retire_chunk(lane->engine, chunk, ringer);
}

/* The chunk arrived, proved by a synchronisation; a staged D2H chunk still goes to the user's memory. One
 * whose call failed is here only because a part of it might have been queued; its op has failed already. */
static void settle_landed(struct npux_lane *lane, struct npux_chunk *chunk, struct npux_ringer *ringer)
{
    if (lane->direction == NPUX_D2H && chunk->stage != NULL && chunk->issued) {
        /* Emptying a large one would keep the stream idle. */
        bool all_starved = false;
        bool pushed = chunk->copy_nbytes >= DRAIN_NBYTES &&
                      npux_sched_push_drain(&lane->engine->sched, chunk, &all_starved);
        if (pushed && all_starved)
            npux_arena_wake(lane->engine->staging_arena[NPUX_H2D]);
        if (pushed)
            return;
        npux_chunk_write_out(chunk);
    }
    npux_engine_retire_chunk(lane->engine, chunk, ringer);
}

/* Copies one chunk again, alone on the stream, so that the synchronisation speaks of it only. Repeating is
 * harmless: source and destination belong to this op until it is done. */
static void settle_by_reissue(struct npux_lane *lane, struct npux_chunk *chunk, struct npux_ringer *ringer)
{
    struct npux_err err;
    bool drained = true;
    int code;

    copy_async(lane, chunk);
    code = drain_stream(lane, &drained);
    if (!chunk->issued)
        code = chunk->acl_code;
    count_copies(lane, 1, 1);
    if (code == ACL_SUCCESS) {
        settle_landed(lane, chunk, ringer);
    } else if (drained) {
        npux_runtime_fail(lane->engine->acl, &err, code, "aclrtMemcpyAsync");
        if (device_is_lost(code))
            npux_engine_die(lane->engine, &err, ringer);
        if (chunk->tasks_known) /* used up, or it would be taken for a later task with this number */
            npux_faults_take(lane->engine->opts.device, lane->stream_id, chunk->first_task, chunk->last_task);
        settle_failed(lane, chunk, &err, ringer);
    } else {
        give_up(lane, chunk);
    }
}

/* The synchronisation of a batch failed. In CONTINUE mode the other copies went on, and which one failed is
 * known from the runtime's report, or because it was alone; everything else is proved again one by one. */
static void settle_batch_failed(struct npux_lane *lane, struct npux_chunk *batch, bool alone, int code,
                                struct npux_ringer *ringer)
{
    struct npux_engine *e = lane->engine;
    struct npux_err err;

    npux_runtime_fail(e->acl, &err, code, "aclrtMemcpyAsync");
    if (device_is_lost(code))
        npux_engine_die(e, &err, ringer);
    while (batch != NULL && !atomic_load(&lane->stuck)) {
        struct npux_chunk *chunk = batch;
        int reported = 0;
        batch = chunk->next;
        if (!chunk->issued) {
            npux_engine_retire_chunk(e, chunk, ringer);
            continue;
        }
        if (chunk->tasks_known)
            reported = npux_faults_take(e->opts.device, lane->stream_id, chunk->first_task, chunk->last_task);
        if (reported != 0)
            err.acl_code = reported;
        if (reported != 0 || alone || atomic_load(&e->dead))
            settle_failed(lane, chunk, &err, ringer);
        else
            settle_by_reissue(lane, chunk, ringer);
    }
}

/* The runtime's own copy of pageable memory; what it returns is the proof. */
static void copy_sync(struct npux_lane *lane, struct npux_chunk *chunk, struct npux_ringer *ringer)
{
    struct npux_engine *e = lane->engine;
    char *device = npux_op_device_address(chunk->op) + chunk->offset;
    char *host = chunk->op->host.base + chunk->offset;
    struct npux_err err;
    int code;

    atomic_store_explicit(&chunk->op->issued_on, lane->stream_id + NPUX_ISSUED_ON, memory_order_relaxed);
    if (lane->direction == NPUX_H2D)
        code = e->acl->aclrtMemcpy(device, chunk->nbytes, host, chunk->nbytes, ACL_MEMCPY_HOST_TO_DEVICE);
    else
        code = e->acl->aclrtMemcpy(host, chunk->nbytes, device, chunk->nbytes, ACL_MEMCPY_DEVICE_TO_HOST);
    count_copies(lane, 1, 0);
    if (code == ACL_SUCCESS) {
        npux_engine_retire_chunk(e, chunk, ringer);
        return;
    }
    npux_runtime_fail(e->acl, &err, code, "aclrtMemcpy");
    if (device_is_lost(code))
        npux_engine_die(e, &err, ringer);
    settle_failed(lane, chunk, &err, ringer);
}

enum issued { ISSUED, SETTLED, NOT_NOW };

/* Issues one chunk; or settles it at once, after which it may be gone; or finds no staging memory for it. A
 * call that fails may leave a part of its copy on the stream, so that chunk is kept until it is
 * drained. */
static enum issued issue(struct npux_lane *lane, struct npux_chunk *chunk, bool holding,
                         struct npux_ringer *ringer)
{
    struct npux_engine *e = lane->engine;
    struct npux_err err = {0};

    if (atomic_load(&chunk->op->failed)) {
        npux_engine_retire_chunk(e, chunk, ringer);
        return SETTLED;
    }
    if (atomic_load(&e->dead))
        err = e->death;
    else if (atomic_load(&e->abandon))
        npux_fail(&err, -ESHUTDOWN, "close", "the scheduler was closed before this transfer started");
    else if (lane->direction == NPUX_D2H && chunk->op->path == NPUX_STAGED && chunk->stage == NULL &&
             !stage_for_d2h(lane, chunk, holding, &err))
        return NOT_NOW;
    if (err.status == 0 && chunk->op->path == NPUX_SYNC) {
        copy_sync(lane, chunk, ringer);
        return SETTLED;
    }
    if (err.status == 0) {
        copy_async(lane, chunk);
        if (chunk->issued)
            return ISSUED;
        npux_runtime_fail(e->acl, &err, chunk->acl_code, "aclrtMemcpyAsync");
        if (device_is_lost(err.acl_code))
            npux_engine_die(e, &err, ringer);
        npux_engine_fail_chunk(e, chunk, lane->stream_id, &err);
        return ISSUED;
    }
    settle_failed(lane, chunk, &err, ringer);
    return SETTLED;
}

/* Issues the batch; returns the chunks that the stream may have now, in order. */
static struct npux_chunk *issue_batch(struct npux_lane *lane, struct npux_chunk *batch, size_t *n_issued,
                                      struct npux_ringer *ringer)
{
    struct npux_chunk *first = NULL, **end = &first;

    *n_issued = 0;
    while (batch != NULL) {
        struct npux_chunk *chunk = batch;
        batch = chunk->next;
        chunk->next = NULL;
        switch (issue(lane, chunk, first != NULL, ringer)) {
        case ISSUED:
            *end = chunk;
            end = &chunk->next;
            *n_issued += chunk->issued;
            break;
        case SETTLED:
            break;
        case NOT_NOW:
            chunk->next = batch;
            npux_sched_push_back(&lane->engine->sched, lane->direction, chunk);
            batch = NULL;
            break;
        }
    }
    return first;
}

void npux_lane_drain(struct npux_lane *lane)
{
    bool drained;

    drain_stream(lane, &drained);
    if (!drained)
        give_up(lane, NULL);
}

/* Takes what was withdrawn out of a batch. */
static struct npux_chunk *drop_withdrawn(struct npux_lane *lane, struct npux_chunk *batch,
                                         struct npux_ringer *ringer)
{
    struct npux_chunk **at = &batch;
    struct npux_err err;

    while (*at != NULL) {
        struct npux_chunk *chunk = *at;
        if (chunk->packed != NULL || !npux_op_withdrawn(chunk->op)) {
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        npux_fail_dropped(chunk->op, &err);
        settle_failed(lane, chunk, &err, ringer);
    }
    return batch;
}

bool npux_lane_run(struct npux_lane *lane, struct npux_chunk *batch, const struct npux_batch *taken)
{
    struct npux_sched *s = &lane->engine->sched;
    struct npux_ringer ringer = {0};
    bool drained;
    size_t n_issued;
    int code;

    batch = drop_withdrawn(lane, batch, &ringer);
    if (lane->direction == NPUX_D2H)
        batch = npux_pack_merge(batch);
    batch = issue_batch(lane, batch, &n_issued, &ringer);
    npux_ringer_flush(&ringer);
    if (batch == NULL) {
        npux_sched_batch_done(s, lane->direction, taken, true);
        return false;
    }
    count_copies(lane, n_issued, 0);
    code = drain_stream(lane, &drained);
    if (!drained) {
        give_up(lane, batch);
        return true;
    }
    npux_sched_batch_done(s, lane->direction, taken, code == ACL_SUCCESS);
    if (code != ACL_SUCCESS) {
        settle_batch_failed(lane, batch, batch->next == NULL, code, &ringer);
    } else {
        while (batch != NULL) {
            struct npux_chunk *chunk = batch;
            batch = chunk->next;
            settle_landed(lane, chunk, &ringer);
        }
    }
    npux_ringer_flush(&ringer);
    return true;
}

int npux_lane_open(struct npux_lane *lane)
{
    const struct npux_acl *acl = lane->engine->acl;
    int code = acl->aclrtSetCurrentContext(lane->engine->context);

    if (code != ACL_SUCCESS)
        return npux_runtime_fail(acl, &lane->open_err, code, "aclrtSetCurrentContext");
    /* FAST_LAUNCH reserves what a launch needs. Not FAST_SYNC, which makes a waiting thread poll. */
    code = acl->aclrtCreateStreamWithConfig(&lane->stream, 0, ACL_STREAM_FAST_LAUNCH);
    if (code != ACL_SUCCESS)
        return npux_runtime_fail(acl, &lane->open_err, code, "aclrtCreateStreamWithConfig");
    lane->stream_id = -1;
    if (acl->aclrtStreamGetId != NULL && acl->aclrtStreamGetId(lane->stream, &lane->stream_id) != ACL_SUCCESS)
        lane->stream_id = -1;
    return 0;
}

static void *lane_main(void *argument)
{
    struct npux_lane *lane = argument;
    struct npux_sched *s = &lane->engine->sched;
    struct npux_chunk *batch;
    struct npux_batch taken;

    lane->open_status = npux_lane_open(lane);
    pthread_mutex_lock(&s->mu);
    atomic_store(&lane->ready, true);
    pthread_cond_broadcast(&s->drained_cv);
    pthread_mutex_unlock(&s->mu);
    if (lane->open_status != 0)
        return NULL;
    while (!atomic_load(&lane->stuck) && (batch = npux_sched_take_ready(s, lane->direction, &taken)) != NULL)
        npux_lane_run(lane, batch, &taken);
    if (!atomic_load(&lane->stuck))
        lane->teardown_code = lane->engine->acl->aclrtDestroyStream(lane->stream);
    return NULL;
}

int npux_lane_start(struct npux_lane *lane, struct npux_engine *e, enum npux_direction direction,
                    struct npux_err *err)
{
    int rc;

    lane->engine = e;
    lane->direction = direction;
    lane->d2h_staging = e->staging_arena[NPUX_D2H];
    rc = pthread_create(&lane->thread, NULL, lane_main, lane);
    if (rc != 0)
        return npux_fail(err, -rc, "pthread_create", "cannot start a thread for a stream");
    lane->started = true;
    pthread_mutex_lock(&e->sched.mu);
    while (!atomic_load(&lane->ready))
        pthread_cond_wait(&e->sched.drained_cv, &e->sched.mu);
    pthread_mutex_unlock(&e->sched.mu);
    if (lane->open_status != 0)
        *err = lane->open_err;
    return lane->open_status;
}

bool npux_lane_join(struct npux_lane *lane, uint64_t deadline_ns)
{
    if (!lane->started)
        return true;
    lane->started = false;
    return npux_join(lane->thread, deadline_ns);
}
