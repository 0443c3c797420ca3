#include "core/pack.h"

#include <stdlib.h>

/* Above this a copy of its own costs little against its bytes. */
static const size_t MAX_PIECE_NBYTES = (size_t)128 << 10;
/* Large enough that the cost of a copy disappears, small enough that staging and copying overlap. */
static const size_t MAX_PACK_NBYTES = (size_t)1 << 20;
enum { MANY = 256 };

/* A piece of a divided allocation: ALIGN_UP(len, 32) + 32 bytes (aclrtMalloc, CANN 9.1 docs); each starts at
 * a multiple of 64. */
size_t npux_pack_slot(size_t nbytes)
{
    size_t padded = (nbytes + 31) / 32 * 32 + 32;
    return (padded + 63) / 64 * 64;
}

bool npux_may_pack(const struct npux_op *op)
{
    return op->fresh && op->device == NULL && op->path == NPUX_STAGED && op->direction == NPUX_H2D &&
           op->host.nbytes <= MAX_PIECE_NBYTES;
}

bool npux_packing_add(struct npux_packing *p, struct npux_op *op)
{
    size_t slot = npux_pack_slot(op->host.nbytes);

    if (!npux_may_pack(op) || p->nbytes + slot > MAX_PACK_NBYTES)
        return false;
    npux_chunk_new(op, 0, op->host.nbytes); /* chunk0, which is part of the op */
    op->chunk0.stage_offset = p->nbytes;
    if (p->first == NULL)
        p->first = op;
    else
        p->last->chunk0.packed = &op->chunk0;
    p->last = op;
    p->nbytes += slot;
    p->n++;
    return true;
}

size_t npux_pack_nbytes(const struct npux_op *leader)
{
    const struct npux_chunk *last = &leader->chunk0;

    while (last->packed != NULL)
        last = last->packed;
    return last->stage_offset + npux_pack_slot(last->nbytes);
}

struct npux_chunk *npux_pack_fill(struct npux_op *leader, struct npux_block *device, struct npux_block *stage)
{
    struct npux_block *pieces;
    uint32_t n = 0, i = 0;

    for (struct npux_chunk *c = &leader->chunk0; c != NULL; c = c->packed)
        n++;
    pieces = npux_block_divide(device, n);
    if (pieces == NULL) {
        npux_block_unref(device);
        npux_block_unref(stage);
        return NULL;
    }
    for (struct npux_chunk *c = &leader->chunk0; c != NULL; c = c->packed, i++) {
        pieces[i].address = device->address + c->stage_offset;
        pieces[i].nbytes = c->nbytes;
        c->op->device = &pieces[i];
        npux_host_read(&c->op->host, 0, stage->address + c->stage_offset, c->nbytes);
        leader->chunk0.copy_nbytes = c->stage_offset + c->nbytes;
    }
    leader->chunk0.stage = stage;
    return &leader->chunk0;
}

struct npux_op *npux_pack_undo(struct npux_op *leader)
{
    struct npux_chunk *c = &leader->chunk0;

    while (c != NULL) {
        struct npux_chunk *following = c->packed;
        c->packed = NULL;
        c->op->next = following != NULL ? following->op : NULL;
        c = following;
    }
    return leader;
}

static const char *device_end(const struct npux_chunk *chunk)
{
    return npux_op_device_address(chunk->op) + chunk->offset + chunk->nbytes;
}

static const char *device_start(const struct npux_chunk *chunk)
{
    return npux_op_device_address(chunk->op) + chunk->offset;
}

static int by_device_address(const void *left, const void *right)
{
    const char *a = device_start(*(struct npux_chunk *const *)left);
    const char *b = device_start(*(struct npux_chunk *const *)right);

    return (uintptr_t)a<(uintptr_t)b ? -1 : (uintptr_t)a>(uintptr_t) b;
}

static bool may_merge(const struct npux_chunk *chunk)
{
    const struct npux_op *op = chunk->op;

    return op->direction == NPUX_D2H && op->path == NPUX_STAGED && op->device->whole != NULL &&
           chunk->packed == NULL && chunk->stage == NULL && chunk->nbytes == op->host.nbytes &&
           chunk->nbytes <= MAX_PIECE_NBYTES;
}

/* Only spare bytes lie between the two: those of a whole piece before, none of which belong to a third. */
static bool follows(const struct npux_chunk *leader, const struct npux_chunk *last,
                    const struct npux_chunk *next)
{
    const struct npux_block *piece = last->op->device;
    ptrdiff_t gap = device_start(next) - device_end(last);

    return next->op->device->whole == piece->whole && gap >= 0 && next->op->device_offset == 0 &&
           next->op->device->address == piece->address + npux_pack_slot(piece->nbytes) &&
           device_end(last) == piece->address + piece->nbytes &&
           (size_t)(device_end(next) - device_start(leader)) <= MAX_PACK_NBYTES;
}

/* Puts the chunks in the order of their device memory, unless they are. */
static void sort(struct npux_chunk **chunks, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (by_device_address(&chunks[i - 1], &chunks[i]) > 0) {
            qsort(chunks, n, sizeof(chunks[0]), by_device_address);
            return;
        }
}

struct npux_chunk *npux_pack_merge(struct npux_chunk *chunks)
{
    struct npux_chunk *few[MANY], **sorted = few;
    struct npux_chunk *first = NULL, **end = &first;
    struct npux_chunk *leader = NULL, *last = NULL;
    size_t n = 0;

    for (struct npux_chunk *c = chunks; c != NULL; c = c->next)
        n += may_merge(c);
    if (n < 2)
        return chunks;
    if (n > MANY && (sorted = malloc(n * sizeof(struct npux_chunk *))) == NULL)
        return chunks;
    n = 0;
    while (chunks != NULL) {
        struct npux_chunk *chunk = chunks;
        chunks = chunk->next;
        if (may_merge(chunk)) {
            sorted[n++] = chunk;
        } else {
            *end = chunk;
            end = &chunk->next;
        }
    }
    sort(sorted, n);
    for (size_t i = 0; i < n; i++) {
        struct npux_chunk *chunk = sorted[i];
        if (leader != NULL && follows(leader, last, chunk)) {
            chunk->stage_offset = (size_t)(device_start(chunk) - device_start(leader));
            leader->copy_nbytes = chunk->stage_offset + chunk->nbytes;
            last->packed = chunk;
        } else {
            leader = chunk;
            *end = chunk;
            end = &chunk->next;
        }
        last = chunk;
    }
    *end = NULL;
    if (sorted != few)
        free(sorted);
    return first;
}

void npux_chunk_write_out(const struct npux_chunk *leader)
{
    for (const struct npux_chunk *c = leader; c != NULL; c = c->packed)
        npux_host_write(&c->op->host, c->offset, leader->stage->address + c->stage_offset, c->nbytes);
}
