/* poison.h - what memory reads as before it is written and after it is freed.
 *
 * Threads: any, for disjoint ranges. Locks: none.
 * Owns:    one file of poison, made at the first large block and kept.
 * Invariant: every byte of a fresh block is SIM_FRESH, whatever its size.
 */
#ifndef NPUX_SIM_POISON_H
#define NPUX_SIM_POISON_H

#include <stddef.h>

enum {
    SIM_FRESH = 0xA5, /* a new block */
    SIM_FREED = 0xDD, /* a freed small one; a freed large one is given back to the kernel */
};

/* The range is private memory of this process; a large one is mapped anew. */
void sim_poison_fresh(char *bytes, size_t nbytes);
void sim_poison_freed(char *bytes, size_t nbytes);

#endif
