/* after.h - transfers that start when something else is over: work on streams of others, or other transfers.
 *
 * Work on a stream is waited for on the device. When the wait is made, an event is recorded on that stream;
 * the request's first admitted op then goes to a lane of its own kind, whose stream waits for the event in
 * front of the op's first chunk. When that chunk has landed, the event is proved to have come, and everything
 * else of the request goes the usual ways. So what may stand still for long holds one chunk of memory that
 * nobody else needs, and no lane, stager or staging memory of other transfers. If the chunk fails, another op
 * of the request goes first: each proves its own wait.
 *
 * Lanes are made when they are needed, at most NPUX_N_AFTER for a direction. Waits for the same stream queue
 * up behind each other, because they end in that order; others have a lane each, as long as there are enough.
 *
 * Other transfers are waited for as those before on the same memory are, see order.h: the request is admitted
 * when the last of them is over, whether it worked or not.
 *
 * Threads: npux_after_new on a user's thread; the rest under sched->mu or on the lanes.
 * Locks:   sched->mu for the queues; nothing while a lane works.
 * Owns:    a wait owns its events until nobody refers to it; the lanes their streams.
 * Invariant: an op is in one place: a wait's list, or led by a lane. A wait with ops in its list is in one
 *            queue or led; its request is pending, so it stays.
 */
#ifndef NPUX_CORE_AFTER_H
#define NPUX_CORE_AFTER_H

#include "core/deadline.h"
#include "core/events.h"
#include "core/lane.h"

enum { NPUX_N_AFTER = 8 };

/* What is to happen when a request is over: another one may start, or a stream is told (before.h). */
struct npux_follow {
    struct npux_follow *next;      /* of the same request that is followed */
    struct npux_request *follower; /* or NULL */
    struct npux_before *before;    /* or NULL */
};

struct npux_wait {
    aclrtEvent event;
    struct npux_event *own; /* that event, if it is ours */
};

struct npux_after {
    atomic_uint n_refs;
    struct npux_engine *engine;
    struct npux_after *next;        /* in a queue; sched->mu */
    struct npux_op *ops, *ops_tail; /* admitted, not led; sched->mu */
    bool taken;                     /* by a request; sched->mu */
    bool queued;                    /* or led; sched->mu */
    uint64_t deadline_ns;           /* or 0; see deadline.h for this and what follows (sched->mu) */
    uint64_t submitted_ns;
    struct npux_request *request;
    struct npux_after *next_due, *prev_due;
    struct npux_note late_note;
    atomic_bool late; /* set before withdrawn */
    bool told, over;
    bool met;           /* sched->mu */
    const void *source; /* the one stream whose work it waits for, or NULL */
    unsigned n_waits, n_follows;
    unsigned n_follows_left; /* requests that are still pending; sched->mu */
    const void **keys;       /* of the requests to follow */
    struct npux_follow *follows;
    struct npux_wait waits[];
};

struct npux_after_lane {
    struct npux_lane lane;
    struct npux_after *head, *tail;
    const void *source; /* of what it does or has queued */
    bool busy;
    pthread_cond_t cv;
};

struct npux_afters {
    struct npux_events events;
    struct npux_after_lane lanes[NPUX_N_DIRECTIONS][NPUX_N_AFTER];
    struct npux_after *head[NPUX_N_DIRECTIONS], *tail[NPUX_N_DIRECTIONS]; /* for which no lane is free */
    struct npux_arena *staging; /* of their first chunks, both directions */
};

int npux_afters_init(struct npux_engine *e);
void npux_afters_destroy(struct npux_engine *e);

/* What a request is to wait for: what has been put on the streams so far, events that somebody recorded, and
 * the requests with these keys; and until when it is to be over, or 0. One reference. Blocks while the
 * control thread records events. The calling thread's context is not touched. */
int npux_after_new(struct npux_engine *e, void *const *streams, unsigned n_streams, void *const *events,
                   unsigned n_events, const void *const *keys, unsigned n_keys, uint64_t deadline_ns,
                   struct npux_after **after, struct npux_err *err);
void npux_after_ref(struct npux_after *after);
void npux_after_unref(struct npux_after *after);

/* Binds request->after to the pending requests that it names. -EINVAL: it was used before. */
int npux_after_admit_locked(struct npux_engine *e, struct npux_request *request, struct npux_err *err);
/* The request is over: prepends the ops that may start now to a list. */
struct npux_op *npux_followers_release_locked(struct npux_engine *e, struct npux_request *request,
                                              struct npux_op *started);

/* Takes an op that is to wait for something on the device. False: it has come, the op may go on. */
bool npux_after_hold_locked(struct npux_engine *e, struct npux_op *op);
/* Takes every op that waits here, or those that were withdrawn, linked by next. */
struct npux_op *npux_afters_purge_locked(struct npux_engine *e, bool all);
/* Wakes the lanes, after sched->stop was set. */
void npux_afters_stop_locked(struct npux_engine *e);
/* Number of lanes that did not end by deadline_ns, 0: no limit. */
unsigned npux_afters_join(struct npux_engine *e, uint64_t deadline_ns);
/* On the control thread, with every other thread gone; returns the first error. */
int npux_afters_close(struct npux_engine *e, const char **call);

#endif
