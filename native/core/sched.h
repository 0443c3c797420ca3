/* sched.h - the queues between submit, stager and lanes: which op is staged and which chunk is copied next.
 *
 * Priorities: a queue each. The first that has something is served, but one that was passed over AGEING times
 * in a row is served next, and only LATENCY goes before it while it waits for room. Of three lanes or more in
 * a direction one is kept for LATENCY, and what the others have on their streams at a time is bounded, to two
 * chunks: a LATENCY transfer waits for at most that. Within a priority, a transfer of several chunks has one
 * in the queue at a time; its next goes to the end of it, so large transfers take turns and do not hold up
 * small ones.
 *
 * Threads: any. Functions named _locked are called with mu held.
 * Locks:   sched->mu; below it only the leaves (arena, faults). No ACL call, no Python, no memcpy under it.
 * Owns:    the queues; ops and chunks in them belong to their requests.
 * Invariant: n_pending counts ops accepted and not finished; each waits for its turn (order.h), or is in a
 *            stager queue or thread, or as chunks in a ready queue or a lane.
 */
#ifndef NPUX_CORE_SCHED_H
#define NPUX_CORE_SCHED_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/op.h"
#include "core/order.h"
#include "core/plan.h"
#include "core/turn.h"

struct npux_chunk_queue {
    struct npux_chunk *head, *tail;
    size_t n;      /* in the list, without what follows them */
    size_t nbytes; /* with it */
    unsigned n_passed_over;
};

struct npux_op_queue {
    struct npux_op *head, *tail;
    unsigned n_passed_over;
};

/* What the lanes of one direction have to do and are doing. */
struct npux_ready {
    struct npux_chunk_queue queues[NPUX_N_PRIORITIES];
    pthread_cond_t cv;
    unsigned n_idle;      /* lanes that sleep on cv */
    unsigned n_waking;    /* of these, signalled */
    unsigned n_spinning;  /* lanes that look for work without sleeping; 0 or 1 */
    unsigned n_low;       /* lanes with a batch that is not LATENCY */
    size_t low_nbytes;    /* in these batches */
    atomic_uint n_pushes; /* what a spinning lane looks at */
};

/* What a lane has taken. */
struct npux_batch {
    size_t nbytes;
    bool is_low; /* not LATENCY: counted in the window */
};

struct npux_counters {
    uint64_t transfers[NPUX_N_DIRECTIONS][NPUX_N_PATHS]; /* finished without error */
    uint64_t nbytes[NPUX_N_DIRECTIONS][NPUX_N_PATHS];
    uint64_t failed[NPUX_N_DIRECTIONS];
    uint64_t withdrawn[NPUX_N_DIRECTIONS];
    uint64_t copies[NPUX_N_DIRECTIONS];   /* ACL copies issued */
    uint64_t reissued[NPUX_N_DIRECTIONS]; /* copies repeated alone, to clear them of a neighbour's failure */
};

enum { NPUX_N_KEYS = 1024 };

struct npux_sched {
    pthread_mutex_t mu;
    pthread_cond_t stager_cv;
    pthread_cond_t drained_cv; /* n_pending became 0 */
    struct npux_ready ready[NPUX_N_DIRECTIONS];
    struct npux_turn turn;
    struct npux_plan plan;
    uint64_t n_submitted[NPUX_N_DIRECTIONS];
    uint64_t n_on_way[NPUX_N_DIRECTIONS]; /* of n_pending */
    struct npux_order order;
    struct npux_op_queue stager[NPUX_N_PRIORITIES];
    struct npux_chunk *drains, *drains_tail;  /* linked by next */
    bool drained_last;                        /* the stagers take turns between both directions */
    struct npux_request *live;                /* requests without DONE */
    struct npux_request *by_key[NPUX_N_KEYS]; /* the same, those with a key */
    bool sweeps;                              /* the control thread is about to look for what was withdrawn */
    unsigned n_lanes;                         /* per direction */
    unsigned n_stagers;                       /* both directions together */
    size_t batch_nbytes; /* most that a lane takes at a time; a larger chunk goes alone */
    uint64_t spin_ns;    /* how long a lane that has run dry looks for work before it sleeps */
    uint64_t n_pending;
    uint64_t pending_nbytes; /* of these */
    pthread_cond_t room_cv;  /* room came back in a full window */
    unsigned n_room_waiters;
    bool stop; /* threads leave as soon as their queue is empty */
    struct npux_counters counters;
};

/* chunk_nbytes: of the largest chunk that is usual. */
void npux_sched_init(struct npux_sched *s, unsigned n_lanes, size_t chunk_nbytes, uint64_t spin_ns);
void npux_sched_destroy(struct npux_sched *s);

void npux_sched_push_stager_locked(struct npux_sched *s, struct npux_op *op);
/* Asks the stager for memory for the next pack. */
void npux_sched_want_memory_locked(struct npux_sched *s);
/* A landed chunk whose bytes a stager is to bring to the user's memory. False: the stagers are leaving. If
 * all_starved, the caller wakes those that wait for staging memory. */
bool npux_sched_push_drain(struct npux_sched *s, struct npux_chunk *chunk, bool *all_starved);
/* One of these chunks, for a stager that is counted in n_starved and about to sleep; or NULL. */
struct npux_chunk *npux_sched_take_drain(struct npux_sched *s);

/* What a stager is to do: one of these, or nothing: the scheduler stops. */
struct npux_staging {
    struct npux_op *op;       /* to be staged */
    struct npux_chunk *drain; /* to be emptied */
    bool wants_memory;        /* see turn.h */
};
void npux_sched_take_stager(struct npux_sched *s, struct npux_staging *work);

/* Appends a list of chunks, linked by next, of ops of one priority; lanes that sleep are not woken for them.
 */
void npux_sched_append_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                    struct npux_chunk *chunks);
/* Wakes as many lanes as it is worth. */
void npux_sched_wake_locked(struct npux_sched *s, enum npux_direction direction);
/* Both: appends and wakes. */
void npux_sched_push_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                  struct npux_chunk *chunks);
/* Puts chunks that a lane could not start back to the front, in order. */
void npux_sched_push_back(struct npux_sched *s, enum npux_direction direction, struct npux_chunk *chunks);
/* A batch for a lane, of one priority, linked by next; sleeps while there is nothing; NULL: stop. Each batch
 * taken is given to npux_sched_batch_done once it is off the stream. */
struct npux_chunk *npux_sched_take_ready(struct npux_sched *s, enum npux_direction direction,
                                         struct npux_batch *batch);
void npux_sched_batch_done(struct npux_sched *s, enum npux_direction direction,
                           const struct npux_batch *batch, bool returns_soon);

/* Takes everything out of the stager queue and the ready queues. */
void npux_sched_purge_locked(struct npux_sched *s, struct npux_op **ops, struct npux_chunk **chunks);
/* Takes out what was withdrawn: ops that are still to be staged, and chunks that no lane has, with those that
 * follow them, linked by next. */
void npux_sched_sweep_locked(struct npux_sched *s, struct npux_op **ops, struct npux_chunk **chunks);
void npux_sched_stop_locked(struct npux_sched *s);

void npux_sched_live_add_locked(struct npux_sched *s, struct npux_request *request);
void npux_sched_live_remove_locked(struct npux_sched *s, struct npux_request *request);
/* A pending request by its key, or NULL: it is over. */
struct npux_request *npux_sched_find_live_locked(const struct npux_sched *s, const void *key);

#endif
