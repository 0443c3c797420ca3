/* events.h - events that are recorded again and again instead of being made for each use.
 *
 * Threads: get and close on a thread with a context; put on any.
 * Locks:   one leaf mutex inside.
 * Owns:    every event that it made, until close, also those that are out.
 * Invariant: an event that is out is used by one owner. One that comes back while a record of it is pending
 *            may go out at once: a later record replaces it, and waits issued before keep theirs.
 */
#ifndef NPUX_CORE_EVENTS_H
#define NPUX_CORE_EVENTS_H

#include <pthread.h>

#include "acl/table.h"
#include "base/err.h"

struct npux_event {
    struct npux_event *next_made, *next_free;
    aclrtEvent event; /* of the kind that a stream can wait for */
};

struct npux_events {
    pthread_mutex_t mu;
    struct npux_event *made, *free;
};

void npux_events_init(struct npux_events *events);
int npux_events_get(struct npux_events *events, const struct npux_acl *acl, struct npux_event **event,
                    struct npux_err *err);
void npux_events_put(struct npux_events *events, struct npux_event *event);
/* Destroys them all; returns the first error of that. No stream has one queued any more. */
int npux_events_close(struct npux_events *events, const struct npux_acl *acl);
/* Frees what stands for them; nobody may hold one. */
void npux_events_destroy(struct npux_events *events);

#endif
