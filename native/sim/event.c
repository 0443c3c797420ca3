/* event.c - events. The three creation calls differ in more than flags; see enum sim_event_mode.
 *
 * Threads: any. Locks: sim.mu; the queries take none.
 * Owns:    every sim_event, for the life of the process.
 * Invariant: the latest record is complete when done_gen == gen. A destroyed event is still completed by
 *          the record tasks that name it.
 */
#include "sim/made.h"
#include "sim/sim.h"
#include "sim/site.h"

#include <stdlib.h>

enum {
    PLAIN = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE,
    ALONE = ACL_EVENT_IPC | ACL_EVENT_EXTERNAL | ACL_EVENT_DEVICE_USE_ONLY,
    FLAG_KNOWN = PLAIN | ACL_EVENT_EXTERNAL | ACL_EVENT_DEVICE_USE_ONLY, /* aclrtCreateEventWithFlag */
    EX_KNOWN = PLAIN | ACL_EVENT_IPC                                     /* aclrtCreateEventExWithFlag */
};

static uint64_t gen_of(struct sim_event *event)
{
    return atomic_load_explicit(&event->gen, memory_order_acquire);
}

/* done_gen is read first: if a record comes in between, the answer is that of the moment before. */
static bool is_complete(struct sim_event *event)
{
    uint64_t done = atomic_load_explicit(&event->done_gen, memory_order_acquire);

    return done == gen_of(event);
}

/* What the host learns by asking. */
static bool ask_complete(struct sim_event *event)
{
    bool complete;

    sim_drive_poll_event(event);
    complete = is_complete(event);
    if (complete && sim_guards())
        sim_guard_seen_event(event);
    return complete;
}

aclError sim_event_check(struct sim_event *event)
{
    if (event == NULL)
        return sim_fail_null("event");
    if (atomic_load_explicit(&event->magic, memory_order_acquire) == SIM_MAGIC_EVENT)
        return ACL_SUCCESS;
    if (atomic_load_explicit(&event->magic, memory_order_relaxed) == SIM_MAGIC_DEAD)
        sim_find(SIM_FOUND_STALE_HANDLE, "%s: event %p was used after its destruction",
                 sim_site_text(sim_site_here()).text, (void *)event);
    /* Before 9.1 the use of a destroyed handle is undefined; see sim_stream_check. */
    return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017",
                    "event %p was destroyed or is no event: pass a live one", (void *)event);
}

static aclError check_known(uint32_t flags, uint32_t known)
{
    if (flags != 0 && (flags & ~known) == 0)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "event flag 0x%x, expected value: bits of 0x%x",
                    flags, known);
}

static aclError check_alone(uint32_t flags)
{
    if ((flags & ALONE) == 0 || (flags & (flags - 1)) == 0)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1006",
                    "event flag 0x%x: IPC, EXTERNAL and DEVICE_USE_ONLY cannot be combined with others",
                    flags);
}

/* The two calls check in another order, and only one of them knows IPC (open runtime). */
static aclError check_flags(uint32_t flags, enum sim_event_mode mode)
{
    aclError code;

    if (mode != SIM_EVENT_EX) {
        code = check_known(flags, FLAG_KNOWN);
        return code != 0 ? code : check_alone(flags);
    }
    code = check_alone(flags);
    if (code == 0 && flags == ACL_EVENT_IPC && !sim_profile.has_ipc_event)
        code = sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    return code != 0 ? code : check_known(flags, EX_KNOWN);
}

static aclError no_id(const struct sim_device *dev)
{
    return sim_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "EE1023",
                    "device %d has no event left of %u: destroy some first", dev->id, sim_profile.max_events);
}

struct sim_event *sim_event_new(struct sim_context *ctx, uint32_t flags, enum sim_event_mode mode)
{
    struct sim_event *event;

    pthread_mutex_lock(&sim.mu);
    event = sim_event_shell();
    pthread_mutex_unlock(&sim.mu);
    if (event == NULL)
        return NULL;
    event->mode = (uint8_t)mode;
    event->flags = flags;
    event->dev = ctx->dev;
    event->ctx = ctx;
    atomic_store_explicit(&event->magic, SIM_MAGIC_EVENT, memory_order_release);
    return event;
}

static aclError create(struct sim_thread *self, aclrtEvent *handle, uint32_t flags, enum sim_event_mode mode)
{
    struct sim_event *event;
    struct sim_context *ctx;
    aclError code;

    if (handle == NULL)
        return sim_fail_null("event");
    code = check_flags(flags, mode);
    if (code != 0)
        return code;
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    event = sim_event_new(ctx, flags, mode);
    if (event == NULL)
        return sim_fail(ACL_ERROR_BAD_ALLOC, "EH0001", "no host memory for an event");
    pthread_mutex_lock(&sim.mu);
    if (mode == SIM_EVENT_FLAG && sim_event_needs_id(event))
        code = sim_event_take_id(event);
    if (code != 0) {
        atomic_store_explicit(&event->magic, SIM_MAGIC_DEAD, memory_order_release);
        sim_event_bury(event);
    }
    pthread_mutex_unlock(&sim.mu);
    if (code != 0)
        return no_id(ctx->dev);
    atomic_fetch_add(&sim.tally.live_events, 1);
    event->made = sim_made_here(SIM_MADE_EVENT, 0);
    *handle = event;
    return ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent *event)
{
    SIM_CALL(aclrtCreateEvent);
    return create(self, event, PLAIN, SIM_EVENT_PLAIN);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    SIM_CALL(aclrtCreateEventWithFlag);
    return create(self, event, flag, SIM_EVENT_FLAG);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    SIM_CALL(aclrtCreateEventExWithFlag);
    return create(self, event, flag, SIM_EVENT_EX);
}

aclError aclrtDestroyEvent(aclrtEvent handle)
{
    SIM_CALL(aclrtDestroyEvent);
    struct sim_event *event = handle;
    aclError code;

    pthread_mutex_lock(&sim.mu);
    code = sim_event_check(event);
    if (code == 0) {
        atomic_store_explicit(&event->magic, SIM_MAGIC_DEAD, memory_order_release);
        if (event->mode == SIM_EVENT_FLAG || is_complete(event)) /* a pending record gives it back itself */
            sim_event_give_id(event);
        if (event->ipc != NULL)
            sim_ipc_closed(event);
        sim_made_gone(event->made, 0);
        sim_event_bury(event);
    }
    pthread_mutex_unlock(&sim.mu);
    if (code == 0)
        atomic_fetch_sub(&sim.tally.live_events, 1);
    return code;
}

/* --- on a stream --- */

static aclError no_device_only(const struct sim_event *event)
{
    if ((event->flags & ACL_EVENT_DEVICE_USE_ONLY) == 0)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1006",
                    "the event is for the device only: create it without ACL_EVENT_DEVICE_USE_ONLY");
}

/* EXTERNAL is for graph capture, which the simulator does not have: the checks before, then 107029. */
static aclError check_external(const struct sim_event *event, uint32_t flag)
{
    if (flag == 0)
        return ACL_SUCCESS;
    if (event->mode != SIM_EVENT_EX || event->flags != ACL_EVENT_SYNC)
        return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006",
                        "EXTERNAL needs an event of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC");
    return ACL_SUCCESS;
}

/* An event that was used with one flag must always be used with it. bound: 0 before, then 1 + the flag. */
static aclError check_bound(atomic_uint *bound, uint32_t flag)
{
    unsigned seen = atomic_load_explicit(bound, memory_order_relaxed);

    if (seen == flag + 1 || (seen == 0 && atomic_compare_exchange_strong(bound, &seen, flag + 1)) ||
        seen == flag + 1)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1018",
                    "the event was used with another flag than %u before: keep to one flag", flag);
}

static aclError not_captured(const struct sim_stream *s)
{
    return sim_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "EE1016",
                    "stream %d is not being captured: EXTERNAL is for capture only", s->id);
}

/* The id first: waiting for one unlocks. */
static aclError submit_record(struct sim_thread *self, struct sim_event *event, struct sim_stream *s)
{
    struct sim_task *t = NULL;
    aclError code;

    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    do {
        code = sim_event_needs_id(event) ? sim_event_take_id(event) : ACL_SUCCESS;
        if (code == 0)
            t = sim_submit_begin(self, s, SIM_RECORD); /* may unlock, too */
    } while (t != NULL && sim_event_needs_id(event) && !event->holds_id);
    if (t != NULL) {
        event->rec_stream = s;
        event->rec_seq = atomic_load_explicit(&s->tail, memory_order_relaxed);
        t->record.event = event;
        t->record.gen = gen_of(event) + 1;
        atomic_store_explicit(&event->gen, t->record.gen, memory_order_release);
        sim_submit_commit(self, s);
    } else if (event->mode != SIM_EVENT_FLAG && is_complete(event)) {
        sim_event_give_id(event);
    }
    pthread_mutex_unlock(&sim.mu);
    if (code != 0)
        return no_id(event->dev);
    return t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

static aclError need_sync_bit(const struct sim_event *event)
{
    if ((event->flags & (ACL_EVENT_SYNC | ACL_EVENT_IPC | ACL_EVENT_EXTERNAL)) != 0)
        return ACL_SUCCESS;
    return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

/* What a record and a wait have in common. */
static aclError check_on_stream(struct sim_thread *self, struct sim_event *event, struct sim_stream **s,
                                uint32_t flag, bool waits)
{
    aclError code = sim_event_check(event);

    if (code == 0)
        code = sim_stream_check(*s);
    if (code == 0)
        code = no_device_only(event);
    if (code == 0 && waits)
        code = need_sync_bit(event);
    if (code == 0)
        code = check_external(event, flag);
    if (code == 0)
        code = check_bound(waits ? &event->wait_flag : &event->record_flag, flag);
    if (code == 0)
        code = sim_ext_stream(self, s);
    if (code == 0 && flag != 0)
        code = not_captured(*s);
    return code;
}

static aclError record(struct sim_thread *self, struct sim_event *event, struct sim_stream *s, uint32_t flag)
{
    aclError code = check_on_stream(self, event, &s, flag, false);

    if (code != 0)
        return code;
    if ((event->flags & ACL_EVENT_IPC) != 0)
        return sim_ipc_record(self, event, s);
    return submit_record(self, event, s);
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    SIM_CALL(aclrtRecordEvent);
    return record(self, event, stream, ACL_EVENT_RECORD_DEFAULT);
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag)
{
    SIM_CALL(aclrtRecordEventWithFlag);
    if (event == NULL)
        return sim_fail_null("event");
    if (flag != ACL_EVENT_RECORD_DEFAULT && flag != ACL_EVENT_RECORD_EXTERNAL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "record flag %u, expected value: 0 or 1", flag);
    return record(self, event, stream, flag);
}

void sim_event_recorded(struct sim_event *event, uint64_t gen, uint64_t when_ns)
{
    event->n_done++;
    if (gen == atomic_load_explicit(&event->gen, memory_order_relaxed)) {
        event->stamp_ns = when_ns;
        if (event->mode != SIM_EVENT_FLAG)
            sim_event_give_id(event);
        /* Release pairs with is_complete: who sees the event complete sees what came before it. */
        atomic_store_explicit(&event->done_gen, gen, memory_order_release);
    }
    while (event->blocked != NULL) {
        struct sim_stream *s = event->blocked;

        event->blocked = s->dep_next;
        s->dep_list = NULL;
        sim_sched_push(s);
    }
}

static aclError submit_wait(struct sim_thread *self, struct sim_event *event, struct sim_stream *s,
                            uint32_t timeout_s)
{
    struct sim_task *t = NULL;
    bool over;

    if (gen_of(event) == 0 && event->mode == SIM_EVENT_PLAIN)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1018",
                        "the event was never recorded: record it before the wait");
    if (gen_of(event) == 0 && event->mode == SIM_EVENT_EX)
        return ACL_SUCCESS;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    if (sim_guards())
        sim_guard_wait(s, event);
    over = gen_of(event) != 0 && (event->rec_stream == s || is_complete(event));
    if (!over)
        t = sim_submit_begin(self, s, SIM_WAIT);
    if (t != NULL) {
        t->wait.event = event;
        t->wait.on = event->rec_stream;
        t->wait.seq = event->rec_seq;
        t->wait.timeout_s = timeout_s;
        atomic_fetch_add_explicit(&event->n_waits, 1, memory_order_relaxed);
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return over || t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

static aclError wait_event(struct sim_thread *self, struct sim_stream *s, struct sim_event *event,
                           uint32_t timeout_s, uint32_t flag)
{
    aclError code = check_on_stream(self, event, &s, flag, true);

    if (code != 0)
        return code;
    if ((event->flags & ACL_EVENT_IPC) != 0)
        return sim_ipc_wait(self, event, s, timeout_s);
    return submit_wait(self, event, s, timeout_s);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    SIM_CALL(aclrtStreamWaitEvent);
    return wait_event(self, stream, event, sim_op_wait_timeout_s(), ACL_EVENT_WAIT_DEFAULT);
}

/* Its own limit replaces that of aclrtSetOpWaitTimeout; 0 is never. */
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout_s)
{
    SIM_CALL(aclrtStreamWaitEventWithTimeout);
    if (timeout_s < 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "timeout %d, expected value: [0, 2147483647]",
                        timeout_s);
    return wait_event(self, stream, event, (uint32_t)timeout_s, ACL_EVENT_WAIT_DEFAULT);
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout_s, uint32_t flag)
{
    SIM_CALL(aclrtStreamWaitEventWithFlag);
    if (event == NULL)
        return sim_fail_null("event");
    if (flag != ACL_EVENT_WAIT_DEFAULT && flag != ACL_EVENT_WAIT_EXTERNAL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "wait flag %u, expected value: 0 or 1", flag);
    if (flag == ACL_EVENT_WAIT_EXTERNAL && timeout_s != 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "timeout %u, expected value: 0 with EXTERNAL",
                        timeout_s);
    return wait_event(self, stream, event, timeout_s, flag);
}

/* Takes its turn in the stream and changes nothing that the host can see: a reset does not bring the recorded
 * status back to not ready. */
aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream)
{
    SIM_CALL(aclrtResetEvent);
    struct sim_event *event = handle;
    struct sim_stream *s = stream;
    struct sim_task *t;
    aclError code = sim_event_check(event);

    if (code == 0)
        code = sim_stream_check(s);
    if (code == 0)
        code = no_device_only(event);
    if (code == 0)
        code = event->mode == SIM_EVENT_EX ? sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
                                           : need_sync_bit(event);
    if (code == 0)
        code = sim_ext_stream(self, &s);
    if (code != 0)
        return code;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, SIM_MARKER);
    if (t != NULL)
        sim_submit_commit(self, s);
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

/* --- from the host --- */

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus *status)
{
    SIM_CALL(aclrtQueryEventStatus);
    struct sim_event *event = handle;
    bool complete;
    aclError code = sim_event_check(event);

    if (code != 0)
        return code;
    if (status == NULL)
        return sim_fail_null("status");
    if ((event->flags & ACL_EVENT_EXTERNAL) != 0)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_context_usable(event->ctx);
    if (code != 0)
        return code;
    if ((event->flags & ACL_EVENT_IPC) != 0)
        complete = sim_ipc_complete(event);
    else
        complete = ask_complete(event) && (event->mode == SIM_EVENT_EX || gen_of(event) != 0);
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

/* Before any record: complete for an event made with flags, not supported for one made with Ex. */
aclError aclrtQueryEvent(aclrtEvent handle, aclrtEventStatus *status)
{
    SIM_CALL(aclrtQueryEvent);
    struct sim_event *event = handle;
    bool complete;
    aclError code = sim_event_check(event);

    if (code != 0)
        return code;
    if (status == NULL)
        return sim_fail_null("status");
    if (event->mode == SIM_EVENT_EX || (event->flags & (ACL_EVENT_IPC | ACL_EVENT_EXTERNAL)) != 0)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_context_usable(event->ctx);
    if (code != 0)
        return code;
    complete = ask_complete(event) && (event->mode == SIM_EVENT_FLAG || gen_of(event) != 0);
    *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus *status)
{
    SIM_CALL(aclrtQueryEventWaitStatus);
    struct sim_event *event = handle;
    aclError code = sim_event_check(event);

    if (code != 0)
        return code;
    if (status == NULL)
        return sim_fail_null("status");
    if (event->mode == SIM_EVENT_EX || (event->flags & (ACL_EVENT_IPC | ACL_EVENT_EXTERNAL)) != 0)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (sim_current(self) != NULL) /* the runtime asks the caller's context here, not the event's */
        code = sim_context_usable(sim_current(self));
    if (code != 0)
        return code;
    sim_drive_poll(NULL, 0);
    *status = atomic_load_explicit(&event->n_waits, memory_order_acquire) == 0
                  ? ACL_EVENT_WAIT_STATUS_COMPLETE
                  : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

static aclError too_late(const struct sim_event *event)
{
    return sim_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "EE9999",
                    "the event of device %d was not reached in time", event->dev->id);
}

static aclError synchronize(struct sim_event *event, uint64_t deadline_ns)
{
    struct sim_stream *s;
    uint64_t target;
    uint32_t aborts = 0;
    bool in_time = true, halted;
    aclError code = sim_context_usable(event->ctx);

    if (code != 0)
        return code;
    if ((event->flags & ACL_EVENT_IPC) != 0)
        return sim_ipc_synchronize(event, deadline_ns) ? ACL_SUCCESS : too_late(event);
    pthread_mutex_lock(&sim.mu);
    s = event->rec_stream;
    target = event->rec_seq + 1;
    if (s != NULL) {
        aborts = sim_stream_aborts(s);
        in_time = sim_stream_wait(s, target, deadline_ns);
    }
    halted = s != NULL && s->ctx->halt.code != 0;
    pthread_mutex_unlock(&sim.mu);
    if (s != NULL && sim_stream_aborts(s) != aborts && (code = sim_stream_aborted(s, aborts, target)) != 0)
        return code;
    if (halted)
        return sim_context_notice(s->ctx);
    code = in_time ? sim_check_lost(event->dev->id) : ACL_SUCCESS; /* its work ended, but not by being done */
    if (code != 0)
        return code;
    if (in_time && sim_guards())
        sim_guard_seen_event(event);
    return in_time ? ACL_SUCCESS : too_late(event);
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    SIM_CALL(aclrtSynchronizeEvent);
    aclError code = sim_event_check(event);

    return code != 0 ? code : synchronize(event, SIM_FOREVER);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout_ms)
{
    SIM_CALL(aclrtSynchronizeEventWithTimeout);
    uint64_t deadline_ns = 0;
    aclError code = sim_event_check(event);

    if (code == 0)
        code = sim_timeout_check(timeout_ms, &deadline_ns);
    return code != 0 ? code : synchronize(event, deadline_ns);
}
