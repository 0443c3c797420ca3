/* copy.c - the ACL functions that copy and fill memory: checks, then either a task or the work itself.
 *
 * Threads: any. Locks: sim.mu while submitting.
 * Owns:    the staging buffer of copy kind 5, until the task has it.
 * Invariant: the order of the checks is that of the real runtime; a copy's bytes are read when it executes.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { DIR_H2H = ACLSIM_N_DIRECTIONS }; /* no engine; also the index of host to host in the tables */

enum { HOST = ACL_MEM_LOCATION_TYPE_HOST, DEVICE, UNREGISTERED, N_LOCATIONS };

struct copy {
    char *dst;
    const char *src;
    size_t nbytes;
    int dst_loc, src_loc;
    struct sim_ref dst_ref, src_ref;
};

/* --- direction --- */

#define BIT(kind) (1u << ACL_MEMCPY_##kind)
#define ANY 0x1Fu

/* What a pair of locations accepts, by [src][dst]. The direction named by "instead" replaces the caller's
 * kind: always where every kind is accepted, else for ACL_MEMCPY_DEFAULT. */
static const struct {
    uint32_t accepts;
    aclrtMemcpyKind instead;
} table[N_LOCATIONS][N_LOCATIONS] = {
    [HOST][DEVICE] = {ANY, ACL_MEMCPY_HOST_TO_DEVICE},
    [DEVICE][HOST] = {ANY, ACL_MEMCPY_DEVICE_TO_HOST},
    [DEVICE][DEVICE] = {ANY, ACL_MEMCPY_DEVICE_TO_DEVICE},
    [HOST][HOST] = {ANY, ACL_MEMCPY_HOST_TO_HOST},
    [UNREGISTERED][DEVICE] = {BIT(HOST_TO_DEVICE) | BIT(DEVICE_TO_DEVICE), ACL_MEMCPY_HOST_TO_DEVICE},
    [DEVICE][UNREGISTERED] = {BIT(DEVICE_TO_HOST) | BIT(DEVICE_TO_DEVICE), ACL_MEMCPY_DEVICE_TO_HOST},
    [HOST][UNREGISTERED] = {BIT(HOST_TO_HOST) | BIT(HOST_TO_DEVICE), ACL_MEMCPY_HOST_TO_HOST},
    [UNREGISTERED][HOST] = {BIT(HOST_TO_HOST) | BIT(DEVICE_TO_HOST), ACL_MEMCPY_HOST_TO_HOST},
    [UNREGISTERED][UNREGISTERED] = {BIT(HOST_TO_HOST) | BIT(HOST_TO_DEVICE) | BIT(DEVICE_TO_HOST) |
                                        BIT(DEVICE_TO_DEVICE),
                                    ACL_MEMCPY_HOST_TO_HOST},
};

static aclError kind_error(const struct copy *c, aclrtMemcpyKind kind)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "copy kind and locations do not match: kind=%d, src location=%d, dst location=%d",
                    (int)kind, c->src_loc, c->dst_loc);
}

/* Replaces *kind by the effective one. */
static aclError correct_kind(const struct copy *c, aclrtMemcpyKind *kind)
{
    if (c->src_loc < 0 || c->dst_loc < 0) /* freed or foreign device addresses */
        return kind_error(c, *kind);
    if (*kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
        if (c->src_loc == DEVICE || c->dst_loc != DEVICE)
            return kind_error(c, *kind);
        return ACL_SUCCESS;
    }
    if (table[c->src_loc][c->dst_loc].accepts == ANY || *kind == ACL_MEMCPY_DEFAULT)
        *kind = table[c->src_loc][c->dst_loc].instead;
    else if ((table[c->src_loc][c->dst_loc].accepts >> *kind & 1) == 0)
        return kind_error(c, *kind);
    return ACL_SUCCESS;
}

static int direction(const struct copy *c)
{
    if (c->dst_loc == DEVICE)
        return c->src_loc == DEVICE ? ACLSIM_D2D : ACLSIM_H2D;
    return c->src_loc == DEVICE ? ACLSIM_D2H : DIR_H2H;
}

/* --- immediate copies --- */

static bool pin_range(struct sim_ref ref, const void *ptr, size_t nbytes)
{
    size_t offset;

    if (ref.block == NULL)
        return true; /* ordinary memory */
    if (!sim_block_pin(ref))
        return false;
    offset = (uintptr_t)ptr - ref.block->base;
    if (offset < ref.block->nbytes && nbytes <= ref.block->nbytes - offset)
        return true;
    sim_block_unpin(ref.block);
    return false;
}

static void unpin(struct sim_ref ref)
{
    if (ref.block != NULL)
        sim_block_unpin(ref.block);
}

/* The link is taken from the engine's timeline, but a held engine does not stop an immediate copy. */
static void move_now(const struct copy *c, struct sim_device *dev, int dir)
{
    char *dst = c->dst + (c->dst_ref.block != NULL ? c->dst_ref.block->delta : 0);
    const char *src = c->src + (c->src_ref.block != NULL ? c->src_ref.block->delta : 0);
    struct aclsim_link link;
    uint64_t end_ns = 0;

    sim_drive_catch_up();
    pthread_mutex_lock(&sim.mu);
    link = dev->link;
    if (dir != DIR_H2H && sim_timed(dev))
        end_ns = sim_engine_charge(&dev->engine[dir], &link, sim_now_ns(), c->nbytes);
    pthread_mutex_unlock(&sim.mu);
    if (dir == DIR_H2H || link.move_bytes != 0)
        memmove(dst, src, c->nbytes);
    if (end_ns != 0)
        sim_sleep_until(end_ns);
    if (dir == DIR_H2H)
        return;
    atomic_fetch_add_explicit(&sim.tally.copies[dir], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&sim.tally.bytes[dir], c->nbytes, memory_order_relaxed);
}

static aclError copy_now(const struct copy *c, struct sim_device *dev)
{
    if (!pin_range(c->dst_ref, c->dst, c->nbytes))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the destination is not %zu allocated bytes",
                        c->nbytes);
    if (!pin_range(c->src_ref, c->src, c->nbytes)) {
        unpin(c->dst_ref);
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the source is not %zu allocated bytes",
                        c->nbytes);
    }
    move_now(c, dev, direction(c));
    unpin(c->src_ref);
    unpin(c->dst_ref);
    return ACL_SUCCESS;
}

static aclError check_count(size_t count, size_t dest_max)
{
    if (count <= dest_max)
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
    if ((unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "copy kind %d, expected value: [0, 5]", (int)kind);
    return ACL_SUCCESS;
}

static struct copy locate(struct sim_thread *self, void *dst, const void *src, size_t nbytes)
{
    struct copy c = {.dst = dst, .src = src, .nbytes = nbytes};

    c.dst_loc = sim_locate(self, dst, &c.dst_ref);
    c.src_loc = sim_locate(self, src, &c.src_ref);
    return c;
}

/* Immediate, with no implicit synchronisation; the locations decide the direction, not the kind. */
aclError aclrtMemcpy(void *dst, size_t dest_max, const void *src, size_t count, aclrtMemcpyKind kind)
{
    SIM_CALL(aclrtMemcpy);
    struct sim_context *ctx;
    struct copy c;
    aclError code;

    if (count == 0 && sim_profile.zero_count_ok)
        return ACL_SUCCESS;
    code = check_pointers_and_kind(dst, src, kind);
    if (code == 0)
        code = check_count(count, dest_max);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code != 0)
        return code;
    c = locate(self, dst, src, count);
    if (c.dst_loc < 0 || c.src_loc < 0)
        return kind_error(&c, kind);
    return copy_now(&c, ctx->dev);
}

/* --- queued copies --- */

static aclError closed_meanwhile(struct sim_stream *s)
{
    return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1017", "stream %p was destroyed during the call",
                    (void *)s);
}

/* Splits into tasks of the size that one descriptor can carry. false: the stream was closed; what was
 * submitted before stays submitted. */
static bool submit(struct sim_thread *self, struct sim_stream *s, const struct copy *c, int dir,
                   uint8_t flags)
{
    size_t chunk = dir == ACLSIM_D2D ? sim_profile.chunk_d2d_bytes : sim_profile.chunk_bytes;
    struct sim_task *t = NULL;

    if ((flags & SIM_TASK_OWNS_SRC) != 0)
        chunk = c->nbytes;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    for (size_t offset = 0; offset < c->nbytes; offset += chunk) {
        t = sim_submit_begin(self, s, SIM_COPY);
        if (t == NULL)
            break;
        t->dir = (uint8_t)dir;
        t->flags = flags;
        t->copy.dst = c->dst + offset;
        t->copy.src = c->src + offset;
        t->copy.nbytes = c->nbytes - offset < chunk ? c->nbytes - offset : chunk;
        t->copy.dst_block = c->dst_ref.block;
        t->copy.dst_gen = c->dst_ref.gen;
        t->copy.src_block = c->src_ref.block;
        t->copy.src_gen = c->src_ref.gen;
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return t != NULL;
}

/* Copy kind 5: the source is free for reuse when the call returns. */
static aclError submit_buffered(struct sim_thread *self, struct sim_stream *s, struct copy *c)
{
    char *buffer;

    if (!pin_range(c->src_ref, c->src, c->nbytes))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the source is not %zu allocated bytes",
                        c->nbytes);
    buffer = malloc(c->nbytes);
    if (buffer != NULL)
        memcpy(buffer, c->src, c->nbytes);
    unpin(c->src_ref);
    if (buffer == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for %zu bytes", c->nbytes);
    c->src = buffer;
    if (submit(self, s, c, ACLSIM_H2D, SIM_TASK_OWNS_SRC))
        return ACL_SUCCESS;
    free(buffer);
    return closed_meanwhile(s);
}

/* Ordinary memory: drains the stream, then copies here. */
static aclError copy_pageable(struct sim_stream *s, const struct copy *c, struct sim_device *dev)
{
    aclError code;

    atomic_fetch_add_explicit(&sim.tally.pageable, 1, memory_order_relaxed);
    sim_find(SIM_FOUND_PAGEABLE,
             "an asynchronous copy of %zu bytes uses ordinary memory: it waits for the stream", c->nbytes);
    code = sim_stream_sync(s, SIM_FOREVER);
    return code != 0 ? code : copy_now(c, dev);
}

aclError aclrtMemcpyAsync(void *dst, size_t dest_max, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    SIM_CALL(aclrtMemcpyAsync);
    static const uint8_t dir_of[] = {DIR_H2H, ACLSIM_H2D, ACLSIM_D2H, ACLSIM_D2D};
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    struct copy c;
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
    if (s == NULL)
        s = ctx->stream;
    c = locate(self, dst, src, count);
    code = correct_kind(&c, &kind);
    if (code != 0)
        return code;
    if (kind == ACL_MEMCPY_HOST_TO_HOST)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT); /* the real library leaves no text either */
    if (dst == src)
        return ACL_SUCCESS;
    if ((((uintptr_t)dst | (uintptr_t)src) & 63) != 0)
        atomic_fetch_add_explicit(&sim.tally.unaligned, 1, memory_order_relaxed);
    if ((c.src_loc == UNREGISTERED || c.dst_loc == UNREGISTERED) && kind != ACL_MEMCPY_DEVICE_TO_DEVICE &&
        kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return copy_pageable(s, &c, ctx->dev);
    code = sim_stream_own(s, ctx);
    if (code != 0)
        return code;
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return submit_buffered(self, s, &c);
    return submit(self, s, &c, dir_of[kind], 0) ? ACL_SUCCESS : closed_meanwhile(s);
}

/* --- fills --- */

static aclError check_fill(struct sim_thread *self, void *ptr, size_t max_count, size_t count,
                           struct sim_context **ctx)
{
    if (ptr == NULL)
        return sim_fail_null("ptr");
    if (count == 0 || count > max_count)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "count %zu, expected value: (0, %zu]", count,
                        max_count);
    return sim_need_context(self, ctx);
}

static aclError fill_now(struct sim_thread *self, char *ptr, int32_t value, size_t count)
{
    struct sim_ref ref;

    if (sim_locate(self, ptr, &ref) < 0 || !pin_range(ref, ptr, count))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%p is not %zu allocated bytes", (void *)ptr,
                        count);
    memset(ptr + (ref.block != NULL ? ref.block->delta : 0), value, count);
    unpin(ref);
    return ACL_SUCCESS;
}

aclError aclrtMemset(void *ptr, size_t max_count, int32_t value, size_t count)
{
    SIM_CALL(aclrtMemset);
    struct sim_context *ctx;
    aclError code = check_fill(self, ptr, max_count, count, &ctx);

    return code != 0 ? code : fill_now(self, ptr, value, count);
}

/* In stream order on device memory, at once on host memory. */
aclError aclrtMemsetAsync(void *ptr, size_t max_count, int32_t value, size_t count, aclrtStream stream)
{
    SIM_CALL(aclrtMemsetAsync);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    struct sim_ref ref;
    struct sim_task *t;
    aclError code = sim_stream_check(s);

    if (code == 0)
        code = check_fill(self, ptr, max_count, count, &ctx);
    if (code == 0)
        code = sim_stream_own(s != NULL ? s : ctx->stream, ctx);
    if (code != 0)
        return code;
    if (s == NULL)
        s = ctx->stream;
    if (sim_locate(self, ptr, &ref) != DEVICE)
        return fill_now(self, ptr, value, count);
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, SIM_MEMSET);
    if (t != NULL) {
        t->dir = ACLSIM_D2D;
        t->value = (uint8_t)value;
        t->copy.dst = ptr;
        t->copy.src = NULL;
        t->copy.nbytes = count;
        t->copy.dst_block = ref.block;
        t->copy.dst_gen = ref.gen;
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : closed_meanwhile(s);
}
