#include "core/deadline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/after.h"

static void *deadline_main(void *argument);

static int start_thread(struct npux_engine *e, struct npux_err *err)
{
    struct npux_deadlines *d = &e->deadlines;
    int rc;

    if (d->started)
        return 0;
    npux_cond_init(&d->cv);
    rc = pthread_create(&d->thread, NULL, deadline_main, e);
    if (rc != 0) {
        pthread_cond_destroy(&d->cv);
        return npux_fail(err, -rc, "pthread_create", "cannot start the thread that watches deadlines");
    }
    d->started = true;
    return 0;
}

int npux_deadline_enter_locked(struct npux_engine *e, struct npux_request *request, struct npux_err *err)
{
    struct npux_deadlines *d = &e->deadlines;
    struct npux_after *after = request->after, *before;
    int rc;

    if (after->deadline_ns == 0)
        return 0;
    rc = start_thread(e, err);
    if (rc != 0)
        return rc;
    after->request = request;
    after->submitted_ns = npux_now_ns();
    after->late_note.request = request;
    after->late_note.what = NPUX_RELEASED;
    before = d->tail;
    while (before != NULL && before->deadline_ns > after->deadline_ns)
        before = before->prev_due;
    after->prev_due = before;
    after->next_due = before != NULL ? before->next_due : d->head;
    if (after->next_due != NULL)
        after->next_due->prev_due = after;
    else
        d->tail = after;
    if (before != NULL)
        before->next_due = after;
    else
        d->head = after;
    if (d->head == after)
        pthread_cond_signal(&d->cv);
    return 0;
}

static void unlink_due(struct npux_deadlines *d, struct npux_after *after)
{
    if (after->prev_due != NULL)
        after->prev_due->next_due = after->next_due;
    else
        d->head = after->next_due;
    if (after->next_due != NULL)
        after->next_due->prev_due = after->prev_due;
    else
        d->tail = after->prev_due;
}

bool npux_deadline_leave_locked(struct npux_engine *e, struct npux_request *request)
{
    struct npux_after *after = request->after;

    if (after == NULL || after->deadline_ns == 0)
        return false;
    after->over = true;
    if (!atomic_load(&after->late))
        unlink_due(&e->deadlines, after);
    return after->told;
}

bool npux_deadline_told(const struct npux_request *request)
{
    return request->after != NULL && request->after->told;
}

/* What an op waits for (sched->mu held). */
static const char *obstacle(const struct npux_op *op)
{
    if (op->n_blockers != 0)
        return "earlier transfers: on the same memory, or those that it was to follow";
    if (op->request->after->n_waits != 0 && !op->request->after->met)
        return "the streams or events that it was to follow";
    if (atomic_load_explicit(&op->issued_on, memory_order_relaxed) != 0)
        return "the device, which has a part of it";
    return "its turn";
}

/* acl_code is the age in milliseconds; call says whether the device still has a part of it. */
static int fail_late(const struct npux_op *op, bool in_flight, struct npux_err *err)
{
    uint64_t age_ms = (npux_now_ns() - op->request->after->submitted_ns) / 1000000u;

    npux_fail(err, -ETIME, in_flight ? "device" : "queue", "%s", obstacle(op));
    err->acl_code = age_ms < INT32_MAX ? (int)age_ms : INT32_MAX;
    return err->status;
}

int npux_fail_dropped(const struct npux_op *op, struct npux_err *err)
{
    const struct npux_after *after = op->request->after;

    if (after != NULL && atomic_load(&after->late))
        return fail_late(op, false, err);
    return npux_fail(err, -ECANCELED, "withdraw", "withdrawn before it was copied");
}

/* Tells the user of a request that the device keeps (sched->mu held). */
static void tell_locked(struct npux_engine *e, struct npux_request *request, struct npux_ringer *ringer)
{
    for (uint32_t i = 0; i < request->n_ops; i++) {
        struct npux_op *op = &request->ops[i];
        if (atomic_load(&op->n_chunks_left) == 0)
            continue;
        if (op->err == NULL && (op->err = calloc(1, sizeof(*op->err))) != NULL) {
            fail_late(op, true, op->err);
            op->err_stream = atomic_load_explicit(&op->issued_on, memory_order_relaxed) - NPUX_ISSUED_ON;
        }
        atomic_store_explicit(&op->failed, true, memory_order_relaxed);
    }
    request->after->told = true;
    npux_port_ref(request->port);
    ringer->port = request->port;
    npux_port_push(request->port, &request->done_note);
    (void)e;
}

/* The time of a request has come (sched->mu held, but not all the time). */
static void expire(struct npux_engine *e, struct npux_after *after)
{
    struct npux_ringer ringer = {0};

    unlink_due(&e->deadlines, after);
    atomic_store(&after->late, true);
    atomic_store(&after->request->withdrawn, true);
    npux_after_ref(after);
    pthread_mutex_unlock(&e->sched.mu);
    npux_engine_sweep(e);
    pthread_mutex_lock(&e->sched.mu);
    if (!after->over)
        tell_locked(e, after->request, &ringer);
    pthread_mutex_unlock(&e->sched.mu);
    npux_ringer_flush(&ringer);
    npux_after_unref(after);
    pthread_mutex_lock(&e->sched.mu);
}

static void *deadline_main(void *argument)
{
    struct npux_engine *e = argument;
    struct npux_deadlines *d = &e->deadlines;

    pthread_mutex_lock(&e->sched.mu);
    while (!e->sched.stop) {
        struct npux_after *after = d->head;
        if (after == NULL) {
            pthread_cond_wait(&d->cv, &e->sched.mu);
        } else if (npux_now_ns() < after->deadline_ns) {
            struct timespec until = npux_timespec(after->deadline_ns);
            pthread_cond_timedwait(&d->cv, &e->sched.mu, &until);
        } else {
            expire(e, after);
        }
    }
    pthread_mutex_unlock(&e->sched.mu);
    return NULL;
}

void npux_deadlines_stop_locked(struct npux_engine *e)
{
    if (e->deadlines.started)
        pthread_cond_signal(&e->deadlines.cv);
}

void npux_deadlines_join(struct npux_engine *e)
{
    if (!e->deadlines.started)
        return;
    pthread_join(e->deadlines.thread, NULL);
    pthread_cond_destroy(&e->deadlines.cv);
    e->deadlines.started = false;
}
