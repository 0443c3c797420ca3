/* memory.c - the ACL functions that allocate and free memory.
 *
 * Threads: any. Locks: sim.mu in those that synchronise; see blocks.h.
 * Owns:    nothing.
 * Invariant: freeing never waits for queued copies, which then fail, except in the WithDevSync functions.
 */
#include "sim/sim.h"

#include <stdlib.h>

enum { PAD = 32 }; /* what the runtime adds to a size, after rounding it up */

static aclError check_new(void **out, uint64_t nbytes)
{
    if (out == NULL)
        return sim_fail_null("the place for the address");
    if (nbytes == 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size is 0, expected value: at least 1");
    return ACL_SUCCESS;
}

static unsigned policy_of(aclrtMemMallocPolicy policy)
{
    return (unsigned)policy & 0xFF; /* other bits choose bandwidth and access */
}

static uint32_t page_bytes_of(aclrtMemMallocPolicy policy, size_t nbytes)
{
    const size_t huge_page = (size_t)2 << 20;
    unsigned kind = policy_of(policy);
    bool huge = kind != ACL_MEM_MALLOC_NORMAL_ONLY && kind != ACL_MEM_MALLOC_NORMAL_ONLY_P2P;

    return huge && nbytes >= huge_page ? (uint32_t)huge_page : 4096u;
}

static aclError new_device(struct sim_context *ctx, void **out, size_t nbytes, size_t pad,
                           aclrtMemMallocPolicy policy)
{
    void *ptr = sim_heap_alloc(&ctx->dev->heap, nbytes, pad, page_bytes_of(policy, nbytes));

    if (ptr == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999",
                        "device %d has no room for %zu bytes: free some first", ctx->dev->id, nbytes);
    *out = ptr;
    return ACL_SUCCESS;
}

static aclError malloc_device(struct sim_thread *self, void **out, size_t nbytes, size_t pad,
                              aclrtMemMallocPolicy policy)
{
    struct sim_context *ctx;
    unsigned kind = policy_of(policy);
    aclError code = check_new(out, nbytes);

    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (kind == ACL_MEM_MALLOC_HUGE1G_ONLY || kind == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        pad = 0; /* observed on the open runtime: another gigabyte would be lost */
    return code != 0 ? code : new_device(ctx, out, nbytes, pad, policy);
}

aclError aclrtMalloc(void **device_ptr, size_t nbytes, aclrtMemMallocPolicy policy)
{
    SIM_CALL(aclrtMalloc);

    return malloc_device(self, device_ptr, nbytes, PAD, policy);
}

aclError aclrtMallocAlign32(void **device_ptr, size_t nbytes, aclrtMemMallocPolicy policy)
{
    SIM_CALL(aclrtMallocAlign32);

    return malloc_device(self, device_ptr, nbytes, 0, policy);
}

aclError aclrtMallocCached(void **device_ptr, size_t nbytes, aclrtMemMallocPolicy policy)
{
    SIM_CALL(aclrtMallocCached);

    return malloc_device(self, device_ptr, nbytes, PAD, policy);
}

static aclError malloc_host(struct sim_thread *self, void **out, uint64_t nbytes)
{
    struct sim_context *ctx;

    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *out = sim_pinned_alloc((size_t)nbytes);
    if (*out == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for %llu bytes",
                        (unsigned long long)nbytes);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **host_ptr, size_t nbytes)
{
    SIM_CALL(aclrtMallocHost);
    aclError code = check_new(host_ptr, nbytes);

    return code != 0 ? code : malloc_host(self, host_ptr, nbytes);
}

/* --- with attributes --- */

/* Attributes that the call does not know are refused (assumed). */
static aclError check_attributes(const aclrtMallocConfig *cfg, bool host, const struct sim_context *ctx)
{
    for (size_t i = 0; i < cfg->numAttrs; i++) {
        const aclrtMallocAttribute *a = &cfg->attrs[i];

        if (a->attr == ACL_RT_MEM_ATTR_DEVICE_ID && !host && a->value.deviceId != (uint32_t)ctx->dev->id)
            return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                            "attribute %zu names device %u, but the current one is %d", i, a->value.deviceId,
                            ctx->dev->id);
        if ((unsigned)a->attr > ACL_RT_MEM_ATTR_VA_FLAG || a->attr == ACL_RT_MEM_ATTR_RSV)
            return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                            "attribute %zu is of kind %d, expected value: [1, 3]", i, (int)a->attr);
    }
    return ACL_SUCCESS;
}

aclError aclrtMallocWithCfg(void **device_ptr, size_t nbytes, aclrtMemMallocPolicy policy,
                            aclrtMallocConfig *cfg)
{
    SIM_CALL(aclrtMallocWithCfg);
    struct sim_context *ctx;
    aclError code;

    if (device_ptr == NULL)
        return sim_fail_null("device_ptr");
    if (cfg != NULL && cfg->numAttrs != 0 && cfg->attrs == NULL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "cfg->attrs is null, but cfg->numAttrs is %zu",
                        cfg->numAttrs);
    code = check_new(device_ptr, nbytes);
    if (code == 0 && cfg != NULL && cfg->attrs == NULL)
        code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "cfg->attrs is null; pass a null cfg instead");
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code == 0 && cfg != NULL)
        code = check_attributes(cfg, false, ctx);
    return code != 0 ? code : new_device(ctx, device_ptr, nbytes, 0, policy);
}

aclError aclrtMallocHostWithCfg(void **ptr, uint64_t nbytes, aclrtMallocConfig *cfg)
{
    SIM_CALL(aclrtMallocHostWithCfg);
    aclError code = check_new(ptr, nbytes);

    if (code == 0 && cfg != NULL && cfg->attrs == NULL)
        code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "cfg->attrs is null; pass a null cfg instead");
    if (code == 0 && cfg != NULL)
        code = check_attributes(cfg, true, NULL);
    return code != 0 ? code : malloc_host(self, ptr, nbytes);
}

/* --- freeing --- */

static aclError free_block(void *ptr, bool pinned)
{
    if (ptr == NULL)
        return sim_fail_null(pinned ? "host_ptr" : "device_ptr");
    if (sim_block_free(ptr, pinned))
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "%p is not allocated %s memory: free each block once, by its first address", ptr,
                    pinned ? "host" : "device");
}

aclError aclrtFree(void *device_ptr)
{
    SIM_CALL(aclrtFree);

    return free_block(device_ptr, false);
}

aclError aclrtFreeHost(void *host_ptr)
{
    SIM_CALL(aclrtFreeHost);

    return free_block(host_ptr, true);
}

/* Waits for what the device's streams have now. A failure stays for the synchronisation of its stream. */
static aclError drain(struct sim_device *dev)
{
    struct sim_target *targets;
    uint32_t n;
    aclError code = sim_device_targets(dev, &targets, &n);

    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    for (uint32_t i = 0; i < n; i++)
        (void)sim_stream_wait(targets[i].s, targets[i].n_tasks, SIM_FOREVER);
    pthread_mutex_unlock(&sim.mu);
    free(targets);
    return ACL_SUCCESS;
}

static aclError free_after_drain(struct sim_thread *self, void *ptr, bool pinned)
{
    struct sim_context *ctx = sim_current(self);
    struct sim_found found;
    aclError code = ACL_SUCCESS;

    if (ptr != NULL && ctx != NULL && !pinned && sim_block_find(ptr, &found) && found.device >= 0)
        code = drain(&sim.dev[found.device]);
    else if (ptr != NULL && ctx != NULL)
        code = drain(ctx->dev);
    return code != 0 ? code : free_block(ptr, pinned);
}

aclError aclrtFreeWithDevSync(void *device_ptr)
{
    SIM_CALL(aclrtFreeWithDevSync);

    return free_after_drain(self, device_ptr, false);
}

aclError aclrtFreeHostWithDevSync(void *host_ptr)
{
    SIM_CALL(aclrtFreeHostWithDevSync);

    return free_after_drain(self, host_ptr, true);
}
