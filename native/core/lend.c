#include "core/lend.h"

#include <errno.h>

#include "core/backing.h"

enum { TOKEN_NBYTES = 64, SPAN_NBYTES = 16 << 10 };

struct npux_arena *npux_lent_arena_new(void)
{
    struct npux_arena_opts opts = {.side = NPUX_DEVICE,
                                   .stragglers = NPUX_STRAGGLERS_UNMAP,
                                   .backing = npux_backing_pageable(),
                                   .span_nbytes = SPAN_NBYTES,
                                   .cap_nbytes = SIZE_MAX / 2,
                                   .keep_nbytes = SPAN_NBYTES};

    return npux_arena_new(&opts);
}

/* The block of ours that contains the range, with a reference; NULL when there is none. */
static struct npux_block *own_block(struct npux_engine *e, const char *address, size_t nbytes)
{
    struct npux_block *block = npux_arena_find(e->device_arena, address, nbytes), *piece;

    if (block == NULL || block->pieces == NULL)
        return block;
    piece = npux_block_piece(block, address, nbytes);
    npux_block_unref(block);
    return piece;
}

int npux_engine_lend(struct npux_engine *e, char *address, size_t nbytes, struct npux_block **block,
                     size_t *offset, struct npux_err *err)
{
    struct npux_block *token, *piece = own_block(e, address, nbytes);
    int rc;

    if (piece != NULL) {
        *block = piece;
        *offset = (size_t)(address - piece->address);
        return 0;
    }
    rc = npux_arena_get(e->lent_arena, TOKEN_NBYTES, &token, err);
    if (rc != 0)
        return rc;
    piece = npux_block_divide(token, 1);
    if (piece == NULL) {
        npux_block_unref(token);
        return npux_fail(err, -ENOMEM, "calloc", "no host memory for a block");
    }
    piece->address = address;
    piece->nbytes = nbytes;
    *block = piece;
    *offset = 0;
    return 0;
}
