/* stager.h - the threads that find memory for transfers and copy between pageable and staging memory.
 *
 * They work one chunk at a time, round robin over their queues, so a long transfer does not hold up a short
 * one, and several of them share one long transfer. Filling chunk k+1 overlaps the DMA of chunk k, which a
 * lane waits for; a large chunk that has landed is emptied here, so that its lane can go on at once.
 *
 * Threads: n_stagers per engine.
 * Locks:   none held while they copy or call ACL.
 * Owns:    the op that a stager has taken from the queue, until it puts it back or retires its planning
 * count; the range of bytes that it has cut off. Invariant: one sleeps for staging memory only while other
 * chunks, all of which can be issued, hold it. Queued landed chunks are emptied before a stager leaves,
 * and while all of them wait for memory.
 */
#ifndef NPUX_CORE_STAGER_H
#define NPUX_CORE_STAGER_H

#include "core/engine.h"

int npux_stagers_start(struct npux_engine *e);
/* Waits for the threads, until deadline_ns unless that is 0. Returns how many are still inside an ACL call.
 */
unsigned npux_stagers_join(struct npux_engine *e, uint64_t deadline_ns);

#endif
