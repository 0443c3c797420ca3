/* core_stress.c - everything at once: threads with a port each, one engine, mixed sizes, strided and pinned
 * memory, shared device blocks, failures of many kinds. Each success is verified byte by byte.
 *
 * Usage: core_stress [seed [seconds]]; five seconds by default, 600 for a soak. A slow machine takes longer:
 * a run goes on until it has verified enough and met a failure. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/engine_fixture.h"

enum { N_THREADS = 4, N_SLOTS = 24, MAX_NBYTES = 3 << 20 };

/* One round trip: up from src, then down into dst, both perhaps strided or pinned. */
struct slot {
    struct job *job;
    struct npux_block *device, *pinned_src, *pinned_dst;
    char *src, *dst, *flat; /* flat: what lies on the device */
    size_t nbytes, itemsize;
    ptrdiff_t stride; /* itemsize: contiguous */
    bool up;
};

struct worker {
    pthread_t thread;
    struct rig rig;
    uint64_t rng;
    struct slot slots[N_SLOTS];
};

enum { ENOUGH_VERIFIED = 100 };

static uint64_t end_ns;
static bool wants_failures;
static _Atomic uint64_t n_verified, n_failed; /* of all workers of a run */

/* What the run has to show has been seen, and its time is over. */
static bool is_enough(void)
{
    return npux_now_ns() >= end_ns && n_verified > ENOUGH_VERIFIED && (n_failed > 0 || !wants_failures);
}

static void describe(struct npux_op *op, const struct slot *s, char *memory)
{
    ptrdiff_t shape = (ptrdiff_t)(s->nbytes / s->itemsize);
    char *base = s->stride < 0 ? memory - s->stride * (shape - 1) : memory;

    CHECK_EQ(npux_host_init(&op->host, base, s->itemsize, 1, &shape, &s->stride), 0);
    CHECK_EQ(op->host.nbytes, s->nbytes);
}

static size_t room_of(const struct slot *s)
{
    size_t stride = (size_t)(s->stride < 0 ? -s->stride : s->stride);

    return stride * (s->nbytes / s->itemsize) + s->itemsize;
}

/* NULL when an injected failure hits the allocation itself. */
static struct npux_block *pinned_or_null(struct worker *w, size_t nbytes)
{
    struct npux_block *block = NULL;
    struct npux_err err;

    if (npux_engine_get_pinned(w->rig.engine, nbytes, &block, &err) != 0)
        CHECK_EQ(err.acl_code, 207001);
    return block;
}

static void start_up(struct worker *w, struct slot *s)
{
    static const size_t itemsizes[] = {1, 2, 3, 4, 8, 12, 16, 24};
    struct npux_op *op;
    size_t most = (size_t)1 << (6 + rng_below(&w->rng, 16));

    memset(s, 0, sizeof(*s));
    s->up = true;
    s->itemsize = itemsizes[rng_below(&w->rng, 8)];
    s->nbytes = (1 + rng_below(&w->rng, most / s->itemsize + 1)) * s->itemsize;
    s->stride = (ptrdiff_t)s->itemsize;
    if (s->nbytes / s->itemsize > 1 && rng_below(&w->rng, 3) == 0)
        s->stride = (s->stride + (ptrdiff_t)rng_below(&w->rng, 20)) * (rng_below(&w->rng, 2) == 0 ? 1 : -1);
    if (s->stride == (ptrdiff_t)s->itemsize && rng_below(&w->rng, 3) == 0) {
        s->pinned_src = pinned_or_null(w, s->nbytes);
        s->pinned_dst = pinned_or_null(w, s->nbytes);
    }
    s->src = s->pinned_src != NULL ? s->pinned_src->address : malloc(room_of(s));
    s->dst = s->pinned_dst != NULL ? s->pinned_dst->address : malloc(room_of(s));
    s->flat = malloc(s->nbytes);
    for (size_t i = 0; i < s->nbytes; i += 8) {
        uint64_t word = rng_next(&w->rng);
        memcpy(s->flat + i, &word, s->nbytes - i < 8 ? s->nbytes - i : 8);
    }
    memset(s->dst, 0xdd, s->pinned_dst != NULL ? s->nbytes : room_of(s));
    s->job = job_new(&w->rig, 1);
    s->job->request->priority = (uint8_t)rng_below(&w->rng, NPUX_N_PRIORITIES);
    s->job->request->awaits_end = rng_below(&w->rng, 2) == 0;
    op = job_target(s->job, 0, NPUX_H2D, NULL, 0);
    describe(op, s, s->src);
    npux_host_write(&op->host, 0, s->flat, s->nbytes);
    CHECK_EQ(job_submit(&w->rig, s->job), 0);
}

static void start_down(struct worker *w, struct slot *s)
{
    s->device = s->job->out[0].block;
    npux_block_ref(s->device);
    job_free(s->job);
    s->up = false;
    s->job = job_new(&w->rig, 1);
    describe(job_target(s->job, 0, NPUX_D2H, s->device, 0), s, s->dst);
    CHECK_EQ(job_submit(&w->rig, s->job), 0);
}

static void verify(const struct slot *s)
{
    struct npux_op op = {0};
    char *got = malloc(s->nbytes);

    describe(&op, s, s->dst);
    npux_host_read(&op.host, 0, got, s->nbytes);
    CHECK(memcmp(got, s->flat, s->nbytes) == 0);
    npux_host_clear(&op.host);
    free(got);
    n_verified++;
}

static void clear(struct slot *s)
{
    job_free(s->job);
    if (s->device != NULL)
        npux_block_unref(s->device);
    if (s->pinned_src == NULL)
        free(s->src);
    else
        npux_block_unref(s->pinned_src);
    if (s->pinned_dst == NULL)
        free(s->dst);
    else
        npux_block_unref(s->pinned_dst);
    free(s->flat);
    memset(s, 0, sizeof(*s));
}

static const int32_t codes[] = {507001, 207001, 507013, 507053};

static bool is_ours(int code)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* Failures are injected by call or copy number, so they hit any thread's transfer. The random rule of run()
 * is always on beside these. */
static void inject(uint64_t *rng)
{
    static const char *const calls[] = {"aclrtMemcpyAsync", "aclrtMalloc", "aclrtMallocHost", "aclrtMemcpy"};
    char rule[160];

    switch (rng_below(rng, 6)) {
    case 0:
        snprintf(rule, sizeof(rule), "call name=%s code=207001 nth=%zu", calls[rng_below(rng, 4)],
                 1 + rng_below(rng, 50));
        break;
    case 1:
        snprintf(rule, sizeof(rule), "slow delay_us=%zu nth=%zu times=3 every=7", rng_below(rng, 2000),
                 1 + rng_below(rng, 50));
        break;
    case 2:
        snprintf(rule, sizeof(rule), "copy code=507013 min_bytes=64KiB nth=%zu", 1 + rng_below(rng, 20));
        break;
    case 3:
        snprintf(rule, sizeof(rule), "copy code=507053 probability=0.05 times=3 seed=%zu",
                 rng_below(rng, 1000000));
        break;
    default:
        snprintf(rule, sizeof(rule), "copy code=507001 nth=%zu", 1 + rng_below(rng, 50));
        break;
    }
    if (sim.add_fault(rule) < 0) { /* the list is full: none of these has to fire */
        sim.clear_faults();
        CHECK(sim.add_fault(rule) > 0);
    }
}

static void settle(struct worker *w, struct slot *s)
{
    const struct outcome *out = &s->job->out[0];

    if (out->status != 0) {
        CHECK_EQ(out->status, -EIO);
        CHECK(is_ours(out->acl_code));
        n_failed++;
        clear(s);
    } else if (s->up) {
        start_down(w, s);
    } else {
        verify(s);
        clear(s);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    bool busy = true;

    while (busy) {
        bool more = !is_enough();
        busy = false;
        for (int i = 0; i < N_SLOTS; i++) {
            struct slot *s = &w->slots[i];
            if (s->job == NULL && more)
                start_up(w, s);
            if (s->job != NULL && s->job->captured && s->up)
                memset(s->src, 0x11, s->pinned_src == NULL ? room_of(s) : 0); /* ours again */
            if (s->job != NULL && s->job->done)
                settle(w, s);
            busy = busy || s->job != NULL;
        }
        if (more && rng_below(&w->rng, 40) == 0)
            inject(&w->rng);
        if (busy && !port_is_readable(w->rig.port, 0)) {
            bool waiting = true; /* nothing to settle: sleep on the doorbell */
            for (int i = 0; i < N_SLOTS; i++)
                waiting = waiting && (w->slots[i].job == NULL ? !more : !w->slots[i].job->done);
            if (waiting)
                reap_some(&w->rig);
        }
        reap(&w->rig);
    }
    return NULL;
}

/* One port's thread per worker, then all over again without reports, so that everything is proved by hand. */
static void run(uint64_t seed, bool faults_known, uint64_t run_ns)
{
    static struct worker workers[N_THREADS];
    struct npux_engine_opts opts = default_opts();
    struct npux_engine *engine;
    struct npux_engine_stats stats;
    char rule[64];

    opts.staging_nbytes = 6 * MIB;
    opts.chunk_nbytes = 256 * KIB;
    engine = engine_open(&opts);
    engine->runtime->faults_known = faults_known;
    snprintf(rule, sizeof(rule), "random rate=0.002 seed=%llu", (unsigned long long)seed);
    CHECK(sim.add_fault(rule) > 0);
    n_verified = n_failed = 0;
    wants_failures = faults_known;
    end_ns = npux_now_ns() + run_ns;
    for (uint32_t i = 0; i < N_THREADS; i++) {
        memset(&workers[i], 0, sizeof(workers[i]));
        workers[i].rng = seed + i;
        rig_attach(&workers[i].rig, engine);
        workers[i].rig.port->has_turns = i % 2 == 0;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
        rig_detach(&workers[i].rig);
    }
    sim.clear_faults();
    npux_engine_stats(engine, &stats);
    printf("seed %llu: %llu verified, %llu failed, %llu reissued\n", (unsigned long long)seed,
           (unsigned long long)n_verified, (unsigned long long)n_failed,
           (unsigned long long)(stats.counters.reissued[0] + stats.counters.reissued[1]));
    CHECK(n_verified > ENOUGH_VERIFIED && (n_failed > 0 || !faults_known));
    CHECK_EQ(stats.n_pending, 0);
    CHECK_EQ(stats.counters.failed[0] + stats.counters.failed[1], n_failed);
    CHECK_EQ(stats.device.n_blocks_out + stats.pinned.n_blocks_out, 0);
    CHECK_EQ(stats.staging[0].n_blocks_out + stats.staging[1].n_blocks_out, 0);
    CHECK(stats.staging[0].peak_nbytes <= 6 * MIB && stats.staging[1].peak_nbytes <= 6 * MIB);
    engine->runtime->faults_known = true;
    engine_close_clean(engine);
    check_nothing_lives();
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : npux_now_ns() % 1000000;
    uint64_t run_ns = (argc > 2 ? strtoull(argv[2], NULL, 10) : 5) * UINT64_C(1000000000);

    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    sim_load();
    run(seed, true, run_ns * 3 / 5);
    run(seed + 1000, false, run_ns * 2 / 5);
    return 0;
}
