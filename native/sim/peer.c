/* peer.c - see peer.h.
 *
 * Threads: any. Locks: none. Owns: the access bits.
 * Invariant: bit to of access[from] is set while from may reach to; bit from of access[from] is never set.
 */
#include "sim/peer.h"

#include "sim/sim.h"

static atomic_ullong access_of[SIM_MAX_DEVICES];

bool sim_peer_enabled(int32_t from, int32_t to)
{
    return (atomic_load_explicit(&access_of[from], memory_order_relaxed) >> to & 1) != 0;
}

void sim_peer_forget(int32_t device) /* that it ends with the reset is assumed */
{
    atomic_store_explicit(&access_of[device], 0, memory_order_relaxed);
}

static aclError same_device(int32_t device)
{
    return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "device %d and its peer are the same", device);
}

/* 310B: not supported; RC and the open control CPU form: no data exchange (CANN 9.1 docs). */
static aclError need_support(void)
{
    if (sim_profile.has_peer_access)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1005", "%s has no peer access between devices",
                    sim_profile.name);
}

aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer)
{
    SIM_CALL(aclrtDeviceCanAccessPeer);
    if (device == peer)
        return same_device(device);
    if (sim_check_device(peer) != 0 || sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (can == NULL) /* found by the runtime, not by the ACL layer */
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1004", "can is null");
    if (need_support() != 0)
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    *can = 1;
    return ACL_SUCCESS;
}

/* Changes the bit of the current device. */
static aclError change(struct sim_thread *self, int32_t peer, bool enable)
{
    struct sim_context *ctx;
    unsigned long long bit;

    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    if (ctx->dev->id == peer)
        return same_device(peer);
    if (sim_check_device(peer) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (need_support() != 0)
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    bit = 1ull << peer;
    if (enable)
        atomic_fetch_or(&access_of[ctx->dev->id], bit);
    else
        atomic_fetch_and(&access_of[ctx->dev->id], ~bit);
    return ACL_SUCCESS; /* also when it was so already (observed on the open runtime) */
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags)
{
    SIM_CALL(aclrtDeviceEnablePeerAccess);
    if (flags != 0)
        return sim_fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EH0006", "flags %u is reserved and has to be 0",
                        flags);
    return change(self, peer, true);
}

aclError aclrtDeviceDisablePeerAccess(int32_t peer)
{
    SIM_CALL(aclrtDeviceDisablePeerAccess);
    return change(self, peer, false);
}

aclError aclrtDevicePeerAccessStatus(int32_t device, int32_t peer, int32_t *status)
{
    SIM_CALL(aclrtDevicePeerAccessStatus);
    uint32_t n = sim.n_devices;

    if (status == NULL)
        return sim_fail_null("status");
    if (device < 0 || peer < 0 || (uint32_t)device >= n || (uint32_t)peer >= n)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "devices %d and %d, expected value: [0, %u)",
                        device, peer, n);
    *status = sim_peer_enabled(device, peer) ? 1 : 0;
    return ACL_SUCCESS;
}
