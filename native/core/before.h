/* before.h - streams of others that wait, on the device, for a transfer.
 *
 * The transfer may not be on a stream yet, so an event would come too late. A notify can be waited for before
 * it is recorded: the wait goes onto the other stream at once, and when the request is over, however it
 * ended, the notify is recorded on a stream of ours. (Not on the lane's: a copy that failed, or one of
 * several chunks, would let the others go on too soon, and one that is never issued would hold them for
 * ever.)
 *
 * Threads: npux_engine_order_before on a user's thread. Calls on streams of others are made on a thread that
 * does nothing else (e->foreign), because they wait for a place in a full queue, which may come only when a
 *          notify is recorded; that is done on the control thread.
 * Locks:   sched->mu to hang one on a request; befores->mu, a leaf.
 * Owns:    the notifies and the stream on which they are recorded, until close.
 * Invariant: a notify is used again only when the stream that waited for it has gone on, which an event
 * behind the wait says; one with two waiters would let the wrong one go.
 */
#ifndef NPUX_CORE_BEFORE_H
#define NPUX_CORE_BEFORE_H

#include "core/after.h"
#include "core/control.h"

struct npux_before {
    struct npux_call call;
    struct npux_follow follow;
    struct npux_engine *engine;
    struct npux_before *next_made, *next_recorded;
    aclrtNotify notify;
    struct npux_event *passed; /* recorded behind the wait */
    bool used_up;              /* nothing will say when its waiter has passed */
};

struct npux_befores {
    aclrtStream stream;       /* made by the foreign thread, before anything is recorded on it */
    struct npux_before *made; /* the foreign thread's */
    pthread_mutex_t mu;
    struct npux_before *recorded, *recorded_tail; /* may be used again when their waiters have passed (mu) */
};

int npux_befores_init(struct npux_engine *e);
void npux_befores_destroy(struct npux_engine *e);

/* Makes the stream wait for the request with this key; nothing is done when that is over. Blocks while the
 * foreign thread talks to the runtime, which waits for a place in the stream's queue if that is full.
 * -ENOTSUP: this library has no notifies. */
int npux_engine_order_before(struct npux_engine *e, const void *key, void *stream, struct npux_err *err);
/* The request that it was hung on is over. */
void npux_before_record_locked(struct npux_engine *e, struct npux_before *before);
/* On the control thread; the first error. What a stream still waits for is left as it is. */
int npux_befores_close(struct npux_engine *e, const char **call);

#endif
