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
    block->n_pieces = n;
    atomic_fetch_add_explicit(&block->refs, n - 1,
                              memory_order_relaxed); /* somebody may look at it, see lend.h */
    return pieces;
}

struct npux_block *npux_block_piece(struct npux_block *block, const char *address, size_t nbytes)
{
    for (uint32_t i = 0; i < block->n_pieces; i++) {
        struct npux_block *piece = &block->pieces[i];
        size_t inside = (size_t)(address - piece->address);
        if (piece->address != NULL && inside <= piece->nbytes && nbytes <= piece->nbytes - inside)
            return npux_block_ref_unless_zero(piece) ? piece : NULL;
    }
    return NULL;
}

bool npux_block_ref_unless_zero(struct npux_block *block)
{
    unsigned refs = atomic_load_explicit(&block->refs, memory_order_relaxed);
    while (refs != 0)
        if (atomic_compare_exchange_weak_explicit(&block->refs, &refs, refs + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void npux_block_trim(struct npux_block *block, uint32_t n_unused)
{
    atomic_fetch_sub_explicit(&block->refs, n_unused, memory_order_relaxed);
}
