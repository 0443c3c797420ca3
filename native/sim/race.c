/* race.c - order and free guards; see race.h.
 *
 * Threads: any. Locks: mu, a leaf; whoever comes with sim.mu keeps it.
 * Owns:    the table of touched blocks, which grows with the number of block descriptors.
 * Invariant: an access of a task stays in the table until the host has observed the task.
 */
#include "sim/race.h"
#include "sim/guard.h"
#include "sim/sim.h"
#include "sim/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atomic_int sim_guards_now;

struct access {
    uintptr_t low, high;
    struct sim_stream *s;
    uint64_t seq;
    uint32_t tid;
    bool writes;
    bool
        after_unknown; /* behind a wait whose record was not submitted yet: what comes later may come first */
    struct sim_site site; /* of the submission */
};

struct touched { /* a block, and what unobserved tasks do with it */
    struct sim_block *block;
    uint32_t gen;
    uint32_t n, capacity;
    struct access *at;
};

struct sim_order {
    uint32_t n, capacity;
    struct {
        struct sim_stream *s;
        uint64_t n_tasks;
    } *at;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int asked = -1;

static struct { /* open addressing by block, at most half full */
    struct touched *slot;
    uint32_t n, capacity;
} table;

/* --- switches --- */

static void forget(void)
{
    for (uint32_t i = 0; i < table.capacity; i++)
        table.slot[i].n = 0;
}

static void apply(int mode)
{
    int on = asked >= 0 ? asked : mode == ACLSIM_ADVERSARIAL;

    if (on && atomic_load(&sim_guards_now) == 0)
        forget(); /* what was observed while nobody looked is not known */
    atomic_store(&sim_guards_now, on);
}

void sim_guard_mode(int mode)
{
    pthread_mutex_lock(&mu);
    apply(mode);
    pthread_mutex_unlock(&mu);
}

void sim_guard_ask(int on)
{
    pthread_mutex_lock(&mu);
    asked = on;
    apply(sim_mode());
    pthread_mutex_unlock(&mu);
}

int aclsim_set_guards(int on)
{
    sim_once();
    if (on < -1 || on > 1)
        return -1;
    sim_guard_ask(on);
    return 0;
}

/* --- memory --- */

static void *grow(void *at, uint32_t *capacity, size_t item_nbytes)
{
    uint32_t more = *capacity != 0 ? 2 * *capacity : 8;
    void *grown = realloc(at, more * item_nbytes);

    if (grown == NULL) {
        fputs("aclsim: out of host memory\n", stderr);
        abort();
    }
    *capacity = more;
    return grown;
}

static struct touched *slot_of(struct touched *slots, uint32_t capacity, const struct sim_block *block)
{
    uint32_t i = (uint32_t)(((uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (capacity - 1);

    while (slots[i].block != NULL && slots[i].block != block)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static struct touched *find(struct sim_block *block, uint32_t gen)
{
    struct touched *t;

    if (2 * table.n >= table.capacity) {
        uint32_t capacity = table.capacity;
        struct touched *slots = grow(NULL, &capacity, sizeof(*slots));

        memset(slots, 0, capacity * sizeof(*slots));
        for (uint32_t i = 0; i < table.capacity; i++)
            if (table.slot[i].block != NULL)
                *slot_of(slots, capacity, table.slot[i].block) = table.slot[i];
        free(table.slot);
        table.slot = slots;
        table.capacity = capacity;
    }
    t = slot_of(table.slot, table.capacity, block);
    if (t->block == NULL) {
        t->block = block;
        table.n++;
    }
    if (t->gen != gen) { /* another block in the same descriptor */
        t->gen = gen;
        t->n = 0;
    }
    return t;
}

static struct sim_guard *guard_of(struct sim_stream *s)
{
    if (s->guard == NULL)
        s->guard = calloc(1, sizeof(*s->guard));
    if (s->guard == NULL) {
        fputs("aclsim: out of host memory\n", stderr);
        abort();
    }
    return s->guard;
}

static uint64_t observed(const struct sim_stream *s)
{
    return s->guard != NULL ? s->guard->observed : 0;
}

/* --- order --- */

static uint64_t after(const struct sim_order *order, const struct sim_stream *s)
{
    for (uint32_t i = 0; order != NULL && i < order->n; i++)
        if (order->at[i].s == s)
            return order->at[i].n_tasks;
    return 0;
}

static struct sim_order *order_of(struct sim_order **order)
{
    if (*order == NULL)
        *order = calloc(1, sizeof(**order));
    if (*order == NULL) {
        fputs("aclsim: out of host memory\n", stderr);
        abort();
    }
    return *order;
}

static void note(struct sim_order *order, struct sim_stream *s, uint64_t n_tasks)
{
    uint32_t i = 0;

    if (n_tasks <= observed(s))
        return; /* holds for everybody anyway */
    while (i < order->n && order->at[i].s != s)
        i++;
    if (i == order->capacity)
        order->at = grow(order->at, &order->capacity, sizeof(*order->at));
    if (i == order->n) {
        order->at[order->n].s = s;
        order->at[order->n++].n_tasks = n_tasks;
    } else if (order->at[i].n_tasks < n_tasks) {
        order->at[i].n_tasks = n_tasks;
    }
}

static void prune(struct sim_order *order)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; order != NULL && i < order->n; i++)
        if (order->at[i].n_tasks > observed(order->at[i].s))
            order->at[kept++] = order->at[i];
    if (order != NULL)
        order->n = kept;
}

static void take(struct sim_order **to, struct sim_stream *s, uint64_t n)
{
    struct sim_guard *guard = guard_of(s);
    struct sim_order *order = order_of(to);

    prune(guard->after);
    order->n = 0;
    for (uint32_t i = 0; guard->after != NULL && i < guard->after->n; i++)
        note(order, guard->after->at[i].s, guard->after->at[i].n_tasks);
    note(order, s, n);
}

static void give(struct sim_stream *s, const struct sim_order *order)
{
    struct sim_guard *guard = guard_of(s);

    for (uint32_t i = 0; order != NULL && i < order->n; i++)
        if (order->at[i].s != s)
            note(order_of(&guard->after), order->at[i].s, order->at[i].n_tasks);
}

void sim_order_take(struct sim_order **order, struct sim_stream *s, uint64_t n)
{
    pthread_mutex_lock(&mu);
    take(order, s, n);
    pthread_mutex_unlock(&mu);
}

void sim_order_give(struct sim_stream *s, const struct sim_order *order)
{
    pthread_mutex_lock(&mu);
    give(s, order);
    pthread_mutex_unlock(&mu);
}

void sim_order_free(struct sim_order *order)
{
    if (order != NULL)
        free(order->at);
    free(order);
}

void sim_order_unknown(struct sim_stream *s)
{
    pthread_mutex_lock(&mu);
    guard_of(s)->unknown = true;
    pthread_mutex_unlock(&mu);
}

void sim_guard_wait(struct sim_stream *s, struct sim_event *event)
{
    pthread_mutex_lock(&mu);
    if (atomic_load_explicit(&event->gen, memory_order_relaxed) == 0)
        guard_of(s)->unknown = true; /* some later record, which is not known yet */
    give(s, event->order);
    pthread_mutex_unlock(&mu);
}

/* --- observation --- */

static void observe(struct sim_stream *s, uint64_t n_tasks)
{
    struct sim_guard *guard = guard_of(s);

    if (guard->observed < n_tasks)
        guard->observed = n_tasks;
}

static void observe_all(const struct sim_order *order)
{
    for (uint32_t i = 0; order != NULL && i < order->n; i++)
        observe(order->at[i].s, order->at[i].n_tasks);
}

/* Waits that were submitted after the target count as seen, too: that may miss a race, never invent one. */
void sim_guard_seen(struct sim_stream *s, uint64_t target)
{
    pthread_mutex_lock(&mu);
    observe(s, target);
    guard_of(s)->unknown = false;
    observe_all(s->guard->after);
    prune(s->guard->after);
    pthread_mutex_unlock(&mu);
}

void sim_guard_seen_event(struct sim_event *event)
{
    pthread_mutex_lock(&mu);
    observe_all(event->order);
    pthread_mutex_unlock(&mu);
}

void sim_guard_closed(struct sim_stream *s)
{
    sim_guard_seen(s, atomic_load_explicit(&s->tail, memory_order_relaxed));
    sim_guard_drop_sums(s);
}

/* --- overlap --- */

static bool overlaps(const struct access *a, const struct access *b)
{
    return a->low < b->high && b->low < a->high;
}

static void report(const struct access *old, const struct access *new)
{
    sim_find(SIM_FOUND_UNORDERED,
             "%s, task %u of stream %d on device %d (thread %u), %s [0x%zx, 0x%zx) and %s, task %u of stream "
             "%d on device %d (thread %u), %s [0x%zx, 0x%zx): nothing orders them; let one stream wait for "
             "an event of the other, or synchronise before the second call",
             sim_site_text(old->site).text, (unsigned)(old->seq & 0xFFFF), old->s->id, old->s->dev->id,
             old->tid, old->writes ? "writes" : "reads", (size_t)old->low, (size_t)old->high,
             sim_site_text(new->site).text, (unsigned)(new->seq & 0xFFFF), new->s->id, new->s->dev->id,
             new->tid, new->writes ? "writes" : "reads", (size_t)new->low, (size_t)new->high);
}

enum { CLEAN = 0, UNFINISHED_WRITE = 1, UNFINISHED_READ = 2 };

/* Looks through what touches the block, drops what was observed, reports the first race. Returns which
 * unfinished tasks overlap. */
static unsigned compare(struct touched *t, const struct access *new, bool *reported)
{
    const struct sim_guard *guard = guard_of(new->s);
    unsigned found = CLEAN;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        struct access *old = &t->at[i];

        bool again =
            old->s == new->s && old->low == new->low && old->high == new->high && old->writes == new->writes;

        if (old->seq < observed(old->s))
            continue;
        if (again) { /* whatever comes after the new one comes after this one, too */
            if (old->seq >= atomic_load_explicit(&old->s->done, memory_order_relaxed))
                found |= old->writes ? UNFINISHED_WRITE : UNFINISHED_READ;
            continue;
        }
        t->at[kept] = *old;
        old = &t->at[kept++];
        if (!overlaps(old, new))
            continue;
        if (old->seq >= atomic_load_explicit(&old->s->done, memory_order_relaxed))
            found |= old->writes ? UNFINISHED_WRITE : UNFINISHED_READ;
        if ((old->writes || new->writes) && old->s != new->s && !guard->unknown && !old->after_unknown &&
            !*reported && after(guard->after, old->s) <= old->seq) {
            *reported = true;
            report(old, new);
        }
    }
    t->n = kept;
    return found;
}

static unsigned touch(struct sim_block *block, uint32_t gen, const struct access *new, bool *reported)
{
    struct touched *t;
    unsigned found;

    if (block == NULL)
        return UNFINISHED_WRITE; /* ordinary memory: nothing is known about it */
    t = find(block, gen);
    found = compare(t, new, reported);
    if (t->n == t->capacity)
        t->at = grow(t->at, &t->capacity, sizeof(*t->at));
    t->at[t->n] = *new;
    t->at[t->n++].after_unknown = guard_of(new->s)->unknown;
    return found;
}

static void submit_copy(struct sim_stream *s, uint64_t seq, const struct sim_task *t)
{
    struct access dst = {.low = (uintptr_t)t->copy.dst,
                         .s = s,
                         .seq = seq,
                         .tid = t->tid,
                         .writes = true,
                         .site = sim_site_here()};
    struct access src = {.low = (uintptr_t)t->copy.src, .s = s, .seq = seq, .tid = t->tid, .site = dst.site};
    unsigned dst_found, src_found = UNFINISHED_WRITE;
    bool reported = false;

    if ((t->flags & SIM_TASK_INDIRECT) != 0)
        return; /* rows, or addresses that are not known yet: nothing is one range */
    dst.high = dst.low + t->copy.nbytes;
    src.high = src.low + t->copy.nbytes;
    pthread_mutex_lock(&mu);
    prune(guard_of(s)->after);
    dst_found = touch(t->copy.dst_block, t->copy.dst_gen, &dst, &reported);
    if (t->kind == SIM_COPY && (t->flags & SIM_TASK_OWNS_SRC) == 0)
        src_found = touch(t->copy.src_block, t->copy.src_gen, &src, &reported);
    pthread_mutex_unlock(&mu);
    if (sim_mode() != ACLSIM_ADVERSARIAL || s->dev->link.move_bytes == 0)
        return;
    if ((src_found & UNFINISHED_WRITE) == 0)
        sim_guard_sum_source(s, seq);
    if (dst_found == CLEAN && t->kind == SIM_COPY)
        sim_guard_spoil_destination(s, seq);
}

void sim_guard_submit(struct sim_stream *s, uint64_t seq)
{
    struct sim_task *t = &s->ring[seq & SIM_RING_MASK];

    if (t->kind == SIM_COPY || t->kind == SIM_MEMSET)
        submit_copy(s, seq, t);
    else if (t->kind == SIM_RECORD)
        sim_order_take(&t->record.event->order, s, seq + 1);
    else if (t->kind == SIM_VALUE_WAIT || t->kind == SIM_IPC_WAIT) /* whoever writes or records it */
        sim_order_unknown(s);
}

/* --- what the host does itself --- */

void sim_guard_immediate(struct sim_ref ref, const void *ptr, size_t nbytes, bool writes)
{
    struct access new = {.low = (uintptr_t)ptr, .high = (uintptr_t)ptr + nbytes}, old = {0};
    struct touched *t;
    bool found = false;

    if (ref.block == NULL)
        return;
    pthread_mutex_lock(&mu);
    t = find(ref.block, ref.gen);
    for (uint32_t i = 0; i < t->n && !found; i++) {
        old = t->at[i];
        found = old.seq >= observed(old.s) && (old.writes || writes) && !old.after_unknown &&
                overlaps(&old, &new);
    }
    pthread_mutex_unlock(&mu);
    if (found)
        sim_find(SIM_FOUND_UNORDERED,
                 "%s, task %u of stream %d on device %d (thread %u), %s [0x%zx, 0x%zx) and %s (thread %u) %s "
                 "[0x%zx, 0x%zx) at once, without waiting: synchronise before that call",
                 sim_site_text(old.site).text, (unsigned)(old.seq & 0xFFFF), old.s->id, old.s->dev->id,
                 old.tid, old.writes ? "writes" : "reads", (size_t)old.low, (size_t)old.high,
                 sim_site_text(sim_site_here()).text, sim_self != NULL ? sim_self->tid : 0,
                 writes ? "writes" : "reads", (size_t)new.low, (size_t)new.high);
}

/* --- free --- */

void sim_guard_free(struct sim_block *block)
{
    uint32_t gen = (uint32_t)(atomic_load_explicit(&block->state, memory_order_relaxed) >> 32), n = 0;
    struct touched *t;
    struct access first = {0};

    pthread_mutex_lock(&mu);
    t = find(block, gen);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->at[i].seq >= observed(t->at[i].s) && n++ == 0)
            first = t->at[i];
    t->n = 0;
    pthread_mutex_unlock(&mu);
    if (n != 0)
        sim_find(
            SIM_FOUND_FREED,
            "%s (thread %u) frees %s memory 0x%zx, which %s, task %u of stream %d on device %d (thread %u), "
            "%s at [0x%zx, 0x%zx), and no host thread knows that it ended; synchronise first (tasks like "
            "this: %u)",
            sim_site_text(sim_site_here()).text, sim_self != NULL ? sim_self->tid : 0,
            block->device < 0 ? "pinned host" : "device", (size_t)block->base, sim_site_text(first.site).text,
            (unsigned)(first.seq & 0xFFFF), first.s->id, first.s->dev->id, first.tid,
            first.writes ? "writes" : "reads", (size_t)first.low, (size_t)first.high, n);
}
