/* port.h - where completions arrive: a queue without bound, and one eventfd as its doorbell.
 *
 * A user of the engine (an event loop, a blocking thread) opens one port and names it in each request.
 *
 * Threads: push and ring from any thread; drain from one thread at a time.
 * Locks:   none on an open port, which is a lock-free list; a leaf mutex while entries go to the graveyard.
 * Owns:    its eventfd; entries belong to their requests.
 * Invariant: the doorbell is a hint, never a count. drain clears it first and takes everything after, so an
 *            entry pushed before a ring is seen by that drain or by the next wake-up.
 */
#ifndef NPUX_CORE_PORT_H
#define NPUX_CORE_PORT_H

#include <stdatomic.h>
#include <stdbool.h>

struct npux_request;

/* FLUSH: the turn of the loop in which the request was submitted is over, see turn.h; it takes the place of
 * CAPTURED in a request whose sources were captured by submit. RELEASED: a request whose DONE came before its
 * end is over now, see deadline.h. */
enum npux_notice { NPUX_CAPTURED, NPUX_FLUSH, NPUX_DONE, NPUX_RELEASED };

struct npux_note { /* one entry; two are embedded in each request */
    struct npux_note *next;
    struct npux_request *request;
    enum npux_notice what;
};

struct npux_port {
    _Atomic(struct npux_note *) head; /* newest first */
    atomic_bool rung;
    atomic_uint refs;
    atomic_bool closed;
    int fd;
    bool has_turns; /* its user drains it in the next turn of its loop after a ring; set before the first
                       submit */
};

/* A port with one reference, or NULL with errno set when no eventfd can be had. */
struct npux_port *npux_port_new(void);
void npux_port_ref(struct npux_port *port);
void npux_port_unref(struct npux_port *port);

/* Queues the entry. On a closed port it goes to the graveyard instead. */
void npux_port_push(struct npux_port *port, struct npux_note *note);
/* Makes fd readable, at most once until the next drain. */
void npux_port_ring(struct npux_port *port);
/* Clears the doorbell and returns all entries, oldest first. */
struct npux_note *npux_port_drain(struct npux_port *port);
/* Nobody will drain this port again: what is in it and what still comes goes to the graveyard. */
void npux_port_close(struct npux_port *port);

/* Entries of closed ports, for any thread that may release what they refer to. */
struct npux_note *npux_graveyard_drain(void);

#endif
