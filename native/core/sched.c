#include "core/sched.h"

#include <string.h>

#include "base/clock.h"

/* A lane takes its equal share of the ready bytes, but at least and at most: */
static const size_t MIN_BATCH_NBYTES = (size_t)256 << 10; /* below this a batch costs more than it hides */
static const size_t MAX_BATCH_NBYTES = (size_t)8 << 20;   /* staging memory comes back once per batch */
enum { MAX_BATCH_CHUNKS = 256 };                          /* far below the 2013 tasks a stream can queue */

void npux_sched_init(struct npux_sched *s, unsigned n_lanes)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->mu, NULL);
    npux_cond_init(&s->ready_cv[NPUX_H2D]);
    npux_cond_init(&s->ready_cv[NPUX_D2H]);
    npux_cond_init(&s->stager_cv);
    npux_cond_init(&s->drained_cv);
    s->n_lanes = n_lanes;
    npux_order_init(&s->order);
}

void npux_sched_destroy(struct npux_sched *s)
{
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->ready_cv[NPUX_H2D]);
    pthread_cond_destroy(&s->ready_cv[NPUX_D2H]);
    pthread_cond_destroy(&s->stager_cv);
    pthread_cond_destroy(&s->drained_cv);
}

void npux_sched_push_stager_locked(struct npux_sched *s, struct npux_op *op)
{
    op->next = NULL;
    if (s->stager_head == NULL)
        s->stager_head = op;
    else
        s->stager_tail->next = op;
    s->stager_tail = op;
    pthread_cond_signal(&s->stager_cv);
}

struct npux_op *npux_sched_take_stager(struct npux_sched *s)
{
    struct npux_op *op;

    pthread_mutex_lock(&s->mu);
    while (s->stager_head == NULL && !s->stop)
        pthread_cond_wait(&s->stager_cv, &s->mu);
    op = s->stager_head;
    if (op != NULL) {
        s->stager_head = op->next;
        op->next = NULL;
    }
    pthread_mutex_unlock(&s->mu);
    return op;
}

/* Wakes lanes while there is a batch for one more than already run towards the queue (mu held). A burst of
 * small submits therefore costs one futex call, not one each. */
static void wake_lanes(struct npux_sched *s, enum npux_direction direction)
{
    const struct npux_chunk_queue *q = &s->ready[direction];

    while (q->n > s->n_waking[direction] && s->n_idle[direction] > s->n_waking[direction] &&
           (s->n_waking[direction] == 0 || q->nbytes > s->n_waking[direction] * MIN_BATCH_NBYTES)) {
        s->n_waking[direction]++;
        pthread_cond_signal(&s->ready_cv[direction]);
    }
}

void npux_sched_wake_locked(struct npux_sched *s, enum npux_direction direction)
{
    wake_lanes(s, direction);
}

bool npux_sched_is_idle_locked(const struct npux_sched *s, enum npux_direction direction)
{
    return s->ready[direction].n == 0 && s->n_idle[direction] == s->n_lanes;
}

void npux_sched_push_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                  struct npux_chunk *chunks)
{
    npux_sched_append_ready_locked(s, direction, chunks);
    wake_lanes(s, direction);
}

void npux_sched_append_ready_locked(struct npux_sched *s, enum npux_direction direction,
                                    struct npux_chunk *chunks)
{
    struct npux_chunk_queue *q = &s->ready[direction];

    while (chunks != NULL) {
        struct npux_chunk *chunk = chunks;
        chunks = chunk->next;
        chunk->next = NULL;
        if (q->head == NULL)
            q->head = chunk;
        else
            q->tail->next = chunk;
        q->tail = chunk;
        q->n++;
        q->nbytes += chunk->copy_nbytes;
    }
}

void npux_sched_push_back(struct npux_sched *s, enum npux_direction direction, struct npux_chunk *chunks)
{
    struct npux_chunk_queue *q = &s->ready[direction];
    struct npux_chunk *last = NULL;

    pthread_mutex_lock(&s->mu);
    for (struct npux_chunk *c = chunks; c != NULL; c = c->next) {
        last = c;
        q->n++;
        q->nbytes += c->copy_nbytes;
    }
    if (last != NULL) {
        last->next = q->head;
        if (q->head == NULL)
            q->tail = last;
        q->head = chunks;
    }
    pthread_mutex_unlock(&s->mu);
}

static size_t share_of(const struct npux_sched *s, const struct npux_chunk_queue *q)
{
    size_t share = q->nbytes / s->n_lanes;
    if (share < MIN_BATCH_NBYTES)
        return MIN_BATCH_NBYTES;
    return share > MAX_BATCH_NBYTES ? MAX_BATCH_NBYTES : share;
}

/* What this turn of a loop has packed so far is taken when nothing else is left. */
static bool has_ready(struct npux_sched *s, enum npux_direction direction)
{
    if (s->ready[direction].n == 0 && direction == NPUX_H2D)
        npux_sched_append_ready_locked(s, direction, npux_open_pack_close_locked(&s->turn));
    return s->ready[direction].n != 0;
}

struct npux_chunk *npux_sched_take_ready(struct npux_sched *s, enum npux_direction direction)
{
    struct npux_chunk_queue *q = &s->ready[direction];
    struct npux_chunk *first, *last = NULL;
    size_t share, nbytes = 0, n = 0;

    pthread_mutex_lock(&s->mu);
    while (!has_ready(s, direction) && !s->stop) {
        s->n_idle[direction]++;
        pthread_cond_wait(&s->ready_cv[direction], &s->mu);
        s->n_idle[direction]--;
        if (s->n_waking[direction] > 0)
            s->n_waking[direction]--;
    }
    share = share_of(s, q);
    first = q->head;
    for (struct npux_chunk *c = first; c != NULL && n < MAX_BATCH_CHUNKS; c = c->next) {
        if (n > 0 && nbytes + c->copy_nbytes > share)
            break;
        nbytes += c->copy_nbytes;
        n++;
        last = c;
    }
    if (last != NULL) {
        q->head = last->next;
        last->next = NULL;
        q->n -= n;
        q->nbytes -= nbytes;
        wake_lanes(s, direction);
    }
    pthread_mutex_unlock(&s->mu);
    return first;
}

void npux_sched_purge_locked(struct npux_sched *s, struct npux_op **ops, struct npux_chunk **chunks)
{
    struct npux_chunk **end = chunks;

    npux_sched_append_ready_locked(s, NPUX_H2D, npux_open_pack_close_locked(&s->turn));
    *ops = s->stager_head;
    s->stager_head = NULL;
    *chunks = NULL;
    for (int d = 0; d < NPUX_N_DIRECTIONS; d++) {
        struct npux_chunk_queue *q = &s->ready[d];
        if (q->head == NULL)
            continue;
        *end = q->head;
        end = &q->tail->next;
        memset(q, 0, sizeof(*q));
    }
}

void npux_sched_stop_locked(struct npux_sched *s)
{
    s->stop = true;
    pthread_cond_broadcast(&s->ready_cv[NPUX_H2D]);
    pthread_cond_broadcast(&s->ready_cv[NPUX_D2H]);
    pthread_cond_broadcast(&s->stager_cv);
}

void npux_sched_live_add_locked(struct npux_sched *s, struct npux_request *request)
{
    request->prev_live = NULL;
    request->next_live = s->live;
    if (s->live != NULL)
        s->live->prev_live = request;
    s->live = request;
}

void npux_sched_live_remove_locked(struct npux_sched *s, struct npux_request *request)
{
    if (request->prev_live != NULL)
        request->prev_live->next_live = request->next_live;
    else
        s->live = request->next_live;
    if (request->next_live != NULL)
        request->next_live->prev_live = request->prev_live;
}
