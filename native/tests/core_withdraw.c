/* core_withdraw.c - requests that are withdrawn at every step of their way. */
#include "core/report.h"

#include "tests/engine_fixture.h"

static struct rig rig;

static uint64_t pending(void)
{
    return npux_engine_pending(rig.engine);
}

static void withdraw(const struct job *job)
{
    npux_engine_withdraw(rig.engine, job);
}

static void open_with(size_t staging_nbytes, size_t chunk_nbytes)
{
    struct npux_engine_opts opts = default_opts();

    opts.staging_nbytes = staging_nbytes;
    opts.chunk_nbytes = chunk_nbytes;
    opts.pageable = NPUX_PAGEABLE_STAGED;
    rig_open(&rig, &opts);
}

static bool device_has(const struct npux_block *block, const char *bytes, size_t nbytes)
{
    char *copy = malloc(nbytes);
    bool same;

    CHECK(copy != NULL);
    CHECK_EQ(sim.peek(block->address, copy, nbytes), 0);
    same = memcmp(copy, bytes, nbytes) == 0;
    free(copy);
    return same;
}

/* Uploads that no lane has, because what the lanes have does not end. They go at once; what is on a stream
 * ends well. */
static void check_queued(void)
{
    enum { N = 40 };
    struct job *jobs[N];
    char *src = malloc(N * 256 * KIB);
    uint64_t n_copies;
    unsigned n_copied = 0;

    CHECK(src != NULL);
    open_with(32 * MIB, 256 * KIB);
    fill(src, N * 256 * KIB, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    for (size_t i = 0; i < N; i++)
        jobs[i] = start_h2d(&rig, src + i * 256 * KIB, 256 * KIB, NULL);
    for (size_t i = 0; i < N; i++)
        wait_captured(&rig, jobs[i]);
    UNTIL(sim.pending_tasks(0) > 0);
    for (size_t i = 0; i < N; i++)
        withdraw(jobs[i]);
    UNTIL(pending() <=
          4); /* two lanes, with two chunks at most in the window of a direction, and what is between */
    CHECK(pending() > 0);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (size_t i = 0; i < N; i++) {
        wait_done(&rig, jobs[i]);
        if (jobs[i]->out[0].status == 0) {
            n_copied++;
            CHECK(device_has(jobs[i]->out[0].block, src + i * 256 * KIB, 256 * KIB));
        } else {
            CHECK_EQ(jobs[i]->out[0].status, -ECANCELED);
        }
        job_free(jobs[i]);
    }
    n_copies = rig.engine->sched.counters.copies[NPUX_H2D];
    CHECK(n_copied > 0 && n_copied < N);
    CHECK_EQ(n_copies,
             n_copied); /* nothing that was withdrawn was copied, nothing that was copied was lost */
    CHECK_EQ(rig.engine->sched.counters.withdrawn[NPUX_H2D], N - n_copied);
    CHECK_EQ(rig.engine->sched.counters.failed[NPUX_H2D], 0);
    rig_close(&rig);
    free(src);
}

/* A large upload waits for staging memory; the rest of it is dropped, and another goes on. */
static void check_starved(void)
{
    struct job *large, *next;
    char *src = malloc(20 * MIB);

    CHECK(src != NULL);
    open_with(4 * MIB, MIB);
    fill(src, 20 * MIB, 2);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    large = start_h2d(&rig, src, 20 * MIB, NULL);
    next = start_h2d(&rig, src, 3 * MIB, NULL);
    UNTIL(sim.pending_tasks(0) > 0);
    withdraw(large);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, large, -ECANCELED);
    wait_done(&rig, next);
    CHECK_EQ(next->out[0].status, 0);
    CHECK(device_holds(next->out[0].block, 0, 3 * MIB, 2));
    job_free(next);
    rig_close(&rig);
    free(src);
}

/* One waits for the memory that another has: it goes when that is over. What waits behind it comes after. */
static void check_ordered(void)
{
    struct job *first, *second, *third;
    struct npux_block *block;
    char src[3][1000], dst[1000];

    open_with(32 * MIB, MIB);
    for (uint32_t i = 0; i < 3; i++)
        fill(src[i], 1000, i);
    block = upload_pattern(&rig, 1000, 9);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    first = start_h2d(&rig, src[0], 1000, block);
    second = start_h2d(&rig, src[1], 1000, block);
    third = start_d2h(&rig, dst, 1000, block);
    withdraw(second);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, second, -ECANCELED);
    finish(&rig, first, 0);
    finish(&rig, third, 0);
    CHECK(holds(dst, 1000, 0));
    npux_block_unref(block);
    rig_close(&rig);
}

/* The same stream is waited for by several: those that no lane leads go at once. */
static void check_behind_a_stream(void)
{
    const struct npux_acl *acl;
    aclrtStream stream;
    struct npux_block *block;
    struct job *jobs[4];
    char *pinned, dst[4][1000];

    open_with(32 * MIB, MIB);
    acl = acl_table(rig.engine);
    block = upload_pattern(&rig, 1000, 3);
    CHECK_EQ(acl->aclrtSetCurrentContext(rig.engine->context), 0);
    CHECK_EQ(acl->aclrtCreateStream(&stream), 0);
    CHECK_EQ(acl->aclrtMallocHost((void **)&pinned, 1000), 0);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    CHECK_EQ(acl->aclrtMemcpyAsync(block->address, 1000, pinned, 1000, ACL_MEMCPY_HOST_TO_DEVICE, stream), 0);
    for (int i = 0; i < 4; i++) {
        struct npux_err err;
        jobs[i] = job_new(&rig, 1);
        job_set(jobs[i], 0, NPUX_D2H, dst[i], 1000, block, 0);
        CHECK_EQ(npux_after_new(rig.engine, &stream, 1, NULL, 0, NULL, 0, 0, &jobs[i]->request->after, &err),
                 0);
        CHECK_EQ(job_submit(&rig, jobs[i]), 0);
    }
    UNTIL(sim.pending_tasks(0) >= 7); /* a copy and four records on it; a wait and a copy behind it */
    for (int i = 1; i < 3; i++)
        withdraw(jobs[i]);
    UNTIL(pending() == 2);
    finish(&rig, jobs[1], -ECANCELED);
    finish(&rig, jobs[2], -ECANCELED);
    withdraw(jobs[0]); /* is on its stream */

    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, jobs[0], 0);
    finish(&rig, jobs[3], 0);
    CHECK_EQ(memcmp(dst[0], dst[3], 1000), 0);
    CHECK_EQ(acl->aclrtSynchronizeStream(stream), 0);
    CHECK_EQ(acl->aclrtDestroyStream(stream), 0);
    CHECK_EQ(acl->aclrtFreeHost(pinned), 0);
    npux_block_unref(block);
    rig_close(&rig);
}

/* Anything at any time, from here and from a second thread; what was not withdrawn has its bytes. */
static atomic_bool is_over;

static void *withdraw_wildly(void *keys)
{
    struct npux_report_row rows[16];
    uint64_t rng = 77;

    while (!atomic_load(&is_over)) {
        size_t n = npux_engine_report(rig.engine, NULL, rows, 16);
        for (size_t i = 0; i < n && i < 16; i++)
            CHECK(rows[i].nbytes >= 1 && rows[i].nbytes <= MIB && rows[i].stage < NPUX_AT_END);
        npux_engine_withdraw(rig.engine, ((void **)keys)[rng_below(&rng, 64)]);
    }
    return NULL;
}

static void check_wild(void)
{
    enum { N = 64, N_ROUNDS = 60 };
    static void *keys[N];
    struct job *jobs[N];
    char *src = malloc(4 * MIB), *dst[N];
    struct npux_block *block;
    uint64_t rng = 5;
    pthread_t other;
    unsigned n_withdrawn = 0, n_done = 0;

    CHECK(src != NULL);
    open_with(4 * MIB, 256 * KIB);
    fill(src, 4 * MIB, 4);
    block = upload_pattern(&rig, MIB, 4);
    for (int i = 0; i < N; i++)
        CHECK((dst[i] = malloc(MIB)) != NULL);
    for (int round = 0; round < N_ROUNDS; round++) {
        atomic_store(&is_over, false);
        for (int i = 0; i < N; i++) {
            size_t nbytes = 1 + rng_below(&rng, rng_below(&rng, 4) == 0 ? MIB : 4 * KIB);
            bool up = rng_below(&rng, 2) == 0;
            jobs[i] = up ? start_h2d(&rig, src, nbytes, NULL) : start_d2h(&rig, dst[i], nbytes, block);
            keys[i] = jobs[i];
        }
        CHECK_EQ(pthread_create(&other, NULL, withdraw_wildly, keys), 0);
        for (int i = 0; i < N; i++)
            wait_done(&rig, jobs[i]);
        atomic_store(&is_over, true);
        CHECK_EQ(pthread_join(other, NULL), 0);
        for (int i = 0; i < N; i++) {
            CHECK(jobs[i]->out[0].status == 0 || jobs[i]->out[0].status == -ECANCELED);
            n_withdrawn += jobs[i]->out[0].status != 0;
            n_done += jobs[i]->out[0].status == 0;
            if (jobs[i]->out[0].block != NULL)
                CHECK(device_holds(jobs[i]->out[0].block, 0, 1, 4));
            job_free(jobs[i]);
        }
    }
    printf("%u withdrawn, %u done\n", n_withdrawn, n_done);
    CHECK(n_withdrawn + n_done == N * N_ROUNDS && n_done > 0);
    for (int i = 0; i < N; i++)
        free(dst[i]);
    npux_block_unref(block);
    rig_close(&rig);
    free(src);
}

int main(void)
{
    sim_load();
    CHECK_EQ(sim.set_device_count(1), 0);
    check_queued();
    check_starved();
    check_ordered();
    check_behind_a_stream();
    check_wild();
    return 0;
}
