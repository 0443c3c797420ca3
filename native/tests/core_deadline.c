/* core_deadline.c - requests whose time comes at every step of their way. */
#include "tests/engine_fixture.h"

static struct rig rig;

static struct job *start_due(enum npux_direction direction, void *host, size_t nbytes,
                             struct npux_block *block, uint64_t in_ns)
{
    struct job *job = job_new(&rig, 1);
    struct npux_err err;

    job_set(job, 0, direction, host, nbytes, block, 0);
    CHECK_EQ(npux_after_new(rig.engine, NULL, 0, NULL, 0, NULL, 0, npux_now_ns() + in_ns,
                            &job->request->after, &err),
             0);
    CHECK_EQ(job_submit(&rig, job), 0);
    return job;
}

static void open_rig(void)
{
    struct npux_engine_opts opts = default_opts();

    opts.chunk_nbytes = 256 * KIB;
    opts.pageable = NPUX_PAGEABLE_STAGED;
    rig_open(&rig, &opts);
}

static bool says(const struct job *job, const char *what)
{
    if (strstr(job->out[0].text, what) == NULL)
        fprintf(stderr, "said: %s\n", job->out[0].text);
    return strstr(job->out[0].text, what) != NULL;
}

/* The device has it and stands still: the user is told in time, and again when it is over. */
static void check_in_flight(void)
{
    struct npux_block *block;
    struct job *job;
    char dst[1000] = {0};

    open_rig();
    block = upload_pattern(&rig, 1000, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    job = start_due(NPUX_D2H, dst, 1000, block, 500000000); /* so long that it is issued */
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, -ETIME);
    CHECK(says(job, "the device"));
    CHECK(job->told && !job->released);
    CHECK(job->out[0].acl_code >= 1);             /* its age in milliseconds, since submit */
    CHECK_EQ(npux_engine_pending(rig.engine), 1); /* its memory and its place are not free */
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    wait_released(&rig, job);
    CHECK(holds(dst, 1000, 1));
    job_free(job);
    npux_block_unref(block);
    rig_close(&rig);
}

/* Nothing of it is issued, because others are before it: it ends in time, alone. */
static void check_queued(void)
{
    enum { N = 12 };
    struct job *before[N], *late, *blocked;
    struct npux_block *block;
    char *src = malloc(N * 256 * KIB), small[1000], dst[1000];

    CHECK(src != NULL);
    open_rig();
    fill(src, N * 256 * KIB, 2);
    fill(small, 1000, 3);
    block = upload_pattern(&rig, 1000, 4);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    for (size_t i = 0; i < N; i++)
        before[i] = start_h2d(&rig, src + i * 256 * KIB, 256 * KIB, NULL);
    UNTIL(sim.pending_tasks(0) >= 2);
    late = start_due(NPUX_H2D, small, 1000, NULL, 500000000); /* so long that no thread has it */
    wait_done(&rig, late);
    CHECK_EQ(late->out[0].status, -ETIME);
    CHECK(!late->told && says(late, "its turn"));
    job_free(late);
    late = start_h2d(&rig, small, 1000, block); /* no deadline, and it does not run */
    blocked = start_due(NPUX_D2H, dst, 1000, block, 20000000);
    wait_done(&rig, blocked);
    CHECK_EQ(blocked->out[0].status, -ETIME);
    CHECK(blocked->told && says(blocked, "earlier transfers"));
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_released(&rig, blocked);
    job_free(blocked);
    finish(&rig, late, 0);
    for (size_t i = 0; i < N; i++)
        finish(&rig, before[i], 0);
    npux_block_unref(block);
    rig_close(&rig);
    free(src);
}

/* One of two ops of a request is over: it has its bytes, the other has the error. */
static void check_part_of_a_request(void)
{
    struct npux_block *block;
    struct job *job;
    struct npux_err err;
    char up[1000], down[1000];

    open_rig();
    block = upload_pattern(&rig, 1000, 5);
    fill(up, 1000, 6);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    job = job_new(&rig, 2);
    job_set(job, 0, NPUX_H2D, up, 1000, NULL, 0);
    job_set(job, 1, NPUX_D2H, down, 1000, block, 0);
    CHECK_EQ(npux_after_new(rig.engine, NULL, 0, NULL, 0, NULL, 0, npux_now_ns() + 1000000000,
                            &job->request->after, &err),
             0);
    CHECK_EQ(job_submit(&rig, job), 0);
    wait_done(&rig, job);
    CHECK(job->told);
    CHECK_EQ(job->out[0].status, 0);
    CHECK_EQ(job->out[1].status, -ETIME);
    CHECK(device_holds(job->out[0].block, 0, 1000, 6));
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    wait_released(&rig, job);
    job_free(job);
    npux_block_unref(block);
    rig_close(&rig);
}

/* Deadlines that come while transfers run; each ends once, well or late, and everything is released. */
static void check_wild(void)
{
    enum { N = 64, N_ROUNDS = 60 };
    struct job *jobs[N];
    char *src = malloc(MIB), *dst[N];
    struct npux_block *block;
    uint64_t rng = 9;
    unsigned n_late = 0;

    CHECK(src != NULL);
    open_rig();
    fill(src, MIB, 7);
    block = upload_pattern(&rig, MIB, 7);
    for (int i = 0; i < N; i++)
        CHECK((dst[i] = malloc(MIB)) != NULL);
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            size_t nbytes = 1 + rng_below(&rng, rng_below(&rng, 4) == 0 ? MIB : 4 * KIB);
            bool up = rng_below(&rng, 2) == 0;
            memset(dst[i], 0, nbytes);
            jobs[i] = start_due(up ? NPUX_H2D : NPUX_D2H, up ? src : dst[i], nbytes, up ? NULL : block,
                                1 + rng_below(&rng, 3000000));
        }
        for (int i = 0; i < N; i++) {
            wait_done(&rig, jobs[i]);
            CHECK(jobs[i]->out[0].status == 0 || jobs[i]->out[0].status == -ETIME);
            n_late += jobs[i]->out[0].status != 0;
            if (jobs[i]->told)
                wait_released(&rig, jobs[i]);
            job_free(jobs[i]);
        }
    }
    printf("%u of %u late\n", n_late, N * N_ROUNDS);
    for (int i = 0; i < N; i++)
        free(dst[i]);
    npux_block_unref(block);
    rig_close(&rig);
    free(src);
}

/* Close gives up what was told already; its user hears of that, too. */
static void check_close(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_close_report report;
    struct npux_block *block;
    struct job *job;
    static char dst[1000]; /* a copy may still write it */

    rig_open(&rig, &opts);
    block = upload_pattern(&rig, 1000, 8);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    job = start_due(NPUX_D2H, dst, 1000, block, 500000000);
    wait_done(&rig, job);
    CHECK(job->told);
    npux_engine_close(rig.engine, 1000000, &report);
    CHECK_EQ(report.n_abandoned, 1);
    wait_released(&rig, job);
    CHECK(job->abandoned);
    job_free(job);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    npux_engine_free(rig.engine);
    rig_detach(&rig);
}

int main(void)
{
    sim_load();
    CHECK_EQ(sim.set_device_count(1), 0);
    check_in_flight();
    check_queued();
    check_part_of_a_request();
    check_wild();
    check_close(); /* last: its stream stays */
    return 0;
}
