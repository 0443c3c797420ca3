/* event.c - events. The three creation calls differ in more than flags; see enum sim_event_mode.
 *
 * Threads: any. Locks: sim.mu; the queries take none.
 * Owns:    every sim_event, for the life of the process.
 * Invariant: the latest record is complete when done_gen == gen. A destroyed event is still completed by
 *          the record tasks that name it.
 */
#include "sim/sim.h"

#include <stdlib.h>

enum {
    ALONE = ACL_EVENT_IPC | ACL_EVENT_EXTERNAL | ACL_EVENT_DEVICE_USE_ONLY,
    KNOWN = ALONE | ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE,
    PLAIN = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE
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

static aclError check(struct sim_event *event)
{
    if (event == NULL)
        return sim_fail_null("event");
    if (atomic_load_explicit(&event->magic, memory_order_acquire) != SIM_MAGIC_EVENT)
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017", "event %p was destroyed or is no event",
                        (void *)event);
    return ACL_SUCCESS;
}

static aclError check_flags(uint32_t flags)
{
    if (flags == 0 || (flags & ~(uint32_t)KNOWN) != 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "event flag 0x%x, expected value: bits of 0x%x",
                        flags, (unsigned)KNOWN);
    if ((flags & ALONE) != 0 && (flags & (flags - 1)) != 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1006", "event flag 0x%x cannot be combined", flags);
    return ACL_SUCCESS;
}

static aclError create(struct sim_thread *self, aclrtEvent *handle, uint32_t flags, enum sim_event_mode mode)
{
    struct sim_event *event;
    struct sim_context *ctx;
    bool room;

    if (handle == NULL)
        return sim_fail_null("event");
    if (check_flags(flags) != 0)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    event = calloc(1, sizeof(*event));
    if (event == NULL)
        return sim_fail(ACL_ERROR_BAD_ALLOC, "EH0001", "no host memory for an event");
    event->mode = (uint8_t)mode;
    event->flags = flags;
    event->dev = ctx->dev;
    atomic_init(&event->magic, SIM_MAGIC_EVENT);
    pthread_mutex_lock(&sim.mu);
    room = mode != SIM_EVENT_FLAG || ctx->dev->n_hw_events < sim_profile.max_events;
    if (room) {
        ctx->dev->n_hw_events += mode == SIM_EVENT_FLAG;
        event->grave_next = sim.dead_events; /* listed from the start, so that it is always reachable */
        sim.dead_events = event;
    }
    pthread_mutex_unlock(&sim.mu);
    if (!room) {
        free(event);
        return sim_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "EE1023", "device %d has no event left of %u",
                        ctx->dev->id, sim_profile.max_events);
    }
    atomic_fetch_add(&sim.tally.live_events, 1);
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
    code = check(event);
    if (code == 0) {
        atomic_store_explicit(&event->magic, SIM_MAGIC_DEAD, memory_order_release);
        event->dev->n_hw_events -= event->mode == SIM_EVENT_FLAG;
    }
    pthread_mutex_unlock(&sim.mu);
    if (code == 0)
        atomic_fetch_sub(&sim.tally.live_events, 1);
    return code;
}

/* --- on a stream --- */

/* The checks shared by record, reset and wait; *s becomes the default stream when it is NULL. */
static aclError check_on_stream(struct sim_thread *self, struct sim_event *event, struct sim_stream **s)
{
    struct sim_context *ctx;
    aclError code = check(event);

    if (code == 0)
        code = sim_stream_check(*s);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code == 0 && *s == NULL)
        *s = ctx->stream;
    return code != 0 ? code : sim_stream_own(*s, ctx);
}

static aclError closed_meanwhile(struct sim_stream *s)
{
    return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017", "stream %p was destroyed during the call",
                    (void *)s);
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream)
{
    SIM_CALL(aclrtRecordEvent);
    struct sim_event *event = handle;
    struct sim_stream *s = stream;
    struct sim_task *t;
    aclError code = check_on_stream(self, event, &s);

    if (code != 0)
        return code;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, SIM_RECORD);
    if (t != NULL) {
        event->rec_stream = s;
        event->rec_seq = atomic_load_explicit(&s->tail, memory_order_relaxed);
        t->record.event = event;
        t->record.gen = gen_of(event) + 1;
        atomic_store_explicit(&event->gen, t->record.gen, memory_order_release);
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : closed_meanwhile(s);
}

void sim_event_recorded(struct sim_event *event, uint64_t gen, uint64_t when_ns)
{
    event->n_done++;
    if (gen == atomic_load_explicit(&event->gen, memory_order_relaxed)) {
        event->stamp_ns = when_ns;
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

static aclError need_sync_bit(const struct sim_event *event)
{
    if ((event->flags & ACL_EVENT_SYNC) != 0)
        return ACL_SUCCESS;
    return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent handle)
{
    SIM_CALL(aclrtStreamWaitEvent);
    struct sim_event *event = handle;
    struct sim_stream *s = stream;
    struct sim_task *t = NULL;
    bool over;
    aclError code = check_on_stream(self, event, &s);

    if (code == 0)
        code = need_sync_bit(event);
    if (code != 0)
        return code;
    if (gen_of(event) == 0 && event->mode == SIM_EVENT_PLAIN)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1018", "the event was never recorded");
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
        atomic_fetch_add_explicit(&event->n_waits, 1, memory_order_relaxed);
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return over || t != NULL ? ACL_SUCCESS : closed_meanwhile(s);
}

/* Takes its turn in the stream and changes nothing that the host can see: a reset does not bring the recorded
 * status back to not ready. */
aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream)
{
    SIM_CALL(aclrtResetEvent);
    struct sim_event *event = handle;
    struct sim_stream *s = stream;
    struct sim_task *t;
    aclError code = check_on_stream(self, event, &s);

    if (code == 0)
        code = event->mode == SIM_EVENT_EX ? sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
                                           : need_sync_bit(event);
    if (code != 0)
        return code;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, SIM_MARKER);
    if (t != NULL)
        sim_submit_commit(self, s);
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : closed_meanwhile(s);
}

/* --- from the host --- */

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus *status)
{
    SIM_CALL(aclrtQueryEventStatus);
    struct sim_event *event = handle;
    bool complete;
    aclError code = check(event);

    if (code != 0)
        return code;
    if (status == NULL)
        return sim_fail_null("status");
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
    aclError code = check(event);

    if (code != 0)
        return code;
    if (status == NULL)
        return sim_fail_null("status");
    if (event->mode == SIM_EVENT_EX)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    complete = ask_complete(event) && (event->mode == SIM_EVENT_FLAG || gen_of(event) != 0);
    *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus *status)
{
    SIM_CALL(aclrtQueryEventWaitStatus);
    struct sim_event *event = handle;
    aclError code = check(event);

    if (code != 0)
        return code;
    if (status == NULL)
        return sim_fail_null("status");
    if (event->mode == SIM_EVENT_EX)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    sim_drive_poll(NULL, 0);
    *status = atomic_load_explicit(&event->n_waits, memory_order_acquire) == 0
                  ? ACL_EVENT_WAIT_STATUS_COMPLETE
                  : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

static aclError synchronize(struct sim_event *event, uint64_t deadline_ns)
{
    struct sim_stream *s;
    uint64_t target;
    bool in_time = true;

    pthread_mutex_lock(&sim.mu);
    s = event->rec_stream;
    target = event->rec_seq + 1;
    if (s != NULL)
        in_time = sim_stream_wait(s, target, deadline_ns);
    pthread_mutex_unlock(&sim.mu);
    if (in_time && sim_guards())
        sim_guard_seen_event(event);
    if (in_time)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "EE9999",
                    "the event on stream %d was not reached in time", s->id);
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    SIM_CALL(aclrtSynchronizeEvent);
    aclError code = check(event);

    return code != 0 ? code : synchronize(event, SIM_FOREVER);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout_ms)
{
    SIM_CALL(aclrtSynchronizeEventWithTimeout);
    uint64_t deadline_ns = 0;
    aclError code = check(event);

    if (code == 0)
        code = sim_timeout_check(timeout_ms, &deadline_ns);
    return code != 0 ? code : synchronize(event, deadline_ns);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end)
{
    SIM_CALL(aclrtEventElapsedTime);
    struct sim_event *pair[] = {start, end};
    uint64_t ticks[2];

    if (ms == NULL)
        return sim_fail_null("ms");
    for (int i = 0; i < 2; i++) {
        aclError code = check(pair[i]);

        if (code != 0)
            return code;
        if ((pair[i]->flags & ACL_EVENT_TIME_LINE) == 0)
            return sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1001", "the event takes no time stamp");
        if (gen_of(pair[i]) == 0)
            return sim_fail(ACL_ERROR_RT_INTERNAL_ERROR, "EE9999", "the event was never recorded");
    }
    pthread_mutex_lock(&sim.mu);
    for (int i = 0; i < 2; i++)
        ticks[i] = is_complete(pair[i]) ? pair[i]->stamp_ns / (1000000 / sim_profile.ticks_per_ms) : 0;
    pthread_mutex_unlock(&sim.mu);
    if (ticks[0] == 0 || ticks[1] == 0)
        return sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1001", "the event is not complete");
    if (ticks[1] < ticks[0])
        return sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "EE1001",
                        "the end event came before the start");
    *ms = (float)((double)(ticks[1] - ticks[0]) / (double)sim_profile.ticks_per_ms);
    return ACL_SUCCESS;
}
