/* pack.h - small arrays that travel together in one ACL copy.
 *
 * To the device: arrays for which memory is to be made are laid out one behind the other in one device block,
 * which is divided among them, and in one staging block, with the same distances; one copy moves all. To the
 * host: what lies side by side in such a block, in whatever order it was asked for, is fetched by one copy.
 * Between two pieces lie the spare bytes that CANN wants there, which belong to nobody, so copying them too
 * is harmless.
 *
 * A pack is a list of chunks linked by packed; each is chunk0 of its op and covers it. The first one leads:
 * it holds the staging block and stands for all of them in the queues and on the stream. All of them share
 * its fate.
 *
 * Threads: plan and fill: the submitting thread or a staging thread; merge: the submitting thread, or a lane
 *          for what came from several requests.
 * Locks:   none held while bytes are copied.
 * Owns:    nothing; the chunks are parts of their ops.
 * Invariant: only ops that have been admitted are packed, and each of them holds one count of n_chunks_left.
 */
#ifndef NPUX_CORE_PACK_H
#define NPUX_CORE_PACK_H

#include "core/engine.h"

/* Ops of one request that may start, collected for packing. */
struct npux_packing {
    struct npux_op *first, *last;
    size_t nbytes; /* with what lies between the pieces */
    uint32_t n;
};

/* Adds an op to the pack if it is small, goes to new device memory, and there is room. */
bool npux_packing_add(struct npux_packing *p, struct npux_op *op);

/* Small enough to be packed, and bound for new device memory. */
bool npux_may_pack(const struct npux_op *op);
/* What an array of so many bytes takes of a device block with others. */
size_t npux_pack_slot(size_t nbytes);

/* Room that the pack of this leader needs, in device and in staging memory. */
size_t npux_pack_nbytes(const struct npux_op *leader);
/* Divides the device block among the ops of a pack and fills the staging block; takes over one reference to
 * each. Returns the chunk to be issued, or NULL when memory is out: both blocks have gone back then. */
struct npux_chunk *npux_pack_fill(struct npux_op *leader, struct npux_block *device,
                                  struct npux_block *stage);
/* The pack is no more: its ops, linked by next, are to be started one by one. */
struct npux_op *npux_pack_undo(struct npux_op *leader);

/* Joins those chunks of a list, linked by next, that go to the host from device memory side by side. */
struct npux_chunk *npux_pack_merge(struct npux_chunk *chunks);

/* What arrived in staging memory goes to the arrays of the user. */
void npux_chunk_write_out(const struct npux_chunk *leader);

#endif
