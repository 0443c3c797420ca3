#include "core/before.h"

#include <errno.h>
#include <stdlib.h>

enum { WAIT_FOR_EVER = 0 }; /* the time limit of aclrtWaitAndResetNotify in seconds, where 0 is none */

enum { N_LOOKED_AT = 8 };

int npux_befores_init(struct npux_engine *e)
{
    e->befores = calloc(1, sizeof(*e->befores));
    if (e->befores == NULL)
        return -ENOMEM;
    pthread_mutex_init(&e->befores->mu, NULL);
    return 0;
}

void npux_befores_destroy(struct npux_engine *e)
{
    if (e->befores == NULL)
        return;
    pthread_mutex_destroy(&e->befores->mu);
    free(e->befores);
    e->befores = NULL;
}

static bool has_passed(const struct npux_engine *e, const struct npux_before *before)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

    return e->acl->aclrtQueryEventStatus(before->passed->event, &status) == ACL_SUCCESS &&
           status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

static struct npux_before *make(struct npux_engine *e, struct npux_err *err)
{
    struct npux_before *before = calloc(1, sizeof(*before));
    int code;

    if (before == NULL) {
        npux_fail(err, -ENOMEM, "calloc", "no host memory for a notify");
        return NULL;
    }
    if (npux_events_get(&e->afters->events, e->acl, &before->passed, err) != 0) {
        free(before);
        return NULL;
    }
    code = e->acl->aclrtCreateNotify(&before->notify, 0);
    if (code != ACL_SUCCESS) {
        npux_runtime_fail(e->acl, err, code, "aclrtCreateNotify");
        npux_events_put(&e->afters->events, before->passed);
        free(before);
        return NULL;
    }
    before->engine = e;
    before->follow.before = before;
    before->next_made = e->befores->made;
    e->befores->made = before;
    return before;
}

static void put(struct npux_engine *e, struct npux_before *before)
{
    struct npux_befores *b = e->befores;

    before->next_recorded = NULL;
    pthread_mutex_lock(&b->mu);
    if (b->recorded == NULL)
        b->recorded = before;
    else
        b->recorded_tail->next_recorded = before;
    b->recorded_tail = before;
    pthread_mutex_unlock(&b->mu);
}

static struct npux_before *pop(struct npux_engine *e)
{
    struct npux_befores *b = e->befores;
    struct npux_before *before;

    pthread_mutex_lock(&b->mu);
    before = b->recorded;
    if (before != NULL)
        b->recorded = before->next_recorded;
    pthread_mutex_unlock(&b->mu);
    return before;
}

/* One that may be used again, of the few that were recorded first. */
static struct npux_before *reuse(struct npux_engine *e)
{
    for (int i = 0; i < N_LOOKED_AT; i++) {
        struct npux_before *before = pop(e);
        if (before == NULL || has_passed(e, before))
            return before;
        put(e, before);
    }
    return NULL;
}

/* One that nobody waits for is taken back. */
static void discard(struct npux_engine *e, struct npux_before *before)
{
    struct npux_before **at = &e->befores->made;

    while (*at != before)
        at = &(*at)->next_made;
    *at = before->next_made;
    e->acl->aclrtDestroyNotify(before->notify);
    npux_events_put(&e->afters->events, before->passed);
    free(before);
}

/* The stream on which notifies are recorded. */
static int need_stream(struct npux_engine *e, struct npux_err *err)
{
    int code;

    if (e->befores->stream != NULL)
        return 0;
    code = e->acl->aclrtCreateStreamWithConfig(&e->befores->stream, 0, ACL_STREAM_FAST_LAUNCH);
    return code == ACL_SUCCESS ? 0 : npux_runtime_fail(e->acl, err, code, "aclrtCreateStreamWithConfig");
}

static int record(struct npux_engine *e, struct npux_before *before, struct npux_err *err)
{
    int code = e->acl->aclrtRecordNotify(before->notify, e->befores->stream);

    if (!before->used_up)
        put(e, before);
    return code == ACL_SUCCESS ? 0 : npux_runtime_fail(e->acl, err, code, "aclrtRecordNotify");
}

static int record_on_control(void *argument)
{
    struct npux_before *before = argument;

    return record(before->engine, before, NULL);
}

void npux_before_record_locked(struct npux_engine *e, struct npux_before *before)
{
    before->call.function = record_on_control;
    before->call.argument = before;
    npux_control_post(&e->control, &before->call);
}

struct ordering {
    struct npux_engine *engine;
    const void *key;
    aclrtStream stream;
    struct npux_err *err;
};

/* True: it hangs on the pending request now. */
static bool hang(struct npux_engine *e, const void *key, struct npux_before *before)
{
    struct npux_request *request;

    pthread_mutex_lock(&e->sched.mu);
    request = npux_sched_find_live_locked(&e->sched, key);
    if (request != NULL) {
        before->follow.next = request->followers;
        request->followers = &before->follow;
    }
    pthread_mutex_unlock(&e->sched.mu);
    return request != NULL;
}

static int order_on_foreign(void *argument)
{
    struct ordering *o = argument;
    struct npux_engine *e = o->engine;
    const struct npux_acl *acl = e->acl;
    struct npux_before *before;
    int code = acl->aclrtSetCurrentContext(e->context), rc;

    if (code != ACL_SUCCESS)
        return npux_runtime_fail(acl, o->err, code, "aclrtSetCurrentContext");
    rc = need_stream(e, o->err);
    if (rc != 0)
        return rc;
    before = reuse(e);
    if (before == NULL && (before = make(e, o->err)) == NULL)
        return o->err->status;
    code = acl->aclrtWaitAndResetNotify(before->notify, o->stream, WAIT_FOR_EVER);
    if (code != ACL_SUCCESS) {
        rc = npux_runtime_fail(acl, o->err, code, "aclrtWaitAndResetNotify");
        discard(e, before);
        return rc;
    }
    code = acl->aclrtRecordEvent(before->passed->event, o->stream);
    before->used_up = code != ACL_SUCCESS;
    rc = hang(e, o->key, before) ? 0 : record(e, before, o->err); /* the wait is there in any case */
    if (rc == 0 && code != ACL_SUCCESS)
        rc = npux_runtime_fail(acl, o->err, code, "aclrtRecordEvent");
    return rc;
}

int npux_engine_order_before(struct npux_engine *e, const void *key, void *stream, struct npux_err *err)
{
    struct ordering o = {e, key, stream, err};
    int rc = npux_engine_enter(e, "order_before", err);

    if (rc != 0)
        return rc;
    if (e->acl->aclrtCreateNotify == NULL || e->acl->aclrtWaitAndResetNotify == NULL ||
        e->acl->aclrtRecordNotify == NULL || e->acl->aclrtDestroyNotify == NULL)
        rc = npux_fail(err, -ENOTSUP, "order_before", "this ACL library has no notifies");
    else
        rc = npux_control_call(&e->foreign, order_on_foreign, &o);
    npux_engine_leave(e);
    return rc;
}

int npux_befores_close(struct npux_engine *e, const char **call)
{
    int first = ACL_SUCCESS;

    if (e->befores->stream != NULL) {
        *call = "aclrtDestroyStream";
        first = e->acl->aclrtSynchronizeStream(e->befores->stream); /* only records, which wait for nothing */
        if (first == ACL_SUCCESS)
            first = e->acl->aclrtDestroyStream(e->befores->stream);
    }
    while (e->befores->made != NULL) {
        struct npux_before *before = e->befores->made;
        int code = ACL_SUCCESS;
        e->befores->made = before->next_made;
        if (!before->used_up && has_passed(e, before))
            code = e->acl->aclrtDestroyNotify(before->notify);
        if (code != ACL_SUCCESS && first == ACL_SUCCESS) {
            *call = "aclrtDestroyNotify";
            first = code;
        }
        free(before);
    }
    return first;
}
