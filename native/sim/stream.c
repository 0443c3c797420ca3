/* stream.c - the ACL functions about streams.
 *
 * Threads: any. Locks: sim.mu. Owns: nothing of its own; see sched.c.
 * Invariant: a stream may be queried and synchronised from any context, but changed only from its own.
 */
#include "sim/sim.h"
#include "sim/site.h"

/* The runtime reports success for these at once; something else than the host schedules them. */
enum {
    NOT_HOST_SCHEDULED = ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_CPU_SCHEDULE,
    KNOWN_FLAGS = NOT_HOST_SCHEDULED | ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_HUGE
};

aclError sim_stream_check(struct sim_stream *s)
{
    if (s == NULL || atomic_load_explicit(&s->magic, memory_order_acquire) == SIM_MAGIC_STREAM)
        return ACL_SUCCESS;
    /* Before 9.1 the use of a destroyed handle is undefined; a defined code is what a program can be tested
     * with. */
    if (atomic_load_explicit(&s->magic, memory_order_relaxed) == SIM_MAGIC_DEAD)
        sim_find(SIM_FOUND_STALE_HANDLE, "%s: stream %p was used after its destruction",
                 sim_site_text(sim_site_here()).text, (void *)s);
    return sim_fail(
        ACL_ERROR_RT_INVALID_HANDLE, "EE1017",
        "stream %p was destroyed or is no stream: pass a live one, or null for the default stream",
        (void *)s);
}

aclError sim_closed_meanwhile(struct sim_stream *s)
{
    return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017",
                    "stream %p was destroyed during the call: destroy it after its last use", (void *)s);
}

aclError sim_stream_own(const struct sim_stream *s, const struct sim_context *ctx)
{
    if (s->ctx == ctx)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_STREAM_CONTEXT, "EE1010",
                    "stream %d of device %d is not in the current context: make its context current first",
                    s->id, s->dev->id);
}

aclError sim_timeout_check(int32_t timeout_ms, uint64_t *deadline_ns)
{
    if (timeout_ms == 0 || timeout_ms < -1)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003",
                        "timeout %d, expected value: -1 or (0, 2147483647]", timeout_ms);
    *deadline_ns = timeout_ms < 0 ? SIM_FOREVER : sim_now_ns() + (uint64_t)timeout_ms * 1000000u;
    return ACL_SUCCESS;
}

/* The default streams count: with one context, one less than the limit can be created
 * (aclrtCreateStream, CANN 9.1 docs). */
uint32_t sim_streams_left(const struct sim_device *dev)
{
    uint32_t used = dev->n_streams + dev->n_contexts;

    return used < sim_profile.max_streams ? sim_profile.max_streams - used : 0;
}

/* Larger priorities are lowered to the lowest, unknown flag bits are dropped (observed on the open runtime).
 */
static aclError create(struct sim_thread *self, aclrtStream *stream, uint32_t priority, uint32_t flags)
{
    enum { LEAST = 7 };
    struct sim_context *ctx;
    struct sim_stream *s = NULL;

    if (stream == NULL)
        return sim_fail_null("stream");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&sim.mu);
    if (sim_streams_left(ctx->dev) > 0)
        s = sim_stream_new(ctx, flags & KNOWN_FLAGS, false);
    if (s != NULL)
        s->priority = priority < LEAST ? priority : LEAST;
    pthread_mutex_unlock(&sim.mu);
    if (s == NULL)
        return sim_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "EE1023",
                        "device %d has no stream left of %u: destroy some first", ctx->dev->id,
                        sim_profile.max_streams);
    *stream = s;
    sim_state_created(s);
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    SIM_CALL(aclrtCreateStream);
    return create(self, stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    SIM_CALL(aclrtCreateStreamWithConfig);
    return create(self, stream, priority, flag);
}

static aclError destroy(struct sim_thread *self, struct sim_stream *s, bool force)
{
    struct sim_context *ctx;
    aclError code;

    if (s == NULL)
        return sim_fail_null("stream");
    if (sim_stream_check(s) != 0)
        return ACL_ERROR_RT_INVALID_HANDLE;
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    if (s->ctx == ctx)
        sim_state_destroying(s);
    pthread_mutex_lock(&sim.mu);
    code = sim_stream_check(s); /* again: two threads may destroy it */
    if (code == 0)
        code = sim_stream_own(s, ctx);
    if (code == 0)
        sim_stream_close(s, force);
    pthread_mutex_unlock(&sim.mu);
    return code;
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    SIM_CALL(aclrtDestroyStream);
    return destroy(self, stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    SIM_CALL(aclrtDestroyStreamForce);
    return destroy(self, stream, true);
}

static const char *task_name(const struct sim_task *t)
{
    static const char *const copies[] = {"MEMCPY_H2D", "MEMCPY_D2H", "MEMCPY_D2D"};

    switch (t->kind) {
    case SIM_COPY:
        return copies[t->dir];
    case SIM_MEMSET:
        return "MEMSET";
    default:
        return sim_ext_name(t);
    }
}

aclError sim_stream_sync(struct sim_stream *s, uint64_t deadline_ns)
{
    uint32_t aborts = sim_stream_aborts(s);
    uint64_t target = atomic_load_explicit(&s->tail, memory_order_acquire);

    if ((s->flags & NOT_HOST_SCHEDULED) != 0)
        return ACL_SUCCESS;
    return sim_stream_sync_to(s, target, aborts, deadline_ns);
}

aclError sim_stream_sync_to(struct sim_stream *s, uint64_t target, uint32_t aborts, uint64_t deadline_ns)
{
    struct sim_failure failure = {0};
    const char *current = "none";
    bool in_time, dropped;
    aclError code;

    sim_stream_spin(s, target);
    pthread_mutex_lock(&sim.mu);
    in_time = sim_stream_wait(s, target, deadline_ns);
    dropped = s->aborting != 0 || sim_stream_aborts(s) != aborts;
    if (in_time && s->ctx->halt.code == 0 && !dropped) {
        failure = s->failure;
        s->failure.code = 0;
    } else if (!in_time && s->ring != NULL) {
        current = task_name(&s->ring[atomic_load_explicit(&s->done, memory_order_relaxed) & SIM_RING_MASK]);
    }
    code = s->ctx->halt.code;
    pthread_mutex_unlock(&sim.mu);
    if (dropped && (code = sim_stream_aborted(s, aborts, target)) != 0)
        return code;
    if (code != 0)
        return sim_context_notice(s->ctx);
    if (!in_time)
        return sim_fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "EE1002",
                        "stream %d of device %d did not end in time, its current task is %s", s->id,
                        s->dev->id, current);
    return failure.code != 0 ? sim_fail_failure(s, &failure) : ACL_SUCCESS;
}

aclError sim_stream_resolve(struct sim_thread *self, struct sim_stream **s, struct sim_context **ctx)
{
    aclError code = sim_stream_check(*s);

    if (code == 0)
        code = sim_need_context(self, ctx);
    if (code == 0 && *s == NULL)
        *s = (*ctx)->stream;
    return code;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    SIM_CALL(aclrtSynchronizeStream);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code = sim_stream_resolve(self, &s, &ctx);

    return code != 0 ? code : sim_stream_sync(s, SIM_FOREVER);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout_ms)
{
    SIM_CALL(aclrtSynchronizeStreamWithTimeout);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    uint64_t deadline_ns = 0;
    aclError code = sim_stream_resolve(self, &s, &ctx);

    if (code == 0)
        code = sim_timeout_check(timeout_ms, &deadline_ns);
    return code != 0 ? code : sim_stream_sync(s, deadline_ns);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    SIM_CALL(aclrtStreamQuery);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    uint64_t done;
    aclError code;

    if (status == NULL)
        return sim_fail_null("status");
    code = sim_stream_resolve(self, &s, &ctx);
    if (code == 0)
        code = sim_context_usable(s->ctx);
    if (code != 0)
        return code;
    sim_drive_poll(s, atomic_load_explicit(&s->tail, memory_order_acquire));
    done = atomic_load_explicit(&s->done, memory_order_acquire);
    if ((s->flags & NOT_HOST_SCHEDULED) != 0 || done >= atomic_load_explicit(&s->tail, memory_order_acquire))
        *status = ACL_STREAM_STATUS_COMPLETE;
    else
        *status = ACL_STREAM_STATUS_NOT_READY;
    if (*status == ACL_STREAM_STATUS_COMPLETE && sim_guards())
        sim_guard_seen(s, done);
    return ACL_SUCCESS;
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *stream_id)
{
    SIM_CALL(aclrtStreamGetId);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code;

    if (stream_id == NULL)
        return sim_fail_null("stream_id");
    code = sim_stream_resolve(self, &s, &ctx);
    if (code == 0)
        *stream_id = s->id;
    return code;
}

aclError aclrtGetThreadLastTaskId(uint32_t *task_id)
{
    SIM_CALL(aclrtGetThreadLastTaskId);
    if (task_id == NULL)
        return sim_fail_null("task_id");
    *task_id = self->last_task_id;
    return ACL_SUCCESS;
}
