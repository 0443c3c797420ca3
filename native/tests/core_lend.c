/* core_lend.c - device memory of others: the bytes, the order, the references, and memory of our own that
 * comes back by its address. And copies from device memory to device memory. */
#include "core/lend.h"

#include "tests/engine_fixture.h"

static struct rig rig;

static struct npux_block *lend(char *address, size_t nbytes, size_t *offset)
{
    struct npux_block *block = NULL;
    struct npux_err err;

    CHECK_EQ(npux_engine_lend(rig.engine, address, nbytes, &block, offset, &err), 0);
    CHECK_EQ(npux_block_side(block), NPUX_DEVICE);
    CHECK(npux_block_alive(block));
    return block;
}

/* Memory that another engine allocated stands for that of another library. */
static void check_bytes_and_order(void)
{
    enum { NBYTES = 300000 };
    struct rig other;
    struct npux_engine_opts opts = default_opts();
    struct npux_block *theirs, *block;
    struct npux_engine_stats stats;
    static char first[NBYTES], second[5000], got[NBYTES];
    struct job *a, *b;
    size_t offset;

    opts.library = sim.path;
    rig_attach(&other, engine_open(&opts));
    theirs = upload_pattern(&other, NBYTES, 7);
    block = lend(theirs->address, NBYTES, &offset);
    CHECK_EQ(offset, 0);
    CHECK(block->address == theirs->address);
    download(&rig, got, NBYTES, block);
    CHECK(holds(got, NBYTES, 7));
    fill(first, NBYTES, 1);
    fill(second, sizeof(second), 2);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    a = start_h2d(&rig, first, NBYTES, block);
    b = start_one(&rig, NPUX_H2D, second, sizeof(second), block, 1001);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, b, 0);
    CHECK(a->done);
    finish(&rig, a, 0);
    CHECK_EQ(sim.peek(theirs->address, got, NBYTES), 0);
    CHECK(memcmp(got, first, 1001) == 0);
    CHECK(holds(got + 1001, sizeof(second), 2));
    npux_engine_stats(rig.engine, &stats);
    CHECK_EQ(stats.device.n_blocks_out, 0); /* nothing of ours */
    npux_block_unref(block);
    npux_block_unref(theirs);
    engine_close_clean(other.engine);
    rig_detach(&other);
}

/* An address inside memory of ours leads to the block that is there, whole or a piece. */
static void check_own_memory(void)
{
    enum { N = 30, PIECE = 900 };
    static char src[N][PIECE];
    struct npux_block *whole = upload_pattern(&rig, 500000, 3), *again;
    struct npux_engine_stats stats;
    struct job *job = job_new(&rig, N);
    size_t offset;

    again = lend(whole->address + 4321, 1000, &offset);
    CHECK(again == whole);
    CHECK_EQ(offset, 4321);
    npux_block_unref(again);
    again = lend(whole->address + 499999, 2, &offset); /* beyond its end: not known */
    CHECK(again != whole);
    npux_block_unref(again);
    npux_block_unref(whole);
    for (uint32_t i = 0; i < N; i++) {
        fill(src[i], PIECE, i);
        job_set(job, i, NPUX_H2D, src[i], PIECE, NULL, 0);
    }
    CHECK_EQ(job_submit(&rig, job), 0);
    wait_done(&rig, job);
    for (uint32_t i = 0; i < N; i++) {
        struct npux_block *piece = job->out[i].block;
        CHECK(piece->whole != NULL);
        again = lend(piece->address + 11, PIECE - 11, &offset);
        CHECK(again == piece);
        CHECK_EQ(offset, 11);
        npux_block_unref(again);
        again = lend(piece->address + 11, PIECE, &offset);
        CHECK(again != piece);
        npux_block_unref(again);
    }
    again = lend(job->out[4].block->address, PIECE, &offset);
    job_free(job);
    npux_engine_stats(rig.engine, &stats);
    CHECK_EQ(stats.device.n_blocks_out, 1); /* the piece keeps the whole */
    npux_block_unref(again);
    npux_engine_stats(rig.engine, &stats);
    CHECK_EQ(stats.device.n_blocks_out, 0);
}

static struct job *start_copy(struct npux_block *from, struct npux_block *to, size_t nbytes)
{
    struct job *job = job_new(&rig, 1);
    struct npux_op *op = job_target(job, 0, NPUX_H2D, to, 0);

    npux_block_ref(from);
    op->from = from;
    op->host.base = from->address;
    op->host.nbytes = nbytes;
    CHECK_EQ(job_submit(&rig, job), 0);
    return job;
}

/* Copies between blocks and writes to them, at random and all at once; the last state is that of a model. */
static void check_copies_on_the_device(uint64_t seed)
{
    enum { N = 5, M = 60, NBYTES = 9000 };
    static char sources[M][NBYTES];
    struct npux_block *blocks[N];
    struct job *jobs[M];
    uint32_t model[N];
    static char got[NBYTES];

    for (uint32_t i = 0; i < N; i++) {
        model[i] = i;
        blocks[i] = upload_pattern(&rig, NBYTES, i);
    }
    for (uint32_t i = 0; i < M; i++) {
        size_t a = rng_below(&seed, N), b = rng_below(&seed, N);
        if (a == b) {
            model[a] = 100 + i;
            fill(sources[i], NBYTES, model[a]);
            jobs[i] = start_h2d(&rig, sources[i], NBYTES, blocks[a]);
        } else {
            model[b] = model[a];
            jobs[i] = start_copy(blocks[a], blocks[b], NBYTES);
        }
    }
    for (uint32_t i = 0; i < M; i++)
        finish(&rig, jobs[i], 0);
    for (uint32_t i = 0; i < N; i++) {
        CHECK_EQ(sim.peek(blocks[i]->address, got, NBYTES), 0);
        CHECK(holds(got, NBYTES, model[i]));
        CHECK(!blocks[i]->has_writer && blocks[i]->n_readers == 0 && blocks[i]->wait_head == NULL);
        npux_block_unref(blocks[i]);
    }
}

int main(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *late;
    size_t offset;
    char byte;

    sim_load();
    opts.library = sim.path;
    rig_open(&rig, &opts);
    check_bytes_and_order();
    check_own_memory();
    for (uint64_t seed = 1; seed <= 8; seed++)
        check_copies_on_the_device(seed);
    late = lend(&byte, 1, &offset);
    rig_close(&rig);
    CHECK(!npux_block_alive(late));
    npux_block_unref(late);
    return 0;
}
