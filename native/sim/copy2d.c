/* copy2d.c - copies of rows: aclrtMemcpy2d and aclrtMemcpy2dAsync.
 *
 * Threads: any. Locks: none of its own.
 * Owns:    nothing.
 * Invariant: no byte between the rows is read or written.
 */
#include "sim/copy.h"

enum { MAX_WIDTH = 5000000, MAX_HEIGHT = 5 * 1024 * 1024 }; /* observed on the open runtime */

static aclError check_shape(const void *dst, const void *src, const struct sim_rows *r, aclrtMemcpyKind kind)
{
    if (dst == NULL)
        return sim_fail_null("dst");
    if (src == NULL)
        return sim_fail_null("src");
    if (r->width > r->spitch || r->width > r->dpitch)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                        "width %zu is larger than a pitch: destination %zu, source %zu", r->width, r->dpitch,
                        r->spitch);
    if (kind < ACL_MEMCPY_HOST_TO_DEVICE || kind > ACL_MEMCPY_DEFAULT)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "copy kind %d, expected value: [1, 4]", (int)kind);
    return ACL_SUCCESS;
}

static aclError check_limits(const struct sim_rows *r)
{
    if (r->height == 0 || r->height > MAX_HEIGHT)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "height %zu, expected value: (0, %d]",
                        r->height, MAX_HEIGHT);
    if (r->width == 0 || r->width > MAX_WIDTH)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "width %zu, expected value: (0, %d]", r->width,
                        MAX_WIDTH);
    return ACL_SUCCESS;
}

static aclError direction_error(const struct sim_copy *c, aclrtMemcpyKind kind, const char *accepted)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017",
                    "copies of rows go %s; kind=%d, src location=%d, dst location=%d", accepted, (int)kind,
                    c->src_loc, c->dst_loc);
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind)
{
    SIM_CALL(aclrtMemcpy2d);
    const struct sim_rows r = {dpitch, spitch, width, height};
    struct sim_context *ctx;
    struct sim_copy c;
    aclError code;

    if ((width == 0 || height == 0) && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = check_shape(dst, src, &r, kind);
    if (code == 0)
        code = check_limits(&r);
    if (code == 0 && kind == ACL_MEMCPY_DEVICE_TO_DEVICE)
        code = sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    c = sim_copy_of(self, dst, src, width * height);
    code = sim_correct_kind(&c, &kind, -1);
    if (code != 0 || (kind != ACL_MEMCPY_HOST_TO_DEVICE && kind != ACL_MEMCPY_DEVICE_TO_HOST &&
                      sim_profile.form == SIM_FORM_EP))
        return code != 0 ? code : direction_error(&c, kind, "between host and device");
    return sim_copy_now(&c, &r, ctx->dev);
}

/* One descriptor carries all rows between host and device; inside a device each row is a task of its own
 * (observed on the open runtime). */
static aclError queue_rows(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c,
                           const struct sim_rows *r, aclrtMemcpyKind kind)
{
    int dir = kind == ACL_MEMCPY_HOST_TO_DEVICE   ? ACLSIM_H2D
              : kind == ACL_MEMCPY_DEVICE_TO_HOST ? ACLSIM_D2H
                                                  : ACLSIM_D2D;
    aclError code = ACL_SUCCESS;

    if (sim_profile.form == SIM_FORM_RC)
        dir = ACLSIM_D2D;
    if (dir != ACLSIM_D2D)
        return sim_copy_queue_rows(self, s, c, r, dir);
    for (size_t row = 0; row < r->height && code == 0; row++) {
        struct sim_copy one = *c;

        one.dst += row * r->dpitch;
        one.src += row * r->spitch;
        one.nbytes = r->width;
        code = sim_copy_queue(self, s, &one, dir);
    }
    return code;
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream)
{
    SIM_CALL(aclrtMemcpy2dAsync);
    const struct sim_rows r = {dpitch, spitch, width, height};
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    struct sim_copy c;
    aclError code;

    if ((width == 0 || height == 0) && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = check_shape(dst, src, &r, kind);
    if (code == 0)
        code = sim_stream_check(s);
    if (code == 0)
        code = check_limits(&r);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    if (s == NULL)
        s = ctx->stream;
    c = sim_copy_of(self, dst, src, width * height);
    code = sim_correct_kind(&c, &kind, s->id);
    if (code != 0)
        return code;
    if (kind == ACL_MEMCPY_HOST_TO_HOST && sim_profile.form == SIM_FORM_EP)
        return direction_error(&c, kind, "between host and device or inside a device");
    if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE && !sim_profile.has_2d_d2d)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    sim_note_ordinary(&c, kind);
    if (sim_is_pageable(&c, kind) && sim_profile.pageable_waits)
        return sim_copy_pageable(s, &c, &r, ctx->dev);
    if (sim_is_pageable(&c, kind))
        atomic_fetch_add_explicit(&sim.tally.pageable, 1, memory_order_relaxed);
    code = sim_may_submit(s, ctx);
    return code != 0 ? code : queue_rows(self, s, &c, &r, kind);
}
