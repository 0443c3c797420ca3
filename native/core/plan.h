/* plan.h - which way a pageable transfer takes: through staging memory, or by a synchronous copy of a lane.
 *
 * Drivers bring pageable memory to the device at their own speed, sometimes faster than a thread of ours
 * fills staging memory and sometimes slower; so both are measured, for each direction and size, on transfers
 * that had their direction to themselves. Staging is the default: it gives the source back early, and is left
 * only for a clear gain.
 *
 * Threads: any. Locks: sched->mu is held by the caller.
 * Owns:    its figures.
 * Invariant: a choice needs no measurement to be right, only to be fast.
 */
#ifndef NPUX_CORE_PLAN_H
#define NPUX_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum npux_pageable { NPUX_PAGEABLE_AUTO, NPUX_PAGEABLE_STAGED, NPUX_PAGEABLE_SYNC, NPUX_N_PAGEABLE };

enum { NPUX_PLAN_SIZES = 48 };

struct npux_plan_cell {    /* one direction and power of two of bytes */
    double ns_per_byte[2]; /* staged, sync; moving averages */
    uint32_t n[2];         /* measured */
    uint32_t n_choices;    /* since the slower way was tried last */
};

struct npux_plan {
    enum npux_pageable forced;
    struct npux_plan_cell cells[2][NPUX_PLAN_SIZES];
};

/* Whether this transfer is to be a synchronous copy. alone: nothing else goes its way now, so it will be
 * measured. */
bool npux_plan_choose_sync(struct npux_plan *plan, int direction, size_t nbytes, bool alone);
/* A transfer that was alone from submit to end took so long. */
void npux_plan_note(struct npux_plan *plan, int direction, size_t nbytes, bool sync, uint64_t taken_ns);

#endif
