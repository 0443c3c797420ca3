/* core_pack.c - small arrays that share a copy: planned for one request, gathered in one turn of a loop,
 * merged on the way back; what happens to them when that copy fails, when memory is short, and at close. */
#include <sched.h>

#include "tests/engine_fixture.h"

enum { N_MANY = 300, MOST_NBYTES = 5000, PACK_CHUNK = 4096 };

struct many {
    struct job *job;
    size_t nbytes[N_MANY];
    char *src[N_MANY], *dst[N_MANY];
};

static int64_t n_copies(void)
{
    return sim.call_count("aclrtMemcpyAsync", 0);
}

static void many_make(struct many *m, uint64_t seed)
{
    memset(m, 0, sizeof(*m));
    for (uint32_t i = 0; i < N_MANY; i++) {
        m->nbytes[i] = i % 50 == 49 ? 0 : 1 + rng_below(&seed, MOST_NBYTES);
        m->src[i] = malloc(m->nbytes[i] + 1);
        m->dst[i] = malloc(m->nbytes[i] + 1);
        fill(m->src[i], m->nbytes[i], i);
    }
}

static void many_up(struct rig *rig, struct many *m)
{
    m->job = job_new(rig, N_MANY);
    for (uint32_t i = 0; i < N_MANY; i++)
        job_set(m->job, i, NPUX_H2D, m->src[i], m->nbytes[i], NULL, 0);
    CHECK_EQ(job_submit(rig, m->job), 0);
    wait_captured(rig, m->job);
    for (uint32_t i = 0; i < N_MANY; i++)
        memset(m->src[i], 0x11, m->nbytes[i]); /* ours again */
    wait_done(rig, m->job);
}

static void many_check_up(const struct many *m)
{
    for (uint32_t i = 0; i < N_MANY; i++) {
        const struct npux_block *block = m->job->out[i].block;
        CHECK_EQ(m->job->out[i].status, 0);
        CHECK((block == NULL) == (m->nbytes[i] == 0));
        if (block == NULL)
            continue;
        CHECK_EQ((uintptr_t)block->address % 64, 0);
        CHECK_EQ(block->nbytes, m->nbytes[i]);
        CHECK(device_holds(block, 0, m->nbytes[i], i));
    }
}

/* Down in an order of its own: 7 and N_MANY have no common factor. */
static void many_down(struct rig *rig, struct many *m)
{
    struct job *job = job_new(rig, N_MANY - N_MANY / 50);
    uint32_t at = 0;

    for (uint32_t k = 0; k < N_MANY; k++) {
        uint32_t i = k * 7 % N_MANY;
        memset(m->dst[i], 0xdd, m->nbytes[i] + 1);
        if (m->nbytes[i] != 0)
            job_set(job, at++, NPUX_D2H, m->dst[i], m->nbytes[i], m->job->out[i].block, 0);
    }
    CHECK_EQ(at, job->n);
    CHECK_EQ(job_submit(rig, job), 0);
    wait_done(rig, job);
    for (uint32_t i = 0; i < N_MANY; i++) {
        CHECK(holds(m->dst[i], m->nbytes[i], i));
        CHECK_EQ((unsigned char)m->dst[i][m->nbytes[i]], 0xdd);
    }
    for (uint32_t i = 0; i < job->n; i++)
        CHECK_EQ(job->out[i].status, 0);
    job_free(job);
}

static void many_free(struct many *m)
{
    job_free(m->job);
    for (uint32_t i = 0; i < N_MANY; i++) {
        free(m->src[i]);
        free(m->dst[i]);
    }
}

static void check_round_trip(void)
{
    struct npux_engine_opts opts = default_opts();
    struct many m;
    struct rig rig;
    int64_t before;

    rig_open(&rig, &opts);
    many_make(&m, 1);
    before = n_copies();
    many_up(&rig, &m);
    CHECK(n_copies() - before <= 2); /* 300 arrays of 2.5 KB on average, 1 MiB to a copy */
    many_check_up(&m);
    before = n_copies();
    many_down(&rig, &m);
    CHECK(n_copies() - before <= 2);
    many_free(&m);
    rig_close(&rig);
}

/* One piece keeps the memory of all; it goes back with the last of them, in whatever order they go. */
static void check_pieces_let_go(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_engine_stats stats;
    struct npux_block *last;
    struct many m;
    struct rig rig;

    rig_open(&rig, &opts);
    many_make(&m, 2);
    many_up(&rig, &m);
    last = m.job->out[123].block;
    npux_block_ref(last);
    many_free(&m);
    npux_engine_stats(rig.engine, &stats);
    CHECK_EQ(stats.device.n_blocks_out, 1);
    CHECK(device_holds(last, 0, last->nbytes, 123));
    npux_block_unref(last);
    npux_engine_stats(rig.engine, &stats);
    CHECK_EQ(stats.device.n_blocks_out, 0);
    rig_close(&rig);
}

/* What was in the copy that failed fails; what was in the other one does not. */
static void check_failed_copy(void)
{
    struct npux_engine_opts opts = default_opts();
    struct job *job;
    struct rig rig;
    static char src[600][PACK_CHUNK];
    uint32_t n_failed = 0;

    rig_open(&rig, &opts);
    job = job_new(&rig, 600);
    for (uint32_t i = 0; i < 600; i++) {
        fill(src[i], PACK_CHUNK, i);
        job_set(job, i, NPUX_H2D, src[i], PACK_CHUNK, NULL, 0);
    }
    CHECK(sim.add_fault("copy code=507001 nth=2") > 0);
    CHECK_EQ(job_submit(&rig, job), 0);
    wait_done(&rig, job);
    sim.clear_faults();
    for (uint32_t i = 0; i < 600; i++) {
        if (job->out[i].status == 0) {
            CHECK(device_holds(job->out[i].block, 0, PACK_CHUNK, i));
            continue;
        }
        CHECK_EQ(job->out[i].status, -EIO);
        CHECK_EQ(job->out[i].acl_code, 507001);
        n_failed++;
    }
    CHECK(n_failed >= 96 && n_failed <= 252); /* one copy of three: 252, 252 and 96 arrays */
    job_free(job);
    rig_close(&rig);
}

/* A budget smaller than a pack: every array goes alone. */
static void check_little_staging(void)
{
    struct npux_engine_opts opts = default_opts();
    struct many m;
    struct rig rig;

    opts.staging_nbytes = opts.chunk_nbytes = 64 * KIB;
    opts.inline_nbytes = 4 * KIB;
    rig_open(&rig, &opts);
    many_make(&m, 3);
    many_up(&rig, &m);
    many_check_up(&m);
    many_down(&rig, &m);
    many_free(&m);
    rig_close(&rig);
}

/* Turns of a loop. ---------------------------------------------------------------------------------- */

enum { N_TURN = 40 };

struct turn {
    struct rig rig;
    struct npux_block *kept;
    struct job *jobs[N_TURN];
    char src[N_TURN][PACK_CHUNK];
};

/* Without memory at hand the first ones of a turn would go alone. */
static void warm(struct npux_engine *e)
{
    struct npux_sched *s = &e->sched;
    bool wanted = true;

    pthread_mutex_lock(&s->mu);
    npux_sched_want_memory_locked(s);
    pthread_mutex_unlock(&s->mu);
    while (wanted) {
        pthread_mutex_lock(&s->mu);
        wanted = s->turn.wants_memory;
        pthread_mutex_unlock(&s->mu);
        sched_yield();
    }
}

static void turn_open(struct turn *t)
{
    struct npux_engine_opts opts = default_opts();

    rig_open(&t->rig, &opts);
    t->rig.port->has_turns = true;
    t->kept =
        upload_pattern(&t->rig, PACK_CHUNK, 0); /* maps memory for the first one, and keeps it so divided */
    warm(t->rig.engine);
}

/* The first is on the stream of a held engine, the others are deferred. */
static void turn_submit(struct turn *t)
{
    sim.hold_engine(0, ACLSIM_H2D);
    for (uint32_t i = 0; i < N_TURN; i++) {
        fill(t->src[i], PACK_CHUNK, i + 1);
        t->jobs[i] = start_h2d(&t->rig, t->src[i], PACK_CHUNK, NULL);
        CHECK(t->jobs[i]->captured);
        memset(t->src[i], 0x11, PACK_CHUNK);
    }
}

static void turn_check(struct turn *t)
{
    for (uint32_t i = 0; i < N_TURN; i++) {
        wait_done(&t->rig, t->jobs[i]);
        CHECK_EQ(t->jobs[i]->out[0].status, 0);
        CHECK(device_holds(t->jobs[i]->out[0].block, 0, PACK_CHUNK, i + 1));
        job_free(t->jobs[i]);
    }
    npux_block_unref(t->kept);
}

static void check_turn(void)
{
    static struct turn t;
    int64_t before;

    turn_open(&t);
    before = n_copies();
    turn_submit(&t);
    CHECK(n_copies() - before <= 1);
    CHECK_EQ(t.rig.n_flushed, 0);
    CHECK(port_is_readable(t.rig.port, 0)); /* the next turn of the loop reaps, which ends this one */
    reap(&t.rig);
    CHECK_EQ(t.rig.n_flushed, 1);
    sim.release_engine(0, ACLSIM_H2D);
    turn_check(&t);
    CHECK_EQ(n_copies() - before, 2);
    CHECK_EQ(t.rig.n_flushed, 1);
    rig_close(&t.rig);
}

/* Without a next turn a lane takes the pack when it has nothing else. */
static void check_lane_takes_pack(void)
{
    static struct turn t;
    int64_t before;

    turn_open(&t);
    before = n_copies();
    turn_submit(&t);
    sim.release_engine(0, ACLSIM_H2D);
    while (n_copies() - before < 2)
        sched_yield();
    turn_check(&t);
    CHECK_EQ(n_copies() - before, 2);
    rig_close(&t.rig);
}

/* Neither loop nor lane: close ends the turn. */
static void check_close_ends_turn(void)
{
    static struct turn t;
    struct npux_engine *e;

    turn_open(&t);
    e = t.rig.engine;
    turn_submit(&t);
    pthread_mutex_lock(&e->sched.mu);
    CHECK(e->sched.turn.open[NPUX_H2D] && e->sched.turn.pack != NULL);
    pthread_mutex_unlock(&e->sched.mu);
    sim.release_engine(0, ACLSIM_H2D);
    engine_close_clean(e); /* the kept block becomes a dead one */
    t.rig.engine = NULL;
    for (struct npux_note *note = npux_port_drain(t.rig.port), *next; note != NULL; note = next) {
        next = note->next;
        if (note->what != NPUX_FLUSH)
            note_arrived(&t.rig, note);
    }
    for (uint32_t i = 0; i < N_TURN; i++) {
        CHECK(t.jobs[i]->done);
        CHECK_EQ(t.jobs[i]->out[0].status, 0);
        job_free(t.jobs[i]);
    }
    npux_block_unref(t.kept);
    rig_detach(&t.rig);
    check_nothing_lives();
}

int main(void)
{
    sim_load();
    check_round_trip();
    check_pieces_let_go();
    check_failed_copy();
    check_little_staging();
    check_turn();
    check_lane_takes_pack();
    check_close_ends_turn();
    return 0;
}
