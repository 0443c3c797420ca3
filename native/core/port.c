#include "core/port.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static _Atomic(struct npux_note *) graveyard;
static pthread_mutex_t burying = PTHREAD_MUTEX_INITIALIZER; /* a leaf; closed ports only */

struct npux_port *npux_port_new(void)
{
    struct npux_port *port = calloc(1, sizeof(*port));
    if (port == NULL)
        return NULL;
    port->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (port->fd < 0) {
        free(port);
        return NULL;
    }
    atomic_init(&port->refs, 1);
    return port;
}

void npux_port_ref(struct npux_port *port)
{
    atomic_fetch_add_explicit(&port->refs, 1, memory_order_relaxed);
}

void npux_port_unref(struct npux_port *port)
{
    if (atomic_fetch_sub_explicit(&port->refs, 1, memory_order_acq_rel) != 1)
        return;
    close(port->fd);
    free(port);
}

static void push(_Atomic(struct npux_note *) *head, struct npux_note *note)
{
    struct npux_note *old = atomic_load_explicit(head, memory_order_relaxed);
    do {
        note->next = old;
        /* Pairs with the exchange in take: who sees the note sees the request behind it. Sequentially
         * consistent because npux_port_push looks at `closed` next. */
    } while (!atomic_compare_exchange_weak(head, &old, note));
}

static struct npux_note *take(_Atomic(struct npux_note *) *head)
{
    struct npux_note *note = atomic_exchange(head, NULL);
    struct npux_note *oldest = NULL;

    while (note != NULL) {
        struct npux_note *next = note->next;
        note->next = oldest;
        oldest = note;
        note = next;
    }
    return oldest;
}

/* Moves the entries of a closed port to the graveyard, in order. One at a time: with CAPTURED in the hands of
 * one thread, another could bury the DONE of the same request, and whoever drains that frees both. */
static void bury(struct npux_port *port)
{
    struct npux_note *notes;

    pthread_mutex_lock(&burying);
    notes = take(&port->head);
    while (notes != NULL) {
        struct npux_note *next = notes->next;
        push(&graveyard, notes);
        notes = next;
    }
    pthread_mutex_unlock(&burying);
}

void npux_port_push(struct npux_port *port, struct npux_note *note)
{
    push(&port->head, note);
    /* One total order with npux_port_close: either its take sees our note, or we see that it closed. */
    if (atomic_load(&port->closed))
        bury(port);
}

void npux_port_ring(struct npux_port *port)
{
    uint64_t one = 1;
    if (atomic_exchange_explicit(&port->rung, true, memory_order_acq_rel))
        return;
    if (write(port->fd, &one, sizeof(one)) < 0) {
        /* EAGAIN only: the counter is full, so the descriptor is readable already. */
    }
}

struct npux_note *npux_port_drain(struct npux_port *port)
{
    uint64_t count;
    if (read(port->fd, &count, sizeof(count)) < 0) {
        /* EAGAIN only: not rung since the last drain; there may be entries all the same. */
    }
    /* Acquire pairs with the ring: entries pushed before a ring that found rung == true are taken below. */
    atomic_exchange_explicit(&port->rung, false, memory_order_acq_rel);
    return take(&port->head);
}

void npux_port_close(struct npux_port *port)
{
    atomic_store(&port->closed, true);
    bury(port);
}

struct npux_note *npux_graveyard_drain(void)
{
    if (atomic_load_explicit(&graveyard, memory_order_relaxed) == NULL)
        return NULL;
    return take(&graveyard);
}
