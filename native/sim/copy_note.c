/* copy_note.c - what is reported about copies that work here but are slow, undocumented or lucky on hardware.
 *
 * Threads: any. Locks: none. Owns: the strictness.
 * Invariant: without strictness nothing here changes the result of a copy.
 */
#include "sim/copy.h"
#include "sim/site.h"

enum { ALIGNMENT = 64 }; /* documented for both sides of aclrtMemcpyAsync up to CANN 9.0.1 */

static atomic_bool strict;

void sim_ask_strict(bool on)
{
    atomic_store_explicit(&strict, on, memory_order_relaxed);
}

void aclsim_set_strict(int on)
{
    sim_once(); /* so that the environment does not come later */
    sim_ask_strict(on != 0);
}

aclError sim_note_alignment(const void *dst, const void *src)
{
    if ((((uintptr_t)dst | (uintptr_t)src) & (ALIGNMENT - 1)) == 0)
        return ACL_SUCCESS;
    atomic_fetch_add_explicit(&sim.tally.unaligned, 1, memory_order_relaxed);
    if (sim_profile.alignment_documented)
        sim_find(SIM_FOUND_UNALIGNED,
                 "%s from %p to %p: CANN %s documents %d-byte alignment of both addresses",
                 sim_site_text(sim_site_here()).text, src, dst, sim_profile.cann_version, ALIGNMENT);
    if (!atomic_load_explicit(&strict, memory_order_relaxed))
        return ACL_SUCCESS;
    return sim_fail(
        ACL_ERROR_RT_PARAM_INVALID, "EE1001",
        "source %p or destination %p is not a multiple of %d bytes; align both, or switch off the "
        "simulator's own strictness (ACLSIM_STRICT)",
        src, dst, ALIGNMENT);
}

void sim_note_ordinary(const struct sim_copy *c, aclrtMemcpyKind kind)
{
    if (c->src_loc != UNREGISTERED && c->dst_loc != UNREGISTERED)
        return;
    if (sim_is_pageable(c, kind))
        sim_find(SIM_FOUND_PAGEABLE,
                 "%s of %zu bytes from %p to %p: the %s is ordinary memory, so %s; use "
                 "aclrtMallocHost",
                 sim_site_text(sim_site_here()).text, c->nbytes, (const void *)c->src, (void *)c->dst,
                 c->src_loc == UNREGISTERED ? "source" : "destination",
                 sim_profile.pageable_waits ? "the call waits for the stream and copies by itself"
                                            : "the copy touches it later, when it may have moved or gone");
    else if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE && sim_profile.form == SIM_FORM_EP)
        sim_find(SIM_FOUND_HOST_AS_D2D,
                 "%s of %zu bytes from %p to %p with kind DEVICE_TO_DEVICE: the %s is ordinary "
                 "host memory, which a DMA engine may fault on; pass the kind of the direction",
                 sim_site_text(sim_site_here()).text, c->nbytes, (const void *)c->src, (void *)c->dst,
                 c->src_loc == UNREGISTERED ? "source" : "destination");
}
