/* sched.h - the queues between submit, stager and lanes: which op is staged and which chunk is copied next.
 *
 * Threads: any. Functions named _locked are called with mu held.
 * Locks:   sched->mu; below it only the leaves (arena, faults). No ACL call, no Python, no memcpy under it.
 * Owns:    the queues; ops and chunks in them belong to their requests.
 * Invariant: n_pending counts ops accepted and not finished; each waits for its turn (order.h), or is in the
 *            stager queue or thread, or as chunks in a ready queue or a lane.
 */
#ifndef NPUX_CORE_SCHED_H
#define NPUX_CORE_SCHED_H

#include <pthread.h>

#include "core/op.h"
#include "core/order.h"
#include "core/turn.h"

struct npux_chunk_queue {
    struct npux_chunk *head, *tail;
    size_t n;
    size_t nbytes;
};

struct npux_counters {
    uint64_t transfers[NPUX_N_DIRECTIONS][NPUX_N_PATHS]; /* finished without error */
    uint64_t nbytes[NPUX_N_DIRECTIONS][NPUX_N_PATHS];
    uint64_t failed[NPUX_N_DIRECTIONS];
    uint64_t copies[NPUX_N_DIRECTIONS];   /* ACL copies issued */
    uint64_t reissued[NPUX_N_DIRECTIONS]; /* copies repeated alone, to clear them of a neighbour's failure */
};

struct npux_sched {
    pthread_mutex_t mu;
    pthread_cond_t ready_cv[NPUX_N_DIRECTIONS];
    pthread_cond_t stager_cv;
    pthread_cond_t drained_cv; /* n_pending became 0 */
    struct npux_chunk_queue ready[NPUX_N_DIRECTIONS];
    struct npux_turn turn;
    struct npux_order order;
    struct npux_op *stager_head, *stager_tail;
    struct npux_request *live; /* requests without DONE */
    unsigned n_lanes;          /* per direction */
    unsigned n_idle[NPUX_N_DIRECTIONS];
    unsigned n_waking[NPUX_N_DIRECTIONS];
    uint64_t n_pending;
    bool stop; /* threads leave as soon as their queue is empty */
    struct npux_counters counters;
};

void npux_sched_init(struct npux_sched *s, unsigned n_lanes);
void npux_sched_destroy(struct npux_sched *s);

void npux_sched_push_stager_locked(struct npux_sched *s, struct npux_op *op);
/* The next op to stage, or NULL when the scheduler stops. */
struct npux_op *npux_sched_take_stager(struct npux_sched *s);

/* Appends a list of chunks, linked by next; lanes that sleep are not woken for them. */
void npux_sched_append_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                    struct npux_chunk *chunks);
/* Wakes as many lanes as it is worth. */
void npux_sched_wake_locked(struct npux_sched *s, enum npux_direction direction);
/* No lane of this direction has anything to do. */
bool npux_sched_is_idle_locked(const struct npux_sched *s, enum npux_direction direction);
/* Both: appends and wakes. */
void npux_sched_push_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                  struct npux_chunk *chunks);
/* Puts chunks that a lane could not start back to the front, in order. */
void npux_sched_push_back(struct npux_sched *s, enum npux_direction direction, struct npux_chunk *chunks);
/* A lane's share of what is ready, linked by next; sleeps while there is nothing; NULL: stop. */
struct npux_chunk *npux_sched_take_ready(struct npux_sched *s, enum npux_direction direction);

/* Takes everything out of the stager queue and the ready queues. */
void npux_sched_purge_locked(struct npux_sched *s, struct npux_op **ops, struct npux_chunk **chunks);
void npux_sched_stop_locked(struct npux_sched *s);

void npux_sched_live_add_locked(struct npux_sched *s, struct npux_request *request);
void npux_sched_live_remove_locked(struct npux_sched *s, struct npux_request *request);

#endif
