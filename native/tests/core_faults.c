/* core_faults.c - a failure hits exactly what it hits, and no failure is ever reported as success. */
#include "tests/engine_fixture.h"

enum { N_BATCH = 12, NBYTES = 3000 };

static struct rig rig;

static void open_with(unsigned n_lanes, bool faults_known)
{
    struct npux_engine_opts opts = default_opts();

    opts.n_lanes = n_lanes;
    rig_open(&rig, &opts);
    CHECK(rig.engine->runtime->faults_known); /* the simulator reports */
    rig.engine->runtime->faults_known = faults_known;
    /* Memory for small transfers: from here on submit itself makes their chunks ready, in order. */
    npux_block_unref(upload_pattern(&rig, NBYTES, 0));
}

static void close_it(void)
{
    rig.engine->runtime->faults_known = true;
    sim.clear_faults();
    rig_close(&rig);
}

static void check_goes_on(void)
{
    struct npux_block *block = upload_pattern(&rig, NBYTES, 77);
    char dst[NBYTES];

    download(&rig, dst, NBYTES, block);
    CHECK(holds(dst, NBYTES, 77));
    npux_block_unref(block);
}

/* Holds the engine of a direction and lets the only lane wait behind a first copy: what is submitted until
 * the release becomes one batch. The plug is the first copy that fail_copy counts. */
static struct job *plug(enum npux_direction direction, const void *host, size_t nbytes,
                        struct npux_block *block)
{
    struct job *job;

    CHECK_EQ(sim.hold_engine(0, direction == NPUX_H2D ? ACLSIM_H2D : ACLSIM_D2H), 0);
    job = start_one(&rig, direction, host, nbytes, block, 0);
    UNTIL(sim.pending_tasks(0) > 0);
    return job;
}

/* A failing copy among its neighbours, all in one batch. */
static void check_h2d_neighbours(bool faults_known, uint64_t nth, size_t nbytes)
{
    struct npux_counters *counters;
    struct job *jobs[N_BATCH], *first;
    char *src = malloc(nbytes);
    int n_failed = 0;

    open_with(1, faults_known);
    first = plug(NPUX_H2D, src, 1, NULL);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, nth + 1, 507001) > 0);
    for (uint32_t i = 0; i < N_BATCH; i++) {
        fill(src, nbytes, i);
        jobs[i] = start_h2d(&rig, src, nbytes, NULL);
        wait_captured(&rig, jobs[i]);
    }
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < N_BATCH; i++) {
        wait_done(&rig, jobs[i]);
        if (jobs[i]->out[0].status == 0) {
            CHECK(device_holds(jobs[i]->out[0].block, 0, nbytes, i));
        } else {
            n_failed++;
            CHECK_EQ(jobs[i]->out[0].status, -EIO);
            CHECK_EQ(jobs[i]->out[0].acl_code, 507001);
            CHECK_EQ(i + 1, nth);
        }
    }
    counters = &rig.engine->sched.counters;
    if (faults_known) { /* exactly one fails; nothing is copied twice */
        CHECK_EQ(n_failed, 1);
        CHECK_EQ(counters->failed[NPUX_H2D], 1);
    } else { /* the failed copy is repeated like the others, and works, unless it was alone */
        CHECK(n_failed == 1 ? nth == N_BATCH && nbytes == 90000 : counters->reissued[NPUX_H2D] > 0);
    }
    finish(&rig, first, 0);
    for (uint32_t i = 0; i < N_BATCH; i++)
        job_free(jobs[i]);
    check_goes_on();
    free(src);
    close_it();
}

static void check_d2h_neighbours(bool faults_known, bool pinned)
{
    struct job *jobs[N_BATCH], *first;
    struct npux_block *blocks[N_BATCH], *hosts[N_BATCH];
    char *dst = malloc(N_BATCH * NBYTES), elsewhere;
    int n_failed = 0;

    open_with(1, faults_known);
    for (uint32_t i = 0; i < N_BATCH; i++) {
        blocks[i] = upload_pattern(&rig, NBYTES, i);
        hosts[i] = pinned ? get_pinned(&rig, NBYTES) : NULL;
    }
    memset(dst, 0xdd, N_BATCH * NBYTES);
    first = plug(NPUX_D2H, &elsewhere, 1, blocks[0]);
    CHECK(sim.fail_copy(0, ACLSIM_D2H, 6, 507001) > 0);
    CHECK(sim.fail_copy(0, ACLSIM_D2H, 10, 507000) > 0);
    for (uint32_t i = 0; i < N_BATCH; i++)
        jobs[i] = start_d2h(&rig, pinned ? hosts[i]->address : dst + i * NBYTES, NBYTES, blocks[i]);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    for (uint32_t i = 0; i < N_BATCH; i++) {
        wait_done(&rig, jobs[i]);
        if (jobs[i]->out[0].status == 0)
            CHECK(holds(pinned ? hosts[i]->address : dst + i * NBYTES, NBYTES, i));
        else
            n_failed++;
        if (faults_known)
            CHECK_EQ(jobs[i]->out[0].acl_code, i == 4 ? 507001 : i == 8 ? 507000 : 0);
        job_free(jobs[i]);
        npux_block_unref(blocks[i]);
        if (pinned)
            npux_block_unref(hosts[i]);
    }
    CHECK_EQ(n_failed, faults_known ? 2 : 0);
    finish(&rig, first, 0);
    check_goes_on();
    free(dst);
    close_it();
}

/* Two copies fail; with nothing reported both are proved again; the repetition of one fails as well. */
static void check_repetition_fails(void)
{
    struct job *jobs[3], *first;
    char src[NBYTES] = "";
    int n_failed = 0;

    open_with(1, false);
    first = plug(NPUX_H2D, src, NBYTES, NULL);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, 3, 507001) > 0);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, 6, 507001) > 0); /* the plug, a batch of 3, its second repetition */
    for (uint32_t i = 0; i < 3; i++) {
        fill(src, NBYTES, i);
        jobs[i] = start_h2d(&rig, src, NBYTES, NULL);
        wait_captured(&rig, jobs[i]);
    }
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < 3; i++) {
        wait_done(&rig, jobs[i]);
        if (jobs[i]->out[0].status == 0) {
            CHECK(device_holds(jobs[i]->out[0].block, 0, NBYTES, i));
        } else {
            CHECK_EQ(jobs[i]->out[0].acl_code, 507001);
            n_failed++;
        }
        job_free(jobs[i]);
    }
    CHECK_EQ(n_failed, 1);
    finish(&rig, first, 0);
    check_goes_on();
    close_it();
}

static void check_submit_failure(void)
{
    struct job *good, *bad;
    char src[NBYTES];

    open_with(1, true);
    fill(src, NBYTES, 1);
    CHECK(sim.fail_call("aclrtMemcpyAsync", 1, 207000) > 0);
    bad = start_h2d(&rig, src, NBYTES, NULL);
    wait_done(&rig, bad);
    CHECK_EQ(bad->out[0].status, -EIO);
    CHECK_EQ(bad->out[0].acl_code, 207000);
    good = start_h2d(&rig, src, NBYTES, NULL);
    wait_done(&rig, good);
    CHECK(device_holds(good->out[0].block, 0, NBYTES, 1));
    job_free(bad);
    job_free(good);
    check_goes_on();
    close_it();
}

static void check_memory_failures(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *block = NULL;
    struct npux_err err = {0};
    struct job *job;
    char *src = malloc(MIB), *dst = malloc(MIB);

    rig_open(&rig, &opts);
    fill(src, MIB, 2);
    CHECK(sim.fail_call("aclrtMalloc", 1, 207001) > 0);
    job = start_h2d(&rig, src, MIB, NULL);
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, -EIO);
    CHECK_EQ(job->out[0].acl_code, 207001);
    job_free(job);
    CHECK(sim.fail_call("aclrtMallocHost", 1, 207001) > 0); /* staging towards the device */
    job = start_h2d(&rig, src, MIB, NULL);
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, -EIO);
    CHECK_EQ(job->out[0].acl_code, 207001);
    job_free(job);
    CHECK(sim.fail_call("aclrtMallocHost", 1, 207001) > 0); /* an array of the user */
    CHECK_EQ(npux_engine_get_pinned(rig.engine, MIB, &block, &err), -EIO);
    CHECK_EQ(err.acl_code, 207001);
    CHECK(block == NULL);
    block = upload(&rig, src, MIB);
    CHECK(sim.fail_call("aclrtMallocHost", 1, 207001) > 0); /* staging towards the host */
    job = start_d2h(&rig, dst, MIB, block);
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, -EIO);
    CHECK_EQ(job->out[0].acl_code, 207001);
    job_free(job);
    download(&rig, dst, MIB, block);
    CHECK(holds(dst, MIB, 2));
    npux_block_unref(block);
    free(src);
    free(dst);
    close_it();
}

/* A transfer of many chunks, one of which fails while others are issued, staged, or not even planned. */
static void check_failure_midway(bool by_call, bool pinned)
{
    struct npux_engine_opts opts = default_opts();
    size_t nbytes = 24 * MIB + 11;
    struct npux_block *host;
    struct job *job;
    char *src = malloc(nbytes);

    opts.staging_nbytes = 4 * MIB;
    opts.chunk_nbytes = 512 * KIB;
    rig_open(&rig, &opts);
    fill(src, nbytes, 5);
    host = pinned ? get_pinned(&rig, nbytes) : NULL;
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    if (by_call)
        CHECK(sim.fail_call("aclrtMemcpyAsync", pinned ? 2 : 3, 207000) > 0);
    else
        CHECK(sim.fail_copy(0, ACLSIM_H2D, pinned ? 2 : 3, 507001) > 0);
    job = start_h2d(&rig, pinned ? host->address : src, nbytes, NULL);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, -EIO);
    CHECK_EQ(job->out[0].acl_code, by_call ? 207000 : 507001);
    CHECK(job->captured);
    job_free(job);
    check_goes_on();
    if (host != NULL)
        npux_block_unref(host);
    free(src);
    close_it();
}

/* A call that fails may have queued a part of its copy: until the stream is drained, the memory
 * of that chunk is in use and the transfer is not over. */
static aclError (*real_memcpy_async)(void *, size_t, const void *, size_t, aclrtMemcpyKind, aclrtStream);

static aclError half_a_copy(void *dst, size_t dest_max, const void *src, size_t count, aclrtMemcpyKind kind,
                            aclrtStream stream)
{
    aclError code = real_memcpy_async(dst, dest_max, src, count / 2, kind, stream);

    return code != ACL_SUCCESS ? code : 207000;
}

static void check_partial_submit(void)
{
    struct job *job;
    char src[NBYTES];
    int64_t n_syncs;

    open_with(1, true);
    real_memcpy_async = acl_table(rig.engine)->aclrtMemcpyAsync;
    acl_table(rig.engine)->aclrtMemcpyAsync = half_a_copy;
    fill(src, NBYTES, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    n_syncs = sim.call_count("aclrtSynchronizeStreamWithTimeout", 0);
    job = start_h2d(&rig, src, NBYTES, NULL);
    UNTIL((reap(&rig), job->done) || sim.call_count("aclrtSynchronizeStreamWithTimeout", 0) > n_syncs);
    reap(&rig);
    CHECK(!job->done); /* half of it is still queued */
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, -EIO);
    CHECK_EQ(job->out[0].acl_code, 207000);
    job_free(job);
    acl_table(rig.engine)->aclrtMemcpyAsync = real_memcpy_async;
    check_goes_on();
    close_it();
}

/* A synchronisation can fail for reasons of its own, with the copies still queued. */
static void check_sync_call_fails(void)
{
    struct job *job;
    char src[NBYTES];
    int64_t n_syncs;

    open_with(1, true);
    fill(src, NBYTES, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    n_syncs = sim.call_count("aclrtSynchronizeStreamWithTimeout", 0);
    CHECK(sim.fail_call("aclrtSynchronizeStreamWithTimeout", 1, 507000) > 0);
    job = start_h2d(&rig, src, NBYTES, NULL);
    UNTIL((reap(&rig), job->done) || sim.call_count("aclrtSynchronizeStreamWithTimeout", 0) > n_syncs + 1);
    reap(&rig);
    CHECK(!job->done);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_done(&rig, job);
    job_free(job);
    check_goes_on();
    close_it();
}

/* Device lost. -------------------------------------------------------------------------------------- */

static void check_dead(void)
{
    struct job *late = job_new(&rig, 1);
    struct npux_close_report report;
    char src[10] = "";

    job_set(late, 0, NPUX_H2D, src, 10, NULL, 0);
    CHECK_EQ(job_submit(&rig, late), -EOWNERDEAD);
    CHECK_EQ(late->out[0].acl_code, 507010); /* the first cause */
    job_free(late);
    npux_engine_close(rig.engine, (uint64_t)PATIENCE_MS * 1000000u, &report);
    CHECK_EQ(report.n_abandoned, 0);
    CHECK_EQ(report.n_stuck, 0);
    npux_engine_free(rig.engine);
    rig_detach(&rig);
    sim.clear_faults();
    check_nothing_lives();
}

static void check_lost_device(bool by_call)
{
    enum { N = 300 };
    struct npux_engine_opts opts = default_opts();
    struct job *jobs[N];
    char *src = malloc(2 * MIB);
    unsigned n_failed = 0;

    opts.staging_nbytes = 4 * MIB;
    opts.chunk_nbytes = 512 * KIB;
    rig_open(&rig, &opts);
    fill(src, 2 * MIB, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    if (by_call)
        CHECK(sim.fail_call("aclrtMemcpyAsync", 3, 507010) > 0);
    else
        CHECK(sim.fail_copy(0, ACLSIM_H2D, 1, 507010) > 0);
    for (uint32_t i = 0; i < N; i++) {
        jobs[i] = job_new(&rig, 1);
        job_set(jobs[i], 0, NPUX_H2D, src, i % 3 == 0 ? 2 * MIB : 100, NULL, 0);
        if (job_submit(&rig, jobs[i]) != 0)
            CHECK(by_call);
    }
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < N; i++) {
        wait_done(&rig, jobs[i]);
        if (jobs[i]->out[0].status != 0) {
            n_failed++;
            CHECK_EQ(jobs[i]->out[0].acl_code, 507010);
        } else {
            CHECK(device_holds(jobs[i]->out[0].block, 0, i % 3 == 0 ? 2 * MIB : 100, 1));
        }
        job_free(jobs[i]);
    }
    CHECK(n_failed > N / 2); /* all that was still waiting */
    free(src);
    check_dead();
}

/* The loss shows while a batch is proved again, copy by copy. */
static void check_lost_in_repetition(void)
{
    struct job *jobs[4], *first;
    char src[NBYTES];

    open_with(1, false);
    fill(src, NBYTES, 1);
    first = plug(NPUX_H2D, src, NBYTES, NULL);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, 3, 507001) > 0);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, 7, 507010) > 0); /* plug, batch of 4, the second repetition */
    for (uint32_t i = 0; i < 4; i++)
        jobs[i] = start_h2d(&rig, src, NBYTES, NULL);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < 4; i++) {
        wait_done(&rig, jobs[i]);
        if (jobs[i]->out[0].status == 0)
            CHECK(device_holds(jobs[i]->out[0].block, 0, NBYTES, 1));
        job_free(jobs[i]);
    }
    finish(&rig, first, 0);
    rig.engine->runtime->faults_known = true;
    CHECK(atomic_load(&rig.engine->dead));
    check_dead();
}

/* Tens of thousands that wait for one block all fail one after the other when the device dies. */
static void check_long_wait_list_dies(void)
{
    enum { N = 50000 };
    struct npux_engine_opts opts = default_opts();
    struct job **jobs = calloc(N, sizeof(*jobs));
    struct npux_block *block;
    char src[64] = "x";

    opts.n_lanes = 1;
    rig_open(&rig, &opts);
    block = upload(&rig, src, sizeof(src));
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, 1, 507010) > 0);
    for (uint32_t i = 0; i < N; i++)
        jobs[i] = start_h2d(&rig, src, sizeof(src), block);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < N; i++) {
        wait_done(&rig, jobs[i]);
        CHECK_EQ(jobs[i]->out[0].acl_code, 507010);
        job_free(jobs[i]);
    }
    free(jobs);
    npux_block_unref(block);
    check_dead();
}

static void check_open_failures(void)
{
    static const char *const calls[] = {"aclInit",
                                        "aclrtGetDeviceCount",
                                        "aclrtSetDevice",
                                        "aclrtGetCurrentContext",
                                        "aclrtSetCurrentContext",
                                        "aclrtCreateStreamWithConfig"};
    struct npux_engine_opts opts = default_opts();

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (uint64_t nth = 1; nth <= (i < 4 ? 1 : 4); nth++) {
            struct npux_engine *engine = NULL;
            struct npux_err err = {0};
            CHECK(sim.fail_call(calls[i], nth, 507000) > 0);
            CHECK_EQ(npux_engine_open(&opts, &engine, &err), -EIO);
            CHECK(engine == NULL);
            CHECK_EQ(err.acl_code, 507000);
            CHECK(strcmp(err.call, calls[i]) == 0);
            CHECK_EQ(sim.clear_faults(), 0);
            check_nothing_lives();
            open_with(2, true); /* and the next one works */
            check_goes_on();
            close_it();
        }
}

/* The stager cannot have its context: what was submitted meanwhile must end, with the user told. A first
 * engine keeps the library loaded, so that the second one's calls can be caught. ------------------------- */

static aclError (*real_set_context)(aclrtContext);
static atomic_int n_until_gate, gate_state; /* state 1: a thread is in the gate, 2: it may leave */

static aclError gated_set_context(aclrtContext context)
{
    if (atomic_fetch_sub(&n_until_gate, 1) != 1)
        return real_set_context(context);
    atomic_store(&gate_state, 1);
    UNTIL(atomic_load(&gate_state) == 2);
    return 507000;
}

static void check_stager_without_context(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_acl *acl;
    struct rig second;
    struct job *job;
    char *src = malloc(MIB);

    open_with(1, true);
    acl = acl_table(rig.engine);
    real_set_context = acl->aclrtSetCurrentContext;
    acl->aclrtSetCurrentContext = gated_set_context;
    opts.n_lanes = 2;
    opts.n_stagers = 1;             /* another one would do the work */
    atomic_store(&n_until_gate, 5); /* four lanes come first */
    rig_open(&second, &opts);
    UNTIL(atomic_load(&gate_state) == 1);
    fill(src, MIB, 1);
    job = start_h2d(&second, src, MIB, NULL);
    atomic_store(&gate_state, 2);
    wait_done(&second, job);
    CHECK_EQ(job->out[0].status, -EIO);
    CHECK_EQ(job->out[0].acl_code, 507000);
    job_free(job);
    free(src);
    acl->aclrtSetCurrentContext = real_set_context;
    npux_engine_close(second.engine, 0, &report);
    CHECK_EQ(report.n_stuck, 0);
    npux_engine_free(second.engine);
    rig_detach(&second);
    check_goes_on();
    close_it();
}

int main(void)
{
    sim_load();
    for (int known = 0; known < 2; known++) {
        check_h2d_neighbours(known, 1, NBYTES);
        check_h2d_neighbours(known, 6, NBYTES);
        check_h2d_neighbours(known, N_BATCH, 90000); /* through the stager */
        check_d2h_neighbours(known, false);
        check_d2h_neighbours(known, true);
    }
    check_repetition_fails();
    check_submit_failure();
    check_memory_failures();
    for (int i = 0; i < 4; i++)
        check_failure_midway(i & 1, i & 2);
    check_open_failures();
    check_lost_device(false);
    check_lost_device(true);
    printf("partial submit\n");
    check_partial_submit();
    printf("sync\n");
    check_sync_call_fails();
    printf("lost in repetition\n");
    check_lost_in_repetition();
    check_stager_without_context();
    printf("wait list\n");
    check_long_wait_list_dies();
    return 0;
}
