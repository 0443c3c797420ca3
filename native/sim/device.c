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

aclError sim_check_device_set(int32_t device)
{
    bool is_set;

    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    pthread_mutex_lock(&sim.mu);
    is_set = sim.dev[device].n_contexts != 0;
    pthread_mutex_unlock(&sim.mu);
    if (is_set)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_INTERNAL_ERROR, "EE9999", "device %d is not set: call aclrtSetDevice first",
                    device);
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
    aclError code;

    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    code = sim_check_lost(device);
    if (code != 0)
        return code;
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
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999",
                        "no address space for device %d: lower ACLSIM_DEVICE_MEMORY", device);
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
        return sim_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "EE1018",
                        "device %d is reset but not set: pair the calls", device);
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

/* sim.mu held. One entry for each stream of the device; *n of them, from malloc. NULL: no host memory. */
static struct sim_target *targets_of(struct sim_device *dev, uint32_t *n)
{
    struct sim_target *targets;
    uint32_t n_streams = 0;

    for (struct sim_stream *s = dev->streams; s != NULL; s = s->next)
        n_streams++;
    targets = malloc((n_streams + 1) * sizeof(*targets));
    *n = 0;
    if (targets == NULL)
        return NULL;
    for (struct sim_stream *s = dev->streams; s != NULL; s = s->next)
        targets[(*n)++] = (struct sim_target){s, atomic_load_explicit(&s->tail, memory_order_relaxed),
                                              sim_stream_aborts(s)};
    return targets;
}

aclError sim_device_targets(struct sim_device *dev, struct sim_target **targets, uint32_t *n)
{
    pthread_mutex_lock(&sim.mu);
    *targets = targets_of(dev, n);
    pthread_mutex_unlock(&sim.mu);
    if (*targets != NULL)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_BAD_ALLOC, "EH0001", "no host memory to wait for device %d", dev->id);
}

/* The failures of all streams are taken along and the last one is told; a stream that is late ends the wait,
 * the others keep theirs. */
static aclError synchronize(struct sim_thread *self, uint64_t deadline_ns)
{
    struct sim_context *ctx;
    struct sim_target *targets;
    uint32_t n;
    aclError code, told = ACL_SUCCESS;

    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    code = sim_device_targets(ctx->dev, &targets, &n);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < n && told != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT; i++) {
        code = sim_stream_sync_to(targets[i].s, targets[i].n_tasks, targets[i].aborts, deadline_ns);
        if (code != 0)
            told = code;
    }
    free(targets);
    code = sim_context_notice(ctx);
    return code != 0 ? code : told;
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
