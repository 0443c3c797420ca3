#include "core/events.h"

#include <errno.h>
#include <stdlib.h>

#include "core/runtime.h"

void npux_events_init(struct npux_events *events)
{
    pthread_mutex_init(&events->mu, NULL);
    events->made = events->free = NULL;
}

static struct npux_event *pop(struct npux_events *events)
{
    struct npux_event *event;

    pthread_mutex_lock(&events->mu);
    event = events->free;
    if (event != NULL)
        events->free = event->next_free;
    pthread_mutex_unlock(&events->mu);
    return event;
}

int npux_events_get(struct npux_events *events, const struct npux_acl *acl, struct npux_event **out,
                    struct npux_err *err)
{
    struct npux_event *event = pop(events);
    int code;

    *out = event;
    if (event != NULL)
        return 0;
    event = calloc(1, sizeof(*event));
    if (event == NULL)
        return npux_fail(err, -ENOMEM, "calloc", "no host memory for an event");
    code = acl->aclrtCreateEventWithFlag(&event->event, ACL_EVENT_SYNC);
    if (code != ACL_SUCCESS) {
        free(event);
        return npux_runtime_fail(acl, err, code, "aclrtCreateEventWithFlag");
    }
    pthread_mutex_lock(&events->mu);
    event->next_made = events->made;
    events->made = event;
    pthread_mutex_unlock(&events->mu);
    *out = event;
    return 0;
}

void npux_events_put(struct npux_events *events, struct npux_event *event)
{
    pthread_mutex_lock(&events->mu);
    event->next_free = events->free;
    events->free = event;
    pthread_mutex_unlock(&events->mu);
}

int npux_events_close(struct npux_events *events, const struct npux_acl *acl)
{
    int first = ACL_SUCCESS;

    for (const struct npux_event *event = events->made; event != NULL; event = event->next_made) {
        int code = acl->aclrtDestroyEvent(event->event);
        if (first == ACL_SUCCESS)
            first = code;
    }
    return first;
}

void npux_events_destroy(struct npux_events *events)
{
    while (events->made != NULL) {
        struct npux_event *event = events->made;
        events->made = event->next_made;
        free(event);
    }
    pthread_mutex_destroy(&events->mu);
}
