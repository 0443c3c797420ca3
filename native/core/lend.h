/* lend.h - device memory that somebody else allocated, as blocks that transfers can name.
 *
 * Threads: any that may submit.
 * Locks:   the arenas' own.
 * Owns:    a block of ordinary memory stands for each lent range and carries its order; the range itself is
 *          its owner's, who keeps it until the last transfer on it is done.
 * Invariant: nothing here reads, writes or frees the range.
 */
#ifndef NPUX_CORE_LEND_H
#define NPUX_CORE_LEND_H

#include "core/engine.h"

/* The arena of the blocks that stand for lent ranges; NULL when memory is out. */
struct npux_arena *npux_lent_arena_new(void);

/* A block with one reference for [address, address + nbytes). In memory that this engine allocated, and
 * somebody has got the address of, it is the block that is there, so that the order of its users is known;
 * *offset is where the range begins in it. */
int npux_engine_lend(struct npux_engine *e, char *address, size_t nbytes, struct npux_block **block,
                     size_t *offset, struct npux_err *err);

#endif
