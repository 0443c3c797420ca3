/* lane.h - one ACL stream and the only thread that submits to it.
 *
 * A lane takes a batch of chunks, issues them, synchronises its stream and settles each chunk by what that
 * synchronisation returned. The stream holds nothing but the batch, so success proves every chunk; several
 * lanes per direction keep the DMA engine busy while one of them settles.
 *
 * Threads: one per lane.
 * Locks:   none held during ACL calls or copies.
 * Owns:    its stream, and the chunks of its batch.
 * Invariant: staging memory goes back only after the stream is drained; a lane that never sees its stream
 *            drained (a stuck device) keeps it for good.
 */
#ifndef NPUX_CORE_LANE_H
#define NPUX_CORE_LANE_H

#include "core/engine.h"

struct npux_lane {
    struct npux_engine *engine;
    enum npux_direction direction;
    pthread_t thread;
    bool started;
    atomic_bool ready; /* stream made, or failed */
    int open_status;   /* before ready */
    struct npux_err open_err;
    struct npux_arena *d2h_staging; /* of what it copies to pageable memory */
    aclrtStream stream;
    int32_t stream_id;       /* -1: this library cannot tell */
    int teardown_code;       /* of aclrtDestroyStream; read after join */
    atomic_bool stuck;       /* left without seeing the stream drained */
    struct npux_chunk *kept; /* what the stream may still use then; never freed */
};

/* Starts the lane's thread and waits until its stream exists. */
int npux_lane_start(struct npux_lane *lane, struct npux_engine *e, enum npux_direction direction,
                    struct npux_err *err);
/* On the lane's thread: makes its stream. */
int npux_lane_open(struct npux_lane *lane);
/* On the lane's thread: issues a batch, waits for it and settles it; may leave the lane stuck. False: nothing
 * of it was issued, so that nothing was waited for. */
bool npux_lane_run(struct npux_lane *lane, struct npux_chunk *batch, const struct npux_batch *taken);
/* On the lane's thread: waits until its stream is empty, or leaves the lane stuck. */
void npux_lane_drain(struct npux_lane *lane);
/* Waits for the thread, until deadline_ns unless that is 0. False: it is still inside an ACL call. */
bool npux_lane_join(struct npux_lane *lane, uint64_t deadline_ns);

#endif
