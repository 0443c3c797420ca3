/* core_lend.c - device memory of others: the bytes, the order, the references, and memory of our own that
 * comes back by its address. */
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
    late = lend(&byte, 1, &offset);
    rig_close(&rig);
    CHECK(!npux_block_alive(late));
    npux_block_unref(late);
    return 0;
}
