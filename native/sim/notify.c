/* notify.c - notifies: a flag that one stream sets and one waiting stream takes.
 *
 * Threads: any. Locks: sim.mu.
 * Owns:    every sim_notify, for the life of the process.
 * Invariant: a notify that is set has no waiting stream.
 */
#include "sim/sim.h"
#include "sim/site.h"

#include <stdlib.h>

struct sim_notify {
    atomic_uint magic;
    uint32_t id;
    struct sim_device *dev;
    bool set;
    uint64_t n_records, n_waits; /* submitted */
    struct sim_order *order;     /* of the latest record; see race.h */
    struct sim_stream *waiting;  /* by dep_next, the latest first */
    struct sim_notify *next;
};

static struct sim_notify *all; /* dead ones too */

static aclError check(struct sim_notify *notify)
{
    if (notify == NULL)
        return sim_fail_null("notify");
    if (atomic_load_explicit(&notify->magic, memory_order_acquire) == SIM_MAGIC_NOTIFY)
        return ACL_SUCCESS;
    sim_find(SIM_FOUND_STALE_HANDLE, "%s: notify %p was used after its destruction",
             sim_site_text(sim_site_here()).text, (void *)notify);
    return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017",
                    "notify %p was destroyed or is no notify: pass a live one", (void *)notify);
}

aclError aclrtCreateNotify(aclrtNotify *handle, uint64_t flag)
{
    SIM_CALL(aclrtCreateNotify);
    struct sim_notify *notify;
    struct sim_context *ctx;
    bool room;

    if (handle == NULL)
        return sim_fail_null("notify");
    if (flag != ACL_NOTIFY_DEFAULT && flag != ACL_NOTIFY_DEVICE_USE_ONLY)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "flag %llu, expected value: 0 or 1",
                        (unsigned long long)flag);
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    notify = calloc(1, sizeof(*notify));
    if (notify == NULL)
        return sim_fail(ACL_ERROR_BAD_ALLOC, "EH0001", "no host memory for a notify");
    notify->dev = ctx->dev;
    atomic_init(&notify->magic, SIM_MAGIC_NOTIFY);
    pthread_mutex_lock(&sim.mu);
    room = ctx->dev->n_notifies < sim_profile.max_notifies;
    if (room) {
        ctx->dev->n_notifies++;
        notify->id = ctx->dev->next_notify++;
        notify->next = all;
        all = notify;
    }
    pthread_mutex_unlock(&sim.mu);
    if (!room) {
        free(notify);
        return sim_fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "EE1023",
                        "device %d has no notify left of %u: destroy some first", ctx->dev->id,
                        sim_profile.max_notifies);
    }
    *handle = notify;
    return ACL_SUCCESS;
}

/* A stream that waits for it goes on waiting, until its time limit or the end of its work. */
aclError aclrtDestroyNotify(aclrtNotify handle)
{
    SIM_CALL(aclrtDestroyNotify);
    struct sim_notify *notify = handle;
    struct sim_context *ctx;
    aclError code = check(notify);

    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    code = check(notify); /* again: two threads may destroy it */
    if (code == 0) {
        atomic_store_explicit(&notify->magic, SIM_MAGIC_DEAD, memory_order_release);
        notify->dev->n_notifies--;
        sim_order_free(notify->order);
        notify->order = NULL;
    }
    pthread_mutex_unlock(&sim.mu);
    return code;
}

aclError aclrtGetNotifyId(aclrtNotify handle, uint32_t *notify_id)
{
    SIM_CALL(aclrtGetNotifyId);
    struct sim_notify *notify = handle;
    struct sim_context *ctx;
    aclError code = check(notify);

    if (code != 0)
        return code;
    if (notify_id == NULL)
        return sim_fail_null("notify_id");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *notify_id = notify->id;
    return ACL_SUCCESS;
}

/* --- on a stream --- */

bool sim_notify_front(struct sim_stream *s, struct sim_task *t)
{
    struct sim_notify *notify = t->notify.notify;

    if (t->kind == SIM_NOTIFY_RECORD) {
        struct sim_stream *first = notify->waiting;

        while (first != NULL && first->dep_next != NULL)
            first = first->dep_next;
        if (first != NULL)
            sim_stream_release(first);
        else
            notify->set = true; /* recording it twice sets it once */
        return true;
    }
    if (notify->set) {
        notify->set = false;
        return true;
    }
    sim_stream_depend(s, &notify->waiting);
    if (t->notify.timeout_s != 0)
        sim_timer_arm(s, t->notify.timeout_s);
    return false;
}

/* sim.mu held, before the task is committed. A wait that is submitted before its record has no order that is
 * known yet. */
static void tell_guards(struct sim_notify *notify, struct sim_stream *s, uint8_t kind)
{
    if (kind == SIM_NOTIFY_RECORD) {
        notify->n_records++;
        if (sim_guards())
            sim_order_take(&notify->order, s, atomic_load_explicit(&s->tail, memory_order_relaxed));
        return;
    }
    if (sim_guards() && notify->order != NULL && notify->n_records > notify->n_waits)
        sim_order_give(s, notify->order);
    else if (sim_guards())
        sim_order_unknown(s);
    notify->n_waits++;
}

static aclError submit(struct sim_thread *self, struct sim_notify *notify, struct sim_stream *s, uint8_t kind,
                       uint32_t timeout_s)
{
    struct sim_task *t;
    aclError code = check(notify);

    if (code == 0)
        code = sim_ext_stream(self, &s);
    if (code != 0)
        return code;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, kind);
    if (t != NULL) {
        t->notify.notify = notify;
        t->notify.timeout_s = timeout_s;
        tell_guards(notify, s, kind);
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream)
{
    SIM_CALL(aclrtRecordNotify);
    return submit(self, notify, stream, SIM_NOTIFY_RECORD, 0);
}

/* 0 and the largest number both mean for ever (observed on the open runtime for the latter). */
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout_s)
{
    SIM_CALL(aclrtWaitAndResetNotify);
    return submit(self, notify, stream, SIM_NOTIFY_WAIT, timeout_s == UINT32_MAX ? 0 : timeout_s);
}
