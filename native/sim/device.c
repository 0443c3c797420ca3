/* device.c - setting, resetting and waiting for devices.
 *
 * Threads: any. Locks: sim.mu; state callbacks run without it.
 * Owns:    the devices; an address space is kept from its first use to the end of the process.
 * Invariant: a device has a primary context while its refs > 0.
 */
#include "sim/health.h"
#include "sim/settings.h"
#include "sim/sim.h"

#include <stdlib.h>

aclError sim_check_device(int32_t device)
{
    const char *fault = sim_visible_fault();

    if (device >= 0 && (uint32_t)device < sim.n_devices)
        return ACL_SUCCESS;
    if (fault != NULL)
        return sim_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE2002", "%s", fault);
    return sim_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1003", "device %d, expected value: [0, %u)", device,
                    sim.n_devices);
}

bool sim_any_device_set(void)
{
    for (int d = 0; d < SIM_MAX_DEVICES; d++)
        if (sim.dev[d].n_contexts != 0)
            return true;
    return false;
}

aclError aclrtSetDevice(int32_t device)
{
    SIM_CALL(aclrtSetDevice);
    struct sim_device *dev;
    struct sim_context *ctx;
    bool is_new;

    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (sim_fault_lost(device) != 0)
        return sim_fail(sim_fault_lost(device), "EE9999", "device %d is lost: reset it first", device);
    dev = &sim.dev[device];
    sim_device_notify(device, ACL_RT_DEVICE_STATE_SET_PRE);
    pthread_mutex_lock(&sim.mu);
    is_new = dev->primary == NULL;
    if (is_new)
        dev->primary = sim_context_new(dev, true);
    ctx = dev->primary;
    if (ctx != NULL) {
        dev->refs++;
        self->ctx = ctx;
    }
    pthread_mutex_unlock(&sim.mu);
    if (ctx == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no address space for device %d", device);
    if (is_new)
        sim_state_created(ctx->stream);
    sim_device_notify(device, ACL_RT_DEVICE_STATE_SET_POST);
    return ACL_SUCCESS;
}

static aclError reset_device(int32_t device, bool force)
{
    struct sim_device *dev;
    struct sim_context *closed = NULL;
    bool unmatched;

    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    dev = &sim.dev[device];
    sim_device_notify(device, ACL_RT_DEVICE_STATE_RESET_PRE);
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
        sim_context_close(closed);
    pthread_mutex_unlock(&sim.mu);
    if (closed != NULL || force)
        sim_fault_revive(device);
    if (unmatched)
        return sim_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "EE1018", "device %d is reset but not set",
                        device);
    sim_device_notify(device, ACL_RT_DEVICE_STATE_RESET_POST);
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
    if (sim_visible_fault() != NULL)
        return sim_fail(ACL_ERROR_RT_NO_DEVICE, "EE2002", "%s", sim_visible_fault());
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
    *mode = sim_profile.form == SIM_FORM_RC ? ACL_DEVICE : ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t device, aclrtDeviceStatus *status)
{
    SIM_CALL(aclrtQueryDeviceStatus);
    if (status == NULL)
        return sim_fail_null("status");
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    pthread_mutex_lock(&sim.mu);
    *status = sim_health(device)->status;
    pthread_mutex_unlock(&sim.mu);
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

/* What is submitted meanwhile is not waited for, nor what an abort drops. */
void sim_device_drain(struct sim_device *dev)
{
    struct sim_stream **streams;
    uint64_t *targets;
    uint32_t n;

    pthread_mutex_lock(&sim.mu);
    streams = snapshot(dev, &n, &targets);
    for (uint32_t i = 0; i < n; i++) /* also tells the guards that the host knows */
        (void)sim_stream_wait(streams[i], targets[i], SIM_FOREVER);
    pthread_mutex_unlock(&sim.mu);
    free(streams);
    free(targets);
}

/* Errors of the streams are taken along; a stream that is late ends the wait, the others keep theirs. */
static aclError synchronize(struct sim_thread *self, uint64_t deadline_ns)
{
    struct sim_context *ctx;
    struct sim_stream **streams;
    uint64_t *targets;
    const struct sim_stream *late = NULL;
    uint32_t n;
    aclError code = ACL_SUCCESS, stopped;

    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&sim.mu);
    streams = snapshot(ctx->dev, &n, &targets);
    for (uint32_t i = 0; i < n; i++) {
        struct sim_failure failure;
        uint32_t aborts = sim_stream_aborts(streams[i]);
        bool in_time = sim_stream_wait(streams[i], targets[i], deadline_ns);

        if (streams[i]->aborting != 0 || sim_stream_aborts(streams[i]) != aborts) {
            aclError dropped;

            pthread_mutex_unlock(&sim.mu);
            dropped = sim_stream_aborted(streams[i], aborts, targets[i]);
            pthread_mutex_lock(&sim.mu);
            if (dropped != 0) { /* nothing of it is left to wait for */
                code = dropped;
                continue;
            }
        }
        if (!in_time) {
            late = streams[i];
            break;
        }
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
    if (late != NULL)
        return sim_fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "EE1002",
                        "device %d: stream %d did not end in time", ctx->dev->id, late->id);
    stopped = sim_context_notice(ctx);
    return stopped != 0 ? stopped : code;
}

aclError aclrtSynchronizeDevice(void)
{
    SIM_CALL(aclrtSynchronizeDevice);
    return synchronize(self, SIM_FOREVER);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout_ms)
{
    SIM_CALL(aclrtSynchronizeDeviceWithTimeout);
    uint64_t deadline_ns;
    aclError code = sim_timeout_check(timeout_ms, &deadline_ns);

    return code != 0 ? code : synchronize(self, deadline_ns);
}
