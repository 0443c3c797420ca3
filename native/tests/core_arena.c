/* core_arena.c - blocks of one owner each, the cap, waiting, keeping, finding, and the end of an arena. */
#include "core/arena.h"

#include <pthread.h>

#include "tests/engine_fixture.h"

/* Backing: malloc with accounting, failures, and a gate in which a map call can be stopped. ---------- */

static struct {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    size_t mapped_nbytes;
    int n_mapped, n_fail, n_in_gate;
    bool gate_shut;
} backing = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};

static int map(void *context, size_t nbytes, void **address, struct npux_err *err)
{
    bool fail;

    pthread_mutex_lock(&backing.mu);
    backing.n_in_gate++;
    pthread_cond_broadcast(&backing.cv);
    while (backing.gate_shut)
        pthread_cond_wait(&backing.cv, &backing.mu);
    backing.n_in_gate--;
    fail = backing.n_fail > 0 && backing.n_fail-- > 0;
    if (!fail) {
        backing.n_mapped++;
        backing.mapped_nbytes += nbytes;
    }
    pthread_mutex_unlock(&backing.mu);
    if (fail)
        return npux_fail(err, -EIO, "map", "told to fail");
    CHECK_EQ(posix_memalign(address, 4096, nbytes), 0);
    memset(*address, 0xee, nbytes);
    return 0;
}

static void unmap(void *context, void *address, size_t nbytes)
{
    pthread_mutex_lock(&backing.mu);
    backing.n_mapped--;
    backing.mapped_nbytes -= nbytes;
    pthread_mutex_unlock(&backing.mu);
    free(address);
}

static struct npux_arena_opts opts_with(size_t cap, size_t keep)
{
    return (struct npux_arena_opts){.backing = {map, unmap, NULL},
                                    .side = NPUX_PINNED,
                                    .stragglers = NPUX_STRAGGLERS_LATE,
                                    .span_nbytes = 64 * KIB,
                                    .cap_nbytes = cap,
                                    .keep_nbytes = keep,
                                    .pad_nbytes = 32};
}

static struct npux_arena *arena_with(size_t cap, size_t keep)
{
    struct npux_arena_opts opts = opts_with(cap, keep);
    struct npux_arena *arena = npux_arena_new(&opts);
    CHECK(arena != NULL);
    return arena;
}

static struct npux_block *get(struct npux_arena *arena, size_t nbytes)
{
    struct npux_block *block = NULL;
    struct npux_err err;
    CHECK_EQ(npux_arena_get(arena, nbytes, &block, &err), 0);
    CHECK_EQ(block->nbytes, nbytes);
    return block;
}

static int get_status(struct npux_arena *arena, size_t nbytes)
{
    struct npux_block *block = NULL;
    struct npux_err err = {0};
    int rc = npux_arena_get(arena, nbytes, &block, &err);
    CHECK((rc == 0) == (block != NULL));
    CHECK(rc == 0 || err.status == rc);
    if (block != NULL)
        npux_block_unref(block);
    return rc;
}

static struct npux_arena_stats stats_of(struct npux_arena *arena)
{
    struct npux_arena_stats stats;
    npux_arena_stats(arena, &stats);
    CHECK(stats.used_nbytes <= stats.held_nbytes);
    return stats;
}

static void check_close_all(struct npux_arena *arena)
{
    CHECK_EQ(stats_of(arena).used_nbytes, 0);
    CHECK_EQ(stats_of(arena).n_blocks_out, 0);
    CHECK_EQ(npux_arena_close(arena), 0);
    CHECK_EQ(backing.n_mapped, 0);
    CHECK_EQ(backing.mapped_nbytes, 0);
}

/* Alignment and padding: the next block starts at ALIGN_UP(nbytes, 32) + 32 or later. */
static void check_classes(void)
{
    struct npux_arena *arena = arena_with(SIZE_MAX / 2, SIZE_MAX / 2);
    static const size_t sizes[] = {1,    31,   32,   33,    63,    64,    65,    223,  224,
                                   225,  256,  257,  288,   1000,  4063,  4064,  4065, 8128,
                                   8160, 8161, 9000, 65535, 65536, 65537, 200000};
    struct npux_block *blocks[25][20];

    for (size_t i = 0; i < 25; i++)
        for (size_t k = 0; k < 20; k++) {
            blocks[i][k] = get(arena, sizes[i]);
            CHECK_EQ((uintptr_t)blocks[i][k]->address % 64, 0);
            memset(blocks[i][k]->address, (int)(i * 20 + k), sizes[i]);
        }
    for (size_t i = 0; i < 500; i++)
        for (size_t j = 0; j < 500; j++) {
            struct npux_block *a = blocks[i / 20][i % 20], *b = blocks[j / 20][j % 20];
            if (i != j && a->span == b->span && a->address < b->address)
                CHECK(a->address + (a->nbytes + 31) / 32 * 32 + 32 <= b->address);
            if (i != j)
                CHECK(a->address >= b->address + b->nbytes || b->address >= a->address + a->nbytes);
        }
    for (size_t i = 0; i < 500; i++) {
        struct npux_block *b = blocks[i / 20][i % 20];
        for (size_t k = 0; k < b->nbytes; k++)
            CHECK_EQ((unsigned char)b->address[k], i % 256);
        npux_block_unref(b);
    }
    CHECK_EQ(get_status(arena, SIZE_MAX / 2 + 1), -E2BIG);
    check_close_all(arena);
}

static void check_cap(void)
{
    struct npux_arena *arena = arena_with(256 * KIB, 256 * KIB);
    struct npux_block *a, *b, *small[4];

    CHECK_EQ(get_status(arena, 257 * KIB), -E2BIG);
    a = get(arena, 128 * KIB);
    b = get(arena, 100 * KIB);
    CHECK_EQ(stats_of(arena).held_nbytes, 256 * KIB);
    CHECK_EQ(get_status(arena, 1), -ENOSPC);
    CHECK_EQ(get_status(arena, 256 * KIB), -ENOSPC);
    CHECK(npux_arena_try_get(arena, 1) == NULL);
    npux_block_unref(a);
    CHECK_EQ(stats_of(arena).held_nbytes, 256 * KIB); /* kept */
    CHECK(npux_arena_try_get(arena, 1) == NULL);      /* would need another span */
    for (int i = 0; i < 4; i++)
        small[i] = get(arena, 1); /* evicts the idle span for a span of small ones */
    CHECK(stats_of(arena).held_nbytes <= 256 * KIB);
    CHECK_EQ(stats_of(arena).n_maps, 3);
    CHECK_EQ(get_status(arena, 128 * KIB), -ENOSPC);
    npux_block_unref(b);
    CHECK_EQ(get_status(arena, 128 * KIB), 0);
    for (int i = 0; i < 4; i++)
        npux_block_unref(small[i]);
    CHECK(stats_of(arena).peak_nbytes <= 256 * KIB);
    check_close_all(arena);
}

/* A cap that is no multiple of anything can be used to its last byte. */
static void check_odd_caps(void)
{
    for (size_t cap = 1; cap < 200 * KIB; cap = cap * 3 + 1) {
        struct npux_arena *arena = arena_with(cap, cap);
        struct npux_block *whole = get(arena, cap);
        CHECK_EQ(get_status(arena, 1), -ENOSPC);
        npux_block_unref(whole);
        CHECK_EQ(get_status(arena, 1), 0);
        CHECK_EQ(get_status(arena, cap + 1), -E2BIG);
        CHECK_EQ(get_status(arena, cap), 0);
        check_close_all(arena);
    }
}

static void check_reuse_and_keep(void)
{
    struct npux_arena *arena = arena_with(SIZE_MAX / 2, 128 * KIB);
    struct npux_block *a = get(arena, 128 * KIB), *b = get(arena, 64 * KIB), *c;
    char *address = a->address;

    npux_block_unref(a);
    CHECK_EQ(backing.n_mapped, 2);
    npux_block_unref(b); /* 192 KiB idle would be beyond keep */
    CHECK_EQ(backing.n_mapped, 1);
    CHECK_EQ(stats_of(arena).held_nbytes, 128 * KIB);
    c = npux_arena_try_get(arena, 120 * KIB); /* fits without much waste */
    CHECK(c != NULL && c->address == address);
    npux_block_unref(c);
    CHECK(npux_arena_try_get(arena, 64 * KIB) == NULL); /* would waste half of it */
    a = get(arena, 100);
    b = npux_arena_try_get(arena, 100);
    CHECK(b != NULL);
    npux_block_ref(b);
    npux_block_unref(b);
    CHECK_EQ(stats_of(arena).n_blocks_out, 2);
    npux_block_unref(b);
    npux_block_unref(a);
    check_close_all(arena);
    arena = arena_with(SIZE_MAX / 2, 64 * KIB);
    npux_block_unref(get(arena, 100));
    a = npux_arena_try_get(arena, 4000); /* an idle span changes its class */
    b = npux_arena_try_get(arena, 4000);
    CHECK(a != NULL && b != NULL && a->span == b->span);
    npux_block_unref(a);
    npux_block_unref(b);
    CHECK_EQ(stats_of(arena).n_maps, 1);
    check_close_all(arena);
}

static void check_find(void)
{
    struct npux_arena *arena = arena_with(SIZE_MAX / 2, SIZE_MAX / 2);
    struct npux_block *a = get(arena, 1000), *big = get(arena, 100 * KIB), *f;
    char outside[8];

    f = npux_arena_find(arena, a->address, 1000);
    CHECK(f == a);
    npux_block_unref(f);
    f = npux_arena_find(arena, a->address + 999, 1);
    CHECK(f == a);
    npux_block_unref(f);
    f = npux_arena_find(arena, big->address + 5, 100 * KIB - 5);
    CHECK(f == big);
    npux_block_unref(f);
    CHECK(npux_arena_find(arena, a->address, 1001) == NULL);
    CHECK(npux_arena_find(arena, a->address + 1, 1000) == NULL);
    CHECK(npux_arena_find(arena, a->address + 1, SIZE_MAX) == NULL);
    CHECK(npux_arena_find(arena, a->address - 1, 2) == NULL);
    CHECK(npux_arena_find(arena, big->address + 100 * KIB + 1, 1) == NULL);
    CHECK(npux_arena_find(arena, outside, 1) == NULL);
    CHECK(npux_arena_find(arena, NULL, 1) == NULL);
    npux_block_unref(a);
    CHECK(npux_arena_find(arena, a->address, 1) == NULL); /* free: a's header is still there, idle span */
    npux_block_unref(big);
    check_close_all(arena);
}

static void check_backing_failure(void)
{
    struct npux_arena *arena = arena_with(SIZE_MAX / 2, SIZE_MAX / 2);
    struct npux_block *a = get(arena, 100 * KIB), *b = get(arena, 500 * KIB);

    npux_block_unref(b);
    CHECK_EQ(backing.n_mapped, 2);
    backing.n_fail = 1;
    b = get(arena, 300 * KIB); /* the first try fails, the idle span goes, the second works */
    CHECK_EQ(backing.n_mapped, 2);
    CHECK_EQ(backing.n_fail, 0);
    backing.n_fail = 2;
    CHECK_EQ(get_status(arena, 200 * KIB), -EIO); /* nothing idle: no second try */
    CHECK_EQ(backing.n_fail, 1);
    npux_block_unref(b);
    backing.n_fail = 2;
    CHECK_EQ(get_status(arena, 10 * MIB), -EIO); /* a second try that fails as well */
    CHECK_EQ(backing.n_fail, 0);
    CHECK_EQ(backing.n_mapped, 1);
    CHECK_EQ(stats_of(arena).held_nbytes, 128 * KIB);
    npux_block_unref(a);
    check_close_all(arena);
}

/* Waiting. ------------------------------------------------------------------------------------------ */

struct waiter {
    pthread_t thread;
    struct npux_arena *arena;
    uint64_t seen;
    atomic_bool asked, back;
    int status;
};

static void *wait_once(void *argument)
{
    struct waiter *w = argument;
    npux_arena_wait(w->arena, w->seen);
    atomic_store(&w->back, true);
    return NULL;
}

static void check_wait(void)
{
    struct npux_arena *arena = arena_with(64 * KIB, 64 * KIB);
    struct npux_block *a = get(arena, 64 * KIB);
    struct waiter w = {.arena = arena, .seen = npux_arena_returns(arena)};

    CHECK_EQ(get_status(arena, 64 * KIB), -ENOSPC);
    CHECK_EQ(pthread_create(&w.thread, NULL, wait_once, &w), 0);
    npux_block_unref(a); /* before or after it sleeps: both must end the wait */
    CHECK_EQ(pthread_join(w.thread, NULL), 0);
    a = get(arena, 64 * KIB);
    w.seen = npux_arena_returns(arena);
    CHECK_EQ(pthread_create(&w.thread, NULL, wait_once, &w), 0);
    npux_arena_interrupt(arena);
    CHECK_EQ(pthread_join(w.thread, NULL), 0);
    npux_block_unref(a);
    check_close_all(arena);
}

/* As the stager and the lanes do it. */
static void *get_or_wait(void *argument)
{
    struct waiter *w = argument;
    struct npux_block *block;
    struct npux_err err;

    for (;;) {
        uint64_t seen = npux_arena_returns(w->arena);
        w->status = npux_arena_get(w->arena, 64 * KIB, &block, &err);
        if (w->status != -ENOSPC)
            break;
        atomic_store(&w->asked, true);
        npux_arena_wait(w->arena, seen);
    }
    if (w->status == 0)
        npux_block_unref(block);
    atomic_store(&w->back, true);
    return NULL;
}

/* One thread has reserved the last of the cap and is mapping; another is told "not now" and waits. The map
 * fails: no block will ever come back, so the failure itself must wake the other. */
static void check_failed_map_wakes_waiters(void)
{
    struct npux_arena *arena = arena_with(64 * KIB, 64 * KIB);
    struct waiter a = {.arena = arena}, b = {.arena = arena};

    pthread_mutex_lock(&backing.mu);
    backing.gate_shut = true;
    backing.n_fail = 1;
    pthread_mutex_unlock(&backing.mu);
    CHECK_EQ(pthread_create(&a.thread, NULL, get_or_wait, &a), 0);
    pthread_mutex_lock(&backing.mu);
    while (backing.n_in_gate != 1)
        pthread_cond_wait(&backing.cv, &backing.mu);
    pthread_mutex_unlock(&backing.mu);
    CHECK_EQ(pthread_create(&b.thread, NULL, get_or_wait, &b), 0);
    UNTIL(atomic_load(&b.asked));
    pthread_mutex_lock(&backing.mu);
    backing.gate_shut = false;
    pthread_cond_broadcast(&backing.cv);
    pthread_mutex_unlock(&backing.mu);
    CHECK_EQ(pthread_join(a.thread, NULL), 0);
    CHECK_EQ(a.status, -EIO);
    {
        uint64_t until = npux_now_ns() + 10000000000u;
        while (!atomic_load(&b.back) && npux_now_ns() < until)
            sched_yield();
    }
    CHECK(atomic_load(&b.back));
    CHECK_EQ(pthread_join(b.thread, NULL), 0);
    CHECK_EQ(b.status, 0);
    check_close_all(arena);
}

/* The end. ------------------------------------------------------------------------------------------ */

static int n_gone;

static void count_gone(void *context)
{
    CHECK(context == &n_gone);
    n_gone++;
}

static void check_stragglers(enum npux_stragglers stragglers)
{
    struct npux_arena_opts opts = opts_with(SIZE_MAX / 2, SIZE_MAX / 2);
    struct npux_arena *arena;
    struct npux_block *a, *b, *big;
    bool late = stragglers == NPUX_STRAGGLERS_LATE;

    opts.stragglers = stragglers;
    opts.side = late ? NPUX_PINNED : NPUX_DEVICE;
    arena = npux_arena_new(&opts);
    n_gone = 0;
    npux_arena_set_on_gone(arena, count_gone, &n_gone);
    a = get(arena, 1000);
    b = get(arena, 1000);
    big = get(arena, 100 * KIB);
    npux_block_unref(get(arena, 300 * KIB)); /* idle at the end */
    fill(a->address, 1000, 1);
    fill(big->address, 100 * KIB, 2);
    CHECK_EQ(npux_arena_close(arena), 2000 + 100 * KIB);
    CHECK_EQ(backing.n_mapped, late ? 2 : 0);
    CHECK_EQ(npux_block_alive(a), late);
    CHECK_EQ(npux_block_alive(big), late);
    CHECK_EQ(npux_block_side(a), opts.side);
    npux_block_unref(b);
    CHECK_EQ(backing.n_mapped, late ? 2 : 0); /* a lies in the same span */
    if (late)
        CHECK(holds(a->address, 1000, 1) && holds(big->address, 100 * KIB, 2));
    npux_block_unref(big);
    CHECK_EQ(n_gone, 0);
    npux_block_unref(a);
    CHECK_EQ(n_gone, 1);
    CHECK_EQ(backing.n_mapped, 0);
}

static void check_close_empty(void)
{
    struct npux_arena *arena = arena_with(1, 0);
    n_gone = 0;
    npux_arena_set_on_gone(arena, count_gone, &n_gone);
    check_close_all(arena);
    CHECK_EQ(n_gone, 1);
}

/* Stress: threads write a mark of their own over every block they own and find it untouched. --------- */

enum { N_THREADS = 4, N_ROUNDS = 3000, N_HELD = 12 };

struct stresser {
    pthread_t thread;
    struct npux_arena *arena;
    uint64_t rng;
    unsigned char mark;
    unsigned n_full, n_failed;
};

static void check_mark(const struct npux_block *b, unsigned char mark)
{
    for (size_t i = 0; i < b->nbytes; i++)
        CHECK_EQ((unsigned char)b->address[i], mark);
}

static atomic_uint n_full;

static void *stress(void *argument)
{
    struct stresser *self = argument;
    struct npux_block *held[N_HELD] = {NULL};

    /* On a busy machine the threads may run one after the other, and the cap is met late. */
    for (int round = 0; round < N_ROUNDS || atomic_load(&n_full) == 0; round++) {
        size_t slot = rng_below(&self->rng, N_HELD);
        struct npux_err err;
        if (held[slot] != NULL) {
            struct npux_block *found =
                npux_arena_find(self->arena, held[slot]->address + held[slot]->nbytes / 2, 1);
            CHECK(found == held[slot]);
            check_mark(held[slot], self->mark);
            npux_block_unref(held[slot]);
            npux_block_unref(found);
            held[slot] = NULL;
        } else {
            size_t nbytes = 1 + rng_below(&self->rng, (size_t)1 << rng_below(&self->rng, 18));
            int rc = npux_arena_get(self->arena, nbytes, &held[slot], &err);
            if (rc == 0)
                memset(held[slot]->address, self->mark, nbytes);
            else if (rc == -ENOSPC)
                atomic_fetch_add(&n_full, 1);
            else
                self->n_failed++;
        }
        if (rng_below(&self->rng, 500) == 0) {
            pthread_mutex_lock(&backing.mu);
            backing.n_fail = 1;
            pthread_mutex_unlock(&backing.mu);
        }
    }
    for (int i = 0; i < N_HELD; i++)
        if (held[i] != NULL) {
            check_mark(held[i], self->mark);
            npux_block_unref(held[i]);
        }
    return NULL;
}

static void check_stress(void)
{
    struct npux_arena *arena = arena_with(1 * MIB, 512 * KIB);
    struct stresser threads[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        threads[i] =
            (struct stresser){.arena = arena, .rng = (uint64_t)i + 1, .mark = (unsigned char)(i + 1)};
        CHECK_EQ(pthread_create(&threads[i].thread, NULL, stress, &threads[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i].thread, NULL), 0);
    }
    CHECK(atomic_load(&n_full) > 0); /* the cap was met */
    backing.n_fail = 0;
    CHECK(stats_of(arena).peak_nbytes <= 1 * MIB);
    CHECK(stats_of(arena).held_nbytes <= 512 * KIB);
    check_close_all(arena);
}

int main(void)
{
    check_classes();
    check_cap();
    check_odd_caps();
    check_reuse_and_keep();
    check_find();
    check_backing_failure();
    check_wait();
    check_stragglers(NPUX_STRAGGLERS_LATE);
    check_stragglers(NPUX_STRAGGLERS_UNMAP);
    check_close_empty();
    check_stress();
    check_failed_map_wakes_waiters();
    return 0;
}
