/* arena.h - blocks of memory carved from spans that some backing maps: page-locked staging, page-locked
 * arrays of the user, device memory, host results. One mechanism, four backings.
 *
 * A request of up to span_nbytes / 8 is rounded to a size class and shares a span with its likes; a larger
 * one has a span of its own. A span that falls empty is kept for the next request that fits it.
 *
 * Threads: get may map memory, so it runs where the backing may be called (for ACL: a thread with a
 *          context). try_get never maps and runs anywhere, as do ref, find and unref, which may unmap
 *          (aclrtFree and aclrtFreeHost need no context).
 * Locks:   arena->mu, a leaf. The backing is never called while it is held.
 * Owns:    every span, from map to unmap, and the block headers in them.
 * Invariant: (mu held) used_nbytes <= held_nbytes <= cap_nbytes; a block is handed out to one owner at a
 *          time; blocks start at multiples of 64 bytes; one that shares a span is followed by at least
 *          pad_nbytes of it (CANN wants ALIGN_UP(len, 32) + 32 for each piece of a divided allocation).
 */
#ifndef NPUX_CORE_ARENA_H
#define NPUX_CORE_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct npux_arena;
struct npux_span;
struct npux_op;

enum npux_side { NPUX_DEVICE = 0, NPUX_PINNED = 1, NPUX_PAGEABLE = 2 };

struct npux_backing {
    int (*map)(void *context, size_t nbytes, void **address, struct npux_err *err);
    void (*unmap)(void *context, void *address, size_t nbytes);
    void *context;
};

/* What npux_arena_close does with spans that still have blocks out. */
enum npux_stragglers {
    NPUX_STRAGGLERS_UNMAP, /* device memory: gone with the device, the blocks become dead */
    NPUX_STRAGGLERS_LATE, /* host memory that an array may still show: unmapped when its last block comes back
                           */
};

struct npux_arena_opts {
    struct npux_backing backing;
    enum npux_side side;
    enum npux_stragglers stragglers;
    size_t span_nbytes;
    size_t cap_nbytes;  /* of all spans together */
    size_t keep_nbytes; /* of idle spans; what falls idle beyond that is unmapped at once */
    size_t pad_nbytes;
};

struct npux_block {
    struct npux_span *span;
    struct npux_block *whole;  /* of a piece: the block that it is a part of; else NULL */
    struct npux_block *pieces; /* of a divided block: the array of its pieces */
    uint32_t n_pieces;
    char *address;
    size_t nbytes;             /* what the owner asked for */
    atomic_uint refs;          /* the Python object and each transfer that uses it hold one */
    struct npux_block *next;   /* free list of the span (arena->mu) */
    uint32_t n_readers;        /* admitted transfers (sched->mu); see sched.h */
    bool has_writer;           /* the same */
    struct npux_op *wait_head; /* transfers that wait for this block, in submission order */
    struct npux_op *wait_tail;
};

struct npux_arena_stats {
    size_t held_nbytes; /* mapped */
    size_t used_nbytes; /* in blocks that are out, as asked for */
    size_t peak_nbytes; /* greatest held_nbytes */
    size_t n_blocks_out;
    size_t n_maps; /* calls of the backing's map so far */
};

/* Returns a new arena, or NULL when memory is out. */
struct npux_arena *npux_arena_new(const struct npux_arena_opts *opts);

/* A block of nbytes >= 1 with one reference, or NULL when that would need a new span. */
struct npux_block *npux_arena_try_get(struct npux_arena *arena, size_t nbytes);

/* The same, mapping a new span if needed. Returns 0; -ENOSPC when the cap does not allow it now (see
 * npux_arena_wait); -E2BIG when it never will; or what the backing returned, after one retry with every
 * idle span unmapped. */
int npux_arena_get(struct npux_arena *arena, size_t nbytes, struct npux_block **block, struct npux_err *err);

/* How often room has come back so far (a block, or the room kept for a span that could not be mapped); read
 * it before a get, pass it to wait. */
uint64_t npux_arena_returns(struct npux_arena *arena);
/* Sleeps until that number is no longer `seen`, or npux_arena_interrupt was called. */
void npux_arena_wait(struct npux_arena *arena, uint64_t seen);
/* Counts as a return: those that wait have something else to do. */
void npux_arena_wake(struct npux_arena *arena);
void npux_arena_interrupt(struct npux_arena *arena);

void npux_block_ref(struct npux_block *block);
/* False, and nothing has changed, if the last reference is going away right now. */
bool npux_block_ref_unless_zero(struct npux_block *block);
/* Gives one reference back; the last one returns the block to its arena (or to nobody, after close). */
void npux_block_unref(struct npux_block *block);
/* Divides a block with one reference, which this takes over: makes n >= 1 pieces, each with one reference and
 * with address and nbytes for the caller to set. The block goes back when the last piece does. NULL, and
 * nothing has changed, when memory is out. */
struct npux_block *npux_block_divide(struct npux_block *block, uint32_t n);
/* The last n_unused pieces will never be used; at least one is in use. */
void npux_block_trim(struct npux_block *block, uint32_t n_unused);
/* The piece of a divided block that contains [address, address + nbytes), with a new reference, or NULL. */
struct npux_block *npux_block_piece(struct npux_block *block, const char *address, size_t nbytes);
enum npux_side npux_block_side(const struct npux_block *block);
/* The arena that made it; only to be compared, for it may be closed. */
const struct npux_arena *npux_block_arena(const struct npux_block *block);
/* False once the memory is gone (the device was closed). */
bool npux_block_alive(const struct npux_block *block);

/* The block out of this arena that contains [address, address + nbytes), with a new reference, or NULL. */
struct npux_block *npux_arena_find(struct npux_arena *arena, const void *address, size_t nbytes);

void npux_arena_stats(struct npux_arena *arena, struct npux_arena_stats *out);

/* Unmaps what is idle, treats the rest as opts.stragglers says, and lets go of the arena; its memory is
 * freed with the last block. Returns the bytes in blocks that were still out. Runs where unmap may. */
size_t npux_arena_close(struct npux_arena *arena);
/* Before close: what is to be called when nothing of the arena is left. */
void npux_arena_set_on_gone(struct npux_arena *arena, void (*on_gone)(void *context), void *context);

#endif
