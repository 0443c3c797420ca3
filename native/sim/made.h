/* made.h - how much that a program made is still there, by the place that made it: what the report says of
 * leaks.
 *
 * Threads: any.
 * Locks:   a mutex of its own for the list of places, a leaf; blocks.c holds its own lock around it.
 * Owns:    one record for each place and kind, for the life of the process.
 * Invariant: a record's counts are those of the live things that hold it.
 */
#ifndef ACLSIM_MADE_H
#define ACLSIM_MADE_H

#include <stdint.h>

enum sim_made_kind { SIM_MADE_STREAM, SIM_MADE_EVENT, SIM_MADE_DEVICE_BLOCK, SIM_MADE_PINNED_BLOCK };

struct sim_made;
/* Counts one more for the call that this thread is in. NULL: no host memory, and nothing is counted. */
struct sim_made *sim_made_here(enum sim_made_kind kind, uint64_t nbytes);
void sim_made_gone(struct sim_made *made, uint64_t nbytes); /* takes NULL, too */
void sim_made_find_leaks(void);

#endif
