/* race.h - guards: what would be a race or a use after free on hardware, found when it is submitted or freed.
 *
 * Order: every stream has a vector of (other stream, how many of its tasks come before this stream's next
 * one). Recording keeps a copy with the event, a wait merges that. Two tasks that touch the same bytes, one
 * of them writing, must be ordered by this, or the host must have observed the earlier one before the later
 * was submitted. Observed: a synchronisation, a query, an event or a host callback told some host thread that
 * the task is complete, directly or through what the completed task had waited for. What any thread submits
 * after an observation by any thread counts as ordered after it, which can miss a race between host threads
 * but raises no false alarm.
 *
 * Threads: any.
 * Locks:   one mutex in race.c, a leaf after sim.mu. sim.mu itself only where a function says so.
 * Owns:    sim_guard and sim_order objects, the table of what unobserved tasks touch.
 * Invariant: with the guards off nothing here is called but sim_guards().
 */
#ifndef ACLSIM_RACE_H
#define ACLSIM_RACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/blocks.h"

struct sim_stream;
struct sim_event;
struct sim_order;

extern atomic_int sim_guards_now;

static inline bool sim_guards(void)
{
    return atomic_load_explicit(&sim_guards_now, memory_order_relaxed) != 0;
}

void sim_guard_mode(int mode); /* the mode changed: the default follows it */
void sim_guard_ask(int on);    /* see aclsim_set_guards */

/* With sim.mu held, for the filled task seq before anybody can run it. */
void sim_guard_submit(struct sim_stream *s, uint64_t seq);
/* A wait of s for the latest record of event was submitted, or was over at once. With sim.mu held. */
void sim_guard_wait(struct sim_stream *s, struct sim_event *event);

/* A host thread learned that the first target tasks of s are complete. With or without sim.mu. */
void sim_guard_seen(struct sim_stream *s, uint64_t target);
void sim_guard_seen_event(struct sim_event *event);
void sim_guard_closed(struct sim_stream *s);

/* For other ways to order streams, such as notifies: *order becomes what comes after the first n tasks of s;
 * freed with sim_order_free. */
void sim_order_take(struct sim_order **order, struct sim_stream *s, uint64_t n);
void sim_order_give(struct sim_stream *s, const struct sim_order *order); /* NULL: nothing */
void sim_order_free(struct sim_order *order);
/* s waits for something that has no order known here: no alarm for it until the host observes s. */
void sim_order_unknown(struct sim_stream *s);

/* The calling thread itself is about to read or write the bytes (aclrtMemcpy and its like). A block of NULL
 * is ordinary memory. Without sim.mu. */
void sim_guard_immediate(struct sim_ref ref, const void *ptr, size_t nbytes, bool writes);
/* This live block was taken out of its table and is about to be freed. Without sim.mu. */
void sim_guard_free(struct sim_block *block);

/* --- contents (guard_bytes.c), adversarial mode --- */

/* With sim.mu held; noted: nothing that is unfinished writes the source, or touches the destination. */
void sim_guard_sum_source(struct sim_stream *s, uint64_t seq);
void sim_guard_spoil_destination(struct sim_stream *s, uint64_t seq);
void sim_guard_check_source(struct sim_stream *s, uint64_t seq); /* without sim.mu, before it is executed */

#endif
