#include "core/sched.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static const size_t MIN_BATCH_NBYTES = (size_t)256 << 10; /* below this a batch costs more than it hides */
enum { MAX_BATCH_CHUNKS = 256 };                          /* far below the 2013 tasks a stream can queue */
enum { AGEING = 8 };

/* Threads that look for work without sleeping take a core from those who have some: of all engines of this
 * process together, at most one for four cores. */
static atomic_int spinners_left;
static pthread_once_t spinners_once = PTHREAD_ONCE_INIT;

static void count_spinners(void)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    atomic_store(&spinners_left, n_cores < 8 ? 1 : (int)(n_cores / 4));
}

void npux_sched_init(struct npux_sched *s, unsigned n_lanes, size_t chunk_nbytes, uint64_t spin_ns)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->mu, NULL);
    npux_cond_init(&s->ready[NPUX_H2D].cv);
    npux_cond_init(&s->ready[NPUX_D2H].cv);
    npux_cond_init(&s->stager_cv);
    npux_cond_init(&s->drained_cv);
    npux_cond_init(&s->room_cv);
    s->n_lanes = n_lanes;
    s->batch_nbytes = chunk_nbytes < MIN_BATCH_NBYTES ? MIN_BATCH_NBYTES : chunk_nbytes;
    s->spin_ns = spin_ns;
    pthread_once(&spinners_once, count_spinners);
    npux_order_init(&s->order);
}

void npux_sched_destroy(struct npux_sched *s)
{
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->ready[NPUX_H2D].cv);
    pthread_cond_destroy(&s->ready[NPUX_D2H].cv);
    pthread_cond_destroy(&s->stager_cv);
    pthread_cond_destroy(&s->drained_cv);
    pthread_cond_destroy(&s->room_cv);
}

/* The priority to be served, of those whose bit is set in `waiting` and in `allowed`; counts who was passed
 * over. */
static int pick(unsigned waiting, unsigned allowed, unsigned *n_passed_over[NPUX_N_PRIORITIES])
{
    int picked = -1;

    for (int p = 0; p < NPUX_N_PRIORITIES; p++) {
        if ((waiting & allowed & (1u << p)) == 0)
            continue;
        if (picked < 0 || *n_passed_over[p] >= AGEING)
            picked = p;
    }
    for (int p = 0; picked >= 0 && p < NPUX_N_PRIORITIES; p++) {
        if (p == picked)
            *n_passed_over[p] = 0;
        else if (p > picked && (waiting & (1u << p)) != 0)
            ++*n_passed_over[p];
    }
    return picked;
}

/* The stager's queues. ------------------------------------------------------------------------------ */

void npux_sched_push_stager_locked(struct npux_sched *s, struct npux_op *op)
{
    struct npux_op_queue *q = &s->stager[op->request->priority];

    op->next = NULL;
    if (q->head == NULL)
        q->head = op;
    else
        q->tail->next = op;
    q->tail = op;
    pthread_cond_signal(&s->stager_cv);
}

static struct npux_op *pop_stager(struct npux_sched *s)
{
    unsigned *passed[NPUX_N_PRIORITIES];
    unsigned waiting = 0;
    struct npux_op *op;
    int p;

    for (p = 0; p < NPUX_N_PRIORITIES; p++) {
        passed[p] = &s->stager[p].n_passed_over;
        waiting |= s->stager[p].head != NULL ? 1u << p : 0;
    }
    p = pick(waiting, ~0u, passed);
    if (p < 0)
        return NULL;
    op = s->stager[p].head;
    s->stager[p].head = op->next;
    op->next = NULL;
    return op;
}

void npux_sched_want_memory_locked(struct npux_sched *s)
{
    if (s->turn.wants_memory)
        return;
    s->turn.wants_memory = true;
    pthread_cond_signal(&s->stager_cv);
}

bool npux_sched_push_drain(struct npux_sched *s, struct npux_chunk *chunk, bool *all_starved)
{
    bool stop;

    chunk->next = NULL;
    pthread_mutex_lock(&s->mu);
    stop = s->stop;
    *all_starved = s->turn.n_starved == s->n_stagers;
    if (!stop) {
        if (s->drains == NULL)
            s->drains = chunk;
        else
            s->drains_tail->next = chunk;
        s->drains_tail = chunk;
        pthread_cond_signal(&s->stager_cv);
    }
    pthread_mutex_unlock(&s->mu);
    return !stop;
}

static struct npux_chunk *pop_drain(struct npux_sched *s)
{
    struct npux_chunk *chunk = s->drains;

    if (chunk != NULL)
        s->drains = chunk->next;
    return chunk;
}

struct npux_chunk *npux_sched_take_drain(struct npux_sched *s)
{
    struct npux_chunk *chunk;

    pthread_mutex_lock(&s->mu);
    chunk = pop_drain(s);
    pthread_mutex_unlock(&s->mu);
    return chunk;
}

/* Finds work (mu held); false: there is none. */
static bool find_staging(struct npux_sched *s, struct npux_staging *work)
{
    if (s->turn.wants_memory && !s->stop) {
        work->wants_memory = true;
        return true;
    }
    if (s->drained_last)
        work->op = pop_stager(s);
    if (work->op == NULL)
        work->drain = pop_drain(s);
    if (work->op == NULL && work->drain == NULL)
        work->op = pop_stager(s);
    s->drained_last = work->drain != NULL;
    return work->op != NULL || work->drain != NULL;
}

void npux_sched_take_stager(struct npux_sched *s, struct npux_staging *work)
{
    memset(work, 0, sizeof(*work));
    pthread_mutex_lock(&s->mu);
    while (!find_staging(s, work) && !s->stop)
        pthread_cond_wait(&s->stager_cv, &s->mu);
    pthread_mutex_unlock(&s->mu);
}

/* The lanes' queues. -------------------------------------------------------------------------------- */

static size_t with_following(const struct npux_chunk *chunk)
{
    size_t nbytes = 0;

    for (; chunk != NULL; chunk = chunk->following)
        nbytes += chunk->copy_nbytes;
    return nbytes;
}

static void append(struct npux_chunk_queue *q, struct npux_chunk *chunk)
{
    chunk->next = NULL;
    if (q->head == NULL)
        q->head = chunk;
    else
        q->tail->next = chunk;
    q->tail = chunk;
    q->n++;
}

/* What may be on the streams of a direction, and what one lane takes, of this priority. BULK is cut to half
 * chunks, so that LATENCY waits less for it and two lanes still keep the link busy. */
static size_t window_of(const struct npux_sched *s, int priority)
{
    return priority == NPUX_BULK ? s->batch_nbytes / 2 * 3 : 2 * s->batch_nbytes;
}

static size_t batch_of(const struct npux_sched *s, int priority)
{
    return priority == NPUX_BULK ? s->batch_nbytes / 2 : s->batch_nbytes;
}

/* A batch that is not LATENCY may start: a lane stays free for LATENCY, and the window has room. */
static bool may_start_low(const struct npux_sched *s, const struct npux_ready *r, int priority,
                          const struct npux_chunk *chunk)
{
    if (s->n_lanes > 2 && r->n_low >= s->n_lanes - 1)
        return false;
    return r->n_low == 0 || r->low_nbytes + chunk->copy_nbytes <= window_of(s, priority);
}

/* Bits of the priorities that have something which may start now. */
static unsigned startable(const struct npux_sched *s, const struct npux_ready *r)
{
    unsigned bits = 0;
    bool aged_waits = false;

    for (int p = 0; p < NPUX_N_PRIORITIES; p++) {
        const struct npux_chunk *head = r->queues[p].head;
        if (head == NULL)
            continue;
        if (s->stop || p == NPUX_LATENCY || may_start_low(s, r, p, head))
            bits |= 1u << p;
        else if (r->queues[p].n_passed_over >= AGEING)
            aged_waits = true;
    }
    /* It finds room only if others that share the window do not fill it again first. */
    return aged_waits ? bits & (1u << NPUX_LATENCY) : bits;
}

/* Wakes lanes while there is a batch for one more than already run towards the queue (mu held). A burst of
 * small submits therefore costs one futex call, not one each. */
void npux_sched_wake_locked(struct npux_sched *s, enum npux_direction direction)
{
    struct npux_ready *r = &s->ready[direction];
    unsigned bits = startable(s, r);
    size_t n = 0, nbytes = 0;

    for (int p = 0; p < NPUX_N_PRIORITIES; p++)
        if ((bits & (1u << p)) != 0) {
            n += r->queues[p].n;
            nbytes += r->queues[p].nbytes;
        }
    if (n != 0)
        atomic_fetch_add_explicit(&r->n_pushes, 1, memory_order_relaxed);
    for (;;) {
        unsigned n_coming = r->n_waking + r->n_spinning;
        if (n <= n_coming || r->n_idle <= r->n_waking ||
            (n_coming > 0 && nbytes <= n_coming * MIN_BATCH_NBYTES))
            return;
        r->n_waking++;
        pthread_cond_signal(&r->cv);
    }
}

void npux_sched_append_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                    struct npux_chunk *chunks)
{
    while (chunks != NULL) {
        struct npux_chunk *chunk = chunks;
        struct npux_chunk_queue *q = &s->ready[direction].queues[chunk->op->request->priority];
        chunks = chunk->next;
        append(q, chunk);
        q->nbytes += with_following(chunk);
    }
}

void npux_sched_push_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                  struct npux_chunk *chunks)
{
    npux_sched_append_ready_locked(s, direction, chunks);
    npux_sched_wake_locked(s, direction);
}

void npux_sched_push_back(struct npux_sched *s, enum npux_direction direction, struct npux_chunk *chunks)
{
    struct npux_chunk_queue *q = &s->ready[direction].queues[chunks->op->request->priority];
    struct npux_chunk *last = chunks;

    pthread_mutex_lock(&s->mu);
    for (struct npux_chunk *c = chunks; c != NULL; c = c->next) {
        last = c;
        q->n++;
        q->nbytes += with_following(c);
    }
    last->next = q->head;
    if (q->head == NULL)
        q->tail = last;
    q->head = chunks;
    pthread_mutex_unlock(&s->mu);
}

/* Bits of what may start; what this turn of a loop has packed so far counts when nothing else is left. */
static unsigned find_work(struct npux_sched *s, enum npux_direction direction, bool with_pack)
{
    unsigned bits = startable(s, &s->ready[direction]);

    if (bits != 0 || !with_pack || direction != NPUX_H2D || s->turn.pack == NULL)
        return bits;
    npux_sched_append_ready_locked(s, direction, npux_open_pack_close_locked(&s->turn));
    return startable(s, &s->ready[direction]);
}

static void pause_a_little(void)
{
#if defined(__x86_64__)
    for (int i = 0; i < 16; i++)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
    for (int i = 0; i < 16; i++)
        __asm__ volatile("yield");
#endif
}

/* Looks for work without sleeping, for spin_ns at most (mu held, but not while it looks), if it may. */
static void spin(struct npux_sched *s, struct npux_ready *r)
{
    unsigned seen = atomic_load_explicit(&r->n_pushes, memory_order_relaxed);
    uint64_t end;

    if (r->n_spinning != 0)
        return;
    if (atomic_fetch_sub(&spinners_left, 1) <= 0) {
        atomic_fetch_add(&spinners_left, 1);
        return;
    }
    r->n_spinning = 1;
    pthread_mutex_unlock(&s->mu);
    end = npux_now_ns() + s->spin_ns;
    do
        pause_a_little();
    while (atomic_load_explicit(&r->n_pushes, memory_order_relaxed) == seen && npux_now_ns() < end);
    atomic_fetch_add(&spinners_left, 1);
    pthread_mutex_lock(&s->mu);
    r->n_spinning = 0;
}

/* Waits until there is something to start (mu held); returns the bits of what, or 0: stop. */
static unsigned wait_for_work(struct npux_sched *s, enum npux_direction direction)
{
    struct npux_ready *r = &s->ready[direction];
    bool may_spin = s->spin_ns != 0; /* once */
    unsigned bits;

    /* The pack of the open turn is left to grow for as long as this thread spins. */
    while ((bits = find_work(s, direction, !may_spin || s->stop)) == 0 && !s->stop) {
        if (may_spin) {
            may_spin = false;
            spin(s, r);
            continue;
        }
        r->n_idle++;
        pthread_cond_wait(&r->cv, &s->mu);
        r->n_idle--;
        if (r->n_waking > 0)
            r->n_waking--;
    }
    return bits;
}

/* A lane's share: equal parts of what is ready, but at least what pays and at most a batch. */
static size_t share_of(const struct npux_sched *s, const struct npux_chunk_queue *q, size_t most)
{
    size_t share = q->nbytes / (s->n_lanes > 2 ? s->n_lanes - 1 : s->n_lanes);

    if (share < MIN_BATCH_NBYTES)
        return MIN_BATCH_NBYTES;
    return share > most ? most : share;
}

/* Takes a batch from the front of a queue (mu held); those with more chunks go to its end with the next one.
 */
static struct npux_chunk *take_batch(struct npux_chunk_queue *q, size_t share, size_t *nbytes)
{
    struct npux_chunk *first = NULL, **end = &first;
    size_t n = 0, n_heads = q->n;

    *nbytes = 0;
    while (n < n_heads && n < MAX_BATCH_CHUNKS) {
        struct npux_chunk *chunk = q->head;
        if (n > 0 && *nbytes + chunk->copy_nbytes > share)
            break;
        q->head = chunk->next;
        q->n--;
        q->nbytes -= chunk->copy_nbytes;
        *nbytes += chunk->copy_nbytes;
        n++;
        if (chunk->following != NULL) {
            append(q, chunk->following);
            chunk->following = NULL;
        }
        *end = chunk;
        end = &chunk->next;
    }
    *end = NULL;
    return first;
}

struct npux_chunk *npux_sched_take_ready(struct npux_sched *s, enum npux_direction direction,
                                         struct npux_batch *batch)
{
    struct npux_ready *r = &s->ready[direction];
    unsigned *passed[NPUX_N_PRIORITIES];
    struct npux_chunk *chunks = NULL;
    unsigned waiting = 0, bits;
    int p;

    memset(batch, 0, sizeof(*batch));
    pthread_mutex_lock(&s->mu);
    bits = wait_for_work(s, direction);
    for (p = 0; p < NPUX_N_PRIORITIES; p++) {
        passed[p] = &r->queues[p].n_passed_over;
        waiting |= r->queues[p].head != NULL ? 1u << p : 0;
    }
    p = pick(waiting, bits, passed);
    if (p >= 0) {
        size_t share = share_of(s, &r->queues[p], batch_of(s, p));
        batch->is_low = p != NPUX_LATENCY;
        if (batch->is_low && r->n_low > 0 && share > window_of(s, p) - r->low_nbytes)
            share = window_of(s, p) - r->low_nbytes;
        chunks = take_batch(&r->queues[p], share, &batch->nbytes);
        if (batch->is_low) {
            r->n_low++;
            r->low_nbytes += batch->nbytes;
        }
        npux_sched_wake_locked(s, direction);
    }
    pthread_mutex_unlock(&s->mu);
    return chunks;
}

void npux_sched_batch_done(struct npux_sched *s, enum npux_direction direction,
                           const struct npux_batch *batch, bool returns_soon)
{
    struct npux_ready *r = &s->ready[direction];

    if (!batch->is_low)
        return;
    pthread_mutex_lock(&s->mu);
    r->n_low--;
    r->low_nbytes -= batch->nbytes;
    if (!returns_soon)
        npux_sched_wake_locked(s, direction);
    pthread_mutex_unlock(&s->mu);
}

void npux_sched_purge_locked(struct npux_sched *s, struct npux_op **ops, struct npux_chunk **chunks)
{
    struct npux_chunk **end;

    npux_sched_append_ready_locked(s, NPUX_H2D, npux_open_pack_close_locked(&s->turn));
    *ops = NULL;
    for (int p = NPUX_N_PRIORITIES;
         p-- > 0;) { /* the lists, one behind the other, the first priority first */
        if (s->stager[p].head != NULL)
            s->stager[p].tail->next = *ops;
        *ops = s->stager[p].head != NULL ? s->stager[p].head : *ops;
        memset(&s->stager[p], 0, sizeof(s->stager[p]));
    }
    *chunks = NULL;
    end = chunks;
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
        for (int p = 0; p < NPUX_N_PRIORITIES; p++) {
            struct npux_chunk_queue *q = &s->ready[d].queues[p];
            size_t unused;
            while (q->head != NULL) {
                *end = take_batch(q, SIZE_MAX, &unused);
                while (*end != NULL)
                    end = &(*end)->next;
            }
            memset(q, 0, sizeof(*q));
        }
}

static struct npux_op **sweep_ops(struct npux_op_queue *q, struct npux_op **end)
{
    struct npux_op **at = &q->head;

    q->tail = NULL;
    while (*at != NULL) {
        struct npux_op *op = *at;
        if (npux_op_withdrawn(op)) {
            *at = op->next;
            *end = op;
            end = &op->next;
        } else {
            q->tail = op;
            at = &op->next;
        }
    }
    *end = NULL;
    return end;
}

static struct npux_chunk **sweep_chunks(struct npux_chunk_queue *q, struct npux_chunk **end)
{
    struct npux_chunk **at = &q->head;

    q->tail = NULL;
    while (*at != NULL) {
        struct npux_chunk *chunk = *at;
        if (chunk->packed != NULL || !npux_op_withdrawn(chunk->op)) {
            q->tail = chunk;
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        q->n--;
        q->nbytes -= with_following(chunk);
        while (chunk != NULL) {
            struct npux_chunk *following = chunk->following;
            chunk->following = NULL;
            *end = chunk;
            end = &chunk->next;
            chunk = following;
        }
    }
    *end = NULL;
    return end;
}

void npux_sched_sweep_locked(struct npux_sched *s, struct npux_op **ops, struct npux_chunk **chunks)
{
    *ops = NULL;
    *chunks = NULL;
    for (int p = 0; p < NPUX_N_PRIORITIES; p++) {
        ops = sweep_ops(&s->stager[p], ops);
        for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
            chunks = sweep_chunks(&s->ready[d].queues[p], chunks);
    }
}

void npux_sched_stop_locked(struct npux_sched *s)
{
    s->stop = true;
    pthread_cond_broadcast(&s->ready[NPUX_H2D].cv);
    pthread_cond_broadcast(&s->ready[NPUX_D2H].cv);
    pthread_cond_broadcast(&s->stager_cv);
}

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
