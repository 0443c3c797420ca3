/* guard_bytes.c - adversarial mode: host sources that change too early, host results that are read too early.
 *
 * Threads: any. Locks: sim.mu at submission. This is the one place where bytes are read and written with
 *          sim.mu held: between the look at the other tasks and the moment at which this one can be executed
 *          nobody may run anything.
 * Owns:    the sums. Invariant: a destination is spoiled only while no other unfinished task touches it.
 */
#include "sim/guard.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { SPOILED = 0xB5 }; /* unlike the patterns of poison.h, so that a dump shows which it is */

static uint64_t word(const unsigned char *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* Four lanes of multiply and shift: a few gigabytes a second, and any change of one word changes its lane. */
static uint64_t sum_of(const void *bytes, size_t nbytes)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    const unsigned char *at = bytes;
    uint64_t lane[4] = {nbytes, 1, 2, 3}, sum = 0;

    for (; nbytes >= 32; nbytes -= 32, at += 32)
        for (int i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ word(at + 8 * i)) * factor;
            lane[i] ^= lane[i] >> 29;
        }
    for (; nbytes > 0; nbytes--, at++)
        lane[nbytes & 3] = (lane[nbytes & 3] ^ *at) * factor;
    for (int i = 0; i < 4; i++)
        sum = (sum ^ lane[i]) * factor ^ sum >> 31;
    return sum;
}

/* Pins the block when it is pinned host memory and has all the bytes. */
static bool pin_host(struct sim_block *block, uint32_t gen, const void *ptr, size_t nbytes)
{
    size_t offset;

    if (block == NULL || !sim_block_pin((struct sim_ref){block, gen}))
        return false;
    offset = (uintptr_t)ptr - block->base;
    if (block->device < 0 && offset < block->nbytes && nbytes <= block->nbytes - offset)
        return true;
    sim_block_unpin(block);
    return false;
}

void sim_guard_sum_source(struct sim_stream *s, uint64_t seq)
{
    const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];

    if (!pin_host(t->copy.src_block, t->copy.src_gen, t->copy.src, t->copy.nbytes))
        return;
    if (s->guard->sums == NULL)
        s->guard->sums = calloc(SIM_RING, sizeof(*s->guard->sums));
    if (s->guard->sums != NULL)
        s->guard->sums[seq & SIM_RING_MASK] = (struct sim_sum){
            seq + 1, sum_of(t->copy.src + t->copy.src_block->delta, t->copy.nbytes), sim_site_here()};
    sim_block_unpin(t->copy.src_block);
}

void sim_guard_spoil_destination(struct sim_stream *s, uint64_t seq)
{
    const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];

    if (!pin_host(t->copy.dst_block, t->copy.dst_gen, t->copy.dst, t->copy.nbytes))
        return;
    memset(t->copy.dst + t->copy.dst_block->delta, SPOILED, t->copy.nbytes);
    sim_block_unpin(t->copy.dst_block);
}

void sim_guard_check_source(struct sim_stream *s, uint64_t seq)
{
    const struct sim_task *t = &s->ring[seq & SIM_RING_MASK];
    const struct sim_sum *sum;
    bool changed;

    if (s->guard == NULL || s->guard->sums == NULL || t->kind != SIM_COPY)
        return;
    sum = &s->guard->sums[seq & SIM_RING_MASK];
    if (sum->seq_plus_1 != seq + 1 ||
        !pin_host(t->copy.src_block, t->copy.src_gen, t->copy.src, t->copy.nbytes))
        return;
    changed = sum_of(t->copy.src + t->copy.src_block->delta, t->copy.nbytes) != sum->value;
    sim_block_unpin(t->copy.src_block);
    if (changed)
        sim_find(SIM_FOUND_SRC_CHANGED,
                 "the %zu bytes at %p changed after %s, task %u of stream %d on device %d (thread %u), was "
                 "submitted and before it read them; keep a source as it is until its copy is complete",
                 t->copy.nbytes, (const void *)t->copy.src, sim_site_text(sum->site).text,
                 (unsigned)(seq & 0xFFFF), s->id, s->dev->id, t->tid);
}

void sim_guard_drop_sums(struct sim_stream *s)
{
    if (s->guard == NULL)
        return;
    free(s->guard->sums);
    s->guard->sums = NULL;
}
