/* core_close.c - closing with work pending, memory out, threads inside, and a device that does not answer. */
#include <pthread.h>

#include "tests/engine_fixture.h"

static const uint64_t LONG_NS = (uint64_t)PATIENCE_MS * 1000000u;

static struct rig rig;
static void
    *kept[64]; /* what a stuck engine leaks on purpose stays reachable, so that LSan has no complaint */
static unsigned n_kept;

static void keep(void *what)
{
    CHECK(n_kept < 64);
    kept[n_kept++] = what;
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(npux_now_ns() - start_ns) * 1e-9;
}

/* A healthy close waits for what is pending. */
static void check_close_drains(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *block;
    struct job *jobs[40];
    char *src = malloc(5 * MIB), *dst = malloc(5 * MIB);

    rig_open(&rig, &opts);
    fill(src, 5 * MIB, 1);
    for (int i = 0; i < 40; i++)
        jobs[i] = start_h2d(&rig, src, i % 4 == 0 ? 5 * MIB : 5000, NULL);
    block = upload(&rig, src, 5 * MIB);
    jobs[0] = (job_free((wait_done(&rig, jobs[0]), jobs[0])), start_d2h(&rig, dst, 5 * MIB, block));
    npux_block_unref(block);
    engine_close_clean(rig.engine);
    reap(&rig); /* nothing is waited for any more: it has all arrived */
    for (int i = 0; i < 40; i++) {
        CHECK(jobs[i]->done && jobs[i]->out[0].status == 0);
        job_free(jobs[i]);
    }
    CHECK(holds(dst, 5 * MIB, 1));
    CHECK(!port_is_readable(rig.port, 0));
    rig_detach(&rig);
    check_nothing_lives();
    free(src);
    free(dst);
}

/* Closed without time, on a healthy device: each job ends, either way; nothing is abandoned or leaked. */
static void check_close_at_once(uint32_t round)
{
    enum { N = 60 };
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_block *block;
    struct job *jobs[N];
    char *src = malloc(3 * MIB);

    opts.staging_nbytes = 4 * MIB;
    opts.chunk_nbytes = 256 * KIB;
    opts.n_lanes = 1 + round % 3;
    rig_open(&rig, &opts);
    fill(src, 3 * MIB, 1);
    block = upload(&rig, src, 3 * MIB);
    for (uint32_t i = 0; i < N; i++)
        jobs[i] = start_h2d(&rig, src, i % 3 == 0 ? 3 * MIB : 1000, i % 5 == 0 ? block : NULL);
    npux_block_unref(block);
    npux_engine_close(rig.engine, 0, &report);
    CHECK_EQ(report.n_stuck, 0);
    CHECK_EQ(report.acl_code, 0);
    reap(&rig);
    for (uint32_t i = 0; i < N; i++) {
        CHECK(jobs[i]->done);
        CHECK(!jobs[i]->abandoned); /* no DMA can use its memory any more */
        CHECK(jobs[i]->out[0].status == 0 || jobs[i]->out[0].status == -ESHUTDOWN);
        job_free(jobs[i]);
    }
    npux_engine_free(rig.engine);
    rig_detach(&rig);
    check_nothing_lives();
    free(src);
}

/* The stager is in the middle of a chunk when everybody leaves: nobody is there to issue it. ---------- */

static struct {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool shut, inside;
} gate = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};

static aclError (*real_malloc_host)(void **, size_t);

static void gate_pass(void)
{
    pthread_mutex_lock(&gate.mu);
    gate.inside = true;
    pthread_cond_broadcast(&gate.cv);
    while (gate.shut)
        pthread_cond_wait(&gate.cv, &gate.mu);
    gate.inside = false;
    pthread_cond_broadcast(&gate.cv);
    pthread_mutex_unlock(&gate.mu);
}

static void gate_wait_inside(void)
{
    pthread_mutex_lock(&gate.mu);
    while (!gate.inside)
        pthread_cond_wait(&gate.cv, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

static void gate_wait_outside(void)
{
    pthread_mutex_lock(&gate.mu);
    while (gate.inside)
        pthread_cond_wait(&gate.cv, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

static void gate_set(bool shut)
{
    pthread_mutex_lock(&gate.mu);
    gate.shut = shut;
    pthread_cond_broadcast(&gate.cv);
    pthread_mutex_unlock(&gate.mu);
}

static aclError gated_malloc_host(void **ptr, size_t nbytes)
{
    gate_pass();
    return real_malloc_host(ptr, nbytes);
}

struct closer {
    pthread_t thread;
    struct npux_engine *engine;
    uint64_t timeout_ns;
    struct npux_close_report report;
    atomic_bool back;
};

static void *close_engine(void *argument)
{
    struct closer *c = argument;
    npux_engine_close(c->engine, c->timeout_ns, &c->report);
    atomic_store(&c->back, true);
    return NULL;
}

static uint64_t live_streams(void)
{
    struct aclsim_counters counters;
    sim.counters(&counters);
    return counters.live_streams;
}

static void check_close_during_staging(void)
{
    struct npux_engine_opts opts = default_opts();
    struct closer closer = {.timeout_ns = 0};
    struct npux_acl *acl;
    struct job *job;
    char *src = malloc(3 * MIB);

    opts.chunk_nbytes = 1 * MIB;
    rig_open(&rig, &opts);
    fill(src, 3 * MIB, 1);
    acl = acl_table(rig.engine);
    real_malloc_host = acl->aclrtMallocHost;
    acl->aclrtMallocHost = gated_malloc_host;
    gate_set(true);
    job = start_h2d(&rig, src, 3 * MIB, NULL);
    gate_wait_inside();
    closer.engine = rig.engine;
    CHECK_EQ(pthread_create(&closer.thread, NULL, close_engine, &closer), 0);
    UNTIL(live_streams() == 0); /* the lanes are gone */
    gate_set(false);
    CHECK_EQ(pthread_join(closer.thread, NULL), 0);
    acl->aclrtMallocHost = real_malloc_host;
    CHECK_EQ(closer.report.n_stuck, 0);
    reap(&rig);
    CHECK(job->done);
    CHECK_EQ(job->out[0].status, -ESHUTDOWN);
    CHECK(!job->abandoned);
    job_free(job);
    npux_engine_free(rig.engine);
    rig_detach(&rig);
    check_nothing_lives();
    free(src);
}

/* The stager itself does not come back from the runtime: close ends all the same. */
static void check_close_with_stuck_stager(void)
{
    struct npux_engine_opts opts = default_opts();
    struct closer closer = {.timeout_ns = 0};
    uint64_t start_ns = npux_now_ns();
    struct npux_acl *acl;
    struct job *job;
    char *src = malloc(3 * MIB);
    bool in_time;

    rig_open(&rig, &opts);
    fill(src, 3 * MIB, 1);
    acl = acl_table(rig.engine);
    real_malloc_host = acl->aclrtMallocHost;
    acl->aclrtMallocHost = gated_malloc_host;
    gate_set(true);
    job = start_h2d(&rig, src, 3 * MIB, NULL);
    gate_wait_inside();
    closer.engine = rig.engine;
    CHECK_EQ(pthread_create(&closer.thread, NULL, close_engine, &closer), 0);
    while (!atomic_load(&closer.back) && seconds_since(start_ns) < 12)
        sched_yield();
    in_time = atomic_load(&closer.back);
    if (!in_time)
        fprintf(stderr, "close hangs behind a stager that is stuck in aclrtMallocHost\n");
    CHECK(in_time);
    CHECK_EQ(pthread_join(closer.thread, NULL), 0);
    CHECK(closer.report.n_stuck > 0);
    CHECK_EQ(closer.report.n_abandoned, 1);
    reap(&rig);
    CHECK(job->done && job->abandoned);
    CHECK_EQ(job->out[0].status, -ESHUTDOWN);
    npux_engine_free(rig.engine);
    keep(rig.engine);
    keep(job);
    keep(src);
    rig_detach(&rig);
    gate_set(false); /* the thread comes back late, into an engine that is still there */
    gate_wait_outside();
    acl->aclrtMallocHost = real_malloc_host;
}

/* A device that does not move. ---------------------------------------------------------------------- */

static void check_close_stuck(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_block *block, *pinned;
    struct job *h2d, *d2h, *behind, *staged, *last;
    uint64_t start_ns;
    char *src = malloc(20 * MIB), *dst = malloc(MIB);

    opts.staging_nbytes = 4 * MIB;
    opts.chunk_nbytes = 1 * MIB;
    rig_open(&rig, &opts);
    fill(src, 20 * MIB, 1);
    memset(dst, 0xdd, MIB);
    block = upload(&rig, src, MIB);
    pinned = get_pinned(&rig, MIB);
    fill(pinned->address, MIB, 8);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    h2d = start_h2d(&rig, src, 1000, NULL);
    staged = start_h2d(&rig, src, 20 * MIB, NULL); /* the stager waits for staging memory */
    d2h = start_d2h(&rig, dst, MIB, block);
    behind = start_h2d(&rig, src, MIB, block); /* admitted only after the D2H */
    last = start_h2d(&rig, pinned->address, MIB, NULL);
    start_ns = npux_now_ns();
    npux_engine_close(rig.engine, 50000000, &report);
    CHECK(seconds_since(start_ns) < 10);
    CHECK(report.n_stuck >= 2);
    CHECK(report.n_abandoned >= 2); /* h2d or the parts of staged, and d2h */
    reap(&rig);
    CHECK(h2d->done && staged->done && d2h->done && behind->done && last->done);
    CHECK_EQ(h2d->out[0].status, -ESHUTDOWN);
    CHECK_EQ(staged->out[0].status, -ESHUTDOWN);
    CHECK_EQ(d2h->out[0].status, -ESHUTDOWN);
    CHECK_EQ(behind->out[0].status, -ESHUTDOWN);
    CHECK_EQ(last->out[0].status, -ESHUTDOWN);
    CHECK(d2h->abandoned); /* the DMA will still write */
    npux_engine_free(rig.engine);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    UNTIL(sim.pending_tasks(0) == 0); /* into memory that is still mapped: a sanitizer would tell */
    CHECK(holds(pinned->address, MIB, 8));
    keep(rig.engine);
    keep(h2d);
    keep(staged);
    keep(d2h);
    keep(behind);
    keep(last);
    keep(src);
    keep(dst);
    rig_detach(&rig);
}

/* One lane's batch is stuck with all the staging memory; another lane waits for some and must be woken. */
static void check_close_while_a_lane_waits(void)
{
    enum { N = 12 };
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_arena_stats stats;
    struct npux_block *block;
    struct job *jobs[N];
    char *dst = malloc(N * MIB);
    unsigned n_abandoned = 0;

    opts.staging_nbytes = 2 * MIB;
    opts.chunk_nbytes = 1 * MIB;
    rig_open(&rig, &opts);
    block = upload_pattern(&rig, MIB, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    for (int i = 0; i < N; i++)
        jobs[i] = start_d2h(&rig, dst + (size_t)i * MIB, MIB, block);
    do
        npux_arena_stats(rig.engine->staging_arena[NPUX_D2H], &stats);
    while (stats.used_nbytes < 2 * MIB);
    npux_engine_close(rig.engine, 0, &report);
    CHECK(report.n_stuck > 0 && report.n_stuck <= 2);
    CHECK_EQ(report.n_abandoned, 2); /* what the stream has; the rest is withdrawn */
    reap(&rig);
    for (int i = 0; i < N; i++) {
        CHECK(jobs[i]->done);
        CHECK_EQ(jobs[i]->out[0].status, -ESHUTDOWN);
        n_abandoned += jobs[i]->abandoned;
        if (jobs[i]->abandoned)
            keep(jobs[i]);
        else
            job_free(jobs[i]);
    }
    CHECK_EQ(n_abandoned, 2);
    npux_engine_free(rig.engine);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    UNTIL(sim.pending_tasks(0) == 0);
    keep(rig.engine);
    keep(dst);
    keep(block);
    rig_detach(&rig);
}

/* Pinned arrays of the user outlive the engine. ------------------------------------------------------ */

static void check_pinned_out(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_block *a, *b, *result, *device;
    struct aclsim_counters counters;
    struct npux_err err;
    int64_t resets = sim.call_count("aclrtResetDevice", 0), finals = sim.call_count("aclFinalize", 0);

    rig_open(&rig, &opts);
    a = get_pinned(&rig, 3000);
    b = get_pinned(&rig, 9 * MIB);
    CHECK_EQ(npux_engine_get_result(rig.engine, 5000, &result, &err), 0);
    device = upload_pattern(&rig, 100, 1);
    fill(a->address, 3000, 1);
    fill(b->address, 9 * MIB, 2);
    fill(result->address, 5000, 3);
    npux_engine_close(rig.engine, LONG_NS, &report);
    CHECK_EQ(report.pinned_nbytes, 3000 + 9 * MIB);
    CHECK(report.n_stuck == 0 && report.n_abandoned == 0 && report.acl_code == 0);
    npux_engine_free(rig.engine);
    rig_detach(&rig);
    CHECK(!npux_block_alive(device) && npux_block_alive(a) && npux_block_alive(result));
    npux_block_unref(device);
    CHECK(holds(a->address, 3000, 1) && holds(b->address, 9 * MIB, 2) && holds(result->address, 5000, 3));
    sim.counters(&counters);
    CHECK_EQ(counters.live_streams, 0);
    CHECK_EQ(counters.live_device_blocks, 0);
    CHECK(counters.live_pinned_blocks == 2);
    CHECK_EQ(sim.call_count("aclrtResetDevice", 0), resets);
    npux_block_unref(b);
    CHECK(holds(a->address, 3000, 1));
    CHECK_EQ(sim.call_count("aclrtResetDevice", 0), resets);
    npux_block_unref(a);
    CHECK_EQ(sim.call_count("aclrtResetDevice", 0), resets + 1);
    CHECK_EQ(sim.call_count("aclFinalize", 0), finals + 1);
    CHECK(holds(result->address, 5000, 3)); /* ordinary memory has nothing to do with the device */
    npux_block_unref(result);
    check_nothing_lives();
}

static void check_refused_after_close(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_block *block = NULL;
    struct npux_err err;
    struct job *job;
    char src[100] = "";

    rig_open(&rig, &opts);
    npux_engine_close(rig.engine, LONG_NS, &report);
    job = job_new(&rig, 1);
    job_set(job, 0, NPUX_H2D, src, 100, NULL, 0);
    CHECK_EQ(job_submit(&rig, job), -ESHUTDOWN);
    job_free(job);
    CHECK_EQ(npux_engine_get_pinned(rig.engine, 100, &block, &err), -ESHUTDOWN);
    CHECK_EQ(npux_engine_get_result(rig.engine, 100, &block, &err), -ESHUTDOWN);
    npux_engine_free(rig.engine);
    rig_detach(&rig);
    check_nothing_lives();
}

/* Threads submit while another closes: every request ends exactly once. ------------------------------ */

enum { N_SUBMITTERS = 8, N_EACH = 400 };

struct submitter {
    pthread_t thread;
    struct rig rig;
    uint64_t rng;
    struct job *jobs[N_EACH];
    atomic_int n_submitted;
    unsigned n_refused, n_failed;
};

static void *submit_until_closed(void *argument)
{
    struct submitter *self = argument;
    char *src = malloc(200 * KIB);

    fill(src, 200 * KIB, 1);
    for (int i = 0; i < N_EACH; i++) {
        struct job *job = job_new(&self->rig, 1);
        size_t nbytes = rng_below(&self->rng, 4) == 0 ? 200 * KIB : rng_below(&self->rng, 2000);
        self->jobs[i] = job;
        job_set(job, 0, NPUX_H2D, src, nbytes, NULL, 0);
        if (job_submit(&self->rig, job) != 0) {
            CHECK_EQ(job->out[0].status, -ESHUTDOWN);
            self->n_refused++;
        }
        atomic_store(&self->n_submitted, i + 1);
        if (i % 16 == 0)
            reap(&self->rig);
    }
    for (int i = 0; i < N_EACH; i++) {
        wait_done(&self->rig, self->jobs[i]);
        CHECK(!self->jobs[i]->abandoned);
        self->n_failed += self->jobs[i]->out[0].status != 0;
        CHECK(self->jobs[i]->out[0].status == 0 || self->jobs[i]->out[0].status == -ESHUTDOWN);
        job_free(self->jobs[i]);
    }
    free(src);
    return NULL;
}

static void check_submit_races_close(int round)
{
    struct npux_engine_opts opts = default_opts();
    struct submitter *all = calloc(N_SUBMITTERS, sizeof(*all));
    struct npux_close_report report;
    struct npux_engine *engine;
    unsigned n_refused = 0;

    opts.staging_nbytes = 2 * MIB;
    opts.chunk_nbytes = 64 * KIB;
    engine = engine_open(&opts);
    for (int i = 0; i < N_SUBMITTERS; i++) {
        rig_attach(&all[i].rig, engine);
        all[i].rng = (uint64_t)(round * 100 + i);
        CHECK_EQ(pthread_create(&all[i].thread, NULL, submit_until_closed, &all[i]), 0);
    }
    UNTIL(atomic_load(&all[round % N_SUBMITTERS].n_submitted) > 20 * round);
    npux_engine_close(engine, round % 2 == 0 ? 0 : LONG_NS, &report);
    CHECK_EQ(report.n_stuck, 0);
    for (int i = 0; i < N_SUBMITTERS; i++) {
        CHECK_EQ(pthread_join(all[i].thread, NULL), 0);
        CHECK_EQ(all[i].rig.n_done + all[i].n_refused, N_EACH);
        n_refused += all[i].n_refused;
        rig_detach(&all[i].rig);
    }
    printf("round %d: %u of %d refused\n", round, n_refused, N_SUBMITTERS * N_EACH);
    npux_engine_free(engine);
    free(all);
    check_nothing_lives();
}

int main(void)
{
    sim_load();
    setvbuf(stdout, NULL, _IONBF, 0);
    check_close_drains();
    check_pinned_out();
    check_refused_after_close();
    for (uint32_t round = 0; round < 30; round++)
        check_close_at_once(round);
    printf("during staging\n");
    check_close_during_staging();
    printf("submit races close\n");
    for (int round = 0; round < 12; round++)
        check_submit_races_close(round);
    printf("stuck\n");
    check_close_stuck();
    check_close_while_a_lane_waits();
    printf("stuck stager\n");
    check_close_with_stuck_stager();
    return 0;
}
