/* device.c - devices and contexts.
 *
 * Threads: any. Locks: sim.mu.
 * Owns:    the contexts; a device's address space is kept from its first use to the end of the process.
 * Invariant: a device has a primary context while its refs > 0; its memory blocks die with its last context.
 */
#include "sim/sim.h"

#include <stdlib.h>

struct sim_context *sim_current(struct sim_thread *self)
{
    struct sim_context *ctx = self->ctx;

    if (ctx == NULL || atomic_load_explicit(&ctx->magic, memory_order_acquire) != SIM_MAGIC_CONTEXT)
        return NULL;
    return ctx;
}

aclError sim_need_context(struct sim_thread *self, struct sim_context **ctx)
{
    *ctx = sim_current(self);
    if (*ctx != NULL)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1018",
                    "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext first");
}

static aclError check_device(int32_t device)
{
    if (device >= 0 && (uint32_t)device < sim.n_devices)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1003", "device %d, expected value: [0, %u)", device,
                    sim.n_devices);
}

/* sim.mu held. NULL: out of host memory or address space. */
static struct sim_context *context_new(struct sim_device *dev, bool is_primary)
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

/* sim.mu held, unlocked while streams drain. The handle is dead from the start. */
static void context_close(struct sim_context *ctx)
{
    struct sim_device *dev = ctx->dev;
    struct sim_stream *s;

    atomic_store_explicit(&ctx->magic, SIM_MAGIC_DEAD, memory_order_release);
    do { /* closing unlocks, so the list is walked anew */
        for (s = dev->streams; s != NULL && (s->ctx != ctx || s->closing); s = s->next)
            ;
        if (s != NULL)
            sim_stream_close(s, false);
    } while (s != NULL);
    if (--dev->n_contexts == 0)
        sim_heap_clear(&dev->heap);
}

aclError aclrtSetDevice(int32_t device)
{
    SIM_CALL(aclrtSetDevice);
    struct sim_device *dev;
    struct sim_context *ctx;

    if (check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (sim_fault_lost(device) != 0)
        return sim_fail(sim_fault_lost(device), "EE9999", "device %d is lost: reset it first", device);
    dev = &sim.dev[device];
    pthread_mutex_lock(&sim.mu);
    if (dev->primary == NULL)
        dev->primary = context_new(dev, true);
    ctx = dev->primary;
    if (ctx != NULL) {
        dev->refs++;
        self->ctx = ctx;
    }
    pthread_mutex_unlock(&sim.mu);
    if (ctx == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no address space for device %d", device);
    return ACL_SUCCESS;
}

static aclError reset_device(int32_t device, bool force)
{
    struct sim_device *dev;
    struct sim_context *closed = NULL;
    bool unmatched;

    if (check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    dev = &sim.dev[device];
    pthread_mutex_lock(&sim.mu);
    unmatched = dev->refs == 0;
    if (!unmatched) {
        dev->refs = force ? 0 : dev->refs - 1;
        if (dev->refs == 0) {
            closed = dev->primary;
            dev->primary = NULL;
        }
    }
    if (closed != NULL)
        context_close(closed);
    pthread_mutex_unlock(&sim.mu);
    if (closed != NULL || force)
        sim_fault_revive(device);
    if (unmatched)
        return sim_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "EE1018", "device %d is reset but not set",
                        device);
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device)
{
    SIM_CALL(aclrtResetDevice);
    return reset_device(device, false);
}

aclError aclrtResetDeviceForce(int32_t device)
{
    SIM_CALL(aclrtResetDeviceForce);
    return reset_device(device, true);
}

aclError aclrtGetDevice(int32_t *device)
{
    SIM_CALL(aclrtGetDevice);
    struct sim_context *ctx;

    if (device == NULL)
        return sim_fail_null("device");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *device = ctx->dev->id;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    SIM_CALL(aclrtGetDeviceCount);
    if (count == NULL)
        return sim_fail_null("count");
    pthread_mutex_lock(&sim.mu);
    *count = sim.n_devices;
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *mode)
{
    SIM_CALL(aclrtGetRunMode);
    if (mode == NULL)
        return sim_fail_null("mode");
    *mode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t device, aclrtDeviceStatus *status)
{
    SIM_CALL(aclrtQueryDeviceStatus);
    if (status == NULL)
        return sim_fail_null("status");
    if (check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    *status = sim_fault_lost(device) != 0 ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

/* The device's streams and how far each has to come; NULL with *count set when there is no memory. */
static struct sim_stream **snapshot(struct sim_device *dev, uint32_t *count, uint64_t **targets)
{
    struct sim_stream **streams;
    uint32_t n = 0;

    for (struct sim_stream *s = dev->streams; s != NULL; s = s->next)
        n++;
    streams = malloc((n + 1) * sizeof(*streams));
    *targets = malloc((n + 1) * sizeof(**targets));
    *count = 0;
    if (streams == NULL || *targets == NULL)
        return streams;
    for (struct sim_stream *s = dev->streams; s != NULL; s = s->next) {
        (*targets)[*count] = atomic_load_explicit(&s->tail, memory_order_relaxed);
        streams[(*count)++] = s;
    }
    return streams;
}

aclError aclrtSynchronizeDevice(void)
{
    SIM_CALL(aclrtSynchronizeDevice);
    struct sim_context *ctx;
    struct sim_stream **streams;
    uint64_t *targets;
    uint32_t n;
    aclError code = ACL_SUCCESS;

    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&sim.mu);
    streams = snapshot(ctx->dev, &n, &targets);
    for (uint32_t i = 0; i < n; i++) {
        struct sim_failure failure;

        sim_stream_wait(streams[i], targets[i], SIM_FOREVER);
        failure = streams[i]->failure;
        streams[i]->failure.code = 0;
        if (failure.code != 0) {
            pthread_mutex_unlock(&sim.mu); /* formatting is slow */
            code = sim_fail_failure(streams[i], &failure);
            pthread_mutex_lock(&sim.mu);
        }
    }
    pthread_mutex_unlock(&sim.mu);
    free(streams);
    free(targets);
    return code;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device)
{
    SIM_CALL(aclrtCreateContext);
    struct sim_context *ctx;

    if (context == NULL)
        return sim_fail_null("context");
    if (check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    pthread_mutex_lock(&sim.mu);
    ctx = context_new(&sim.dev[device], false);
    pthread_mutex_unlock(&sim.mu);
    if (ctx == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no address space for device %d", device);
    self->ctx = ctx;
    *context = ctx;
    return ACL_SUCCESS;
}

static aclError check_context(struct sim_context *ctx)
{
    if (ctx == NULL)
        return sim_fail_null("context");
    if (atomic_load_explicit(&ctx->magic, memory_order_acquire) != SIM_MAGIC_CONTEXT)
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017", "context %p was destroyed", (void *)ctx);
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
        code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "aclrtSetDevice made this context");
    if (code == 0)
        context_close(ctx);
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
