/* memory.c - the ACL functions that allocate, free and describe memory.
 *
 * Threads: any. Locks: none of its own; see blocks.h.
 * Owns:    nothing. Invariant: freeing never waits for queued copies; these then fail.
 */
#include "sim/sim.h"

int sim_locate(struct sim_thread *self, const void *ptr, struct sim_ref *ref)
{
    struct sim_found *hit = &self->hits[((uintptr_t)ptr >> 20) % SIM_HITS];

    if ((uintptr_t)ptr - hit->base >= hit->nbytes || !sim_ref_live(hit->ref)) {
        struct sim_found found;

        if (!sim_block_find(ptr, &found)) {
            *ref = (struct sim_ref){0};
            return sim_block_reserved(ptr) ? -1 : (int)ACL_MEM_LOCATION_TYPE_UNREGISTERED;
        }
        *hit = found;
    }
    *ref = hit->ref;
    return hit->device < 0 ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
}

aclError aclrtMalloc(void **device_ptr, size_t nbytes, aclrtMemMallocPolicy policy)
{
    SIM_CALL(aclrtMalloc);
    const size_t huge_page = (size_t)2 << 20;
    struct sim_context *ctx;
    unsigned kind = (unsigned)policy & 0xFF; /* other bits choose bandwidth and access */
    bool huge = kind != ACL_MEM_MALLOC_NORMAL_ONLY && kind != ACL_MEM_MALLOC_NORMAL_ONLY_P2P;

    if (device_ptr == NULL)
        return sim_fail_null("device_ptr");
    if (nbytes == 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size is 0");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *device_ptr =
        sim_heap_alloc(&ctx->dev->heap, nbytes, huge && nbytes >= huge_page ? (uint32_t)huge_page : 4096u);
    if (*device_ptr == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "device %d has no room for %zu bytes",
                        ctx->dev->id, nbytes);
    return ACL_SUCCESS;
}

aclError aclrtFree(void *device_ptr)
{
    SIM_CALL(aclrtFree);
    if (device_ptr == NULL)
        return sim_fail_null("device_ptr");
    if (!sim_block_free(device_ptr, false))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%p is not allocated device memory",
                        device_ptr);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **host_ptr, size_t nbytes)
{
    SIM_CALL(aclrtMallocHost);
    struct sim_context *ctx;

    if (host_ptr == NULL)
        return sim_fail_null("host_ptr");
    if (nbytes == 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size is 0");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *host_ptr = sim_pinned_alloc(nbytes);
    if (*host_ptr == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for %zu bytes", nbytes);
    return ACL_SUCCESS;
}

aclError aclrtFreeHost(void *host_ptr)
{
    SIM_CALL(aclrtFreeHost);
    if (host_ptr == NULL)
        return sim_fail_null("host_ptr");
    if (!sim_block_free(host_ptr, true))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%p is not allocated host memory", host_ptr);
    return ACL_SUCCESS;
}

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

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total_bytes)
{
    SIM_CALL(aclrtGetMemInfo);
    struct sim_context *ctx;

    if (free_bytes == NULL || total_bytes == NULL)
        return sim_fail_null("free_bytes or total_bytes");
    if ((unsigned)attr > ACL_MEM_P2P_HUGE1G)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "memory attribute %d is unknown", (int)attr);
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    sim_heap_room(&ctx->dev->heap, free_bytes, total_bytes);
    return ACL_SUCCESS;
}
