/* core_sched.c - the order of admission, the sizes of batches, and what a purge finds. No engine. */
#include "core/sched.h"

#include "tests/engine_fixture.h"

static struct npux_sched s;
static struct npux_block block, other;
static struct npux_op ops[16];

static struct npux_op *reader(int i, struct npux_block *b)
{
    memset(&ops[i], 0, sizeof(ops[i]));
    ops[i].direction = NPUX_D2H;
    ops[i].device = b;
    return &ops[i];
}

static struct npux_op *writer(int i, struct npux_block *b)
{
    reader(i, b)->direction = NPUX_H2D;
    return &ops[i];
}

static bool admit(struct npux_op *op)
{
    bool now;
    pthread_mutex_lock(&s.mu);
    now = npux_order_admit_locked(&s.order, op);
    pthread_mutex_unlock(&s.mu);
    return now;
}

/* Releases; the started ops must be exactly those in want (a string of digits), in this order. */
static void release(int i, const char *want)
{
    struct npux_op *started;
    pthread_mutex_lock(&s.mu);
    started = npux_order_release_locked(&s.order, &ops[i]);
    pthread_mutex_unlock(&s.mu);
    for (; *want != '\0'; want++, started = started->next) {
        CHECK(started != NULL);
        CHECK_EQ(started - ops, *want - '0');
    }
    CHECK(started == NULL);
}

static void check_admission(void)
{
    CHECK(admit(reader(0, &block))); /* readers share */
    CHECK(admit(reader(1, &block)));
    CHECK(!admit(writer(2, &block))); /* a writer waits for both */
    CHECK(!admit(reader(3, &block))); /* and nobody overtakes it */
    CHECK(!admit(reader(4, &block)));
    CHECK(!admit(writer(5, &block)));
    CHECK(!admit(writer(6, &block)));
    CHECK(!admit(reader(7, &block)));
    CHECK(admit(writer(8, &other))); /* another block is another matter */
    release(0, "");
    release(1, "2");
    release(2, "34");
    release(4, "");
    release(3, "5");
    release(5, "6");
    release(6, "7");
    release(8, "");
    CHECK(admit(reader(9, &block)));
    release(7, "");
    release(9, "");
    CHECK(!block.has_writer && block.n_readers == 0 && block.wait_head == NULL);
    CHECK(!other.has_writer && other.n_readers == 0 && other.wait_head == NULL);
}

static void check_fresh(void)
{
    struct npux_op *op = writer(0, &block);
    op->fresh = true; /* nobody else knows the block */
    CHECK(admit(op));
    CHECK(!block.has_writer);
    release(0, "");
}

/* One op for each priority, whose chunks these are. */
static struct npux_op *owners[NPUX_N_PRIORITIES];

static void make_owners(struct npux_port *port)
{
    for (int p = 0; p < NPUX_N_PRIORITIES; p++) {
        struct npux_request *request = npux_request_new(port, 1);
        CHECK(request != NULL);
        CHECK_EQ(request->priority, NPUX_NORMAL);
        request->priority = (uint8_t)p;
        owners[p] = &request->ops[0];
    }
}

static struct npux_chunk *chunk_of(enum npux_priority priority, size_t nbytes, size_t offset)
{
    struct npux_chunk *c = calloc(1, sizeof(*c));
    CHECK(c != NULL);
    c->op = owners[priority];
    c->nbytes = c->copy_nbytes = nbytes;
    c->offset = offset;
    return c;
}

static struct npux_chunk *chunk(size_t nbytes, size_t offset)
{
    return chunk_of(NPUX_NORMAL, nbytes, offset);
}

static void push(struct npux_chunk *chunks)
{
    pthread_mutex_lock(&s.mu);
    npux_sched_push_ready_locked(&s, NPUX_H2D, chunks);
    pthread_mutex_unlock(&s.mu);
}

/* Frees a batch; returns its bytes; *n its chunks. Offsets number the chunks and must go on from *at. */
static size_t consume(struct npux_chunk *batch, size_t *n, size_t *at)
{
    size_t nbytes = 0;
    *n = 0;
    while (batch != NULL) {
        struct npux_chunk *c = batch;
        batch = c->next;
        CHECK_EQ(c->offset, *at);
        (*at)++;
        (*n)++;
        nbytes += c->nbytes;
        free(c);
    }
    return nbytes;
}

/* Takes a batch that is at once off the stream. */
static size_t take(size_t *n, size_t *at)
{
    struct npux_batch taken;
    size_t nbytes = consume(npux_sched_take_ready(&s, NPUX_H2D, &taken), n, at);

    CHECK_EQ(taken.nbytes, nbytes);
    npux_sched_batch_done(&s, NPUX_H2D, &taken, true);
    return nbytes;
}

static void check_batches(void)
{
    const struct npux_chunk_queue *q = &s.ready[NPUX_H2D].queues[NPUX_NORMAL];
    struct npux_batch taken;
    struct npux_chunk *batch, *c;
    size_t n, at = 0;

    for (size_t i = 0; i < 16; i++) /* 16 MiB on two lanes: a share is 8, a batch at most 4 */
        push(chunk(MIB, i));
    CHECK_EQ(take(&n, &at), 4 * MIB);
    CHECK_EQ(q->n, 12);
    CHECK_EQ(q->nbytes, 12 * MIB);
    while (q->n > 0)
        CHECK(take(&n, &at) <= 4 * MIB);
    CHECK_EQ(at, 16);
    push(chunk(64 * MIB, at)); /* one that is too large for any share still goes, alone */
    push(chunk(1, at + 1));
    CHECK_EQ(take(&n, &at), 64 * MIB);
    CHECK_EQ(take(&n, &at), 1);
    for (size_t i = 0; i < 1000; i++)
        push(chunk(16, at + i));
    take(&n, &at);
    CHECK(n == 256); /* bounded by count */
    batch = npux_sched_take_ready(&s, NPUX_H2D,
                                  &taken); /* what could not start goes back to the front, in order */
    c = batch;
    for (int i = 0; i < 99; i++)
        c = c->next;
    {
        struct npux_chunk *rest = c->next;
        c->next = NULL;
        CHECK_EQ((consume(batch, &n, &at), n), 100);
        npux_sched_push_back(&s, NPUX_H2D, rest);
        npux_sched_batch_done(&s, NPUX_H2D, &taken, true);
    }
    while (q->n > 0)
        take(&n, &at);
    CHECK_EQ(at, 1018);
    CHECK_EQ(q->nbytes, 0);
    npux_sched_push_back(&s, NPUX_H2D, chunk(5, at)); /* to an empty queue, which then also has a tail */
    push(chunk(6, at + 1));
    CHECK_EQ(take(&n, &at), 11);
    CHECK_EQ(q->n, 0);
    CHECK_EQ(s.ready[NPUX_H2D].n_low, 0);
    CHECK_EQ(s.ready[NPUX_H2D].low_nbytes, 0);
}

/* LATENCY first; who is passed over eight times comes ninth. */
static void check_priorities(void)
{
    size_t n, at, bulk_at = 0, latency_at = 0;
    char seen[32] = "";

    for (size_t i = 0; i < 2; i++)
        push(chunk_of(NPUX_BULK, 4 * MIB, 100 + i));
    for (size_t i = 0; i < 18; i++)
        push(chunk_of(NPUX_LATENCY, 4 * MIB, i));
    for (int i = 0; i < 20; i++) {
        struct npux_batch taken;
        struct npux_chunk *batch = npux_sched_take_ready(&s, NPUX_H2D, &taken);
        bool is_bulk = batch->op == owners[NPUX_BULK];
        CHECK_EQ(taken.is_low, is_bulk);
        strcat(seen, is_bulk ? "b" : "l");
        at = is_bulk ? 100 + bulk_at++ : latency_at++;
        consume(batch, &n, &at);
        npux_sched_batch_done(&s, NPUX_H2D, &taken, true);
    }
    if (strcmp(seen, "llllllllbllllllllbll") != 0)
        fprintf(stderr, "order: %s\n", seen);
    CHECK(strcmp(seen, "llllllllbllllllllbll") == 0);
}

/* Two transfers of three chunks take turns, and a small one that comes later waits for one chunk of each. */
static void check_turns(void)
{
    struct npux_chunk *a = chunk(4 * MIB, 0), *b = chunk(4 * MIB, 1);
    size_t n, at = 0;

    a->following = chunk(4 * MIB, 3);
    a->following->following = chunk(4 * MIB, 5);
    b->following = chunk(4 * MIB, 4);
    b->following->following = chunk(4 * MIB, 6);
    push(a);
    push(b);
    push(chunk(64, 2));
    CHECK_EQ(s.ready[NPUX_H2D].queues[NPUX_NORMAL].nbytes, 24 * MIB + 64);
    while (at < 7)
        take(&n, &at);
    CHECK_EQ(s.ready[NPUX_H2D].queues[NPUX_NORMAL].nbytes, 0);
}

/* Three lanes: two chunks may be on the streams, then only LATENCY goes on. */
static void check_window(void)
{
    struct npux_batch taken[4];
    size_t n, at = 0, latency_at = 9;

    s.n_lanes = 3;
    for (size_t i = 0; i < 4; i++)
        push(chunk_of(NPUX_BULK, 2 * MIB, i));
    consume(npux_sched_take_ready(&s, NPUX_H2D, &taken[0]), &n, &at);
    consume(npux_sched_take_ready(&s, NPUX_H2D, &taken[1]), &n, &at);
    CHECK_EQ(s.ready[NPUX_H2D].n_low, 2);
    CHECK_EQ(s.ready[NPUX_H2D].low_nbytes, 4 * MIB);
    push(chunk(64, 4)); /* NORMAL waits as well */
    push(chunk_of(NPUX_LATENCY, 64 * KIB, 9));
    consume(npux_sched_take_ready(&s, NPUX_H2D, &taken[2]), &n, &latency_at); /* or this would take BULK */
    CHECK_EQ(latency_at, 10);
    CHECK(!taken[2].is_low);
    npux_sched_batch_done(&s, NPUX_H2D, &taken[2], true);
    npux_sched_batch_done(&s, NPUX_H2D, &taken[0], true);
    at = 4;
    consume(npux_sched_take_ready(&s, NPUX_H2D, &taken[3]), &n, &at); /* NORMAL before BULK */
    CHECK_EQ(at, 5);
    npux_sched_batch_done(&s, NPUX_H2D, &taken[3], true);
    npux_sched_batch_done(&s, NPUX_H2D, &taken[1], true);
    at = 2;
    take(&n, &at);
    take(&n, &at);
    CHECK_EQ(at, 4);
    CHECK_EQ(s.ready[NPUX_H2D].n_low, 0);
    s.n_lanes = 2;
}

/* The scheduler tells spinning lanes only of what may start now. */
static bool may_start_something(void)
{
    unsigned before, after;

    pthread_mutex_lock(&s.mu);
    before = atomic_load(&s.ready[NPUX_H2D].n_pushes);
    npux_sched_wake_locked(&s, NPUX_H2D);
    after = atomic_load(&s.ready[NPUX_H2D].n_pushes);
    pthread_mutex_unlock(&s.mu);
    return after != before;
}

/* NORMAL never runs dry and fills the window again as soon as something leaves it; a chunk of BULK, larger
 * than what is left, comes all the same once it was passed over eight times. */
static void check_bulk_beside_normal(unsigned n_lanes)
{
    struct npux_batch taken[2];
    size_t n, at = 0;
    bool came = false;

    s.n_lanes = n_lanes;
    for (size_t i = 0; i < 3; i++)
        push(chunk(4 * MIB, i));
    for (int i = 0; i < 2; i++)
        consume(npux_sched_take_ready(&s, NPUX_H2D, &taken[i]), &n, &at);
    push(chunk_of(NPUX_BULK, 4 * MIB, 1000));
    for (int i = 0; i < 12 && !came; i++) { /* batches that end in the order in which they began */
        struct npux_batch *ended = &taken[i % 2], *last = &taken[(i + 1) % 2];
        struct npux_chunk *batch;

        push(chunk(4 * MIB, 3 + (size_t)i));
        npux_sched_batch_done(&s, NPUX_H2D, ended, true);
        memset(ended, 0, sizeof(*ended));
        if (s.ready[NPUX_H2D].queues[NPUX_BULK].n_passed_over >= 8) { /* nobody starts until the other ends */
            CHECK(!may_start_something());
            npux_sched_batch_done(&s, NPUX_H2D, last, true);
            memset(last, 0, sizeof(*last));
        }
        batch = npux_sched_take_ready(&s, NPUX_H2D, ended);
        came = batch->op == owners[NPUX_BULK];
        consume(batch, &n, came ? &(size_t){1000} : &at);
    }
    CHECK(came);
    for (int i = 0; i < 2; i++)
        npux_sched_batch_done(&s, NPUX_H2D, &taken[i], true);
    while (s.ready[NPUX_H2D].queues[NPUX_NORMAL].n > 0)
        take(&n, &at);
    CHECK_EQ(s.ready[NPUX_H2D].n_low, 0);
    CHECK_EQ(s.ready[NPUX_H2D].low_nbytes, 0);
    s.n_lanes = 2;
}

/* Of one priority: what is due first, then what is due at any time, as it came. */
static void check_deadlines(struct npux_port *port)
{
    static const uint64_t due_ns[] = {0, 30, 10, 0, 20, 10};
    static const size_t order[] = {2, 5, 4, 1, 0, 3};
    enum { N = sizeof(due_ns) / sizeof(due_ns[0]) };
    struct npux_request *requests[N];
    struct npux_staging work;
    struct npux_batch taken;
    struct npux_chunk *batch;

    for (size_t i = 0; i < N; i++) {
        struct npux_after *after = calloc(1, sizeof(*after));
        requests[i] = npux_request_new(port, 1);
        CHECK(after != NULL && requests[i] != NULL);
        atomic_init(&after->n_refs, 1);
        after->deadline_ns = due_ns[i];
        requests[i]->after = after;
    }
    for (size_t i = 0; i < N; i++) {
        struct npux_chunk *c = chunk(8 * MIB, i);
        c->op = &requests[i]->ops[0];
        push(c);
        pthread_mutex_lock(&s.mu);
        npux_sched_push_stager_locked(&s, &requests[i]->ops[0]);
        pthread_mutex_unlock(&s.mu);
    }
    for (size_t i = 0; i < N; i++) {
        batch = npux_sched_take_ready(&s, NPUX_H2D, &taken);
        CHECK_EQ(batch->offset, order[i]);
        CHECK(batch->next == NULL);
        free(batch);
        npux_sched_batch_done(&s, NPUX_H2D, &taken, true);
        npux_sched_take_stager(&s, &work);
        CHECK(work.op == &requests[order[i]]->ops[0]);
    }
    for (size_t i = 0; i < N; i++)
        npux_request_free(requests[i]);
}

static struct npux_op *queued(int i, enum npux_priority priority)
{
    writer(i, &block)->request = owners[priority]->request;
    return &ops[i];
}

static void check_purge(void)
{
    bool all_starved;
    struct npux_op *purged;
    struct npux_chunk *chunks, *c;
    struct npux_batch taken;
    struct npux_staging work;
    struct npux_chunk *drain = chunk(1, 0), *other_drain = chunk(1, 1), *late = chunk(1, 2);
    size_t n, at = 0;

    CHECK(npux_sched_push_drain(&s, drain, &all_starved));
    CHECK(npux_sched_push_drain(&s, other_drain, &all_starved));
    for (int round = 0; round < 2; round++) { /* the second round: a purged queue works again */
        at = 0;
        push(chunk(3, 0));
        c = chunk(4, 1);
        c->following = chunk(4, 2);
        push(c);
        pthread_mutex_lock(&s.mu);
        npux_sched_push_ready_locked(&s, NPUX_D2H, chunk_of(NPUX_BULK, 5, 3));
        npux_sched_push_stager_locked(&s, queued(1, NPUX_BULK));
        npux_sched_push_stager_locked(&s, queued(0, NPUX_NORMAL));
        npux_sched_purge_locked(&s, &purged, &chunks);
        for (int d = 0; d < NPUX_N_DIRECTIONS; d++)
            for (int p = 0; p < NPUX_N_PRIORITIES; p++)
                CHECK_EQ(s.ready[d].queues[p].n + s.ready[d].queues[p].nbytes, 0);
        pthread_mutex_unlock(&s.mu);
        CHECK(purged == &ops[0] && purged->next == &ops[1] && ops[1].next == NULL);
        CHECK_EQ(consume(chunks, &n, &at), 16);
        CHECK_EQ(n, 4);
    }
    pthread_mutex_lock(&s.mu);
    npux_sched_purge_locked(&s, &purged, &chunks);
    CHECK(purged == NULL && chunks == NULL);
    npux_sched_push_stager_locked(&s, queued(2, NPUX_LATENCY));
    npux_sched_stop_locked(&s);
    pthread_mutex_unlock(&s.mu);
    CHECK(!npux_sched_push_drain(&s, late, &all_starved)); /* its lane empties it itself */
    free(late);
    npux_sched_take_stager(&s, &work); /* stopping does not lose what is queued; both kinds take turns */
    CHECK(work.drain == drain && work.op == NULL && !work.wants_memory);
    free(drain);
    npux_sched_take_stager(&s, &work);
    CHECK(work.op == &ops[2] && work.drain == NULL && !work.wants_memory);
    npux_sched_take_stager(&s, &work);
    CHECK(work.drain == other_drain && work.op == NULL);
    free(other_drain);
    npux_sched_take_stager(&s, &work);
    CHECK(work.op == NULL && work.drain == NULL && !work.wants_memory);
    CHECK(npux_sched_take_ready(&s, NPUX_D2H, &taken) == NULL);
}

static void check_live(void)
{
    struct npux_request a, b, c;

    pthread_mutex_lock(&s.mu);
    npux_sched_live_add_locked(&s, &a);
    npux_sched_live_add_locked(&s, &b);
    npux_sched_live_add_locked(&s, &c);
    npux_sched_live_remove_locked(&s, &b);
    CHECK(s.live == &c && c.next_live == &a && a.prev_live == &c);
    npux_sched_live_remove_locked(&s, &c);
    npux_sched_live_remove_locked(&s, &a);
    CHECK(s.live == NULL);
    pthread_mutex_unlock(&s.mu);
}

/* Lanes that sleep while there is work, or a missing wake-up, end in the time-out of the test. */
static struct npux_sched w;
static atomic_size_t n_taken;

static void *take_all(void *unused)
{
    struct npux_chunk *batch;
    struct npux_batch taken;

    while ((batch = npux_sched_take_ready(&w, NPUX_D2H, &taken)) != NULL) {
        npux_sched_batch_done(&w, NPUX_D2H, &taken, true);
        while (batch != NULL) {
            struct npux_chunk *next = batch->next;
            free(batch);
            batch = next;
            atomic_fetch_add(&n_taken, 1);
        }
    }
    return NULL;
}

static void check_wakeups(uint64_t spin_ns)
{
    enum { N_LANES = 3, N_ROUNDS = 4000 };
    pthread_t lanes[N_LANES];
    uint64_t rng = 7;
    size_t n_pushed = 0;

    atomic_store(&n_taken, 0);
    npux_sched_init(&w, N_LANES, 4 * MIB, spin_ns);
    for (int i = 0; i < N_LANES; i++)
        CHECK_EQ(pthread_create(&lanes[i], NULL, take_all, NULL), 0);
    for (int round = 0; round < N_ROUNDS; round++) {
        size_t burst = 1 + rng_below(&rng, 40);
        for (size_t i = 0; i < burst; i++) {
            pthread_mutex_lock(&w.mu);
            npux_sched_push_ready_locked(
                &w, NPUX_D2H,
                chunk_of((enum npux_priority)rng_below(&rng, 3), 1 + rng_below(&rng, 300 * KIB), 0));
            pthread_mutex_unlock(&w.mu);
        }
        n_pushed += burst;
        UNTIL(atomic_load(&n_taken) == n_pushed);
    }
    pthread_mutex_lock(&w.mu);
    npux_sched_stop_locked(&w);
    pthread_mutex_unlock(&w.mu);
    for (int i = 0; i < N_LANES; i++)
        CHECK_EQ(pthread_join(lanes[i], NULL), 0);
    npux_sched_destroy(&w);
}

int main(void)
{
    struct npux_port *port = npux_port_new();

    CHECK(port != NULL);
    make_owners(port);
    npux_sched_init(&s, 2, 4 * MIB, 0);
    check_admission();
    check_fresh();
    check_batches();
    check_priorities();
    check_turns();
    check_window();
    check_bulk_beside_normal(2);
    check_bulk_beside_normal(3);
    check_live();
    check_deadlines(port);
    check_purge();
    npux_sched_destroy(&s);
    check_wakeups(0);
    check_wakeups(20000);
    for (int p = 0; p < NPUX_N_PRIORITIES; p++)
        npux_request_free(owners[p]->request);
    npux_port_unref(port);
    return 0;
}
