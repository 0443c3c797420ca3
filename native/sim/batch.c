/* batch.c - many copies in one call.
 *
 * Threads: any. Locks: none of its own.
 * Owns:    nothing.
 * Invariant: the asynchronous call checks and submits entry by entry, so that what came before a bad entry is
 *            queued; the synchronous one checks everything first (observed on the open runtime).
 */
#include "sim/copy.h"

#include <string.h>

enum { MAX_SYNC = 4096 }; /* the driver's limit for a synchronous batch */

struct batch {
    void **dsts, **srcs;
    size_t *dest_maxs, *sizes;
    size_t n_copies;
    aclrtMemcpyBatchAttr *attrs;
    size_t *attrs_indexes;
    size_t n_attrs;
    size_t *fail_index; /* NULL: the caller does not want it */
};

/* --- checks of the ACL layer --- */

static bool nothing_to_copy(const struct batch *b)
{
    for (size_t i = 0; i < b->n_copies; i++)
        if (b->sizes[i] != 0)
            return false;
    return true;
}

static aclError check_arrays(const struct batch *b)
{
    static const uint8_t zeros[sizeof(b->attrs->rsv)];

    if (b->dsts == NULL || b->dest_maxs == NULL || b->srcs == NULL || b->attrs == NULL ||
        b->attrs_indexes == NULL)
        return sim_fail_null("dsts, dest_maxs, srcs, attrs or attrs_indexes");
    for (size_t i = 0; i < b->n_copies; i++)
        if (b->dest_maxs[i] < b->sizes[i])
            return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0009",
                            "entry %zu copies %zu bytes into a destination of %zu", i, b->sizes[i],
                            b->dest_maxs[i]);
    for (size_t k = 0; k < b->n_attrs; k++)
        if (memcmp(b->attrs[k].rsv, zeros, sizeof(zeros)) != 0)
            return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                            "attrs[%zu].rsv is not zero: clear the whole structure first", k);
    return ACL_SUCCESS;
}

/* true: *code is the result. */
static bool decided_by_arguments(const struct batch *b, aclError *code)
{
    if (b->sizes == NULL) {
        *code = sim_fail_null("sizes");
        return true;
    }
    if (b->n_copies == 0) {
        *code =
            sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the batch has 0 copies, expected value: at least 1");
        return true;
    }
    if (nothing_to_copy(b) && sim_profile.zero_count_ok) {
        if (b->fail_index != NULL)
            *b->fail_index = SIZE_MAX;
        *code = ACL_SUCCESS;
        return true;
    }
    *code = check_arrays(b);
    return *code != 0;
}

/* --- checks of the runtime --- */

static aclError check_indexes(const struct batch *b)
{
    if (b->n_attrs == 0 || b->n_attrs > b->n_copies)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017", "%zu attributes for %zu copies", b->n_attrs,
                        b->n_copies);
    if (b->attrs_indexes[0] != 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017", "attrs_indexes[0] is %zu, expected value: 0",
                        b->attrs_indexes[0]);
    for (size_t k = 1; k < b->n_attrs; k++)
        if (b->attrs_indexes[k] <= b->attrs_indexes[k - 1] || b->attrs_indexes[k] >= b->n_copies)
            return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017",
                            "attrs_indexes[%zu] is %zu, expected value: (%zu, %zu)", k, b->attrs_indexes[k],
                            b->attrs_indexes[k - 1], b->n_copies);
    return ACL_SUCCESS;
}

static int on_side(int loc)
{
    return loc == UNREGISTERED || loc == ACL_MEM_LOCATION_TYPE_HOST_NUMA ? (int)HOST : loc;
}

static bool matches(const aclrtMemLocation *said, int loc, struct sim_ref ref)
{
    if (on_side(loc) != on_side((int)said->type) || (said->type == ACL_MEM_LOCATION_TYPE_UNREGISTERED))
        return false;
    return loc != DEVICE || said->id == (uint32_t)ref.block->device;
}

/* A zero size is refused in a batch that copies something. */
static aclError check_entry(struct sim_thread *self, const struct batch *b, size_t i,
                            const aclrtMemcpyBatchAttr *attr, struct sim_copy *c)
{
    if (b->sizes[i] == 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017", "entry %zu copies 0 bytes; leave it out", i);
    if (b->dsts[i] == NULL || b->srcs[i] == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "entry %zu has a null address", i);
    *c = sim_copy_of(self, b->dsts[i], b->srcs[i], b->sizes[i]);
    if (!matches(&attr->dstLoc, c->dst_loc, c->dst_ref) || !matches(&attr->srcLoc, c->src_loc, c->src_ref))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017",
                        "entry %zu: the attribute says source location %d of %u, destination location %d of "
                        "%u; they are at %d and %d",
                        i, (int)attr->srcLoc.type, attr->srcLoc.id, (int)attr->dstLoc.type, attr->dstLoc.id,
                        c->src_loc, c->dst_loc);
    if (on_side(c->dst_loc) == on_side(c->src_loc))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1016", "entry %zu does not go between host and device",
                        i);
    return ACL_SUCCESS;
}

static aclError check_entry_of(struct sim_thread *self, const struct batch *b, size_t i, size_t *attr,
                               struct sim_copy *c)
{
    aclError code;

    if (*attr + 1 < b->n_attrs && i >= b->attrs_indexes[*attr + 1])
        ++*attr;
    code = check_entry(self, b, i, &b->attrs[*attr], c);
    if (code != 0 && b->fail_index != NULL)
        *b->fail_index = i;
    return code;
}

/* --- execution --- */

static aclError batch_now(struct sim_thread *self, const struct batch *b)
{
    struct sim_context *ctx;
    struct sim_copy c;
    size_t attr = 0;
    aclError code;

    if (decided_by_arguments(b, &code))
        return code;
    if (!sim_profile.has_batch_copy)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (b->fail_index != NULL)
        *b->fail_index = SIZE_MAX;
    if (b->n_copies > MAX_SYNC)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%zu copies, expected value: (0, %d]",
                        b->n_copies, MAX_SYNC);
    code = check_indexes(b);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    for (size_t i = 0; i < b->n_copies && code == 0; i++)
        code = check_entry_of(self, b, i, &attr, &c);
    for (size_t i = 0; i < b->n_copies && code == 0; i++) {
        c = sim_copy_of(self, b->dsts[i], b->srcs[i], b->sizes[i]);
        code = sim_copy_now(&c, NULL, ctx->dev);
    }
    return code;
}

/* Like aclrtMemcpyAsync without the correction of the kind. */
static aclError queue_entry(struct sim_thread *self, struct sim_context *ctx, struct sim_stream *s,
                            const struct sim_copy *c)
{
    aclError code = sim_note_alignment(c->dst, c->src);

    if (code != 0)
        return code;
    sim_note_ordinary(c, ACL_MEMCPY_DEFAULT);
    if (sim_is_pageable(c, ACL_MEMCPY_DEFAULT))
        return sim_copy_pageable(s, c, NULL, ctx->dev);
    code = sim_may_submit(s, ctx);
    return code != 0 ? code : sim_copy_queue(self, s, c, sim_direction(c));
}

static aclError batch_async(struct sim_thread *self, const struct batch *b, struct sim_stream *s)
{
    struct sim_context *ctx;
    size_t attr = 0;
    aclError code;

    if (decided_by_arguments(b, &code))
        return code;
    if (!sim_profile.has_batch_copy)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_stream_check(s);
    if (code != 0)
        return code;
    if (b->fail_index != NULL)
        *b->fail_index = SIZE_MAX;
    code = check_indexes(b);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    if (s == NULL)
        s = ctx->stream;
    for (size_t i = 0; i < b->n_copies && code == 0; i++) {
        struct sim_copy c;

        code = check_entry_of(self, b, i, &attr, &c);
        if (code == 0)
            code = queue_entry(self, ctx, s, &c);
    }
    return code;
}

aclError aclrtMemcpyBatch(void **dsts, size_t *dest_maxs, void **srcs, size_t *sizes, size_t n_copies,
                          aclrtMemcpyBatchAttr *attrs, size_t *attrs_indexes, size_t n_attrs,
                          size_t *fail_index)
{
    SIM_CALL(aclrtMemcpyBatch);
    const struct batch b = {dsts,  srcs,          dest_maxs, sizes,     n_copies,
                            attrs, attrs_indexes, n_attrs,   fail_index};

    return fail_index == NULL ? sim_fail_null("fail_index") : batch_now(self, &b);
}

aclError aclrtMemcpyBatchV2(void **dsts, size_t *dest_maxs, void **srcs, size_t *sizes, size_t n_copies,
                            aclrtMemcpyBatchAttr *attrs, size_t *attrs_indexes, size_t n_attrs)
{
    SIM_CALL(aclrtMemcpyBatchV2);
    const struct batch b = {dsts, srcs, dest_maxs, sizes, n_copies, attrs, attrs_indexes, n_attrs, NULL};

    return batch_now(self, &b);
}

aclError aclrtMemcpyBatchAsync(void **dsts, size_t *dest_maxs, void **srcs, size_t *sizes, size_t n_copies,
                               aclrtMemcpyBatchAttr *attrs, size_t *attrs_indexes, size_t n_attrs,
                               size_t *fail_index, aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyBatchAsync);
    const struct batch b = {dsts,  srcs,          dest_maxs, sizes,     n_copies,
                            attrs, attrs_indexes, n_attrs,   fail_index};

    return fail_index == NULL ? sim_fail_null("fail_index") : batch_async(self, &b, stream);
}

aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *dest_maxs, void **srcs, size_t *sizes, size_t n_copies,
                                 aclrtMemcpyBatchAttr *attrs, size_t *attrs_indexes, size_t n_attrs,
                                 aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyBatchAsyncV2);
    const struct batch b = {dsts, srcs, dest_maxs, sizes, n_copies, attrs, attrs_indexes, n_attrs, NULL};

    return batch_async(self, &b, stream);
}
