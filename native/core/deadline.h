/* deadline.h - requests that are to be over by a time, and what happens when they are not.
 *
 * When the time comes, what is not issued of the request is dropped, as if it had been withdrawn. If nothing
 * else is left, it ends with that. Else the device has a part of it and does not give it back: its user is
 * told now (DONE, with an error for each op that has no end), and told again (RELEASED) when the device is
 * done, until which its memory stays. If that never comes, close gives it up like any other.
 *
 * Threads: one of its own, made with the first deadline; the rest under sched->mu.
 * Locks:   sched->mu.
 * Owns:    the list of requests with a deadline, the nearest first.
 * Invariant: a request is in the list from its admission until it is over or its time has come. after->told
 * is set at most once, while it is pending.
 */
#ifndef NPUX_CORE_DEADLINE_H
#define NPUX_CORE_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct npux_after;
struct npux_engine;
struct npux_op;
struct npux_request;

struct npux_deadlines {
    pthread_t thread;
    bool started;
    pthread_cond_t cv;
    struct npux_after *head, *tail;
};

/* Enters a request whose after has a deadline. Fails when the thread cannot be made. */
int npux_deadline_enter_locked(struct npux_engine *e, struct npux_request *request, struct npux_err *err);
/* The request is over. True: its user was told before. */
bool npux_deadline_leave_locked(struct npux_engine *e, struct npux_request *request);
/* Its user was told while it was pending, and is to be told by after->late_note when it is over. */
bool npux_deadline_told(const struct npux_request *request);
/* What an op fails with that was dropped: because it was withdrawn, or late. Returns the status. */
int npux_fail_dropped(const struct npux_op *op, struct npux_err *err);

/* After sched->stop was set: ends the thread. */
void npux_deadlines_stop_locked(struct npux_engine *e);
void npux_deadlines_join(struct npux_engine *e);

#endif
