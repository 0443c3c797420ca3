/* turn.h - what tasks of one event loop submit in one turn of it is planned together.
 *
 * The first submit wakes a lane. What is submitted while its direction is busy is deferred: no further lane
 * is woken, and small arrays bound for new device memory go into one open pack. A lane that has nothing else
 * to do takes that as it is; else the turn's end does, which submit asks the port for (NPUX_FLUSH). So a lone
 * transfer is not delayed, and many small ones cost neither a wake-up nor a copy each.
 *
 * Threads: any. Only requests whose port has turns are deferred.
 * Locks:   functions named _locked: sched->mu; bytes are copied without it, between reserve and commit.
 * Owns:    the open pack: its staging block and the divided device block.
 * Invariant: a pack is issued only when nobody fills it any more; whoever is last, the one who closes it or
 * the last who fills it, makes it ready.
 */
#ifndef NPUX_CORE_TURN_H
#define NPUX_CORE_TURN_H

#include <stdbool.h>
#include <stddef.h>

struct npux_chunk;
struct npux_engine;
struct npux_op;
struct npux_open_pack;

struct npux_turn {
    struct npux_open_pack *pack;
    struct npux_open_pack *spare; /* made by the stager, for when no memory is at hand */
    unsigned n_starved;           /* stagers that wait for staging memory */
    bool wants_memory;            /* the stager is to map some for the next pack */
    unsigned n_refused;           /* so many submits do without a pack, because there was no memory for one */
    bool open[2];                 /* per direction: something was deferred, and a FLUSH note is under way */
};

/* A pack with memory that is at hand, or NULL. No lock held. */
struct npux_open_pack *npux_open_pack_new(struct npux_engine *e);
/* One that was not needed; NULL is allowed. No lock held. */
void npux_open_pack_free(struct npux_open_pack *pack);
/* Makes the spare pack, as turn->wants_memory asked for. On a thread with a context, no lock held. */
void npux_open_pack_warm(struct npux_engine *e);
/* A stager begins or ends to wait for staging memory: there is no spare pack meanwhile. No lock held. */
void npux_open_pack_starve(struct npux_engine *e, bool begins);
/* Bytes of the spare pack, which nobody uses, on each side. */
size_t npux_open_pack_spare_nbytes(const struct npux_turn *turn);
/* A place for the op in the open pack. If that is full, *spare or the spare one becomes the open one. Or
 * NULL. */
struct npux_open_pack *npux_open_pack_reserve_locked(struct npux_engine *e, struct npux_op *op,
                                                     struct npux_open_pack **spare);
/* Copies the op's bytes to its place. */
void npux_open_pack_fill(const struct npux_open_pack *pack, struct npux_op *op);
/* The place is filled. */
void npux_open_pack_commit(struct npux_engine *e, struct npux_open_pack *pack);
/* Takes the open pack away; returns the chunk to be issued, or NULL if there is none yet. */
struct npux_chunk *npux_open_pack_close_locked(struct npux_turn *turn);

#endif
