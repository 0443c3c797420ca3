/* copy.c - aclrtMemcpy and aclrtMemcpyAsync: checks, then either a task or the work itself.
 *
 * Threads: any. Locks: none of its own.
 * Owns:    nothing.
 * Invariant: the order of the checks is that of the open runtime.
 */
#include "sim/copy.h"

#include <string.h>

static aclError check_count(size_t count, size_t dest_max)
{
    if (count != 0 && count <= dest_max) /* 0 gets here only before 9.1 */
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "count %zu, expected value: (0, %zu]", count,
                    dest_max);
}

static aclError check_pointers_and_kind(const void *dst, const void *src, aclrtMemcpyKind kind)
{
    if (dst == NULL)
        return sim_fail_null("dst");
    if (src == NULL)
        return sim_fail_null("src");
    if ((unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) /* 6 and 7 are for descriptors */
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "copy kind %d, expected value: [0, 5]", (int)kind);
    return ACL_SUCCESS;
}

/* Immediate, with no implicit synchronisation; the locations decide the direction, not the kind. */
aclError aclrtMemcpy(void *dst, size_t dest_max, const void *src, size_t count, aclrtMemcpyKind kind)
{
    SIM_CALL(aclrtMemcpy);
    struct sim_context *ctx;
    struct sim_copy c;
    aclError code;

    if (count == 0 && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = check_pointers_and_kind(dst, src, kind);
    if (code == 0)
        code = check_count(count, dest_max);
    if (code == 0 && dst == src)
        return ACL_SUCCESS;
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    c = sim_copy_of(self, dst, src, count);
    return sim_copy_now(&c, NULL, ctx->dev);
}

/* The kind with the direction that the copy has in the form with one memory. */
static int direction_of(const struct sim_copy *c, aclrtMemcpyKind kind)
{
    static const uint8_t dir_of[] = {DIR_H2H, ACLSIM_H2D, ACLSIM_D2H, ACLSIM_D2D};

    return sim_profile.form == SIM_FORM_RC ? sim_direction(c) : dir_of[kind];
}

/* Its arguments were checked. s: live, not NULL. */
static aclError checked_copy_async(struct sim_thread *self, struct sim_context *ctx, struct sim_stream *s,
                                   const struct sim_copy *c, aclrtMemcpyKind kind)
{
    aclError code = sim_correct_kind(c, &kind, s->id);

    if (code != 0)
        return code;
    if (kind == ACL_MEMCPY_HOST_TO_HOST && sim_profile.form == SIM_FORM_EP)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT); /* the real library leaves no text either */
    if (c->dst == c->src)
        return ACL_SUCCESS;
    code = sim_note_alignment(c->dst, c->src);
    if (code != 0)
        return code;
    sim_note_ordinary(c, kind);
    if (sim_is_pageable(c, kind) && sim_profile.pageable_waits)
        return sim_copy_pageable(s, c, NULL, ctx->dev);
    if (sim_is_pageable(c, kind))
        atomic_fetch_add_explicit(&sim.tally.pageable, 1, memory_order_relaxed);
    code = sim_may_submit(s, ctx);
    if (code != 0)
        return code;
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return sim_copy_queue_buffered(self, s, c);
    return sim_copy_queue(self, s, c, direction_of(c, kind));
}

static aclError copy_async(struct sim_thread *self, void *dst, size_t dest_max, const void *src, size_t count,
                           aclrtMemcpyKind kind, struct sim_stream *s)
{
    struct sim_context *ctx;
    struct sim_copy c;
    aclError code;

    if (count == 0 && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = check_pointers_and_kind(dst, src, kind);
    if (code == 0)
        code = sim_stream_check(s);
    if (code == 0)
        code = check_count(count, dest_max);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    c = sim_copy_of(self, dst, src, count);
    return checked_copy_async(self, ctx, s != NULL ? s : ctx->stream, &c, kind);
}

aclError aclrtMemcpyAsync(void *dst, size_t dest_max, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyAsync);

    return copy_async(self, dst, dest_max, src, count, kind, stream);
}

/* Asks the driver first whether it can tell ordinary memory from pinned memory. */
aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t dest_max, const void *src, size_t count,
                                       aclrtMemcpyKind kind, aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyAsyncWithCondition);
    struct sim_context *ctx;
    aclError code;

    if (!sim_profile.pageable_waits && count != 0) { /* it cannot */
        code = check_pointers_and_kind(dst, src, kind);
        if (code == 0)
            code = sim_stream_check(stream);
        if (code == 0)
            code = check_count(count, dest_max);
        if (code == 0)
            code = sim_need_context(self, &ctx);
        return code != 0 ? code : sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    }
    return copy_async(self, dst, dest_max, src, count, kind, stream);
}
