/* core_order.c - transfers on the same memory keep the order in which they were submitted. */
#include "tests/engine_fixture.h"

static struct rig rig;

static char *blob(size_t nbytes, uint32_t seed)
{
    char *bytes = malloc(nbytes);

    CHECK(bytes != NULL);
    fill(bytes, nbytes, seed);
    return bytes;
}

/* A large write, then a small one that could easily be there first. */
static void check_write_after_write(bool pinned_second)
{
    size_t nbytes = 12 * MIB;
    char *one = blob(nbytes, 1), *two = blob(5000, 2), *got = malloc(nbytes);
    struct npux_block *block = upload_pattern(&rig, nbytes, 9), *pinned = get_pinned(&rig, 5000);
    struct job *a, *b;

    fill(pinned->address, 5000, 2);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    a = start_h2d(&rig, one, nbytes, block);
    b = start_one(&rig, NPUX_H2D, pinned_second ? pinned->address : two, 5000, block, 3 * MIB + 1);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    wait_done(&rig, b);
    reap(&rig);
    CHECK(a->done); /* the later one cannot end first */
    finish(&rig, a, 0);
    finish(&rig, b, 0);
    CHECK_EQ(sim.peek(block->address, got, nbytes), 0);
    CHECK(memcmp(got, one, 3 * MIB + 1) == 0);
    CHECK(holds(got + 3 * MIB + 1, 5000, 2));
    CHECK(memcmp(got + 3 * MIB + 5001, one + 3 * MIB + 5001, nbytes - 3 * MIB - 5001) == 0);
    npux_block_unref(block);
    npux_block_unref(pinned);
    free(one);
    free(two);
    free(got);
}

/* Two results into overlapping host memory: the later one's bytes stay. */
static void check_host_write_after_write(bool pinned)
{
    size_t nbytes = 24 * MIB;
    struct npux_block *mine = get_pinned(&rig, nbytes);
    char *dst = pinned ? mine->address : malloc(nbytes);
    struct npux_block *x = upload_pattern(&rig, nbytes, 1), *y = upload_pattern(&rig, 1000, 2);
    struct job *a, *b, *elsewhere;
    char other[1000];

    CHECK(dst != NULL);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    a = start_d2h(&rig, dst, nbytes, x);
    b = start_one(&rig, NPUX_D2H, dst + 20 * MIB, 1000, y, 0);
    elsewhere = start_d2h(&rig, other, 1000, y); /* waits for nobody */
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    wait_done(&rig, b);
    reap(&rig);
    CHECK(a->done);
    finish(&rig, a, 0);
    finish(&rig, b, 0);
    finish(&rig, elsewhere, 0);
    CHECK(holds(dst + 20 * MIB, 1000, 2));
    CHECK(holds(other, 1000, 2));
    CHECK(holds(dst, 20 * MIB, 1));
    npux_block_unref(x);
    npux_block_unref(y);
    npux_block_unref(mine);
    if (!pinned)
        free(dst);
}

/* An upload of what an earlier download is still writing gets the downloaded bytes. */
static void check_host_read_after_write(size_t nbytes, bool pinned)
{
    struct npux_block *mine = get_pinned(&rig, nbytes);
    char *middle = pinned ? mine->address : malloc(nbytes), *got = malloc(nbytes);
    struct npux_block *x = upload_pattern(&rig, nbytes, 1), *y = upload_pattern(&rig, nbytes, 9);
    struct job *down, *up, *again;

    CHECK(middle != NULL && got != NULL);
    memset(middle, 0, nbytes);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    down = start_d2h(&rig, middle, nbytes, x);
    up = start_h2d(&rig, middle, nbytes, y); /* the H2D engine is free */
    again = start_d2h(&rig, got, nbytes, y);
    reap(&rig);
    CHECK(!up->captured && !up->done);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    finish(&rig, again, 0);
    finish(&rig, down, 0);
    finish(&rig, up, 0);
    CHECK(holds(got, nbytes, 1));
    npux_block_unref(x);
    npux_block_unref(y);
    npux_block_unref(mine);
    if (!pinned)
        free(middle);
    free(got);
}

/* Many waiters on one range, with a stranger in between. */
static void check_host_chain(void)
{
    enum { N = 40 };
    char dst[N + 64];
    struct npux_block *blocks[N];
    struct job *jobs[N];

    for (int i = 0; i < N; i++)
        blocks[i] = upload_pattern(&rig, 64, (uint32_t)i);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    for (int i = 0; i < N; i++)
        jobs[i] = start_d2h(&rig, dst + i, 64, blocks[i]);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    for (int i = 0; i < N; i++)
        finish(&rig, jobs[i], 0);
    for (int i = 0; i < N; i++) {
        char want[64];
        fill(want, 64, (uint32_t)i);
        CHECK(memcmp(dst + i, want, i == N - 1 ? 64 : 1) == 0);
        npux_block_unref(blocks[i]);
    }
    CHECK(rig.engine->sched.order.writers == NULL && rig.engine->sched.order.waiting == NULL);
}

static void check_read_after_write(void)
{
    size_t nbytes = 6 * MIB;
    char *src = blob(nbytes, 1), *got = malloc(nbytes);
    struct npux_block *block = upload_pattern(&rig, nbytes, 9);
    struct job *w, *r;

    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    w = start_h2d(&rig, src, nbytes, block);
    r = start_d2h(&rig, got, nbytes, block); /* the D2H engine is free */
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, r, 0);
    finish(&rig, w, 0);
    CHECK(holds(got, nbytes, 1));
    npux_block_unref(block);
    free(src);
    free(got);
}

static void check_write_after_read(void)
{
    size_t nbytes = 6 * MIB;
    char *src = blob(nbytes, 1), *got[2] = {malloc(nbytes), malloc(nbytes)};
    struct npux_block *block = upload_pattern(&rig, nbytes, 9);
    struct aclsim_counters before, after;
    struct job *r[2], *w;

    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    sim.counters(&before);
    r[0] = start_d2h(&rig, got[0], nbytes, block);
    r[1] = start_d2h(&rig, got[1], nbytes, block);
    w = start_h2d(&rig, src, nbytes, block);
    { /* a transfer to other memory passes by */
        struct npux_block *other = upload_pattern(&rig, 10000, 4);
        CHECK(device_holds(other, 0, 10000, 4));
        npux_block_unref(other);
    }
    reap(&rig);
    sim.counters(&after);
    CHECK(!w->done && !r[0]->done && !r[1]->done);
    CHECK_EQ(after.bytes[ACLSIM_H2D] - before.bytes[ACLSIM_H2D], 10000);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    finish(&rig, w, 0);
    CHECK(device_holds(block, 0, nbytes, 1));
    for (int i = 0; i < 2; i++) {
        finish(&rig, r[i], 0);
        CHECK(holds(got[i], nbytes, 9));
        free(got[i]);
    }
    npux_block_unref(block);
    free(src);
}

/* A write that fails does not stop those that wait behind it, nor lets them start too early. */
static void check_behind_a_failure(void)
{
    char *src = blob(3000, 1), *got = malloc(3000);
    struct npux_block *block = upload_pattern(&rig, 3000, 9);
    struct job *a, *b, *c;

    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    CHECK(sim.fail_copy(0, ACLSIM_H2D, 1, 507001) > 0);
    a = start_h2d(&rig, src, 3000, block);
    b = start_d2h(&rig, got, 3000, block);
    c = start_h2d(&rig, src, 3000, block);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, c, 0);
    finish(&rig, b, 0);
    finish(&rig, a, -EIO);
    CHECK(holds(got, 3000, 9)); /* the failed write moved nothing, the second came after the read */
    CHECK(device_holds(block, 0, 3000, 1));
    npux_block_unref(block);
    free(src);
    free(got);
}

/* Random operations on few blocks, all in flight at once, against a model that runs them one by one. -- */

enum { N_BLOCKS = 3, N_OPS = 1000, MAX_NBYTES = 300 << 10 };

static void check_against_a_model(uint64_t seed)
{
    static char model[N_BLOCKS][MAX_NBYTES];
    struct npux_block *blocks[N_BLOCKS];
    struct {
        struct job *job;
        char *got, *want;
        size_t nbytes;
    } ops[N_OPS];
    uint64_t rng = seed;
    char *got = malloc(MAX_NBYTES);

    printf("seed %llu\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        fill(model[i], MAX_NBYTES, i);
        blocks[i] = upload(&rig, model[i], MAX_NBYTES);
    }
    for (uint32_t i = 0; i < N_OPS; i++) {
        size_t b = rng_below(&rng, N_BLOCKS);
        size_t nbytes = 1 + rng_below(&rng, rng_below(&rng, 8) == 0 ? MAX_NBYTES : 3000);
        size_t offset = rng_below(&rng, MAX_NBYTES - nbytes + 1);
        ops[i].nbytes = nbytes;
        ops[i].want = malloc(nbytes);
        ops[i].got = malloc(nbytes);
        if (rng_below(&rng, 2) == 0) {
            fill(ops[i].got, nbytes, i);
            memcpy(model[b] + offset, ops[i].got, nbytes);
            memcpy(ops[i].want, ops[i].got, nbytes);
            ops[i].job = start_one(&rig, NPUX_H2D, ops[i].got, nbytes, blocks[b], offset);
        } else {
            memset(ops[i].got, 0xdd, nbytes);
            memcpy(ops[i].want, model[b] + offset, nbytes);
            ops[i].job = start_one(&rig, NPUX_D2H, ops[i].got, nbytes, blocks[b], offset);
        }
        if (rng_below(&rng, 50) == 0)
            reap(&rig);
    }
    for (uint32_t i = 0; i < N_OPS; i++) {
        finish(&rig, ops[i].job, 0);
        CHECK(memcmp(ops[i].got, ops[i].want, ops[i].nbytes) == 0);
        free(ops[i].got);
        free(ops[i].want);
    }
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        CHECK_EQ(sim.peek(blocks[i]->address, got, MAX_NBYTES), 0);
        CHECK(memcmp(got, model[i], MAX_NBYTES) == 0);
        CHECK(!blocks[i]->has_writer && blocks[i]->n_readers == 0 && blocks[i]->wait_head == NULL);
        npux_block_unref(blocks[i]);
    }
    free(got);
}

/* Two engines on one device: who waits for whom is known to the engine that made the block, so the other one
 * refuses it; otherwise one would start, and count, what was submitted to the other. */
static void check_block_of_another_engine(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *block = upload_pattern(&rig, 3000, 9);
    char *src = blob(3000, 1), *got = malloc(3000);
    struct job *mine, *theirs;
    struct rig other;

    rig_open(&other, &opts);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_D2H), 0);
    mine = start_d2h(&rig, got, 3000, block);
    theirs = job_new(&other, 1);
    job_set(theirs, 0, NPUX_H2D, src, 3000, block, 0);
    CHECK_EQ(job_submit(&other, theirs), -EXDEV);
    CHECK_EQ(sim.release_engine(0, ACLSIM_D2H), 0);
    finish(&rig, mine, 0);
    job_free(theirs);
    CHECK_EQ(npux_engine_pending(rig.engine), 0);
    CHECK_EQ(npux_engine_pending(other.engine), 0);
    CHECK(holds(got, 3000, 9));
    engine_close_clean(other.engine);
    rig_detach(&other);
    npux_block_unref(block);
    free(src);
    free(got);
}

int main(void)
{
    struct npux_engine_opts opts = default_opts();

    sim_load();
    opts.library = sim.path;
    opts.staging_nbytes = 8 * MIB;
    opts.chunk_nbytes = 1 * MIB;
    opts.n_lanes = 3;
    rig_open(&rig, &opts);
    check_write_after_write(false);
    check_write_after_write(true);
    check_read_after_write();
    check_write_after_read();
    for (int pinned = 0; pinned < 2; pinned++) {
        check_host_write_after_write(pinned);
        check_host_read_after_write(1000, pinned);
        check_host_read_after_write(6 * MIB, pinned);
    }
    check_host_chain();
    check_behind_a_failure();
    check_block_of_another_engine();
    for (uint64_t seed = 1; seed <= 5; seed++)
        check_against_a_model(seed);
    rig_close(&rig);
    return 0;
}
