/* copy_now.c - copies that the calling thread makes itself.
 *
 * Threads: any. Locks: sim.mu for the link's time, not while bytes move.
 * Owns:    nothing.
 * Invariant: both blocks are pinned while bytes move.
 */
#include "sim/copy.h"

#include <string.h>

static bool pin_range(struct sim_ref ref, const void *ptr, size_t nbytes)
{
    if (ref.block == NULL)
        return true; /* ordinary memory */
    if (!sim_block_pin(ref))
        return false;
    if (nbytes <= sim_room(ref, ptr))
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
static void move_now(const struct sim_copy *c, const struct sim_rows *rows, struct sim_device *dev, int dir)
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
    for (size_t row = 0; row < rows->height && (dir == DIR_H2H || link.move_bytes != 0); row++)
        memmove(dst + row * rows->dpitch, src + row * rows->spitch, rows->width);
    if (end_ns != 0)
        sim_sleep_until(end_ns);
    if (dir == DIR_H2H)
        return;
    atomic_fetch_add_explicit(&sim.tally.copies[dir], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&sim.tally.bytes[dir], c->nbytes, memory_order_relaxed);
}

static aclError range_error(const char *side, const void *ptr, size_t nbytes)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "the %s %p is not %zu allocated bytes; check the address and the size", side, ptr,
                    nbytes);
}

aclError sim_copy_now(const struct sim_copy *c, const struct sim_rows *rows, struct sim_device *dev)
{
    const struct sim_rows one = {.width = c->nbytes, .height = 1};
    size_t dst_span, src_span;
    aclError code = sim_device_usable(dev);

    if (code != 0)
        return code;
    if (rows == NULL)
        rows = &one;
    if (!sim_locations_usable(c))
        return range_error(c->dst_loc < 0 ? "destination" : "source",
                           c->dst_loc < 0 ? (const void *)c->dst : c->src, c->nbytes);
    if (!sim_copy_reaches(dev, c)) /* the driver's answer (assumed) */
        return sim_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EE9999",
                        "device %d has no access to the memory of the other device; call "
                        "aclrtDeviceEnablePeerAccess first",
                        dev->id);
    dst_span = sim_rows_span(rows->dpitch, rows->width, rows->height);
    src_span = sim_rows_span(rows->spitch, rows->width, rows->height);
    if (!pin_range(c->dst_ref, c->dst, dst_span))
        return range_error("destination", c->dst, dst_span);
    if (!pin_range(c->src_ref, c->src, src_span)) {
        unpin(c->dst_ref);
        return range_error("source", c->src, src_span);
    }
    if (sim_guards()) {
        sim_guard_immediate(c->src_ref, c->src, src_span, false);
        sim_guard_immediate(c->dst_ref, c->dst, dst_span, true);
    }
    move_now(c, rows, dev, sim_direction(c));
    sim_value_poll();
    unpin(c->src_ref);
    unpin(c->dst_ref);
    return ACL_SUCCESS;
}
