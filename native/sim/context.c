/* context.c - contexts.
 *
 * Threads: any. Locks: sim.mu.
 * Owns:    the contexts, to the end of the process.
 * Invariant: a device's memory blocks die with its last context.
 */
#include "sim/peer.h"
#include "sim/sim.h"

#include <stdlib.h>

struct sim_context *sim_current(struct sim_thread *self)
{
    struct sim_context *ctx = self->ctx;

    if (ctx == NULL || atomic_load_explicit(&ctx->magic, memory_order_acquire) != SIM_MAGIC_CONTEXT)
        return NULL;
    return ctx;
}

static atomic_int default_device = -1;

void sim_set_default_device(int32_t device)
{
    atomic_store(&default_device, device);
}

/* As if the thread had called aclrtSetDevice (the count is assumed); no state callback is told. */
static struct sim_context *enter_default(struct sim_thread *self)
{
    int32_t id = atomic_load(&default_device);
    struct sim_device *dev;

    if (id < 0)
        return NULL;
    dev = &sim.dev[id];
    pthread_mutex_lock(&sim.mu);
    if (dev->primary == NULL)
        dev->primary = sim_context_new(dev, true);
    if (dev->primary != NULL) {
        dev->refs++;
        self->ctx = dev->primary;
    }
    pthread_mutex_unlock(&sim.mu);
    return sim_current(self);
}

aclError sim_need_context(struct sim_thread *self, struct sim_context **ctx)
{
    *ctx = sim_current(self);
    if (*ctx == NULL)
        *ctx = enter_default(self);
    if (*ctx != NULL)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1018",
                    "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext first");
}

struct sim_context *sim_context_new(struct sim_device *dev, bool is_primary)
{
    struct sim_context *ctx = calloc(1, sizeof(*ctx));

    if (ctx == NULL || sim_heap_map(&dev->heap, dev->id, sim.device_bytes) != 0) {
        free(ctx);
        return NULL;
    }
    ctx->dev = dev;
    ctx->is_primary = is_primary;
    ctx->stream = sim_stream_new(ctx, 0, true);
    if (ctx->stream == NULL) {
        free(ctx);
        return NULL;
    }
    atomic_init(&ctx->magic, SIM_MAGIC_CONTEXT);
    ctx->grave_next = sim.dead_contexts; /* listed from the start, so that it is always reachable */
    sim.dead_contexts = ctx;
    dev->n_contexts++;
    return ctx;
}

void sim_context_close(struct sim_context *ctx)
{
    struct sim_device *dev = ctx->dev;
    struct sim_stream *s;

    atomic_store_explicit(&ctx->magic, SIM_MAGIC_DEAD, memory_order_release);
    do { /* closing unlocks, so the list is walked anew */
        for (s = dev->streams; s != NULL && (s->ctx != ctx || s->closing); s = s->next)
            ;
        if (s != NULL && !s->told) { /* the state callbacks run without the lock, then look again */
            pthread_mutex_unlock(&sim.mu);
            sim_state_destroying(s);
            pthread_mutex_lock(&sim.mu);
        } else if (s != NULL) {
            sim_stream_close(s, false);
        }
    } while (s != NULL);
    sim_callback_context_closed(ctx);
    if (--dev->n_contexts == 0) {
        sim_heap_clear(&dev->heap);
        sim_peer_forget(dev->id);
    }
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device)
{
    SIM_CALL(aclrtCreateContext);
    struct sim_context *ctx;

    if (context == NULL)
        return sim_fail_null("context");
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    pthread_mutex_lock(&sim.mu);
    ctx = sim_context_new(&sim.dev[device], false);
    pthread_mutex_unlock(&sim.mu);
    if (ctx == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999",
                        "no address space for device %d: lower ACLSIM_DEVICE_MEMORY", device);
    self->ctx = ctx;
    *context = ctx;
    sim_state_created(ctx->stream);
    return ACL_SUCCESS;
}

static aclError check_context(struct sim_context *ctx)
{
    if (ctx == NULL)
        return sim_fail_null("context");
    if (atomic_load_explicit(&ctx->magic, memory_order_acquire) != SIM_MAGIC_CONTEXT)
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017", "context %p was destroyed: pass a live one",
                        (void *)ctx);
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context)
{
    SIM_CALL(aclrtDestroyContext);
    struct sim_context *ctx = context;
    aclError code;

    pthread_mutex_lock(&sim.mu);
    code = check_context(ctx);
    if (code == 0 && ctx->is_primary)
        code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "aclrtSetDevice made this context: reset its device instead");
    if (code == 0)
        sim_context_close(ctx);
    pthread_mutex_unlock(&sim.mu);
    return code;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    SIM_CALL(aclrtSetCurrentContext);
    aclError code = check_context(context);

    if (code == 0)
        self->ctx = context;
    return code;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    SIM_CALL(aclrtGetCurrentContext);
    struct sim_context *ctx;

    if (context == NULL)
        return sim_fail_null("context");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *context = ctx;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
    SIM_CALL(aclrtCtxGetCurrentDefaultStream);
    struct sim_context *ctx;

    if (stream == NULL)
        return sim_fail_null("stream");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *stream = ctx->stream;
    return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active)
{
    SIM_CALL(aclrtGetPrimaryCtxState);
    if (active == NULL)
        return sim_fail_null("active");
    if (flags != NULL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "flags is reserved and has to be null");
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    pthread_mutex_lock(&sim.mu);
    *active = sim.dev[device].primary != NULL;
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}
