/* desc.c - copies inside a device whose addresses are in device memory: descriptors, and pointers with
 * offsets.
 *
 * Threads: any. Locks: none of its own.
 * Owns:    the description of a task, until it is submitted.
 * Invariant: the addresses are read when the copy executes.
 */
#include "sim/copy.h"

#include <stdlib.h>
#include <string.h>

enum {
    DESC_ALIGNMENT = 64,
    DESC_NBYTES_950 = 64, /* observed on the open runtime */
    DESC_NBYTES = 32      /* assumed */
};
static const uint64_t max_nbytes = UINT32_MAX; /* one descriptor: less than 4 GiB */

_Static_assert(sizeof(struct sim_desc) <= DESC_NBYTES, "a descriptor has to fit where a real one does");

static aclError check_kind(aclrtMemcpyKind kind)
{
    if ((unsigned)kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "copy kind %d, expected value: [0, 7]", (int)kind);
    return ACL_SUCCESS;
}

static bool supported(aclrtMemcpyKind kind)
{
    return sim_profile.has_memcpy_desc && kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
}

aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *desc_nbytes)
{
    SIM_CALL(aclrtGetMemcpyDescSize);
    aclError code;

    if (desc_nbytes == NULL)
        return sim_fail_null("desc_nbytes");
    code = check_kind(kind);
    if (code == 0 && !supported(kind))
        code = sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (code == 0)
        *desc_nbytes = sim_profile.chip == SIM_CHIP_950 ? DESC_NBYTES_950 : DESC_NBYTES;
    return code;
}

/* The runtime answers a bad address here with 107000, not with 107008 (observed on the open runtime). */
static aclError check_desc(struct sim_thread *self, const void *desc, struct sim_ref *ref)
{
    if (((uintptr_t)desc & (DESC_ALIGNMENT - 1)) != 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "descriptor %p is not a multiple of %d bytes; align it", desc, DESC_ALIGNMENT);
    if (sim_locate(self, desc, ref) != DEVICE)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "descriptor %p is not device memory", desc);
    return ACL_SUCCESS;
}

static aclError store(struct sim_ref ref, void *desc, const struct sim_desc *content)
{
    bool fits;

    if (!sim_block_pin(ref))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "descriptor %p was freed", desc);
    fits = sizeof(*content) <= sim_room(ref, desc);
    if (fits)
        memcpy((char *)desc + ref.block->delta, content, sizeof(*content));
    sim_block_unpin(ref.block);
    return fits ? ACL_SUCCESS
                : sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                           "the block at %p is smaller than a descriptor of %d bytes", desc, DESC_NBYTES);
}

aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *src, void *dst, size_t count,
                            void *config)
{
    SIM_CALL(aclrtSetMemcpyDesc);
    const struct sim_desc content = {count, dst, src};
    struct sim_context *ctx;
    struct sim_ref ref;
    struct sim_copy c;
    aclError code;

    if (desc == NULL)
        return sim_fail_null("desc");
    code = check_kind(kind);
    if (code != 0)
        return code;
    if (src == NULL || dst == NULL)
        return sim_fail_null(src == NULL ? "src" : "dst");
    if (count == 0 || config != NULL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "%s",
                        count == 0 ? "count is 0" : "config is reserved and has to be null");
    if (!supported(kind))
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (count > max_nbytes)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "count %zu, expected value: (0, %llu]", count,
                        (unsigned long long)max_nbytes);
    code = check_desc(self, desc, &ref);
    if (code != 0)
        return code;
    c = sim_copy_of(self, dst, src, count);
    if (c.dst_loc != DEVICE || c.src_loc != DEVICE || c.dst_ref.block->device != c.src_ref.block->device)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017",
                        "source %p and destination %p have to be memory of one device", src, dst);
    code = sim_need_context(self, &ctx);
    return code != 0 ? code : store(ref, desc, &content);
}

/* What the time model charges; the engine reads the descriptor again. */
static size_t count_of(struct sim_ref ref, const void *desc)
{
    struct sim_desc content = {0};

    if (!sim_block_pin(ref))
        return 0;
    if (sizeof(content) <= sim_room(ref, desc))
        memcpy(&content, (const char *)desc + ref.block->delta, sizeof(content));
    sim_block_unpin(ref.block);
    return content.nbytes;
}

static aclError submit(struct sim_thread *self, struct sim_stream *s, const struct sim_indirect *what,
                       size_t nbytes)
{
    struct sim_indirect *kept = malloc(sizeof(*kept));

    if (kept == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for a task");
    *kept = *what;
    return sim_copy_queue_indirect(self, s, kept, nbytes);
}

aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyAsyncWithDesc);
    const struct sim_indirect what = {.kind = SIM_DESC, .src = desc};
    struct sim_context *ctx;
    struct sim_ref ref;
    aclError code;

    if (desc == NULL)
        return sim_fail_null("desc");
    code = check_kind(kind);
    if (code != 0)
        return code;
    if (stream == NULL)
        return sim_fail_null("stream");
    if (!sim_profile.has_memcpy_desc)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_stream_check(stream);
    if (code == 0 && !supported(kind))
        code = sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (code == 0)
        code = check_desc(self, desc, &ref);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code == 0)
        code = sim_may_submit(stream, ctx);
    return code != 0 ? code : submit(self, stream, &what, count_of(ref, desc));
}

/* dst and src point to device memory that holds the addresses. Nothing about them is checked before the copy
 * executes, except that they are not null (observed on the open runtime). */
aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t dest_max, size_t dst_offset, const void **src,
                                    size_t count, size_t src_offset, aclrtMemcpyKind kind, aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyAsyncWithOffset);
    const struct sim_indirect what = {.kind = SIM_OFFSET,
                                      .src = (const char *)src,
                                      .dst = (char *)dst,
                                      .src_offset = src_offset,
                                      .dst_offset = dst_offset};
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code;

    if (count == 0)
        return ACL_SUCCESS;
    if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "copy kind %d, expected value: 6", (int)kind);
    if (!sim_profile.has_memcpy_offset)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_stream_check(s);
    if (code != 0)
        return code;
    if (dst == NULL || src == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%s is null", dst == NULL ? "dst" : "src");
    if (count > dest_max || count > max_nbytes)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003",
                        "count %zu, expected value: (0, %zu], below 4 GiB", count, dest_max);
    code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    if (s == NULL)
        s = ctx->stream;
    code = sim_may_submit(s, ctx);
    return code != 0 ? code : submit(self, s, &what, count);
}
