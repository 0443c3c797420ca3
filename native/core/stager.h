/* stager.h - the thread that finds memory for transfers and fills staging memory from pageable arrays.
 *
 * It works one chunk at a time, round robin over its queue, so a long transfer does not hold up a short one;
 * filling chunk k+1 overlaps the DMA of chunk k, which a lane waits for.
 *
 * Threads: one per engine.
 * Locks:   none held while it copies or calls ACL.
 * Owns:    the op it has taken from the queue, until it puts it back or retires its planning count.
 * Invariant: it sleeps for staging memory only while other chunks, all of which can be issued, hold it.
 */
#ifndef NPUX_CORE_STAGER_H
#define NPUX_CORE_STAGER_H

#include "core/engine.h"

int npux_stager_start(struct npux_engine *e);
/* Waits for the thread, until deadline_ns unless that is 0. False: it is still inside an ACL call. */
bool npux_stager_join(struct npux_engine *e, uint64_t deadline_ns);

#endif
