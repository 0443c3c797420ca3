/* order.h - transfers on the same memory keep the order in which they were submitted.
 *
 * Device memory, per block: an op that writes waits for every earlier op, one that reads for earlier writers.
 * A copy on the device does both, on two blocks.
 * Host memory, per range of addresses: an op waits for every earlier op that writes memory which it reads or
 * writes. (That a source does not change under a copy is the caller's part, so host readers block nobody.)
 *
 * An op is entered in both places at submit, under one lock, so it only ever waits for earlier ones: no
 * circle can form. While it waits it holds no staging memory, so whatever holds staging memory can be issued,
 * and waiting for staging memory always ends.
 *
 * Threads: any, with sched->mu held.
 * Locks:   none of its own.
 * Owns:    the tree nodes; the wait lists are links in the ops.
 * Invariant: the ranges in the tree of writers do not overlap, so a search by "overlaps" finds one or none.
 */
#ifndef NPUX_CORE_ORDER_H
#define NPUX_CORE_ORDER_H

#include <stdbool.h>

struct npux_op;

struct npux_order {
    void *writers;           /* tsearch tree of admitted ops that write host memory */
    struct npux_op *waiting; /* for host memory, in submission order */
};

void npux_order_init(struct npux_order *order);

/* True when the op may start now; otherwise a later release returns it. */
bool npux_order_admit_locked(struct npux_order *order, struct npux_op *op);
/* The op is over, or was never admitted. Returns the ops that may start now, linked by next. */
struct npux_op *npux_order_release_locked(struct npux_order *order, struct npux_op *op);

#endif
