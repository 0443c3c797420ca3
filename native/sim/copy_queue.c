/* copy_queue.c - copies as tasks on a stream.
 *
 * Threads: any. Locks: sim.mu while submitting.
 * Owns:    staging buffers and descriptions, until the task has them.
 * Invariant: a call that returns an error may have submitted the first tasks of its copy, as in CANN.
 */
#include "sim/copy.h"

#include <stdlib.h>
#include <string.h>

aclError sim_may_submit(const struct sim_stream *s, struct sim_context *ctx)
{
    aclError code = sim_stream_own(s, ctx);

    return code != 0 ? code : sim_context_usable(ctx);
}

/* What one descriptor can carry (observed on the open runtime). */
static size_t chunk_of(const struct sim_copy *c, int dir)
{
    if (dir != ACLSIM_D2D)
        return sim_profile.chunk_bytes;
    if (c->dst_loc == DEVICE && c->src_loc == DEVICE && c->dst_ref.block->device != c->src_ref.block->device)
        return sim_profile.chunk_peer_bytes;
    return sim_profile.chunk_d2d_bytes;
}

/* With sim.mu held. src: what the task carries, which may be a description. */
static bool submit_one(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c, int dir,
                       uint8_t flags, size_t offset, size_t nbytes)
{
    /* Without access the copy is accepted and faults on the device (assumed). */
    bool reaches = sim_copy_reaches(s->dev, c);
    struct sim_task *t = sim_submit_begin(self, s, SIM_COPY);

    if (t == NULL)
        return false;
    t->dir = (uint8_t)dir;
    t->flags = flags;
    if (c->dst_loc == UNREGISTERED || c->src_loc == UNREGISTERED)
        t->flags |= SIM_TASK_ORDINARY;
    t->copy.dst = c->dst + offset;
    t->copy.src = (flags & SIM_TASK_OWNS_SRC) != 0 ? c->src : c->src + offset;
    t->copy.nbytes = nbytes;
    t->copy.dst_block = reaches ? c->dst_ref.block : NULL;
    t->copy.dst_gen = c->dst_ref.gen;
    t->copy.src_block = c->src_ref.block;
    t->copy.src_gen = c->src_ref.gen;
    sim_submit_commit(self, s);
    return true;
}

static bool submit(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c, int dir,
                   uint8_t flags, size_t chunk)
{
    bool open = true;

    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    for (size_t offset = 0; offset < c->nbytes && open; offset += chunk) {
        size_t rest = c->nbytes - offset;

        open = submit_one(self, s, c, dir, flags, offset, rest < chunk ? rest : chunk);
    }
    pthread_mutex_unlock(&sim.mu);
    return open;
}

aclError sim_copy_queue(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c, int dir)
{
    return submit(self, s, c, dir, 0, chunk_of(c, dir)) ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

static aclError no_memory(size_t nbytes)
{
    return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for %zu bytes", nbytes);
}

/* A copy of the source as it is now, or NULL with *code set. */
static char *staged(const struct sim_copy *c, aclError *code)
{
    char *buffer = malloc(c->nbytes);

    *code = buffer == NULL ? no_memory(c->nbytes) : ACL_SUCCESS;
    if (buffer == NULL)
        return NULL;
    if (c->src_ref.block == NULL) {
        memcpy(buffer, c->src, c->nbytes);
        return buffer;
    }
    if (sim_block_pin(c->src_ref)) {
        bool inside = c->nbytes <= sim_room(c->src_ref, c->src);

        if (inside)
            memcpy(buffer, c->src + c->src_ref.block->delta, c->nbytes);
        sim_block_unpin(c->src_ref.block);
        if (inside)
            return buffer;
    }
    free(buffer);
    *code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                     "the source %p is not %zu allocated bytes; check the address and the size",
                     (const void *)c->src, c->nbytes);
    return NULL;
}

aclError sim_copy_queue_buffered(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c)
{
    struct sim_copy from_buffer = *c;
    aclError code;
    char *buffer = staged(c, &code);

    if (buffer == NULL)
        return code;
    from_buffer.src = buffer;
    from_buffer.src_loc = HOST;
    from_buffer.src_ref = (struct sim_ref){0};
    if (submit(self, s, &from_buffer, sim_direction(&from_buffer), SIM_TASK_OWNS_SRC, c->nbytes))
        return ACL_SUCCESS;
    free(buffer);
    return sim_closed_meanwhile(s);
}

static aclError submit_indirect(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c,
                                int dir, struct sim_indirect *what)
{
    struct sim_copy described = *c;

    described.src = (const char *)what;
    if (submit(self, s, &described, dir, SIM_TASK_OWNS_SRC | SIM_TASK_INDIRECT, c->nbytes))
        return ACL_SUCCESS;
    free(what);
    return sim_closed_meanwhile(s);
}

aclError sim_copy_queue_rows(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c,
                             const struct sim_rows *rows, int dir)
{
    struct sim_indirect *what = malloc(sizeof(*what));

    if (what == NULL)
        return no_memory(sizeof(*what));
    *what = (struct sim_indirect){.kind = SIM_ROWS, .rows = *rows, .src = c->src};
    return submit_indirect(self, s, c, dir, what);
}

aclError sim_copy_queue_indirect(struct sim_thread *self, struct sim_stream *s, struct sim_indirect *what,
                                 size_t nbytes)
{
    const struct sim_copy c = {
        .dst = what->dst, .nbytes = nbytes != 0 ? nbytes : 1, .dst_loc = HOST, .src_loc = HOST};

    return submit_indirect(self, s, &c, ACLSIM_D2D, what);
}

aclError sim_copy_pageable(struct sim_stream *s, const struct sim_copy *c, const struct sim_rows *rows,
                           struct sim_device *dev)
{
    aclError code;

    atomic_fetch_add_explicit(&sim.tally.pageable, 1, memory_order_relaxed);
    code = sim_stream_sync(s, SIM_FOREVER);
    return code != 0 ? code : sim_copy_now(c, rows, dev);
}
