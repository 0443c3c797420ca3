/* engine.c - opening and closing an engine; transfer.c has what happens in between. */
#include "core/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/after.h"
#include "core/backing.h"
#include "core/before.h"
#include "core/lend.h"
#include "core/stager.h"

static const size_t SPAN_NBYTES = (size_t)4 << 20; /* far below the 128 MB above which real hosts refuse */
static const size_t MIN_SPAN_NBYTES = (size_t)64 << 10;
static const size_t ACL_PAD_NBYTES = 32;           /* CANN's rule for pieces of one allocation */
static const uint64_t STUCK_JOIN_NS = 3000000000u; /* a lane looks up once per second */

/* Opening, on the control thread. */
struct opening {
    struct npux_engine *engine;
    struct npux_err *err;
};

static int open_device(struct npux_engine *e, struct npux_err *err)
{
    const struct npux_acl *acl = e->acl;
    uint32_t n_devices = 0;
    int code = acl->aclrtGetDeviceCount(&n_devices);

    if (code != ACL_SUCCESS)
        return npux_runtime_fail(acl, err, code, "aclrtGetDeviceCount");
    if (e->opts.device < 0 || (uint32_t)e->opts.device >= n_devices)
        return npux_fail(err, -ENODEV, "open",
                         "device %d was asked for, this process sees %u (numbered from 0)",
                         (int)e->opts.device, n_devices);
    code = acl->aclrtSetDevice(e->opts.device);
    if (code != ACL_SUCCESS)
        return npux_runtime_fail(acl, err, code, "aclrtSetDevice");
    e->device_set = true;
    code = acl->aclrtGetCurrentContext(&e->context);
    if (code != ACL_SUCCESS)
        return npux_runtime_fail(acl, err, code, "aclrtGetCurrentContext");
    return 0;
}

static int make_arenas(struct npux_engine *e, struct npux_err *err)
{
    struct npux_arena_opts opts = {.side = NPUX_DEVICE,
                                   .stragglers = NPUX_STRAGGLERS_UNMAP,
                                   .backing = npux_backing_device(e->acl),
                                   .span_nbytes = SPAN_NBYTES,
                                   .cap_nbytes = SIZE_MAX / 2,
                                   .keep_nbytes = SIZE_MAX / 2, /* given back when the device runs out */
                                   .pad_nbytes = ACL_PAD_NBYTES};

    e->device_arena = npux_arena_new(&opts);
    opts.side = NPUX_PINNED;
    opts.stragglers = NPUX_STRAGGLERS_LATE;
    opts.backing = npux_backing_pinned(e->acl);
    opts.keep_nbytes = e->opts.staging_nbytes;
    e->pinned_arena = npux_arena_new(&opts);
    opts.cap_nbytes = e->opts.staging_nbytes;
    if (opts.span_nbytes > e->opts.staging_nbytes / 16) /* a small budget must not go into one size class */
        opts.span_nbytes =
            e->opts.staging_nbytes < MIN_SPAN_NBYTES * 16 ? MIN_SPAN_NBYTES : e->opts.staging_nbytes / 16;
    e->staging_arena[NPUX_H2D] = npux_arena_new(&opts);
    e->staging_arena[NPUX_D2H] = npux_arena_new(&opts);
    opts.cap_nbytes = SIZE_MAX / 2; /* bounded by the number of lanes: one chunk each */
    e->afters->staging = npux_arena_new(&opts);
    opts.side = NPUX_PAGEABLE;
    opts.backing = npux_backing_pageable();
    opts.span_nbytes = SPAN_NBYTES;
    opts.cap_nbytes = SIZE_MAX / 2;
    opts.keep_nbytes = e->opts.result_nbytes;
    opts.pad_nbytes = 0;
    e->result_arena = npux_arena_new(&opts);
    e->lent_arena = npux_lent_arena_new();
    if (e->device_arena == NULL || e->pinned_arena == NULL || e->staging_arena[NPUX_H2D] == NULL ||
        e->staging_arena[NPUX_D2H] == NULL || e->afters->staging == NULL || e->result_arena == NULL ||
        e->lent_arena == NULL)
        return npux_fail(err, -ENOMEM, "calloc", "no host memory for the engine");
    return 0;
}

static int open_on_control(void *argument)
{
    struct opening *o = argument;
    struct npux_engine *e = o->engine;
    int rc = npux_runtime_open(e->opts.library, &e->runtime, o->err);

    if (rc != 0)
        return rc;
    e->acl = &e->runtime->lib.fn;
    rc = open_device(e, o->err);
    return rc != 0 ? rc : make_arenas(e, o->err);
}

/* Tearing down, on the control thread, after every other thread has ended. */
struct closing {
    struct npux_engine *engine;
    struct npux_close_report *report;
};

static void note_teardown(struct npux_close_report *report, int code, const char *call)
{
    if (code != ACL_SUCCESS && report->acl_code == ACL_SUCCESS) {
        report->acl_code = code;
        report->acl_call = call;
    }
}

static void close_arena(struct npux_arena *arena)
{
    if (arena != NULL)
        npux_arena_close(arena);
}

/* What stays open while arrays of the user still show page-locked memory: that memory belongs to the runtime,
 * so the device is released when the last of them dies, on whatever thread that happens. */
struct tenancy {
    struct npux_runtime *runtime;
    int32_t device;
    bool device_set;
    struct npux_close_report *report; /* NULL once close has returned */
};

static void release_device(void *context)
{
    struct tenancy *t = context;
    struct npux_close_report unseen = {0};
    struct npux_close_report *report = t->report != NULL ? t->report : &unseen;

    if (t->device_set)
        note_teardown(report, t->runtime->lib.fn.aclrtResetDevice(t->device), "aclrtResetDevice");
    note_teardown(report, npux_runtime_close(t->runtime), "aclFinalize");
    free(t);
}

static void close_pinned(struct npux_engine *e, struct npux_close_report *report)
{
    struct tenancy *t = calloc(1, sizeof(*t));
    struct npux_arena_stats stats = {0};

    if (t == NULL)
        return; /* no memory left even for this: the device stays set until the process ends */
    *t = (struct tenancy){e->runtime, e->opts.device, e->device_set, report};
    if (e->pinned_arena == NULL) {
        release_device(t);
        return;
    }
    npux_arena_stats(e->pinned_arena, &stats);
    report->pinned_nbytes = stats.used_nbytes;
    /* Blocks may come back while the arena closes; the report is ours only if none can come back later. */
    if (stats.n_blocks_out != 0)
        t->report = NULL;
    npux_arena_set_on_gone(e->pinned_arena, release_device, t);
    npux_arena_close(e->pinned_arena);
}

static int close_on_control(void *argument)
{
    struct closing *c = argument;
    struct npux_engine *e = c->engine;
    const char *call;
    int code;

    if (e->runtime == NULL)
        return 0;
    if (c->report->n_stuck != 0) /* a stuck copy may still use anything */
        return 0;
    for (unsigned i = 0; i < 2 * e->opts.n_lanes; i++)
        note_teardown(c->report, e->lanes[i].teardown_code, "aclrtDestroyStream");
    code = npux_befores_close(e, &call);
    note_teardown(c->report, code, call);
    code = npux_afters_close(e, &call);
    note_teardown(c->report, code, call);
    npux_open_pack_free(e->sched.turn.spare);
    e->sched.turn.spare = NULL;
    close_arena(e->staging_arena[NPUX_H2D]);
    close_arena(e->staging_arena[NPUX_D2H]);
    close_arena(e->afters->staging);
    close_arena(e->device_arena);
    close_arena(e->result_arena);
    close_arena(e->lent_arena);
    close_pinned(e, c->report);
    return 0;
}

static int start_threads(struct npux_engine *e, struct npux_err *err)
{
    int rc;

    for (unsigned i = 0; i < 2 * e->opts.n_lanes; i++) {
        rc = npux_lane_start(&e->lanes[i], e, i % 2 == 0 ? NPUX_H2D : NPUX_D2H, err);
        if (rc != 0)
            return rc;
    }
    rc = npux_stagers_start(e);
    return rc == 0
               ? 0
               : npux_fail(err, rc, "pthread_create", "cannot start %u staging threads", e->opts.n_stagers);
}

int npux_engine_open(const struct npux_engine_opts *opts, struct npux_engine **out, struct npux_err *err)
{
    struct npux_engine *e = calloc(1, sizeof(*e));
    struct npux_close_report report;
    struct opening o = {e, err};
    int rc;

    if (e == NULL)
        return npux_fail(err, -ENOMEM, "calloc", "no host memory for the engine");
    e->opts = *opts;
    npux_sched_init(&e->sched, opts->n_lanes, opts->chunk_nbytes, opts->spin_ns);
    e->sched.plan.forced = opts->pageable;
    e->sched.n_stagers = opts->n_stagers;
    e->lanes = calloc(2 * (size_t)opts->n_lanes, sizeof(*e->lanes));
    rc = e->lanes == NULL || npux_afters_init(e) != 0 || npux_befores_init(e) != 0
             ? npux_fail(err, -ENOMEM, "calloc", "no host memory for the engine")
             : 0;
    if (rc == 0 && (rc = npux_control_start(&e->control)) != 0)
        npux_fail(err, rc, "pthread_create", "cannot start the control thread");
    if (rc == 0 && (rc = npux_control_start(&e->foreign)) != 0) {
        npux_fail(err, rc, "pthread_create", "cannot start the thread for streams of others");
        npux_control_stop(&e->control);
    }
    if (rc != 0) {
        npux_engine_free(e);
        return rc;
    }
    rc = npux_control_call(&e->control, open_on_control, &o);
    if (rc == 0)
        rc = start_threads(e, err);
    if (rc != 0) {
        npux_engine_close(e, 0, &report);
        npux_engine_free(e);
        return rc;
    }
    *out = e;
    return 0;
}

void npux_engine_wait_room(struct npux_engine *e, uint64_t timeout_ns)
{
    struct npux_sched *s = &e->sched;
    struct timespec deadline = npux_timespec(npux_now_ns() + timeout_ns);
    uint64_t before;

    pthread_mutex_lock(&s->mu);
    before = s->n_pending;
    s->n_room_waiters++;
    while (s->n_pending != 0 && s->n_pending >= before && !atomic_load(&e->closing))
        if (pthread_cond_timedwait(&s->room_cv, &s->mu, &deadline) == ETIMEDOUT)
            break;
    s->n_room_waiters--;
    pthread_mutex_unlock(&s->mu);
}

uint64_t npux_engine_pending(struct npux_engine *e)
{
    uint64_t n;
    pthread_mutex_lock(&e->sched.mu);
    n = e->sched.n_pending;
    pthread_mutex_unlock(&e->sched.mu);
    return n;
}

static void stats_locked(struct npux_engine *e, struct npux_engine_stats *out)
{
    struct npux_arena *const arenas[] = {e->device_arena, e->pinned_arena, e->result_arena,
                                         e->staging_arena[NPUX_H2D], e->staging_arena[NPUX_D2H]};
    struct npux_arena_stats *const slots[] = {&out->device, &out->pinned, &out->results,
                                              &out->staging[NPUX_H2D], &out->staging[NPUX_D2H]};

    struct npux_arena_stats waiting;

    memset(out, 0, sizeof(*out));
    out->counters = e->sched.counters;
    out->n_pending = e->sched.n_pending;
    for (size_t i = 0; i < sizeof(arenas) / sizeof(arenas[0]); i++)
        if (arenas[i] != NULL)
            npux_arena_stats(arenas[i], slots[i]);
    if (e->afters->staging != NULL) { /* counted with the uploads' */
        npux_arena_stats(e->afters->staging, &waiting);
        out->staging[NPUX_H2D].held_nbytes += waiting.held_nbytes;
        out->staging[NPUX_H2D].used_nbytes += waiting.used_nbytes;
        out->staging[NPUX_H2D].n_blocks_out += waiting.n_blocks_out;
    }
    if (e->sched.turn.spare != NULL) { /* nobody uses it */
        out->device.used_nbytes -= npux_open_pack_spare_nbytes(&e->sched.turn);
        out->staging[NPUX_H2D].used_nbytes -= npux_open_pack_spare_nbytes(&e->sched.turn);
        out->device.n_blocks_out--;
        out->staging[NPUX_H2D].n_blocks_out--;
    }
}

void npux_engine_stats(struct npux_engine *e, struct npux_engine_stats *out)
{
    pthread_mutex_lock(&e->sched.mu);
    if (e->torn_down)
        *out = e->last_stats;
    else
        stats_locked(e, out);
    pthread_mutex_unlock(&e->sched.mu);
}

/* Waits for the pending transfers; when the time is up, makes every thread give up. */
static bool drain(struct npux_engine *e, uint64_t timeout_ns)
{
    struct npux_sched *s = &e->sched;
    struct timespec deadline = npux_timespec(npux_now_ns() + timeout_ns);
    bool drained;

    pthread_mutex_lock(&s->mu);
    atomic_store(&e->closing, true);
    pthread_cond_broadcast(&s->room_cv);
    pthread_mutex_unlock(&s->mu);
    npux_engine_flush(e); /* the loop that should do it may be gone; nothing is deferred any more */
    pthread_mutex_lock(&s->mu);
    while (s->n_pending > 0)
        if (pthread_cond_timedwait(&s->drained_cv, &s->mu, &deadline) == ETIMEDOUT)
            break;
    /* All are short but those that wait for a place on a stream of others, which may never come. */
    deadline = npux_timespec(npux_now_ns() + (timeout_ns > STUCK_JOIN_NS ? timeout_ns : STUCK_JOIN_NS));
    while (atomic_load(&e->n_inside) > 0)
        if (pthread_cond_timedwait(&s->drained_cv, &s->mu, &deadline) == ETIMEDOUT)
            break;
    e->foreign_stuck = atomic_load(&e->n_inside) > 0;
    drained = s->n_pending == 0;
    if (!drained)
        atomic_store(&e->abandon, true);
    stats_locked(e, &e->last_stats);
    e->torn_down = true;
    npux_sched_stop_locked(s);
    npux_afters_stop_locked(e);
    npux_deadlines_stop_locked(e);
    pthread_mutex_unlock(&s->mu);
    if (!drained && e->runtime != NULL) {
        npux_arena_interrupt(e->staging_arena[NPUX_H2D]);
        npux_arena_interrupt(e->staging_arena[NPUX_D2H]);
    }
    return drained;
}

/* Marks the ops of a request that have no end as failed (sched->mu held). */
static uint64_t abandon_request_locked(struct npux_request *request)
{
    uint64_t n = 0;

    request->abandoned = true;
    for (uint32_t i = 0; i < request->n_ops; i++) {
        struct npux_op *op = &request->ops[i];
        if (atomic_load(&op->n_chunks_left) == 0)
            continue;
        n++;
        if (op->err == NULL && (op->err = calloc(1, sizeof(*op->err))) != NULL)
            npux_fail(op->err, -ESHUTDOWN, "close",
                      "the scheduler was closed while the device had not finished this transfer");
        atomic_store(&op->failed, true);
    }
    return n;
}

/* Tells the users of requests that a stuck device keeps. Their memory is leaked: a DMA may still use it. */
static uint64_t abandon_live(struct npux_engine *e)
{
    struct npux_ringer ringer = {0};
    uint64_t n = 0;

    pthread_mutex_lock(&e->sched.mu);
    while (e->sched.live != NULL) {
        struct npux_request *request = e->sched.live;
        npux_sched_live_remove_locked(&e->sched, request);
        n += abandon_request_locked(request);
        npux_followers_release_locked(e, request, NULL); /* streams that wait for it; ops are given up too */
        npux_ringer_flush(&ringer);
        npux_port_ref(request->port);
        ringer.port = request->port;
        npux_deadline_leave_locked(e, request);
        npux_port_push(request->port,
                       npux_deadline_told(request) ? &request->after->late_note : &request->done_note);
    }
    pthread_mutex_unlock(&e->sched.mu);
    npux_ringer_flush(&ringer);
    return n;
}

/* Ends what the threads have left in their queues: the stager may fill a chunk when the lanes are gone
 * already, and a lane that is stuck takes nothing more. No DMA knows of these. */
static void fail_left_over(struct npux_engine *e)
{
    struct npux_ringer ringer = {0};
    struct npux_err err;

    npux_fail(&err, -ESHUTDOWN, "close", "the scheduler was closed before this transfer started");
    npux_engine_fail_queued(e, &err, &ringer);
    npux_ringer_flush(&ringer);
}

void npux_engine_close(struct npux_engine *e, uint64_t timeout_ns, struct npux_close_report *report)
{
    struct closing c = {e, report};
    bool drained = drain(e, timeout_ns);
    uint64_t deadline_ns = drained ? 0 : npux_now_ns() + STUCK_JOIN_NS; /* one for all threads */

    memset(report, 0, sizeof(*report));
    npux_deadlines_join(e); /* it makes no ACL call, so it comes */
    report->n_stuck += npux_stagers_join(e, deadline_ns);
    for (unsigned i = 0; i < 2 * e->opts.n_lanes; i++)
        if (!npux_lane_join(&e->lanes[i], deadline_ns) || atomic_load(&e->lanes[i].stuck))
            report->n_stuck++;
    report->n_stuck += npux_afters_join(e, deadline_ns);
    report->n_stuck += e->foreign_stuck;
    if (!drained) {
        fail_left_over(e);
        report->n_abandoned = abandon_live(e);
    }
    e->leaked = report->n_stuck != 0;
    if (!e->foreign_stuck)
        npux_control_stop(&e->foreign);
    npux_control_call(&e->control, close_on_control, &c);
    npux_control_stop(&e->control);
}

void npux_engine_free(struct npux_engine *e)
{
    if (e->leaked)
        return;
    npux_sched_destroy(&e->sched);
    npux_afters_destroy(e);
    npux_befores_destroy(e);
    free(e->lanes);
    free(e);
}

/* User memory. */
struct getting {
    struct npux_engine *engine;
    size_t nbytes;
    struct npux_block **block;
    struct npux_err *err;
};

static int get_pinned_on_control(void *argument)
{
    struct getting *g = argument;
    int code = g->engine->acl->aclrtSetCurrentContext(g->engine->context);

    if (code != ACL_SUCCESS)
        return npux_runtime_fail(g->engine->acl, g->err, code, "aclrtSetCurrentContext");
    return npux_arena_get(g->engine->pinned_arena, g->nbytes, g->block, g->err);
}

int npux_engine_enter(struct npux_engine *e, const char *call, struct npux_err *err)
{
    /* One total order with drain: either it sees us inside and waits, or we see that it has begun. */
    atomic_fetch_add(&e->n_inside, 1);
    if (!atomic_load(&e->closing))
        return 0;
    npux_engine_leave(e);
    return npux_fail(err, -ESHUTDOWN, call, "the scheduler is closed");
}

void npux_engine_leave(struct npux_engine *e)
{
    if (atomic_fetch_sub(&e->n_inside, 1) != 1 || !atomic_load(&e->closing))
        return;
    pthread_mutex_lock(&e->sched.mu);
    pthread_cond_broadcast(&e->sched.drained_cv);
    pthread_mutex_unlock(&e->sched.mu);
}

int npux_engine_get_pinned(struct npux_engine *e, size_t nbytes, struct npux_block **block,
                           struct npux_err *err)
{
    struct getting g = {e, nbytes, block, err};
    int rc = npux_engine_enter(e, "allocate", err);

    if (rc != 0)
        return rc;
    *block = npux_arena_try_get(e->pinned_arena, nbytes);
    if (*block == NULL)
        rc = npux_control_call(&e->control, get_pinned_on_control, &g);
    npux_engine_leave(e);
    return rc;
}

int npux_engine_get_result(struct npux_engine *e, size_t nbytes, struct npux_block **block,
                           struct npux_err *err)
{
    int rc = npux_engine_enter(e, "allocate", err);

    if (rc != 0)
        return rc;
    rc = npux_arena_get(e->result_arena, nbytes, block, err);
    npux_engine_leave(e);
    return rc;
}
