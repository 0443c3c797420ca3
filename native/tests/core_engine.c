/* core_engine.c - opening, round trips, what "captured" means, many at once, two devices, and no leaks. */
#include "tests/engine_fixture.h"

static void refuse(const struct npux_engine_opts *opts, int status, const char *text)
{
    struct npux_engine *engine = NULL;
    struct npux_err err = {0};

    CHECK_EQ(npux_engine_open(opts, &engine, &err), status);
    CHECK(engine == NULL);
    CHECK_EQ(err.status, status);
    if (strstr(err.text, text) == NULL)
        fprintf(stderr, "text: %s\n", err.text);
    CHECK(strstr(err.text, text) != NULL);
    check_nothing_lives();
}

static void check_refused_opens(void)
{
    struct npux_engine_opts opts = default_opts();

    opts.device = 7;
    refuse(&opts, -ENODEV, "device 7 was asked for");
    opts.device = -1;
    refuse(&opts, -ENODEV, "device -1 was asked for");
    opts.device = 0;
    opts.library = "/nonexistent/libascendcl.so";
    refuse(&opts, -ENOENT, "/nonexistent/libascendcl.so");
    opts.library = "libc.so.6"; /* a library, but not this one: the missing names are listed */
    refuse(&opts, -ENOSYS, "aclInit");
    refuse(&opts, -ENOSYS, "aclrtGetSocName");
}

/* Round trips. -------------------------------------------------------------------------------------- */

static const size_t sizes[] = {
    0, 1, 63, 64, 65, 4095, 4096, 64 << 10, (64 << 10) + 1, 4 << 20, (4 << 20) + 1, (16 << 20) + 3};

static void check_pageable(struct rig *rig, size_t nbytes, uint32_t seed)
{
    char *src = malloc(nbytes + 1), *dst = malloc(nbytes + 2);
    struct job *job;
    struct npux_block *block;

    fill(src, nbytes, seed);
    memset(dst, 0xdd, nbytes + 2);
    job = start_h2d(rig, src, nbytes, NULL);
    wait_done(rig, job);
    CHECK_EQ(job->out[0].status, 0);
    CHECK_EQ(job->out[0].path, nbytes == 0 ? NPUX_NOTHING : NPUX_STAGED);
    block = job->out[0].block;
    CHECK((block != NULL) == (nbytes != 0));
    if (block != NULL) {
        CHECK(device_holds(block, 0, nbytes, seed));
        download(rig, dst + 1, nbytes, block);
        CHECK(holds(dst + 1, nbytes, seed));
    }
    CHECK_EQ((unsigned char)dst[0], 0xdd);
    CHECK_EQ((unsigned char)dst[nbytes + 1], 0xdd);
    job_free(job);
    free(src);
    free(dst);
}

static void check_pinned(struct rig *rig, size_t nbytes, uint32_t seed)
{
    struct npux_block *src, *dst, *block;
    struct job *job;

    if (nbytes == 0)
        return;
    src = get_pinned(rig, nbytes);
    dst = get_pinned(rig, nbytes);
    fill(src->address, nbytes, seed);
    memset(dst->address, 0xdd, nbytes);
    job = start_h2d(rig, src->address, nbytes, NULL);
    wait_done(rig, job);
    CHECK_EQ(job->out[0].status, 0);
    CHECK_EQ(job->out[0].path, NPUX_DIRECT);
    block = job->out[0].block;
    CHECK(device_holds(block, 0, nbytes, seed));
    download(rig, dst->address, nbytes, block);
    CHECK(holds(dst->address, nbytes, seed));
    job_free(job);
    npux_block_unref(src);
    npux_block_unref(dst);
}

/* rows x columns elements of itemsize bytes, rows reversed, columns gapped. */
static void check_strided(struct rig *rig, ptrdiff_t rows, ptrdiff_t columns, size_t itemsize)
{
    size_t nbytes = (size_t)(rows * columns) * itemsize, pitch = (size_t)columns * itemsize * 2 + 8;
    char *src = malloc((size_t)rows * pitch), *dst = malloc((size_t)rows * pitch), *flat = malloc(nbytes);
    ptrdiff_t shape[2] = {rows, columns}, strides[2] = {-(ptrdiff_t)pitch, (ptrdiff_t)(2 * itemsize)};
    struct job *job = job_new(rig, 1);
    struct npux_block *block;
    struct npux_op *op;

    fill(src, (size_t)rows * pitch, 3);
    memset(dst, 0xdd, (size_t)rows * pitch);
    op = job_target(job, 0, NPUX_H2D, NULL, 0);
    CHECK_EQ(npux_host_init(&op->host, src + (size_t)(rows - 1) * pitch, itemsize, 2, shape, strides), 0);
    npux_host_read(&op->host, 0, flat, nbytes);
    CHECK_EQ(job_submit(rig, job), 0);
    wait_captured(rig, job);
    memset(src, 0xab, (size_t)rows * pitch);
    wait_done(rig, job);
    CHECK_EQ(job->out[0].status, 0);
    block = job->out[0].block;
    npux_block_ref(block);
    job_free(job);
    CHECK_EQ(sim.peek(block->address, src, nbytes), 0);
    CHECK(memcmp(src, flat, nbytes) == 0);
    job = job_new(rig, 1);
    op = job_target(job, 0, NPUX_D2H, block, 0);
    CHECK_EQ(npux_host_init(&op->host, dst + (size_t)(rows - 1) * pitch, itemsize, 2, shape, strides), 0);
    CHECK_EQ(job_submit(rig, job), 0);
    finish(rig, job, 0);
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t c = 0; c < columns; c++) {
            const char *at = dst + (size_t)(rows - 1 - r) * pitch + (size_t)c * 2 * itemsize;
            CHECK(memcmp(at, flat + (size_t)(r * columns + c) * itemsize, itemsize) == 0);
            CHECK_EQ((unsigned char)at[itemsize], 0xdd); /* the gap */
        }
    npux_block_unref(block);
    free(src);
    free(dst);
    free(flat);
}

static void check_round_trips(void)
{
    struct npux_engine_opts opts = default_opts();
    struct rig rig;

    rig_open(&rig, &opts);
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_pageable(&rig, sizes[i], i);
        check_pinned(&rig, sizes[i], i + 50);
    }
    check_strided(&rig, 3, 5, 3);
    check_strided(&rig, 700, 1000, 3);  /* about 2 MiB */
    check_strided(&rig, 700, 1000, 24); /* 16 MiB: several chunks, cut inside elements and rows */
    rig_close(&rig);
}

/* Parts of an existing block, at odd offsets, in one request. */
static void check_parts_of_a_block(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *block;
    struct job *job;
    char part[3][1000], all[5000];
    struct rig rig;

    rig_open(&rig, &opts);
    block = upload_pattern(&rig, 5000, 9);
    job = job_new(&rig, 3);
    for (uint32_t i = 0; i < 3; i++) {
        fill(part[i], 1000, i);
        job_set(job, i, NPUX_H2D, part[i], 1000, block, 7 + i * 1500);
    }
    CHECK_EQ(job_submit(&rig, job), 0);
    wait_done(&rig, job);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(job->out[i].status == 0 && job->out[i].block == NULL);
    job_free(job);
    download(&rig, all, 5000, block);
    for (size_t k = 0; k < 5000; k++) {
        size_t i = k < 7 ? 3 : (k - 7) / 1500, in = k < 7 ? 0 : (k - 7) % 1500;
        CHECK_EQ((unsigned char)all[k], i < 3 && in < 1000 ? pattern((uint32_t)i, in) : pattern(9, k));
    }
    npux_block_unref(block);
    rig_close(&rig);
}

/* Captured. ----------------------------------------------------------------------------------------- */

static void check_captured_before_landed(void)
{
    struct npux_engine_opts opts = default_opts();
    size_t nbytes = 64 * MIB;
    char *src = malloc(nbytes);
    struct aclsim_counters before, after;
    struct job *job, *small;
    struct rig rig;

    opts.staging_nbytes = 80 * MIB;
    rig_open(&rig, &opts);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    sim.counters(&before);
    fill(src, nbytes, 1);
    job = start_h2d(&rig, src, nbytes, NULL);
    CHECK(!job->captured); /* submit itself does not copy that much */
    wait_captured(&rig, job);
    memset(src, 0xff, nbytes);
    small = start_h2d(&rig, src, 1000, NULL);
    wait_captured(&rig, small);
    memset(src, 0xee, nbytes);
    reap(&rig);
    sim.counters(&after);
    CHECK(!job->done && !small->done);
    CHECK_EQ(after.copies[ACLSIM_H2D], before.copies[ACLSIM_H2D]);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_done(&rig, job);
    wait_done(&rig, small);
    CHECK(device_holds(job->out[0].block, 0, nbytes, 1));
    CHECK_EQ(sim.peek(small->out[0].block->address, src, 1000), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ((unsigned char)src[i], 0xff);
    job_free(job);
    job_free(small);
    free(src);
    rig_close(&rig);
}

/* More than the staging budget: not captured until the device has taken some; the budget is kept. */
static void check_captured_beyond_the_cap(void)
{
    struct npux_engine_opts opts = default_opts();
    size_t nbytes = 20 * MIB + 5;
    char *src = malloc(nbytes);
    struct npux_arena_stats stats;
    struct job *job;
    struct rig rig;

    opts.staging_nbytes = 8 * MIB;
    opts.chunk_nbytes = 1 * MIB;
    rig_open(&rig, &opts);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    fill(src, nbytes, 4);
    job = start_h2d(&rig, src, nbytes, NULL);
    do
        npux_arena_stats(rig.engine->staging_arena[NPUX_H2D], &stats);
    while (stats.used_nbytes < 8 * MIB);
    reap(&rig);
    CHECK(!job->captured && !job->done);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_captured(&rig, job);
    memset(src, 0, nbytes);
    wait_done(&rig, job);
    CHECK_EQ(job->out[0].status, 0);
    CHECK(device_holds(job->out[0].block, 0, nbytes, 4));
    npux_arena_stats(rig.engine->staging_arena[NPUX_H2D], &stats);
    CHECK(stats.peak_nbytes <= 8 * MIB);
    /* The way back through the same small budget. */
    download(&rig, src, nbytes, job->out[0].block);
    CHECK(holds(src, nbytes, 4));
    npux_arena_stats(rig.engine->staging_arena[NPUX_D2H], &stats);
    CHECK(stats.peak_nbytes <= 8 * MIB);
    job_free(job);
    free(src);
    rig_close(&rig);
}

/* Any budget that passes 1 <= chunk <= staging can move any array. */
static void check_small_budgets(void)
{
    static const size_t budgets[][2] = {{100000, 100000}, {4096, 4096}, {1, 1}, {70000, 3}, {1 << 20, 65537}};

    for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
        struct npux_engine_opts opts = default_opts();
        struct rig rig;
        opts.staging_nbytes = budgets[i][0];
        opts.chunk_nbytes = budgets[i][1];
        opts.inline_nbytes = opts.inline_nbytes < opts.chunk_nbytes ? opts.inline_nbytes : opts.chunk_nbytes;
        rig_open(&rig, &opts);
        check_pageable(&rig, 1, 1);
        check_pageable(&rig, opts.chunk_nbytes < 1000 ? 777 : 300001, 2);
        rig_close(&rig);
    }
}

/* Many. --------------------------------------------------------------------------------------------- */

enum { N_MANY = 10000 };

static void check_many_in_flight(void)
{
    struct npux_engine_opts opts = default_opts();
    struct job **jobs = calloc(N_MANY, sizeof(*jobs));
    char src[600], *dst = malloc(N_MANY * 600);
    struct rig rig;

    rig_open(&rig, &opts);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < N_MANY; i++) {
        fill(src, sizeof(src), i);
        jobs[i] = start_h2d(&rig, src, 1 + i % 600, NULL);
        wait_captured(&rig, jobs[i]); /* the same source again and again */
    }
    CHECK_EQ(npux_engine_pending(rig.engine), N_MANY);
    CHECK_EQ(rig.n_done, 0);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (uint32_t i = 0; i < N_MANY; i++) {
        struct npux_block *block;
        wait_done(&rig, jobs[i]);
        CHECK_EQ(jobs[i]->out[0].status, 0);
        block = jobs[i]->out[0].block;
        npux_block_ref(block);
        job_free(jobs[i]);
        jobs[i] = start_d2h(&rig, dst + i * 600, 1 + i % 600, block);
        npux_block_unref(block); /* the transfer keeps it */
    }
    for (uint32_t i = 0; i < N_MANY; i++) {
        finish(&rig, jobs[i], 0);
        CHECK(holds(dst + i * 600, 1 + i % 600, i));
    }
    CHECK_EQ(rig.n_done, 2 * N_MANY);
    CHECK_EQ(npux_engine_pending(rig.engine), 0);
    free(jobs);
    free(dst);
    rig_close(&rig);
}

static void check_two_devices(void)
{
    struct npux_engine_opts opts = default_opts();
    struct job *a, *b;
    struct rig one, two;
    char src[2][5000], dst[5000];

    CHECK_EQ(sim.set_device_count(2), 0);
    rig_open(&one, &opts);
    opts.device = 1;
    rig_open(&two, &opts);
    fill(src[0], 5000, 1);
    fill(src[1], 5000, 2);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0); /* one device that is stuck does not stop the other */
    a = start_h2d(&one, src[0], 5000, NULL);
    b = start_h2d(&two, src[1], 5000, NULL);
    wait_done(&two, b);
    download(&two, dst, 5000, b->out[0].block);
    CHECK(holds(dst, 5000, 2));
    reap(&one);
    CHECK(!a->done);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_done(&one, a);
    download(&one, dst, 5000, a->out[0].block);
    CHECK(holds(dst, 5000, 1));
    job_free(a);
    job_free(b);
    engine_close_clean(one.engine);
    rig_detach(&one);
    b = start_h2d(&two, src[0], 5000, NULL); /* the other goes on: the runtime is still up */
    wait_done(&two, b);
    CHECK(device_holds(b->out[0].block, 0, 5000, 1));
    job_free(b);
    rig_close(&two);
    CHECK_EQ(sim.set_device_count(1), 0);
}

/* The same library under two names is one runtime: who leaves first must not finalise it. */
static void check_two_names(void)
{
    struct npux_engine_opts opts = default_opts();
    struct rig one, two;
    char other_name[1024];
    const char *slash = strrchr(sim.path, '/');
    int64_t before = sim.call_count("aclFinalize", 0);

    CHECK(slash != NULL);
    snprintf(other_name, sizeof(other_name), "%.*s/.%s", (int)(slash - sim.path), sim.path, slash);
    rig_open(&one, &opts);
    opts.library = other_name;
    rig_open(&two, &opts);
    engine_close_clean(one.engine);
    rig_detach(&one);
    CHECK_EQ(sim.call_count("aclFinalize", 0), before);
    check_pageable(&two, 1000, 1);
    rig_close(&two);
    CHECK_EQ(sim.call_count("aclFinalize", 0), before + 1);
}

static void check_reopening(void)
{
    struct npux_engine_opts opts = default_opts();

    for (int i = 0; i < 50; i++) {
        struct rig rig;
        opts.n_lanes = 1 + (unsigned)i % 3;
        rig_open(&rig, &opts);
        if (i % 2 == 0)
            check_pageable(&rig, 5000, (uint32_t)i);
        rig_close(&rig);
    }
}

int main(void)
{
    sim_load();
    check_refused_opens();
    check_round_trips();
    check_parts_of_a_block();
    check_captured_before_landed();
    check_captured_beyond_the_cap();
    check_many_in_flight();
    check_two_devices();
    check_reopening();
    check_two_names();
    check_small_budgets();
    return 0;
}
