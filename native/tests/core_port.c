/* core_port.c - nothing is lost, nothing comes twice, and the doorbell never lies by silence. */
#include "core/port.h"

#include <pthread.h>

#include "core/op.h"
#include "tests/engine_fixture.h"

enum { N_PRODUCERS = 4, N_PAIRS = 20000 };

/* A request as far as a port is concerned: CAPTURED is pushed before DONE by the same thread. */
struct parcel {
    struct npux_note captured, done;
    atomic_int n_captured, n_done;
};

struct producer {
    pthread_t thread;
    struct npux_port *port;
    struct parcel *parcels;
    bool ring_each;
};

static void parcel_init(struct parcel *p)
{
    memset(p, 0, sizeof(*p));
    p->captured.what = NPUX_CAPTURED;
    p->done.what = NPUX_DONE;
    p->captured.request = p->done.request = (struct npux_request *)p; /* never looked into */
}

static void *produce(void *argument)
{
    struct producer *self = argument;

    for (int i = 0; i < N_PAIRS; i++) {
        npux_port_push(self->port, &self->parcels[i].captured);
        if (self->ring_each)
            npux_port_ring(self->port);
        npux_port_push(self->port, &self->parcels[i].done);
        if (self->ring_each || i % 7 == 0 || i == N_PAIRS - 1)
            npux_port_ring(self->port);
    }
    return NULL;
}

/* Counts the notes; a DONE must find its CAPTURED, for after DONE the request may be freed. */
static size_t receive(struct npux_note *note)
{
    size_t n = 0;

    while (note != NULL) {
        struct npux_note *next = note->next;
        struct parcel *p = (struct parcel *)note->request;
        if (note->what == NPUX_CAPTURED) {
            CHECK_EQ(atomic_fetch_add(&p->n_captured, 1), 0);
            CHECK_EQ(atomic_load(&p->n_done), 0);
        } else {
            CHECK_EQ(atomic_load(&p->n_captured), 1);
            CHECK_EQ(atomic_fetch_add(&p->n_done, 1), 0);
        }
        note->next = note; /* as good as freed: who still walks over it loops or is seen by TSan */
        note = next;
        n++;
    }
    return n;
}

static void start(struct producer *producers, struct npux_port *port, bool ring_each)
{
    for (int i = 0; i < N_PRODUCERS; i++) {
        struct producer *p = &producers[i];
        p->port = port;
        p->ring_each = ring_each;
        p->parcels = malloc(N_PAIRS * sizeof(*p->parcels));
        CHECK(p->parcels != NULL);
        for (int k = 0; k < N_PAIRS; k++)
            parcel_init(&p->parcels[k]);
    }
    for (int i = 0; i < N_PRODUCERS; i++)
        CHECK_EQ(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
}

static void stop(struct producer *producers)
{
    for (int i = 0; i < N_PRODUCERS; i++) {
        for (int k = 0; k < N_PAIRS; k++) {
            CHECK_EQ(atomic_load(&producers[i].parcels[k].n_captured), 1);
            CHECK_EQ(atomic_load(&producers[i].parcels[k].n_done), 1);
        }
        free(producers[i].parcels);
    }
}

static void join(struct producer *producers)
{
    for (int i = 0; i < N_PRODUCERS; i++)
        CHECK_EQ(pthread_join(producers[i].thread, NULL), 0);
}

/* The drainer sleeps on the descriptor before every drain: a missing ring is a time-out here. */
static void check_nothing_lost(bool ring_each)
{
    struct producer producers[N_PRODUCERS];
    struct npux_port *port = npux_port_new();
    size_t n = 0;

    start(producers, port, ring_each);
    while (n < (size_t)N_PRODUCERS * N_PAIRS * 2) {
        CHECK(port_is_readable(port, PATIENCE_MS));
        n += receive(npux_port_drain(port));
    }
    join(producers);
    CHECK_EQ(receive(npux_port_drain(port)), 0);
    CHECK(!port_is_readable(port, 0));
    stop(producers);
    npux_port_unref(port);
}

static void check_doorbell(void)
{
    struct npux_port *port = npux_port_new();
    struct parcel p, q;

    parcel_init(&p);
    parcel_init(&q);
    CHECK(!port_is_readable(port, 0));
    CHECK(npux_port_drain(port) == NULL);
    npux_port_push(port, &p.captured);
    CHECK(!port_is_readable(port, 0)); /* pushing is not ringing: several notes share one */
    npux_port_ring(port);
    npux_port_ring(port);
    CHECK(port_is_readable(port, 0));
    npux_port_push(port, &p.done);
    CHECK_EQ(receive(npux_port_drain(port)), 2);
    CHECK(!port_is_readable(port, 0));
    npux_port_push(port, &q.captured); /* not rung, yet the next drain takes it */
    CHECK_EQ(receive(npux_port_drain(port)), 1);
    npux_port_ring(port);
    CHECK(port_is_readable(port, 0)); /* a ring without an entry is allowed */
    CHECK(npux_port_drain(port) == NULL);
    CHECK(!port_is_readable(port, 0));
    npux_port_unref(port);
}

static void check_graveyard(void)
{
    struct npux_port *port = npux_port_new();
    struct parcel p, q;

    parcel_init(&p);
    parcel_init(&q);
    npux_port_push(port, &p.captured);
    npux_port_push(port, &p.done);
    CHECK(npux_graveyard_drain() == NULL);
    npux_port_close(port);
    CHECK(npux_port_drain(port) == NULL);
    npux_port_push(port, &q.captured);
    npux_port_push(port, &q.done);
    npux_port_ring(port);
    CHECK_EQ(receive(npux_graveyard_drain()), 4);
    CHECK(npux_graveyard_drain() == NULL);
    npux_port_unref(port);
}

/* Producers push while the port closes; a third party empties the graveyard meanwhile. */
static void check_push_races_close(int round)
{
    struct producer producers[N_PRODUCERS];
    struct npux_port *port = npux_port_new();
    size_t n = 0;

    start(producers, port, true);
    if (round % 2 == 0)
        while (n < 1000) /* some come the normal way */
            n += receive(npux_port_drain(port));
    npux_port_close(port);
    while (n < (size_t)N_PRODUCERS * N_PAIRS * 2)
        n += receive(npux_graveyard_drain());
    join(producers);
    CHECK(npux_port_drain(port) == NULL);
    CHECK(npux_graveyard_drain() == NULL);
    stop(producers);
    npux_port_unref(port);
}

int main(void)
{
    check_doorbell();
    check_graveyard();
    check_nothing_lost(true);
    check_nothing_lost(false);
    for (int round = 0; round < 6; round++)
        check_push_races_close(round);
    return 0;
}
