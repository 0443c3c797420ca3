/* fill.c - the ACL functions that fill memory.
 *
 * Threads: any. Locks: sim.mu while submitting.
 * Owns:    nothing.
 * Invariant: device memory is filled in stream order, host memory at once (observed on the open runtime).
 */
#include "sim/copy.h"

#include <string.h>

struct filling {
    char *ptr;
    size_t nbytes;
    uint32_t value;
    bool words; /* value is 32 bits, else 8 */
};

static aclError fill_now(struct sim_thread *self, const struct sim_context *ctx, const struct filling *f)
{
    struct sim_ref ref;
    char *at = f->ptr;
    bool inside;
    aclError code = sim_device_usable(ctx->dev);

    if (code != 0)
        return code;
    if (sim_locate(self, f->ptr, &ref) < 0 || (ref.block != NULL && !sim_block_pin(ref)))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%p is not live memory", (void *)f->ptr);
    inside = f->nbytes <= sim_room(ref, f->ptr);
    at += ref.block != NULL ? ref.block->delta : 0;
    if (inside && f->words)
        for (size_t i = 0; i < f->nbytes; i += sizeof(f->value))
            memcpy(at + i, &f->value, sizeof(f->value));
    else if (inside)
        memset(at, (int)f->value, f->nbytes);
    sim_value_poll();
    if (ref.block != NULL)
        sim_block_unpin(ref.block);
    if (inside)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "%p is not %zu allocated bytes; check the address and the size", (void *)f->ptr,
                    f->nbytes);
}

static aclError fill_async(struct sim_thread *self, struct sim_context *ctx, struct sim_stream *s,
                           const struct filling *f)
{
    struct sim_ref ref;
    struct sim_task *t;
    aclError code;

    if (s == NULL)
        s = ctx->stream;
    code = sim_may_submit(s, ctx);
    if (code != 0)
        return code;
    if (sim_locate(self, f->ptr, &ref) != DEVICE)
        return fill_now(self, ctx, f);
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, SIM_MEMSET);
    if (t != NULL) {
        t->dir = ACLSIM_D2D;
        t->flags = f->words ? SIM_TASK_WORDS : 0;
        t->value = (uint8_t)f->value;
        t->copy.dst = f->ptr;
        t->copy.src = (const char *)(uintptr_t)(f->words ? f->value : 0);
        t->copy.nbytes = f->nbytes;
        t->copy.dst_block = ref.block;
        t->copy.dst_gen = ref.gen;
        t->copy.src_block = NULL;
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

/* --- bytes --- */

static aclError check_bytes(struct sim_thread *self, void *ptr, size_t max_count, size_t count,
                            struct sim_context **ctx)
{
    if (ptr == NULL)
        return sim_fail_null("ptr");
    if (count == 0 || count > max_count)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "count %zu, expected value: (0, %zu]", count,
                        max_count);
    return sim_need_context(self, ctx);
}

aclError aclrtMemset(void *ptr, size_t max_count, int32_t value, size_t count)
{
    SIM_CALL(aclrtMemset);
    const struct filling f = {ptr, count, (uint32_t)value, false};
    struct sim_context *ctx;
    aclError code;

    if (count == 0 && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = check_bytes(self, ptr, max_count, count, &ctx);
    return code != 0 ? code : fill_now(self, ctx, &f);
}

aclError aclrtMemsetAsync(void *ptr, size_t max_count, int32_t value, size_t count, aclrtStream stream)
{
    SIM_CALL(aclrtMemsetAsync);
    const struct filling f = {ptr, count, (uint32_t)value, false};
    struct sim_context *ctx;
    aclError code;

    if (count == 0 && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = sim_stream_check(stream);
    if (code == 0)
        code = check_bytes(self, ptr, max_count, count, &ctx);
    return code != 0 ? code : fill_async(self, ctx, stream, &f);
}

/* --- 32-bit words --- */

/* *code is the result when the answer is false. */
static bool check_words(struct sim_thread *self, const struct filling *f, size_t max_nbytes, size_t count,
                        aclError *code)
{
    struct sim_ref ref;

    *code = ACL_SUCCESS;
    if (count == 0)
        return false;
    if (f->ptr == NULL)
        *code = sim_fail_null("ptr");
    else if (((uintptr_t)f->ptr & 3) != 0)
        *code = sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "ptr %p is not 4-byte aligned", (void *)f->ptr);
    else if (count > SIZE_MAX / 4 || f->nbytes > max_nbytes)
        *code = sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "%zu words do not fit into %zu bytes", count,
                         max_nbytes);
    else if (sim_locate(self, f->ptr, &ref) != HOST && ref.block == NULL)
        *code = sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                         "%p is not memory of aclrtMalloc or aclrtMallocHost", (void *)f->ptr);
    return *code == 0;
}

/* A chip without these answers success and fills nothing: the ACL layer only logs that it cannot (observed on
 * the open runtime). */
aclError aclrtMemsetD32(void *ptr, size_t max_nbytes, uint32_t value, size_t count)
{
    SIM_CALL(aclrtMemsetD32);
    const struct filling f = {ptr, count * 4, value, true};
    struct sim_context *ctx;
    aclError code;

    if (!check_words(self, &f, max_nbytes, count, &code) || !sim_profile.has_memset_d32)
        return code;
    code = sim_need_context(self, &ctx);
    return code != 0 ? code : fill_now(self, ctx, &f);
}

aclError aclrtMemsetD32Async(void *ptr, size_t max_nbytes, uint32_t value, size_t count, aclrtStream stream)
{
    SIM_CALL(aclrtMemsetD32Async);
    const struct filling f = {ptr, count * 4, value, true};
    struct sim_context *ctx;
    aclError code;

    if (!check_words(self, &f, max_nbytes, count, &code) || !sim_profile.has_memset_d32)
        return code;
    code = sim_stream_check(stream);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    return code != 0 ? code : fill_async(self, ctx, stream, &f);
}
