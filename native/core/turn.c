#include "core/turn.h"

#include <stdlib.h>

#include "core/engine.h"
#include "core/pack.h"

/* Lanes start on a pack when it is full, so it is smaller than a pack that is planned as a whole. */
static const size_t PACK_NBYTES = (size_t)256 << 10;
enum { N_PIECES = 256 };

struct npux_open_pack {
    struct npux_block *device, *stage, *pieces;
    struct npux_chunk *first, *last;
    size_t used_nbytes;
    uint32_t n;
    atomic_uint
        n_filling; /* who fills a place now, and one for being open; the last one makes the pack ready */
};

struct npux_open_pack *npux_open_pack_new(struct npux_engine *e)
{
    struct npux_open_pack *pack = calloc(1, sizeof(*pack));

    if (pack == NULL)
        return NULL;
    pack->device = npux_arena_try_get(e->device_arena, PACK_NBYTES);
    pack->stage = npux_arena_try_get(e->staging_arena[NPUX_H2D], PACK_NBYTES);
    if (pack->device != NULL && pack->stage != NULL)
        pack->pieces = npux_block_divide(pack->device, N_PIECES);
    atomic_init(&pack->n_filling, 1);
    if (pack->pieces != NULL)
        return pack;
    if (pack->device != NULL)
        npux_block_unref(pack->device);
    if (pack->stage != NULL)
        npux_block_unref(pack->stage);
    free(pack);
    return NULL;
}

/* Without memory for a pack one submit in so many asks for it again. */
enum { N_REFUSED = 4096 };

void npux_open_pack_warm(struct npux_engine *e)
{
    struct npux_arena *const arenas[] = {e->device_arena, e->staging_arena[NPUX_H2D]};
    bool refused = false;

    for (int i = 0; i < 2; i++) {
        struct npux_block *block;
        struct npux_err err;
        if (npux_arena_get(arenas[i], PACK_NBYTES, &block, &err) == 0)
            npux_block_unref(block);
        else
            refused = true;
    }
    pthread_mutex_lock(&e->sched.mu);
    e->sched.turn.wants_memory = false;
    e->sched.turn.n_refused = refused ? N_REFUSED : 0;
    pthread_mutex_unlock(&e->sched.mu);
}

void npux_open_pack_free(struct npux_open_pack *pack)
{
    if (pack == NULL)
        return;
    npux_block_trim(pack->device, N_PIECES - 1);
    npux_block_unref(&pack->pieces[0]);
    npux_block_unref(pack->stage);
    free(pack);
}

static bool is_full(const struct npux_turn *turn, const struct npux_op *op)
{
    const struct npux_open_pack *pack = turn->pack;

    return pack == NULL || pack->n == N_PIECES ||
           pack->used_nbytes + npux_pack_slot(op->host.nbytes) > PACK_NBYTES;
}

/* Nobody fills it and nobody adds to it: returns its chunk. */
static struct npux_chunk *finish(struct npux_open_pack *pack)
{
    struct npux_chunk *leader = pack->first;

    npux_block_trim(pack->device, N_PIECES - pack->n);
    leader->stage = pack->stage;
    leader->copy_nbytes = pack->last->stage_offset + pack->last->nbytes;
    leader->next = NULL;
    free(pack);
    return leader;
}

struct npux_chunk *npux_open_pack_close_locked(struct npux_turn *turn)
{
    struct npux_open_pack *pack = turn->pack;

    turn->pack = NULL;
    if (pack == NULL)
        return NULL;
    return atomic_fetch_sub(&pack->n_filling, 1) == 1 ? finish(pack) : NULL;
}

struct npux_open_pack *npux_open_pack_reserve_locked(struct npux_engine *e, struct npux_op *op,
                                                     struct npux_open_pack **spare)
{
    struct npux_turn *turn = &e->sched.turn;
    struct npux_open_pack *pack;

    if (is_full(turn, op)) {
        if (*spare == NULL)
            return NULL;
        npux_sched_push_ready_locked(&e->sched, NPUX_H2D, npux_open_pack_close_locked(turn));
        turn->pack = *spare;
        *spare = NULL;
    }
    pack = turn->pack;
    npux_chunk_new(op, 0, op->host.nbytes); /* chunk0, which is part of the op */
    op->chunk0.stage_offset = pack->used_nbytes;
    op->device = &pack->pieces[pack->n];
    op->device->address = pack->device->address + pack->used_nbytes;
    op->device->nbytes = op->host.nbytes;
    if (pack->first == NULL)
        pack->first = &op->chunk0;
    else
        pack->last->packed = &op->chunk0;
    pack->last = &op->chunk0;
    pack->used_nbytes += npux_pack_slot(op->host.nbytes);
    pack->n++;
    atomic_fetch_add_explicit(&pack->n_filling, 1, memory_order_relaxed);
    return pack;
}

void npux_open_pack_fill(const struct npux_open_pack *pack, struct npux_op *op)
{
    npux_host_read(&op->host, 0, pack->stage->address + op->chunk0.stage_offset, op->host.nbytes);
}

void npux_open_pack_commit(struct npux_engine *e, struct npux_open_pack *pack)
{
    if (atomic_fetch_sub(&pack->n_filling, 1) != 1)
        return;
    pthread_mutex_lock(&e->sched.mu);
    npux_sched_push_ready_locked(&e->sched, NPUX_H2D, finish(pack));
    pthread_mutex_unlock(&e->sched.mu);
}
