/* live.c - the requests that are pending, as a list and by their keys; declared in sched.h. */
#include "core/sched.h"

static size_t bucket_of(const void *key)
{
    return ((uintptr_t)key >> 4) % NPUX_N_KEYS; /* objects of malloc: the low bits are alike */
}

static struct npux_request **bucket(struct npux_sched *s, const void *key)
{
    return &s->by_key[bucket_of(key)];
}

void npux_sched_live_add_locked(struct npux_sched *s, struct npux_request *request)
{
    request->prev_live = NULL;
    request->next_live = s->live;
    if (s->live != NULL)
        s->live->prev_live = request;
    s->live = request;
    if (request->key != NULL) {
        struct npux_request **head = bucket(s, request->key);
        request->next_by_key = *head;
        *head = request;
    }
}

struct npux_request *npux_sched_find_live_locked(const struct npux_sched *s, const void *key)
{
    struct npux_request *request = s->by_key[bucket_of(key)];

    while (request != NULL && request->key != key)
        request = request->next_by_key;
    return request;
}

void npux_sched_live_remove_locked(struct npux_sched *s, struct npux_request *request)
{
    if (request->prev_live != NULL)
        request->prev_live->next_live = request->next_live;
    else
        s->live = request->next_live;
    if (request->next_live != NULL)
        request->next_live->prev_live = request->prev_live;
    if (request->key != NULL) {
        struct npux_request **at = bucket(s, request->key);
        while (*at != request)
            at = &(*at)->next_by_key;
        *at = request->next_by_key;
    }
}
