#include "core/after.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/before.h"

int npux_afters_init(struct npux_engine *e)
{
    e->afters = calloc(1, sizeof(*e->afters));
    if (e->afters == NULL)
        return -ENOMEM;
    npux_events_init(&e->afters->events);
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        for (int i = 0; i < NPUX_N_AFTER; i++)
            npux_cond_init(&e->afters->lanes[d][i].cv);
    return 0;
}

void npux_afters_destroy(struct npux_engine *e)
{
    if (e->afters == NULL)
        return;
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        for (int i = 0; i < NPUX_N_AFTER; i++)
            pthread_cond_destroy(&e->afters->lanes[d][i].cv);
    npux_events_destroy(&e->afters->events);
    free(e->afters);
    e->afters = NULL;
}

/* Making one. --------------------------------------------------------------------------------------- */

struct recording {
    struct npux_after *after;
    void *const *streams;
    unsigned n_streams;
    struct npux_err *err;
};

static int record_on_foreign(void *argument)
{
    struct recording *r = argument;
    struct npux_after *after = r->after;
    struct npux_engine *e = after->engine;
    int code = e->acl->aclrtSetCurrentContext(e->context);

    if (code != ACL_SUCCESS)
        return npux_runtime_fail(e->acl, r->err, code, "aclrtSetCurrentContext");
    for (unsigned i = 0; i < r->n_streams; i++) {
        struct npux_wait *wait = &after->waits[after->n_waits];
        int rc = npux_events_get(&e->afters->events, e->acl, &wait->own, r->err);
        if (rc != 0)
            return rc;
        wait->event = wait->own->event;
        after->n_waits++; /* from here on it goes back with the others */
        code = e->acl->aclrtRecordEvent(wait->event, r->streams[i]);
        if (code != ACL_SUCCESS)
            return npux_runtime_fail(e->acl, r->err, code, "aclrtRecordEvent");
    }
    return 0;
}

static struct npux_after *allocate(struct npux_engine *e, unsigned n_waits, unsigned n_keys)
{
    struct npux_after *after = calloc(1, sizeof(*after) + n_waits * sizeof(after->waits[0]));

    if (after == NULL)
        return NULL;
    atomic_init(&after->n_refs, 1);
    after->engine = e;
    if (n_keys == 0)
        return after;
    after->keys = calloc(n_keys, sizeof(*after->keys));
    after->follows = calloc(n_keys, sizeof(*after->follows));
    if (after->keys != NULL && after->follows != NULL)
        return after;
    npux_after_unref(after);
    return NULL;
}

int npux_after_new(struct npux_engine *e, void *const *streams, unsigned n_streams, void *const *events,
                   unsigned n_events, const void *const *keys, unsigned n_keys, uint64_t deadline_ns,
                   struct npux_after **out, struct npux_err *err)
{
    struct npux_after *after;
    int rc = npux_engine_enter(e, "submit", err);

    if (rc != 0)
        return rc;
    after = allocate(e, n_streams + n_events, n_keys);
    if (after == NULL)
        rc = npux_fail(err, -ENOMEM, "calloc", "no host memory for what a transfer waits for");
    if (rc == 0 && n_streams != 0) {
        struct recording r = {after, streams, n_streams, err};
        rc = npux_control_call(&e->foreign, record_on_foreign, &r);
    }
    npux_engine_leave(e);
    if (rc != 0) {
        if (after != NULL)
            npux_after_unref(after);
        return rc;
    }
    for (unsigned i = 0; i < n_events; i++)
        after->waits[after->n_waits++].event = events[i];
    if (n_streams == 1 && n_events == 0)
        after->source = streams[0] != NULL ? streams[0] : e; /* NULL is the default stream */
    for (unsigned i = 0; i < n_keys; i++)
        after->keys[i] = keys[i];
    after->n_follows = n_keys;
    after->deadline_ns = deadline_ns;
    *out = after;
    return 0;
}

void npux_after_ref(struct npux_after *after)
{
    atomic_fetch_add(&after->n_refs, 1);
}

void npux_after_unref(struct npux_after *after)
{
    if (atomic_fetch_sub(&after->n_refs, 1) != 1)
        return;
    for (unsigned i = 0; i < after->n_waits; i++)
        if (after->waits[i].own != NULL)
            npux_events_put(&after->engine->afters->events, after->waits[i].own);
    free(after->keys);
    free(after->follows);
    free(after);
}

/* Other requests. ----------------------------------------------------------------------------------- */

int npux_after_admit_locked(struct npux_engine *e, struct npux_request *request, struct npux_err *err)
{
    struct npux_after *after = request->after;

    if (after->taken)
        return npux_fail(err, -EINVAL, "submit", "a wait belongs to one request");
    if (npux_deadline_enter_locked(e, request, err) != 0)
        return err->status;
    after->taken = true;
    for (unsigned i = 0; i < after->n_follows; i++) {
        struct npux_request *followed = npux_sched_find_live_locked(&e->sched, after->keys[i]);
        struct npux_follow *follow = &after->follows[i];
        if (followed == NULL)
            continue;
        follow->follower = request;
        follow->next = followed->followers;
        followed->followers = follow;
        after->n_follows_left++;
    }
    return 0;
}

struct npux_op *npux_followers_release_locked(struct npux_engine *e, struct npux_request *request,
                                              struct npux_op *started)
{
    struct npux_follow *follow = request->followers;

    request->followers = NULL;
    while (follow != NULL) {
        struct npux_request *follower = follow->follower;
        struct npux_before *before = follow->before;
        follow = follow->next;
        if (before != NULL) {
            npux_before_record_locked(e, before);
            continue;
        }
        if (--follower->after->n_follows_left != 0)
            continue;
        for (uint32_t i = follower->n_ops; i-- > 0;) { /* the first one ends up in front */
            struct npux_op *op = &follower->ops[i];
            if (--op->n_blockers != 0)
                continue;
            op->next = started;
            started = op;
        }
    }
    return started;
}

/* The queues of the lanes. -------------------------------------------------------------------------- */

static void append(struct npux_after **head, struct npux_after **tail, struct npux_after *after)
{
    after->next = NULL;
    if (*head == NULL)
        *head = after;
    else
        (*tail)->next = after;
    *tail = after;
}

static void *lane_main(void *argument);

/* A lane that has nothing to do, made if need be; NULL: all are at work. */
static struct npux_after_lane *idle_lane(struct npux_engine *e, enum npux_direction d)
{
    struct npux_after_lane *unmade = NULL;

    for (int i = 0; i < NPUX_N_AFTER; i++) {
        struct npux_after_lane *l = &e->afters->lanes[d][i];
        if (l->lane.started && !l->busy && l->head == NULL && !atomic_load(&l->lane.stuck))
            return l;
        if (!l->lane.started && unmade == NULL)
            unmade = l;
    }
    if (unmade == NULL)
        return NULL;
    unmade->lane.engine = e;
    unmade->lane.direction = d;
    unmade->lane.d2h_staging = e->afters->staging;
    if (pthread_create(&unmade->lane.thread, NULL, lane_main, unmade) != 0)
        return NULL;
    unmade->lane.started = true;
    return unmade;
}

static struct npux_after_lane *lane_of_source(struct npux_engine *e, enum npux_direction d,
                                              const void *source)
{
    for (int i = 0; source != NULL && i < NPUX_N_AFTER; i++) {
        struct npux_after_lane *l = &e->afters->lanes[d][i];
        if ((l->busy || l->head != NULL) && l->source == source)
            return l;
    }
    return NULL;
}

static void queue_locked(struct npux_engine *e, enum npux_direction d, struct npux_after *after)
{
    struct npux_after_lane *l = lane_of_source(e, d, after->source);

    after->queued = true;
    if (l == NULL)
        l = idle_lane(e, d);
    if (l == NULL) {
        append(&e->afters->head[d], &e->afters->tail[d], after);
        return;
    }
    l->source = after->source;
    append(&l->head, &l->tail, after);
    pthread_cond_signal(&l->cv);
}

bool npux_after_hold_locked(struct npux_engine *e, struct npux_op *op)
{
    struct npux_after *after = op->request->after;

    if (after == NULL || after->n_waits == 0 || after->met)
        return false;
    op->next = NULL;
    if (after->ops == NULL)
        after->ops = op;
    else
        after->ops_tail->next = op;
    after->ops_tail = op;
    if (!after->queued)
        queue_locked(e, (enum npux_direction)op->direction, after);
    return true;
}

/* Puts the ops of a queue in front of a list: all, or those that were withdrawn. */
static struct npux_op *purge_queue(struct npux_after **head, struct npux_after **tail, bool all,
                                   struct npux_op *ops)
{
    struct npux_after **at = head;

    *tail = NULL;
    while (*at != NULL) {
        struct npux_after *after = *at;
        if (!all && !npux_op_withdrawn(after->ops)) { /* its ops are of one request */
            *tail = after;
            at = &after->next;
            continue;
        }
        *at = after->next;
        after->ops_tail->next = ops;
        ops = after->ops;
        after->ops = NULL;
    }
    return ops;
}

struct npux_op *npux_afters_purge_locked(struct npux_engine *e, bool all)
{
    struct npux_op *ops = NULL;

    for (int d = 0; d < NPUX_N_DIRECTIONS; d++) {
        ops = purge_queue(&e->afters->head[d], &e->afters->tail[d], all, ops);
        for (int i = 0; i < NPUX_N_AFTER; i++) {
            struct npux_after_lane *l = &e->afters->lanes[d][i];
            ops = purge_queue(&l->head, &l->tail, all, ops);
        }
    }
    return ops;
}

/* The lanes. ---------------------------------------------------------------------------------------- */

/* Sleeps until there is something to do; NULL: stop. Its first op is led by the caller now, who also holds a
 * reference. */
static struct npux_after *take(struct npux_after_lane *l, struct npux_op **led)
{
    struct npux_engine *e = l->lane.engine;
    struct npux_afters *a = e->afters;
    struct npux_after **head;

    pthread_mutex_lock(&e->sched.mu);
    l->busy = false;
    for (;;) {
        struct npux_after *after;
        head = l->head != NULL ? &l->head : &a->head[l->lane.direction];
        after = *head;
        if (after != NULL) {
            *head = after->next;
            l->source = after->source;
            l->busy = true;
            npux_after_ref(after);
            *led = after->ops; /* not NULL: who takes ops away takes the wait out of the queue as well */
            after->ops = after->ops->next;
            pthread_mutex_unlock(&e->sched.mu);
            return after;
        }
        if (e->sched.stop)
            break;
        pthread_cond_wait(&l->cv, &e->sched.mu);
    }
    pthread_mutex_unlock(&e->sched.mu);
    return NULL;
}

/* The first chunk of an op, with all the memory that it needs. */
static struct npux_chunk *first_chunk(struct npux_after_lane *l, struct npux_op *op, struct npux_err *err,
                                      struct npux_ringer *ringer)
{
    struct npux_engine *e = l->lane.engine;
    size_t most = npux_engine_chunk_nbytes(e, op);
    size_t nbytes = op->host.nbytes < most ? op->host.nbytes : most;
    struct npux_block *stage = NULL;
    struct npux_chunk *chunk;

    if (op->device == NULL && npux_arena_get(e->device_arena, op->host.nbytes, &op->device, err) != 0)
        return NULL;
    if (op->direction == NPUX_H2D && op->path == NPUX_STAGED &&
        npux_arena_get(e->afters->staging, nbytes, &stage, err) != 0)
        return NULL;
    chunk = npux_chunk_new(op, 0, nbytes);
    if (chunk == NULL) {
        if (stage != NULL)
            npux_block_unref(stage);
        npux_fail(err, -ENOMEM, "malloc", "no host memory for the chunks of a transfer");
        return NULL;
    }
    chunk->stage = stage;
    if (stage != NULL) {
        npux_host_read(&op->host, 0, stage->address, nbytes);
        if (atomic_fetch_sub_explicit(&op->n_unfilled, nbytes, memory_order_acq_rel) == nbytes)
            npux_engine_captured(op, ringer);
    }
    return chunk;
}

/* Makes the lane's stream wait. *n_issued: how many of the waits it has got. */
static int issue_waits(struct npux_after_lane *l, const struct npux_after *after, unsigned *n_issued,
                       struct npux_err *err)
{
    const struct npux_acl *acl = l->lane.engine->acl;

    for (*n_issued = 0; *n_issued < after->n_waits; ++*n_issued) {
        int code = acl->aclrtStreamWaitEvent(l->lane.stream, after->waits[*n_issued].event);
        if (code != ACL_SUCCESS)
            return npux_runtime_fail(acl, err, code, "aclrtStreamWaitEvent");
    }
    return 0;
}

static int refusal(const struct npux_engine *e, const struct npux_lane *lane, const struct npux_op *op,
                   struct npux_err *err)
{
    if (npux_op_withdrawn(op))
        return npux_fail_dropped(op, err);
    if (lane->open_status != 0) {
        *err = lane->open_err;
        return err->status;
    }
    if (atomic_load(&e->dead)) {
        *err = e->death;
        return err->status;
    }
    if (atomic_load(&e->abandon))
        return npux_fail(err, -ESHUTDOWN, "close", "the scheduler was closed before this transfer started");
    return 0;
}

/* Copies the first chunk of the op behind its waits. False: the op has failed. A lane that is stuck
 * afterwards keeps everything. */
static bool lead(struct npux_after_lane *l, const struct npux_after *after, struct npux_op *op,
                 size_t *nbytes, struct npux_ringer *ringer)
{
    struct npux_engine *e = l->lane.engine;
    const struct npux_batch taken = {0};
    struct npux_chunk *chunk = NULL;
    struct npux_err err;
    unsigned n_issued = 0;
    int rc = refusal(e, &l->lane, op, &err);

    if (rc == 0 && (chunk = first_chunk(l, op, &err, ringer)) == NULL)
        rc = -1;
    npux_ringer_flush(ringer);
    if (rc == 0) {
        *nbytes = chunk->nbytes;
        rc = issue_waits(l, after, &n_issued, &err);
    }
    if (rc == 0) {
        atomic_fetch_add_explicit(&op->n_chunks_left, 1, memory_order_relaxed);
        if (!npux_lane_run(&l->lane, chunk, &taken)) /* withdrawn meanwhile, or no memory */
            npux_lane_drain(&l->lane);
        return !atomic_load(&op->failed);
    }
    npux_engine_fail_op(e, op, l->lane.stream_id, &err);
    if (chunk != NULL) {
        atomic_fetch_add_explicit(&op->n_chunks_left, 1, memory_order_relaxed);
        npux_engine_retire_chunk(e, chunk, ringer);
    }
    if (n_issued != 0) /* the stream must be empty for the next one */
        npux_lane_drain(&l->lane);
    return false;
}

/* Does one wait. The planning count of the op that it leads keeps it, and the request, until the end. */
static void run(struct npux_after_lane *l, struct npux_after *after, struct npux_op *op)
{
    struct npux_engine *e = l->lane.engine;
    struct npux_ringer ringer = {0};
    struct npux_op *others = NULL;
    size_t nbytes = 0;
    bool ok = lead(l, after, op, &nbytes, &ringer);

    if (atomic_load(&l->lane.stuck))
        return; /* with what the stream may still use */
    pthread_mutex_lock(&e->sched.mu);
    after->met = ok;
    after->queued = false;
    if (ok)
        op->planned = nbytes;
    if (ok || e->sched.stop || e->dead) { /* go on, or are refused */
        others = after->ops;
        after->ops = NULL;
    } else if (after->ops != NULL) {
        queue_locked(e, l->lane.direction, after);
    }
    pthread_mutex_unlock(&e->sched.mu);
    if (ok && nbytes < op->host.nbytes) {
        npux_engine_start_op(e, op, &ringer);
    } else {
        npux_engine_retire(e, op, &ringer);
    }
    while (others != NULL) {
        struct npux_op *other = others;
        others = other->next;
        npux_engine_start_op(e, other, &ringer);
    }
    npux_after_unref(after);
    npux_ringer_flush(&ringer);
}

static void *lane_main(void *argument)
{
    struct npux_after_lane *l = argument;
    struct npux_after *after;
    struct npux_op *op;

    l->lane.open_status = npux_lane_open(&l->lane);
    while (!atomic_load(&l->lane.stuck) && (after = take(l, &op)) != NULL)
        run(l, after, op);
    if (!atomic_load(&l->lane.stuck) && l->lane.open_status == 0)
        l->lane.teardown_code = l->lane.engine->acl->aclrtDestroyStream(l->lane.stream);
    return NULL;
}

void npux_afters_stop_locked(struct npux_engine *e)
{
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        for (int i = 0; i < NPUX_N_AFTER; i++)
            pthread_cond_signal(&e->afters->lanes[d][i].cv);
}

unsigned npux_afters_join(struct npux_engine *e, uint64_t deadline_ns)
{
    unsigned n_stuck = 0;

    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        for (int i = 0; i < NPUX_N_AFTER; i++) {
            struct npux_lane *lane = &e->afters->lanes[d][i].lane;
            if (!npux_lane_join(lane, deadline_ns) || atomic_load(&lane->stuck))
                n_stuck++;
        }
    return n_stuck;
}

int npux_afters_close(struct npux_engine *e, const char **call)
{
    *call = "aclrtDestroyStream";
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        for (int i = 0; i < NPUX_N_AFTER; i++) {
            int code = e->afters->lanes[d][i].lane.teardown_code;
            if (code != ACL_SUCCESS)
                return code;
        }
    *call = "aclrtDestroyEvent";
    return npux_events_close(&e->afters->events, e->acl);
}
