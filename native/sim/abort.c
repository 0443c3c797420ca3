/* abort.c - failures and dropped work: failure modes, aclrtStreamAbort, aclrtStreamStop,
 * aclrtDeviceTaskAbort.
 *
 * Threads: any. Locks: sim.mu, released while a copy that already runs ends.
 * Owns:    nothing of its own. Invariant: a context with halt.code != 0 executes no task any more; its sticky
 *          code is set by a synchronisation only, as the runtime notices a failure when it reads completions
 *          (observed on the open runtime).
 */
#include "sim/sim.h"

enum { MODE_MASK = 1, MAX_ABORT_MS = 36 * 60 * 1000 };

/* --- failure modes --- */

/* In STOP mode the first failure drops what the context's streams still have. The failed one drops its rest
 * when it is advanced, as does one that runs when its turn ends. */
static void halt(struct sim_context *ctx, const struct sim_stream *failed)
{
    struct sim_stream *s = ctx->dev->streams;

    while (s != NULL) {
        struct sim_stream *next = s->next;

        if (s->ctx == ctx && !s->running && s != failed)
            sim_stream_drop(s);
        s = next;
    }
}

void sim_stream_failed(struct sim_stream *s, const struct sim_failure *failure)
{
    struct sim_context *ctx = s->ctx;

    s->failure = *failure;
    if (!ctx->stops || ctx->halt.code != 0)
        return;
    ctx->halt = *failure;
    ctx->halt_stream = s->id;
    halt(ctx, s);
}

aclError sim_device_usable(const struct sim_device *dev)
{
    if (atomic_load_explicit(&dev->task_abort, memory_order_acquire) == 0)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, "EE9999",
                    "the tasks of device %d are being aborted: wait until aclrtDeviceTaskAbort has returned",
                    dev->id);
}

aclError sim_context_usable(struct sim_context *ctx)
{
    aclError code = sim_device_usable(ctx->dev);

    if (code != 0)
        return code;
    code = atomic_load_explicit(&ctx->sticky, memory_order_acquire);
    if (code == 0)
        return ACL_SUCCESS;
    return sim_fail(
        code, "EE9999",
        "the context of device %d stopped at task %u of stream %d: destroy it or reset the device",
        ctx->dev->id, ctx->halt.task_id, ctx->halt_stream);
}

aclError sim_context_notice(struct sim_context *ctx)
{
    pthread_mutex_lock(&sim.mu);
    if (ctx->halt.code != 0)
        atomic_store_explicit(&ctx->sticky, ctx->halt.code, memory_order_release);
    pthread_mutex_unlock(&sim.mu);
    return sim_context_usable(ctx);
}

/* The order of the runtime: the same mode is accepted from any context, a change only from the stream's own.
 */
aclError sim_failure_mode(struct sim_thread *self, struct sim_stream *s, uint64_t mode)
{
    struct sim_context *ctx;
    aclError code = sim_stream_resolve(self, &s, &ctx);
    bool stop = (mode & MODE_MASK) == ACL_STOP_ON_FAILURE, stops;

    if (code != 0)
        return code;
    if ((s->flags & ACL_STREAM_DEVICE_USE_ONLY) != 0)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    pthread_mutex_lock(&sim.mu);
    stops = s->stops || s->ctx->stops;
    if (stop && !stops && s->ctx == ctx)
        s->stops = ctx->stops = true;
    pthread_mutex_unlock(&sim.mu);
    if (stops && !stop)
        return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1016",
                        "stream %d stops on failure, which cannot be changed back", s->id);
    return stop == stops ? ACL_SUCCESS : sim_stream_own(s, ctx);
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    SIM_CALL(aclrtSetStreamFailureMode);
    return sim_failure_mode(self, stream, mode);
}

/* --- dropped work --- */

uint32_t sim_stream_aborts(struct sim_stream *s)
{
    return atomic_load_explicit(&s->n_aborts, memory_order_acquire);
}

aclError sim_stream_aborted(struct sim_stream *s, uint32_t before, uint64_t target)
{
    aclError code = ACL_SUCCESS;

    pthread_mutex_lock(&sim.mu);
    if (s->aborting != 0 || (sim_stream_aborts(s) != before && target > s->abort_from))
        code = s->abort_code;
    pthread_mutex_unlock(&sim.mu);
    if (code == 0)
        return ACL_SUCCESS;
    return sim_fail(code, "EE9999", "the work of stream %d of device %d was dropped by %s", s->id, s->dev->id,
                    code == ACL_ERROR_RT_STREAM_ABORT ? "aclrtStreamAbort" : "aclrtDeviceTaskAbort");
}

/* sim.mu held. What runs keeps running; what is queued, and what is submitted until abort_end, is dropped. */
static void abort_begin(struct sim_stream *s, aclError code)
{
    s->aborting++;
    s->abort_code = code;
    s->abort_from = atomic_load_explicit(&s->done, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->n_aborts, 1, memory_order_release);
    atomic_fetch_add_explicit(&s->pause, 1, memory_order_relaxed);
    if (!s->running)
        sim_stream_drop(s);
    pthread_cond_broadcast(&s->cv);
    sim_drive_wake();
}

static bool at_rest(void *arg)
{
    return !((const struct sim_stream *)arg)->running;
}

/* sim.mu held, released while waiting. false: too late. The end of a turn wakes an aborting stream. */
static bool abort_wait(struct sim_stream *s, uint64_t deadline_ns)
{
    return sim_drive_wait(at_rest, s, s, &s->cv, deadline_ns);
}

/* sim.mu held. */
static void abort_end(struct sim_stream *s)
{
    atomic_fetch_sub_explicit(&s->pause, 1, memory_order_relaxed);
    if (!s->running && s->ring != NULL) {
        sim_stream_drop(s);
        s->failure.code = 0;
    }
    s->aborting--;
    pthread_cond_broadcast(&s->cv);
}

aclError aclrtStreamAbort(aclrtStream stream)
{
    SIM_CALL(aclrtStreamAbort);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code = sim_stream_resolve(self, &s, &ctx);

    if (code == 0)
        code = sim_stream_own(s, ctx);
    if (code != 0)
        return code;
    if (!sim_profile.has_stream_abort)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_device_usable(ctx->dev);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    code = sim_stream_check(s);
    if (code == 0) {
        abort_begin(s, ACL_ERROR_RT_STREAM_ABORT);
        (void)abort_wait(s, SIM_FOREVER);
        abort_end(s);
    }
    pthread_mutex_unlock(&sim.mu);
    return code;
}

/* Stops a kernel that runs and keeps what is queued. A DMA copy cannot be stopped in its middle, so that
 * there is nothing to do for the tasks that the simulator has (assumed). */
aclError aclrtStreamStop(aclrtStream stream)
{
    SIM_CALL(aclrtStreamStop);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code = sim_stream_check(s);

    if (code != 0)
        return code;
    if (s == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1004", "stream is null");
    code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    if (!sim_profile.has_stream_abort) /* the same products have it */
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    return sim_stream_own(s, ctx);
}

/* sim.mu held, released while waiting. All streams end together, so that nothing that was submitted meanwhile
 * is left. */
static bool abort_device(struct sim_device *dev, uint64_t deadline_ns)
{
    struct sim_stream *s;
    bool in_time = true;

    for (s = dev->streams; s != NULL; s = s->next)
        if (!s->closing) {
            s->device_abort = true;
            abort_begin(s, ACL_ERROR_RT_DEVICE_TASK_ABORT);
        }
    do { /* waiting unlocks, so the list is walked anew */
        for (s = dev->streams; s != NULL && (!s->device_abort || !s->running); s = s->next)
            ;
        if (s != NULL)
            in_time = abort_wait(s, deadline_ns);
    } while (s != NULL && in_time);
    for (s = dev->streams; s != NULL; s = s->next)
        if (s->device_abort) {
            s->device_abort = false;
            abort_end(s);
        }
    return in_time;
}

/* A call that is too late returns 107019; the documents say that it fails, not with what (assumed). */
aclError aclrtDeviceTaskAbort(int32_t device, uint32_t timeout_ms)
{
    SIM_CALL(aclrtDeviceTaskAbort);
    struct sim_device *dev;
    uint64_t deadline_ns = timeout_ms == 0 ? SIM_FOREVER : sim_now_ns() + (uint64_t)timeout_ms * 1000000u;
    bool in_time = true, busy;

    if (!sim_profile.has_task_abort)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (timeout_ms > MAX_ABORT_MS)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "timeout %u ms, expected value: [0, %d]",
                        timeout_ms, (int)MAX_ABORT_MS);
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    dev = &sim.dev[device];
    pthread_mutex_lock(&sim.mu);
    busy = atomic_fetch_add_explicit(&dev->task_abort, 1, memory_order_acq_rel) != 0;
    if (!busy)
        in_time = abort_device(dev, deadline_ns);
    atomic_fetch_sub_explicit(&dev->task_abort, 1, memory_order_acq_rel);
    pthread_mutex_unlock(&sim.mu);
    if (busy)
        return sim_fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, "EE9999", "device %d is being aborted already",
                        device);
    if (!in_time)
        return sim_fail(ACL_ERROR_RT_WAIT_TIMEOUT, "EE9999", "the tasks of device %d did not stop in %u ms",
                        device, timeout_ms);
    sim_fault_aborted(device);
    return ACL_SUCCESS;
}
