/* grave.c - the memory of destroyed streams and events: kept for a while, then used again.
 *
 * Threads: any. Locks: sim.mu in every function.
 * Owns:    the queues of dead streams and dead events, oldest first.
 * Invariant: a destroyed handle is recognised as such until STREAM_LIMIT more streams, or EVENT_LIMIT more
 *          events, were destroyed; then it may name a new object. Nothing is given back to the C library, so
 * a handle that is older still does no harm to memory. The task numbers of a stream that lives again go on,
 * so that whoever still waits for a task of its former life finds it done.
 */
#include "sim/sim.h"

#include <stdlib.h>

enum { STREAM_LIMIT = 4096, EVENT_LIMIT = 16384 };

static struct {
    struct sim_stream *head, **tail;
    uint32_t n;
} streams = {.tail = &streams.head};

static struct {
    struct sim_event *head, **tail;
    uint32_t n;
} events = {.tail = &events.head};

/* --- streams --- */

void sim_stream_bury(struct sim_stream *s)
{
    s->grave_next = NULL;
    *streams.tail = s;
    streams.tail = &s->grave_next;
    streams.n++;
}

static struct sim_stream *oldest_stream(void)
{
    struct sim_stream *s = streams.head;

    streams.head = s->grave_next;
    if (streams.head == NULL)
        streams.tail = &streams.head;
    streams.n--;
    return s;
}

/* Somebody's list still has it. */
static bool stream_in_use(const struct sim_stream *s)
{
    return s->in_timer || s->in_work || s->aborting != 0;
}

struct sim_stream *sim_stream_shell(void)
{
    struct sim_stream *s = NULL;
    uint64_t done = 0;
    uint32_t n_aborts = 0;
    struct sim_guard *guard = NULL;

    if (streams.n > STREAM_LIMIT)
        s = oldest_stream();
    if (s != NULL && stream_in_use(s)) {
        sim_stream_bury(s);
        s = NULL;
    }
    if (s != NULL) {
        done = atomic_load_explicit(&s->done, memory_order_relaxed);
        n_aborts = sim_stream_aborts(s);
        guard = s->guard;
        pthread_cond_destroy(&s->cv);
    } else {
        s = malloc(sizeof(*s));
    }
    if (s == NULL)
        return NULL;
    *s = (struct sim_stream){.magic = SIM_MAGIC_DEAD,
                             .tail = done,
                             .done = done,
                             .n_aborts = n_aborts,
                             .guard = guard,
                             .wake_at = UINT64_MAX,
                             .slot = SIM_NOT_READY};
    sim_cond_init(&s->cv);
    return s;
}

/* --- events --- */

void sim_event_bury(struct sim_event *event)
{
    event->grave_next = NULL;
    *events.tail = event;
    events.tail = &event->grave_next;
    events.n++;
}

static struct sim_event *oldest_event(void)
{
    struct sim_event *event = events.head;

    events.head = event->grave_next;
    if (events.head == NULL)
        events.tail = &events.head;
    events.n--;
    return event;
}

/* Some task still names it. */
static bool event_in_use(struct sim_event *event)
{
    return event->n_done != atomic_load_explicit(&event->gen, memory_order_relaxed) ||
           atomic_load_explicit(&event->n_waits, memory_order_relaxed) != 0 || event->blocked != NULL ||
           event->holds_id || (event->ipc != NULL && !sim_ipc_idle(event->ipc));
}

struct sim_event *sim_event_shell(void)
{
    struct sim_event *event = NULL, *next;

    if (events.n > EVENT_LIMIT)
        event = oldest_event();
    if (event != NULL && event_in_use(event)) {
        sim_event_bury(event);
        event = NULL;
    }
    if (event == NULL) {
        event = calloc(1, sizeof(*event));
        if (event == NULL)
            return NULL;
        event->all_next = sim.events; /* listed for good, so that it is always reachable */
        sim.events = event;
    }
    if (event->ipc != NULL)
        sim_ipc_free(event->ipc);
    if (event->order != NULL)
        sim_order_free(event->order);
    next = event->all_next;
    *event = (struct sim_event){.magic = SIM_MAGIC_DEAD, .id = -1, .all_next = next};
    return event;
}
