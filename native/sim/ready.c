/* ready.c - the set of streams whose front copy may run, for the driven modes.
 *
 * Threads: any. Locks: sim.mu in every function. Owns: the array, which only grows.
 * Invariant: sim_ready_set[s->slot].s == s for every member; in virtual mode the array is a binary heap by
 *          (key, order), and a key is never later than the time at which the event can really happen: an
 *          engine that got busy meanwhile is noticed when the entry comes up.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

struct sim_ready *sim_ready_set;
uint32_t sim_n_ready;

static uint32_t capacity;
static uint64_t last_order; /* earlier fronts go first where times are equal */

static bool before(const struct sim_ready *a, const struct sim_ready *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void put(uint32_t slot, struct sim_ready entry)
{
    sim_ready_set[slot] = entry;
    entry.s->slot = slot;
}

static void sift_up(uint32_t slot)
{
    struct sim_ready entry = sim_ready_set[slot];

    while (slot > 0) {
        uint32_t parent = (slot - 1) / 2;

        if (!before(&entry, &sim_ready_set[parent]))
            break;
        put(slot, sim_ready_set[parent]);
        slot = parent;
    }
    put(slot, entry);
}

static void sift_down(uint32_t slot)
{
    struct sim_ready entry = sim_ready_set[slot];

    for (;;) {
        uint32_t child = 2 * slot + 1;

        if (child >= sim_n_ready)
            break;
        if (child + 1 < sim_n_ready && before(&sim_ready_set[child + 1], &sim_ready_set[child]))
            child++;
        if (!before(&sim_ready_set[child], &entry))
            break;
        put(slot, sim_ready_set[child]);
        slot = child;
    }
    put(slot, entry);
}

static void add(struct sim_stream *s, uint64_t key, uint64_t order)
{
    if (sim_n_ready == capacity) {
        uint32_t more = capacity != 0 ? 2 * capacity : 256;
        struct sim_ready *grown = realloc(sim_ready_set, more * sizeof(*grown));

        if (grown == NULL) {
            fputs("aclsim: out of host memory\n", stderr);
            abort();
        }
        sim_ready_set = grown;
        capacity = more;
    }
    put(sim_n_ready++, (struct sim_ready){key, order, s});
    if (sim_mode() == ACLSIM_VIRTUAL)
        sift_up(s->slot);
}

void sim_ready_remove(struct sim_stream *s)
{
    uint32_t slot = s->slot;

    s->slot = SIM_NOT_READY;
    if (slot == --sim_n_ready)
        return;
    put(slot, sim_ready_set[sim_n_ready]);
    if (sim_mode() == ACLSIM_VIRTUAL) {
        sift_up(slot);
        sift_down(sim_ready_set[slot].s->slot);
    }
}

void sim_ready_rekey(struct sim_stream *s, uint64_t key)
{
    sim_ready_set[s->slot].key = key;
    sift_down(s->slot);
}

/* --- fronts --- */

static void set_aside(struct sim_engine *e, struct sim_stream *s)
{
    s->ready_next = NULL;
    if (e->ready_tail != NULL)
        e->ready_tail->ready_next = s;
    else
        e->ready_head = s;
    e->ready_tail = s;
}

void sim_ready_queue(struct sim_engine *e, struct sim_stream *s)
{
    s->queued = true;
    if (atomic_load_explicit(&e->holds, memory_order_relaxed) != 0)
        set_aside(e, s);
    else
        add(s, sim_mode() == ACLSIM_VIRTUAL ? sim_virtual_key(s) : 0, ++last_order);
    sim_drive_wake();
}

void sim_ready_aside(struct sim_engine *e, struct sim_stream *s)
{
    sim_ready_remove(s);
    set_aside(e, s);
}

void sim_ready_unqueue(struct sim_engine *e, struct sim_stream *s)
{
    struct sim_stream *earlier = NULL;

    s->queued = false;
    if (s->slot != SIM_NOT_READY) {
        sim_ready_remove(s);
        return;
    }
    for (struct sim_stream *at = e->ready_head; at != s; at = at->ready_next)
        earlier = at;
    if (earlier != NULL)
        earlier->ready_next = s->ready_next;
    else
        e->ready_head = s->ready_next;
    if (e->ready_tail == s)
        e->ready_tail = earlier;
}

void sim_ready_released(struct sim_engine *e)
{
    struct sim_stream *s = e->ready_head;

    e->ready_head = e->ready_tail = NULL;
    while (s != NULL) {
        struct sim_stream *next = s->ready_next;

        sim_ready_queue(e, s);
        s = next;
    }
}
