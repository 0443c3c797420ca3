/* guard.h - what the guards keep for each stream, shared by race.c and guard_bytes.c.
 *
 * Threads: any. Locks: the mutex of race.c; sums: sim.mu at submission, the owner of the drive afterwards.
 * Owns:    nothing itself. Invariant: observed never goes back.
 */
#ifndef ACLSIM_GUARD_H
#define ACLSIM_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/site.h"

struct sim_order;
struct sim_stream;

struct sim_sum {
    uint64_t seq_plus_1; /* 0: none */
    uint64_t value;
    struct sim_site site; /* of the submission */
};

struct sim_guard {
    uint64_t observed;       /* tasks of this stream that the host knows to be complete */
    struct sim_order *after; /* what the next task comes after */
    bool unknown;            /* waits for something that race.c does not follow */
    struct sim_sum *sums;    /* by seq, as the ring; NULL: none yet */
};

void sim_guard_drop_sums(struct sim_stream *s); /* with sim.mu held */

#endif
