/* core_after.c - transfers behind work on streams of others, and such work behind transfers. */
#include "core/after.h"
#include "core/before.h"

#include "tests/engine_fixture.h"

enum { N_STREAMS = 3, N_STEPS = 120, MOST = 3 << 20 };

/* A program of its own on the device: a stream and page-locked memory, all of one thread. */
struct foreign {
    const struct npux_acl *acl;
    aclrtStream stream;
    struct npux_block *block; /* the engine's, which both use */
    char *pinned;             /* of the copies on the stream */
    size_t nbytes;
};

static void foreign_open(struct foreign *f, struct rig *rig, size_t nbytes, uint32_t seed)
{
    f->acl = acl_table(rig->engine);
    f->nbytes = nbytes;
    CHECK_EQ(f->acl->aclrtSetCurrentContext(rig->engine->context), 0);
    CHECK_EQ(f->acl->aclrtCreateStream(&f->stream), 0);
    CHECK_EQ(f->acl->aclrtMallocHost((void **)&f->pinned, nbytes), 0);
    f->block = upload_pattern(rig, nbytes, seed);
}

static void foreign_close(struct foreign *f)
{
    CHECK_EQ(f->acl->aclrtSynchronizeStream(f->stream), 0);
    CHECK_EQ(f->acl->aclrtDestroyStream(f->stream), 0);
    CHECK_EQ(f->acl->aclrtFreeHost(f->pinned), 0);
    npux_block_unref(f->block);
}

/* A copy of the whole block onto the stream. */
static void foreign_copy(struct foreign *f, enum npux_direction direction)
{
    if (direction == NPUX_H2D)
        CHECK_EQ(f->acl->aclrtMemcpyAsync(f->block->address, f->nbytes, f->pinned, f->nbytes,
                                          ACL_MEMCPY_HOST_TO_DEVICE, f->stream),
                 0);
    else
        CHECK_EQ(f->acl->aclrtMemcpyAsync(f->pinned, f->nbytes, f->block->address, f->nbytes,
                                          ACL_MEMCPY_DEVICE_TO_HOST, f->stream),
                 0);
}

/* Starts a transfer of the whole block after what is on the stream, and after `follows` unless that is NULL.
 */
static struct job *start_after(struct rig *rig, struct foreign *f, enum npux_direction direction, void *host,
                               const struct job *follows)
{
    struct job *job = job_new(rig, 1);
    const void *key = follows;
    struct npux_err err;

    job->request->key = job;
    job_set(job, 0, direction, host, f->nbytes, f->block, 0);
    CHECK_EQ(npux_after_new(rig->engine, &f->stream, 1, NULL, 0, &key, follows != NULL, 0,
                            &job->request->after, &err),
             0);
    CHECK_EQ(job_submit(rig, job), 0);
    return job;
}

/* Uploads, work on the stream and downloads by turns, all submitted long before they can run. What each saw
 * is what came before it. */
struct pipeline {
    struct npux_engine *engine;
    uint64_t seed;
};

static void *run_pipeline(void *argument)
{
    const struct pipeline *p = argument;
    struct rig rig;
    struct foreign f[N_STREAMS];
    struct job *last[N_STREAMS] = {0};
    uint64_t rng = p->seed;
    char *up[N_STREAMS], *down[N_STREAMS];
    uint32_t value[N_STREAMS];

    rig_attach(&rig, p->engine);
    for (uint32_t i = 0; i < N_STREAMS; i++) {
        foreign_open(&f[i], &rig, 1 + rng_below(&rng, i == 0 ? MOST : 64 * KIB), i);
        up[i] = malloc(f[i].nbytes);
        down[i] = malloc(f[i].nbytes);
        CHECK(up[i] != NULL && down[i] != NULL);
        value[i] = i;
    }
    for (uint32_t step = 0; step < N_STEPS; step++) {
        size_t i = rng_below(&rng, N_STREAMS);
        struct job *job;
        struct npux_err err;

        if (last[i] != NULL) { /* its host memory is used again */
            wait_done(&rig, last[i]);
            CHECK_EQ(last[i]->out[0].status, 0);
            job_free(last[i]);
            last[i] = NULL;
            CHECK(holds(down[i], f[i].nbytes, value[i]));
        }
        fill(up[i], f[i].nbytes, step);
        memset(down[i], 0xdd, f[i].nbytes);
        job = start_after(&rig, &f[i], NPUX_H2D, up[i], NULL);
        CHECK_EQ(npux_engine_order_before(p->engine, job, f[i].stream, &err), 0);
        foreign_copy(&f[i], NPUX_D2H); /* the work: takes the upload, and brings it back */
        foreign_copy(&f[i], NPUX_H2D);
        last[i] = start_after(&rig, &f[i], NPUX_D2H, down[i], rng_below(&rng, 2) == 0 ? job : NULL);
        value[i] = step;
        wait_done(&rig, job);
        CHECK_EQ(job->out[0].status, 0);
        job_free(job);
    }
    for (size_t i = 0; i < N_STREAMS; i++) {
        if (last[i] != NULL) {
            wait_done(&rig, last[i]);
            CHECK(holds(down[i], f[i].nbytes, value[i]));
            job_free(last[i]);
        }
        foreign_close(&f[i]);
        free(up[i]);
        free(down[i]);
    }
    rig_detach(&rig);
    return NULL;
}

static void check_pipelines(void)
{
    struct npux_engine_opts opts = default_opts();
    struct pipeline p[2];
    pthread_t other;

    opts.chunk_nbytes = 1 * MIB;
    p[0].engine = p[1].engine = engine_open(&opts);
    p[0].seed = 11;
    p[1].seed = 12;
    CHECK_EQ(pthread_create(&other, NULL, run_pipeline, &p[1]), 0);
    run_pipeline(&p[0]);
    CHECK_EQ(pthread_join(other, NULL), 0);
    engine_close_clean(p[0].engine);
    check_nothing_lives();
}

/* A wait serves one request. */
static void check_used_twice(void)
{
    struct rig rig;
    struct npux_engine_opts opts = default_opts();
    struct npux_after *after;
    struct npux_err err;
    struct job *jobs[2];
    char bytes[64] = {0};

    rig_open(&rig, &opts);
    CHECK_EQ(npux_after_new(rig.engine, NULL, 0, NULL, 0, NULL, 0, 0, &after, &err), 0);
    for (int i = 0; i < 2; i++) {
        jobs[i] = job_new(&rig, 1);
        job_set(jobs[i], 0, NPUX_H2D, bytes, sizeof(bytes), NULL, 0);
        npux_after_ref(after);
        jobs[i]->request->after = after;
        CHECK_EQ(job_submit(&rig, jobs[i]), i == 0 ? 0 : -EINVAL);
    }
    finish(&rig, jobs[0], 0);
    job_free(jobs[1]);
    npux_after_unref(after);
    rig_close(&rig);
}

/* The device is lost while transfers wait for a stream, and one leads. */
static void check_lost_device(void)
{
    struct rig rig;
    struct npux_engine_opts opts = default_opts();
    struct foreign f;
    struct job *waiting[4], *first;
    struct npux_err err;
    char *host = malloc(MIB);
    int64_t n_copies;

    CHECK(host != NULL);
    rig_open(&rig, &opts);
    foreign_open(&f, &rig, 4 * KIB, 1);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    foreign_copy(&f, NPUX_H2D);
    n_copies = sim.call_count("aclrtMemcpyAsync", 0);
    for (int i = 0; i < 4; i++)
        waiting[i] = start_after(&rig, &f, NPUX_D2H, host + (size_t)i * 8 * KIB, NULL);
    UNTIL(sim.call_count("aclrtMemcpyAsync", 0) > n_copies); /* the first one leads */
    CHECK(sim.fail_call("aclrtMemcpyAsync", 1, ACL_ERROR_RT_LOST_HEARTBEAT) > 0);
    first = start_h2d(&rig, host + 512 * KIB, 1, NULL);
    CHECK_EQ(npux_engine_order_before(rig.engine, waiting[0], f.stream, &err), 0);
    wait_done(&rig, first);
    CHECK_EQ(first->out[0].acl_code, ACL_ERROR_RT_LOST_HEARTBEAT);
    job_free(first);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    for (int i = 0; i < 4; i++) {
        wait_done(&rig, waiting[i]);
        CHECK(waiting[i]->out[0].status != 0 || i == 0); /* the one that leads may have got through */
        job_free(waiting[i]);
    }
    foreign_close(&f); /* the wait in it was released, too */
    rig_close(&rig);
    free(host);
}

/* The request is withdrawn when its wait is on the lane's stream already: nothing is copied, and the next
 * that this lane does comes only when the stream is empty again. */
static aclError (*real_wait)(aclrtStream, aclrtEvent);
static const struct job *withdrawn;
static struct rig shared;

static aclError wait_and_withdraw(aclrtStream stream, aclrtEvent event)
{
    const struct job *job = withdrawn;

    withdrawn = NULL;
    if (job != NULL)
        npux_engine_withdraw(shared.engine, job);
    return real_wait(stream, event);
}

static void check_withdrawn_behind_its_wait(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_acl *acl;
    struct foreign f;
    struct job *job;
    struct npux_err err;
    char host[1000];

    rig_open(&shared, &opts);
    acl = acl_table(shared.engine);
    foreign_open(&f, &shared, 1000, 2);
    real_wait = acl->aclrtStreamWaitEvent;
    acl->aclrtStreamWaitEvent = wait_and_withdraw;
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    foreign_copy(&f, NPUX_H2D);
    job = job_new(&shared, 1);
    job_set(job, 0, NPUX_D2H, host, 1000, f.block, 0);
    withdrawn = job;
    CHECK_EQ(npux_after_new(shared.engine, &f.stream, 1, NULL, 0, NULL, 0, 0, &job->request->after, &err), 0);
    CHECK_EQ(job_submit(&shared, job), 0);
    UNTIL(sim.call_count("aclrtSynchronizeStreamWithTimeout", 0) > 0 && sim.pending_tasks(0) >= 3);
    CHECK(!job->done); /* the wait is on the stream: the copy, the record, the wait */
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&shared, job, -ECANCELED);
    acl->aclrtStreamWaitEvent = real_wait;
    finish(&shared, start_after(&shared, &f, NPUX_D2H, host, NULL), 0);
    CHECK_EQ(memcmp(host, f.pinned, 1000), 0);
    foreign_close(&f);
    rig_close(&shared);
}

/* The queue of the other stream is full, and goes on only when the transfer that it waits for is over. */
static void *fill_up(void *argument)
{
    const struct foreign *f = argument;
    aclrtEvent event;

    CHECK_EQ(f->acl->aclrtSetCurrentContext(shared.engine->context), 0);
    CHECK_EQ(f->acl->aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC), 0);
    for (int i = 0; i < 20000; i++)
        CHECK_EQ(f->acl->aclrtRecordEvent(event, f->stream), 0);
    CHECK_EQ(f->acl->aclrtSynchronizeEvent(event), 0);
    CHECK_EQ(f->acl->aclrtDestroyEvent(event), 0);
    return NULL;
}

struct late_order {
    const struct foreign *f;
    const struct job *job;
};

static void *order_late(void *argument)
{
    const struct late_order *o = argument;
    struct npux_err err;

    CHECK_EQ(npux_engine_order_before(shared.engine, o->job, o->f->stream, &err), 0);
    return NULL;
}

static void check_full_stream(void)
{
    struct npux_engine_opts opts = default_opts();
    struct foreign f;
    struct job *first, *second;
    struct late_order order;
    struct npux_err err;
    pthread_t filler, orderer;
    int64_t n_waits, before, after;
    char host[2][1000] = {{0}};

    rig_open(&shared, &opts);
    foreign_open(&f, &shared, 1000, 2);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    first = start_h2d(&shared, host[0], 1000, NULL);
    second = start_h2d(&shared, host[1], 1000, NULL);
    CHECK_EQ(npux_engine_order_before(shared.engine, first, f.stream, &err), 0);
    n_waits = sim.call_count("aclrtWaitAndResetNotify", 0);
    CHECK_EQ(pthread_create(&filler, NULL, fill_up, &f), 0);
    do { /* until it blocks */
        uint64_t until = npux_now_ns() + 20000000;
        before = sim.call_count("aclrtRecordEvent", 0);
        UNTIL(sched_yield() == 0 && npux_now_ns() > until);
        after = sim.call_count("aclrtRecordEvent", 0);
    } while (after != before || sim.pending_tasks(0) < 1000);
    order = (struct late_order){&f, second};
    CHECK_EQ(pthread_create(&orderer, NULL, order_late, &order), 0);
    UNTIL(sim.call_count("aclrtWaitAndResetNotify", 0) > n_waits);
    npux_engine_withdraw(shared.engine, second); /* is not held up either */
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    CHECK_EQ(pthread_join(filler, NULL), 0);
    CHECK_EQ(pthread_join(orderer, NULL), 0);
    finish(&shared, first, 0);
    wait_done(&shared, second);
    job_free(second);
    foreign_close(&f);
    rig_close(&shared);
}

int main(void)
{
    sim_load();
    CHECK_EQ(sim.set_device_count(1), 0);
    check_used_twice();
    check_pipelines();
    check_withdrawn_behind_its_wait();
    check_full_stream();
    check_lost_device();
    return 0;
}
