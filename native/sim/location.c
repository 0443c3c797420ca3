/* location.c - where the two sides of a copy are, and which kinds of copy fit there.
 *
 * Threads: any. Locks: none of its own; see blocks.h.
 * Owns:    nothing.
 * Invariant: a pair of locations answers a kind the same way in every copy function.
 */
#include "sim/copy.h"
#include "sim/peer.h"
#include "sim/register.h"
#include "sim/site.h"

#include <stdio.h>

int sim_locate(struct sim_thread *self, const void *ptr, struct sim_ref *ref)
{
    struct sim_found *hit = &self->hits[((uintptr_t)ptr >> 20) % SIM_HITS];

    if ((uintptr_t)ptr - hit->base >= hit->nbytes || !sim_ref_live(hit->ref)) {
        struct sim_found found;

        if (!sim_block_find(ptr, &found)) {
            *ref = (struct sim_ref){0};
            return sim_block_reserved(ptr) || sim_is_mapped_address(ptr) ? -1 : (int)UNREGISTERED;
        }
        *hit = found;
    }
    *ref = hit->ref;
    return hit->device < 0 ? HOST : DEVICE;
}

struct sim_copy sim_copy_of(struct sim_thread *self, void *dst, const void *src, size_t nbytes)
{
    struct sim_copy c = {.dst = dst, .src = src, .nbytes = nbytes};

    c.dst_loc = sim_locate(self, dst, &c.dst_ref);
    c.src_loc = sim_locate(self, src, &c.src_ref);
    return c;
}

bool sim_locations_usable(const struct sim_copy *c)
{
    return c->src_loc >= 0 && c->dst_loc >= 0; /* -1: freed or foreign device addresses */
}

int sim_direction(const struct sim_copy *c)
{
    if (sim_profile.form == SIM_FORM_RC)
        return ACLSIM_D2D; /* one memory: every copy is one inside the device (aclrtMemcpyAsync, CANN docs) */
    if (c->dst_loc == DEVICE)
        return c->src_loc == DEVICE ? ACLSIM_D2D : ACLSIM_H2D;
    return c->src_loc == DEVICE ? ACLSIM_D2H : DIR_H2H;
}

bool sim_is_pageable(const struct sim_copy *c, aclrtMemcpyKind kind)
{
    return (c->src_loc == UNREGISTERED || c->dst_loc == UNREGISTERED) &&
           kind != ACL_MEMCPY_DEVICE_TO_DEVICE && kind != ACL_MEMCPY_HOST_TO_HOST &&
           kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
}

size_t sim_room(struct sim_ref ref, const void *ptr)
{
    size_t offset;

    if (ref.block == NULL)
        return SIZE_MAX;
    offset = (uintptr_t)ptr - ref.block->base;
    return offset < ref.block->nbytes ? ref.block->nbytes - offset : 0;
}

size_t sim_rows_span(size_t pitch, size_t width, size_t height)
{
    size_t span;

    if (__builtin_mul_overflow(pitch, height - 1, &span) || __builtin_add_overflow(span, width, &span))
        return SIZE_MAX;
    return span;
}

static bool reaches(const struct sim_device *dev, struct sim_ref ref)
{
    return ref.block->device == dev->id || !sim_profile.needs_peer_access ||
           sim_peer_enabled(dev->id, ref.block->device);
}

bool sim_copy_reaches(const struct sim_device *dev, const struct sim_copy *c)
{
    if (c->dst_loc != DEVICE || c->src_loc != DEVICE)
        return true; /* the documents ask for access between devices only */
    return reaches(dev, c->dst_ref) && reaches(dev, c->src_ref);
}

/* --- kinds --- */

#define BIT(kind) (1u << ACL_MEMCPY_##kind)
#define ANY 0x1Fu

/* What a pair of locations accepts, by [src][dst]. The direction named by "instead" replaces the caller's
 * kind: always where every kind is accepted, else for ACL_MEMCPY_DEFAULT (observed on the open runtime). */
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

/* The runtime's own names and numbers, which differ from the ACL ones from DEFAULT on. */
static const struct {
    const char *name;
    int number;
} kinds[] = {
    [ACL_MEMCPY_HOST_TO_HOST] = {"MEMCPY_HOST_TO_HOST", 0},
    [ACL_MEMCPY_HOST_TO_DEVICE] = {"MEMCPY_HOST_TO_DEVICE", 1},
    [ACL_MEMCPY_DEVICE_TO_HOST] = {"MEMCPY_DEVICE_TO_HOST", 2},
    [ACL_MEMCPY_DEVICE_TO_DEVICE] = {"MEMCPY_DEVICE_TO_DEVICE", 3},
    [ACL_MEMCPY_DEFAULT] = {"MEMCPY_DEFAULT", 8},
    [ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE] = {"MEMCPY_HOST_TO_DEVICE_EX", 6},
};
static const char *const locations[] = {"MEMORY_LOC_HOST", "MEMORY_LOC_DEVICE", "MEMORY_LOC_UNREGISTERED"};
static const uint32_t inner_code = 0x7110001; /* how the runtime's log shows 107000 */

/* What the driver calls the location. A freed or foreign device address looks like ordinary memory (assumed).
 * A driver that cannot tell ordinary memory from pinned memory says that it is pinned. */
static int shown_location(int loc)
{
    return loc >= 0 && (loc != UNREGISTERED || sim_profile.pageable_waits) ? loc
           : sim_profile.pageable_waits                                    ? (int)UNREGISTERED
                                                                           : (int)HOST;
}

static void name_list(uint32_t accepts, char *out, size_t out_nbytes)
{
    size_t at = 0;

    out[0] = '\0';
    for (int kind = 0; kind <= ACL_MEMCPY_DEVICE_TO_DEVICE && at < out_nbytes; kind++)
        if ((accepts >> kind & 1) != 0)
            at += (size_t)snprintf(out + at, out_nbytes - at, "%s%s(%d)", at != 0 ? ", " : "",
                                   kinds[kind].name, kinds[kind].number);
}

/* Releases up to 8.3: one record, locations counted from 1. */
static aclError old_kind_error(int src, int dst, aclrtMemcpyKind kind)
{
    int from = sim_profile.old_locations ? 1 : 0;

    sim_log(SIM_LOG_ERROR, "MemcpyAsyncCheckKindAndLocation",
            "Memory async failed, src loc type=%d, dst loc type=%d, kind=%d is invalid!", src + from,
            dst + from, kinds[kind].number);
    sim_log(SIM_LOG_ERROR, "MemcpyAsync", "Memory async failed, check kind and loc,retCode=%#x", inner_code);
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "Memory async failed, src loc type=%d, dst loc type=%d, kind=%d is invalid!", src + from,
                    dst + from, kinds[kind].number);
}

/* 8.5 and 9.0 write bare numbers, later releases names with them. */
static aclError kind_error(const struct sim_copy *c, aclrtMemcpyKind kind, int32_t stream_id)
{
    int src = shown_location(c->src_loc), dst = shown_location(c->dst_loc);
    char expected[160], what[256];

    if (!sim_profile.corrects_kind)
        return old_kind_error(src, dst, kind);
    name_list(table[src][dst].accepts, expected, sizeof(expected));
    if (sim_profile.gen < SIM_GEN_9_1)
        snprintf(what, sizeof(what), "copyKind=%d, srcLoc=%d, dstLoc=%d", kinds[kind].number, src, dst);
    else
        snprintf(what, sizeof(what), "copyKind=%s(%d), srcLoc=%s(%d), dstLoc=%s(%d)", kinds[kind].name,
                 kinds[kind].number, locations[src], src, locations[dst], dst);
    if (sim_profile.gen >= SIM_GEN_9_1)
        sim_log(SIM_LOG_ERROR, "MemcpyKindAutoCorrect",
                "MemcpyKindAutoCorrect: invalid kind=%s(%d) for src=%s(%d), dst=%s(%d); expected one of "
                "[{%s}], actual=%s(%d).",
                kinds[kind].name, kinds[kind].number, locations[src], src, locations[dst], dst, expected,
                kinds[kind].name, kinds[kind].number);
    sim_log(SIM_LOG_ERROR, "MemcpyAsyncCheckLocation",
            "Memory async check kind and loc failed, retCode=%#x, %s", inner_code, what);
    sim_log(SIM_LOG_ERROR, "MemcpyAsync",
            "MemcpyAsync check src or dst location failed, stream_id=%d, checkKind=1, copyKind=%s(%d)",
            stream_id, kinds[kind].name, kinds[kind].number);
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "Memory async check kind and loc failed, retCode=%#x, %s%s%s%s", inner_code, what,
                    sim_locations_usable(c) ? "; the copy kind does not fit these locations, use one of ["
                                            : "; an address is neither live device memory nor host memory",
                    sim_locations_usable(c) ? expected : "", sim_locations_usable(c) ? "]" : "");
}

static void note_corrected(const struct sim_copy *c, aclrtMemcpyKind asked, aclrtMemcpyKind made)
{
    sim_find(
        SIM_FOUND_WRONG_KIND,
        "%s from %p to %p: the kind says %s and the memory %s; CANN %s corrects that, and releases up to "
        "8.3 refuse it with 107000; pass the kind of the direction",
        sim_site_text(sim_site_here()).text, (const void *)c->src, (void *)c->dst, kinds[asked].name,
        kinds[made].name, sim_profile.cann_version);
}

aclError sim_correct_kind(const struct sim_copy *c, aclrtMemcpyKind *kind, int32_t stream_id)
{
    int src = shown_location(c->src_loc), dst = shown_location(c->dst_loc);

    if (!sim_locations_usable(c))
        return kind_error(c, *kind, stream_id);
    if (sim_profile.form == SIM_FORM_RC)
        return ACL_SUCCESS; /* the check is one of the form with two memories */
    if (*kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
        /* Checked from 9.1 on. Before, the processor would have read a device address (assumed: refused). */
        if (src == DEVICE || dst != DEVICE)
            return kind_error(c, *kind, stream_id);
        return ACL_SUCCESS;
    }
    if (*kind == ACL_MEMCPY_DEFAULT || (sim_profile.corrects_kind && table[src][dst].accepts == ANY)) {
        if (*kind != ACL_MEMCPY_DEFAULT && *kind != table[src][dst].instead)
            note_corrected(c, *kind, table[src][dst].instead);
        *kind = table[src][dst].instead;
        return ACL_SUCCESS;
    }
    if (sim_profile.corrects_kind ? (table[src][dst].accepts >> *kind & 1) == 0
                                  : *kind != table[src][dst].instead)
        return kind_error(c, *kind, stream_id);
    return ACL_SUCCESS;
}
