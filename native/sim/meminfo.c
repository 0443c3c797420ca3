/* meminfo.c - the ACL functions that describe memory, and those for caches that need no care here.
 *
 * Threads: any. Locks: none of its own; see blocks.h.
 * Owns:    nothing.
 * Invariant: nothing here changes memory.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    SIM_CALL(aclrtPointerGetAttributes);
    struct sim_found found;

    if (ptr == NULL || attributes == NULL)
        return sim_fail_null("ptr or attributes");
    *attributes = (aclrtPtrAttributes){.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    if (!sim_block_find(ptr, &found))
        return ACL_SUCCESS;
    attributes->location.type = found.device < 0 ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
    attributes->location.id = found.device < 0 ? 0 : (uint32_t)found.device;
    attributes->pageSize = found.page_bytes;
    return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void *ptr, void **base, size_t *nbytes)
{
    SIM_CALL(aclrtMemGetAddressRange);
    struct sim_found found;

    if (ptr == NULL)
        return sim_fail_null("ptr");
    if (base == NULL && nbytes == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "both results are null; ask for one of them");
    if (!sim_block_find(ptr, &found)) /* the driver's answer (assumed) */
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%p is in no allocated block", ptr);
    if (base != NULL)
        *base = (void *)found.base;
    if (nbytes != NULL)
        *nbytes = found.nbytes;
    return ACL_SUCCESS;
}

/* A chip has one kind of memory: HBM, or DDR in the inference chips (assumed from the products' data). */
static bool has_hbm(void)
{
    return sim_profile.chip != SIM_CHIP_310P && sim_profile.chip != SIM_CHIP_310B;
}

static bool is_ddr(aclrtMemAttr attr)
{
    return attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL ||
           attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL;
}

/* HBM asked of a chip with DDR is answered for DDR, DDR asked of a chip with HBM with zeros; page sizes share
 * one pool (aclrtGetMemInfo, CANN docs; the pool is assumed). */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total_bytes)
{
    SIM_CALL(aclrtGetMemInfo);
    struct sim_context *ctx;

    if (free_bytes == NULL || total_bytes == NULL)
        return sim_fail_null("free_bytes or total_bytes");
    if ((unsigned)attr > ACL_MEM_P2P_HUGE1G)
        return sim_fail(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "EE1003",
                        "memory attribute %d, expected value: [0, %d]", (int)attr, ACL_MEM_P2P_HUGE1G);
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *free_bytes = *total_bytes = 0;
    if (!is_ddr(attr) || !has_hbm())
        sim_heap_room(&ctx->dev->heap, free_bytes, total_bytes);
    return ACL_SUCCESS;
}

/* One component, because only the program allocates here. */
aclError aclrtGetMemUsageInfo(int32_t device, aclrtMemUsageInfo *usage, size_t n_in, size_t *n_out)
{
    SIM_CALL(aclrtGetMemUsageInfo);
    struct sim_context *ctx;
    size_t now, peak;

    if (usage == NULL || n_out == NULL)
        return sim_fail_null("usage or n_out");
    if (!sim_profile.has_usage_info)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    *n_out = 0;
    if (n_in == 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003",
                        "the array has 0 elements, expected value: at least 1");
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    sim_heap_usage(&sim.dev[device].heap, &now, &peak);
    usage[0] = (aclrtMemUsageInfo){.name = "APP", .curMemSize = now, .memPeakSize = peak};
    *n_out = 1;
    return ACL_SUCCESS;
}

/* Caches are coherent (aclrtMemFlush, CANN docs): only the arguments matter. */
static aclError check_cached(struct sim_thread *self, const void *ptr, size_t nbytes,
                             struct sim_context **ctx)
{
    if (ptr == NULL)
        return sim_fail_null("device_ptr");
    if (nbytes == 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size is 0, expected value: at least 1");
    return sim_need_context(self, ctx);
}

aclError aclrtMemFlush(void *device_ptr, size_t nbytes)
{
    SIM_CALL(aclrtMemFlush);
    struct sim_context *ctx;
    aclError code = check_cached(self, device_ptr, nbytes, &ctx);

    return code != 0 ? code : sim_device_usable(ctx->dev);
}

aclError aclrtMemInvalidate(void *device_ptr, size_t nbytes)
{
    SIM_CALL(aclrtMemInvalidate);
    struct sim_context *ctx;

    return check_cached(self, device_ptr, nbytes, &ctx);
}
