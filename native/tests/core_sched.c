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

static struct npux_chunk *chunk(size_t nbytes, size_t offset)
{
    struct npux_chunk *c = calloc(1, sizeof(*c));
    CHECK(c != NULL);
    c->nbytes = c->copy_nbytes = nbytes;
    c->offset = offset;
    return c;
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

static void check_batches(void)
{
    struct npux_chunk *batch, *c;
    size_t n, at = 0;

    for (size_t i = 0; i < 8; i++) /* 32 MiB on two lanes: a share is 16, a batch at most 8 */
        push(chunk(4 * MIB, i));
    CHECK_EQ(consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at), 8 * MIB);
    CHECK_EQ(s.ready[NPUX_H2D].n, 6);
    CHECK_EQ(s.ready[NPUX_H2D].nbytes, 24 * MIB);
    while (s.ready[NPUX_H2D].n > 0)
        CHECK(consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at) <= 8 * MIB);
    CHECK_EQ(at, 8);
    push(chunk(64 * MIB, at)); /* one that is too large for any share still goes, alone */
    push(chunk(1, at + 1));
    CHECK_EQ(consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at), 64 * MIB);
    CHECK_EQ(consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at), 1);
    for (size_t i = 0; i < 1000; i++)
        push(chunk(16, at + i));
    (void)consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at);
    CHECK(n == 256);                             /* bounded by count */
    batch = npux_sched_take_ready(&s, NPUX_H2D); /* what could not start goes back to the front, in order */
    c = batch;
    for (int i = 0; i < 99; i++)
        c = c->next;
    {
        struct npux_chunk *rest = c->next;
        c->next = NULL;
        CHECK_EQ((consume(batch, &n, &at), n), 100);
        npux_sched_push_back(&s, NPUX_H2D, rest);
    }
    while (s.ready[NPUX_H2D].n > 0)
        consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at);
    CHECK_EQ(at, 1010);
    CHECK_EQ(s.ready[NPUX_H2D].nbytes, 0);
    npux_sched_push_back(&s, NPUX_H2D, chunk(5, at)); /* to an empty queue, which then also has a tail */
    push(chunk(6, at + 1));
    CHECK_EQ(consume(npux_sched_take_ready(&s, NPUX_H2D), &n, &at), 11);
    npux_sched_push_back(&s, NPUX_H2D, NULL);
    CHECK_EQ(s.ready[NPUX_H2D].n, 0);
}

static void check_purge(void)
{
    struct npux_op *purged, *op;
    struct npux_chunk *chunks;
    size_t n, at = 0;

    for (int round = 0; round < 2; round++) { /* the second round: a purged queue works again */
        at = 0;
        push(chunk(3, 0));
        push(chunk(4, 1));
        pthread_mutex_lock(&s.mu);
        npux_sched_push_ready_locked(&s, NPUX_D2H, chunk(5, 2));
        npux_sched_push_stager_locked(&s, writer(0, &block));
        npux_sched_push_stager_locked(&s, writer(1, &block));
        npux_sched_purge_locked(&s, &purged, &chunks);
        CHECK_EQ(s.ready[NPUX_H2D].n + s.ready[NPUX_D2H].n, 0);
        CHECK_EQ(s.ready[NPUX_H2D].nbytes + s.ready[NPUX_D2H].nbytes, 0);
        pthread_mutex_unlock(&s.mu);
        CHECK(purged == &ops[0] && purged->next == &ops[1] && ops[1].next == NULL);
        CHECK_EQ(consume(chunks, &n, &at), 12);
        CHECK_EQ(n, 3);
    }
    pthread_mutex_lock(&s.mu);
    npux_sched_purge_locked(&s, &purged, &chunks);
    CHECK(purged == NULL && chunks == NULL);
    npux_sched_push_stager_locked(&s, writer(2, &block));
    npux_sched_stop_locked(&s);
    pthread_mutex_unlock(&s.mu);
    op = npux_sched_take_stager(&s); /* stopping does not lose what is queued */
    CHECK(op == &ops[2]);
    CHECK(npux_sched_take_stager(&s) == NULL);
    CHECK(npux_sched_take_ready(&s, NPUX_D2H) == NULL);
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

    while ((batch = npux_sched_take_ready(&w, NPUX_D2H)) != NULL)
        while (batch != NULL) {
            struct npux_chunk *next = batch->next;
            free(batch);
            batch = next;
            atomic_fetch_add(&n_taken, 1);
        }
    return NULL;
}

static void check_wakeups(void)
{
    enum { N_LANES = 3, N_ROUNDS = 4000 };
    pthread_t lanes[N_LANES];
    uint64_t rng = 7;
    size_t n_pushed = 0;

    npux_sched_init(&w, N_LANES);
    for (int i = 0; i < N_LANES; i++)
        CHECK_EQ(pthread_create(&lanes[i], NULL, take_all, NULL), 0);
    for (int round = 0; round < N_ROUNDS; round++) {
        size_t burst = 1 + rng_below(&rng, 40);
        for (size_t i = 0; i < burst; i++) {
            pthread_mutex_lock(&w.mu);
            npux_sched_push_ready_locked(&w, NPUX_D2H, chunk(1 + rng_below(&rng, 300 * KIB), 0));
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
    npux_sched_init(&s, 2);
    check_admission();
    check_fresh();
    check_batches();
    check_live();
    check_purge();
    npux_sched_destroy(&s);
    check_wakeups();
    return 0;
}
