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

/* A pack over these blocks, which it takes over; without memory they go back. Either may be NULL. */
static struct npux_open_pack *make(struct npux_block *device, struct npux_block *stage)
{
    struct npux_open_pack *pack = device != NULL && stage != NULL ? calloc(1, sizeof(*pack)) : NULL;

    if (pack != NULL && (pack->pieces = npux_block_divide(device, N_PIECES)) != NULL) {
        pack->device = device;
        pack->stage = stage;
        atomic_init(&pack->n_filling, 1);
        return pack;
    }
    free(pack);
    if (device != NULL)
        npux_block_unref(device);
    if (stage != NULL)
        npux_block_unref(stage);
    return NULL;
}

struct npux_open_pack *npux_open_pack_new(struct npux_engine *e)
{
    return make(npux_arena_try_get(e->device_arena, PACK_NBYTES),
                npux_arena_try_get(e->staging_arena[NPUX_H2D], PACK_NBYTES));
}

/* Without memory for a pack one submit in so many asks for it again. */
enum { N_REFUSED = 4096 };

void npux_open_pack_warm(struct npux_engine *e)
{
    struct npux_turn *turn = &e->sched.turn;
    struct npux_block *device = NULL, *stage = NULL;
    struct npux_open_pack *pack;
    struct npux_err err;

    if (npux_arena_get(e->device_arena, PACK_NBYTES, &device, &err) != 0)
        device = NULL;
    if (npux_arena_get(e->staging_arena[NPUX_H2D], PACK_NBYTES, &stage, &err) != 0)
        stage = NULL;
    pack = make(device, stage);
    pthread_mutex_lock(&e->sched.mu);
    turn->wants_memory = false;
    turn->n_refused = pack == NULL ? N_REFUSED : 0;
    if (turn->spare == NULL && turn->n_starved == 0) {
        turn->spare = pack;
        pack = NULL;
    }
    pthread_mutex_unlock(&e->sched.mu);
    npux_open_pack_free(pack);
}

void npux_open_pack_starve(struct npux_engine *e, bool begins)
{
    struct npux_turn *turn = &e->sched.turn;
    struct npux_open_pack *spare = NULL;

    pthread_mutex_lock(&e->sched.mu);
    if (begins) {
        turn->n_starved++;
        spare = turn->spare;
        turn->spare = NULL;
    } else {
        turn->n_starved--;
    }
    pthread_mutex_unlock(&e->sched.mu);
    npux_open_pack_free(spare);
}

size_t npux_open_pack_spare_nbytes(const struct npux_turn *turn)
{
    return turn->spare == NULL ? 0 : PACK_NBYTES;
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
        struct npux_open_pack **from = *spare != NULL ? spare : &turn->spare;
        if (*from == NULL)
            return NULL;
        npux_sched_push_ready_locked(&e->sched, NPUX_H2D, npux_open_pack_close_locked(turn));
        turn->pack = *from;
        *from = NULL;
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
