/* block.c - blocks that need nothing of their arena: references, and pieces of a divided one; declared in
 * arena.h. */
#include <stdlib.h>

#include "core/arena.h"

void npux_block_ref(struct npux_block *block)
{
    atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
}

struct npux_block *npux_block_divide(struct npux_block *block, uint32_t n)
{
    struct npux_block *pieces = calloc(n, sizeof(*pieces));

    if (pieces == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].span = block->span;
        pieces[i].whole = block;
        atomic_init(&pieces[i].refs, 1);
    }
    block->pieces = pieces;
    atomic_store_explicit(&block->refs, n, memory_order_relaxed);
    return pieces;
}

void npux_block_trim(struct npux_block *block, uint32_t n_unused)
{
    atomic_fetch_sub_explicit(&block->refs, n_unused, memory_order_relaxed);
}
