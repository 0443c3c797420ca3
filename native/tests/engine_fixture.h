/* engine_fixture.h - an engine on the simulator, and jobs: requests whose notes are checked as they arrive.
 *
 * Threads: a rig belongs to one thread, which submits and reaps. Several rigs may share one engine.
 * Owns:    a job owns its request until DONE, then the outcomes; job_free gives the blocks back.
 * Invariant: each request gets at most one CAPTURED note, exactly one DONE note, in this order.
 */
#ifndef NPUX_TESTS_ENGINE_FIXTURE_H
#define NPUX_TESTS_ENGINE_FIXTURE_H

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "core/engine.h"
#include "sim/aclsim.h"
#include "tests/check.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { PATIENCE_MS = 60000 }; /* a wait that takes longer is a hang */

/* The simulator's control functions, from the same instance of the library that the engine opens. */
static struct {
    const char *path;
    __typeof__(aclsim_set_device_count) *set_device_count;
    __typeof__(aclsim_set_link) *set_link;
    __typeof__(aclsim_hold_engine) *hold_engine;
    __typeof__(aclsim_release_engine) *release_engine;
    __typeof__(aclsim_pending_tasks) *pending_tasks;
    __typeof__(aclsim_fail_copy) *fail_copy;
    __typeof__(aclsim_fail_call) *fail_call;
    __typeof__(aclsim_add_fault) *add_fault;
    __typeof__(aclsim_clear_faults) *clear_faults;
    __typeof__(aclsim_call_count) *call_count;
    __typeof__(aclsim_counters) *counters;
    __typeof__(aclsim_peek) *peek;
    __typeof__(aclsim_poke) *poke;
} sim;

static inline void *sim_symbol(void *handle, const char *name)
{
    void *address = dlsym(handle, name);

    if (address == NULL)
        fprintf(stderr, "%s is missing: not the simulator\n", name);
    CHECK(address != NULL);
    return address;
}

static inline void sim_load(void)
{
    void *handle;

    sim.path = getenv("NPUX_SIM_PATH");
    CHECK(sim.path != NULL);
    handle = dlopen(sim.path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
#define LOAD(name)                                            \
    do {                                                      \
        void *address_ = sim_symbol(handle, "aclsim_" #name); \
        memcpy(&sim.name, &address_, sizeof(address_));       \
    } while (0)
    LOAD(set_device_count);
    LOAD(set_link);
    LOAD(hold_engine);
    LOAD(release_engine);
    LOAD(pending_tasks);
    LOAD(fail_copy);
    LOAD(fail_call);
    LOAD(add_fault);
    LOAD(clear_faults);
    LOAD(call_count);
    LOAD(counters);
    LOAD(peek);
    LOAD(poke);
#undef LOAD
}

/* LeakSanitizer of GCC 12 crashes while it looks at the thread-local storage of a dlopened library; without
 * looking there it takes the dynamic linker's own memory for a leak. */
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_options(void)
{
    return "use_tls=0:print_suppressions=0";
}

const char *__lsan_default_suppressions(void)
{
    return "leak:_dl_map_object_deps\nleak:dl_open_worker\n";
}

/* Nothing of an engine is left in the runtime. */
static inline void check_nothing_lives(void)
{
    struct aclsim_counters c;

    sim.counters(&c);
    CHECK_EQ(c.live_streams, 0);
    CHECK_EQ(c.live_events, 0);
    CHECK_EQ(c.live_device_blocks, 0);
    CHECK_EQ(c.live_pinned_blocks, 0);
}

/* Data: 251 is prime, so a shifted, swapped or stale byte range is noticed. ------------------------- */

static inline unsigned char pattern(uint32_t seed, size_t i)
{
    return (unsigned char)((i + (i >> 8) * 7 + (i >> 16) * 13 + seed * 101u) % 251u);
}

static inline void fill(void *bytes, size_t nbytes, uint32_t seed)
{
    for (size_t i = 0; i < nbytes; i++)
        ((unsigned char *)bytes)[i] = pattern(seed, i);
}

static inline bool holds(const void *bytes, size_t nbytes, uint32_t seed)
{
    for (size_t i = 0; i < nbytes; i++)
        if (((const unsigned char *)bytes)[i] != pattern(seed, i))
            return false;
    return true;
}

static inline bool device_holds(const struct npux_block *block, size_t offset, size_t nbytes, uint32_t seed)
{
    char *copy = malloc(nbytes + 1);
    bool same;

    CHECK(copy != NULL);
    CHECK_EQ(sim.peek(block->address + offset, copy, nbytes), 0);
    same = holds(copy, nbytes, seed);
    free(copy);
    return same;
}

/* A small generator whose state a test prints: splitmix64. */
static inline uint64_t rng_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline size_t rng_below(uint64_t *state, size_t n)
{
    return (size_t)(rng_next(state) % n);
}

/* Engines and rigs. --------------------------------------------------------------------------------- */

struct rig {
    struct npux_engine *engine;
    struct npux_port *port;
    uint64_t n_done, n_captured, n_flushed;
};

static inline struct npux_engine_opts default_opts(void)
{
    return (struct npux_engine_opts){.library = sim.path,
                                     .device = 0,
                                     .staging_nbytes = 32 * MIB,
                                     .chunk_nbytes = 4 * MIB,
                                     .result_nbytes = 64 * MIB,
                                     .inline_nbytes = 64 * KIB,
                                     .n_lanes = 2,
                                     .n_stagers = 2,
                                     .spin_ns = 20000};
}

static inline struct npux_engine *engine_open(const struct npux_engine_opts *opts)
{
    struct npux_engine *engine = NULL;
    struct npux_err err = {0};

    if (npux_engine_open(opts, &engine, &err) != 0)
        fprintf(stderr, "open: %d %s %s\n", err.acl_code, err.call, err.text);
    CHECK(engine != NULL);
    return engine;
}

static inline void rig_attach(struct rig *rig, struct npux_engine *engine)
{
    memset(rig, 0, sizeof(*rig));
    rig->engine = engine;
    rig->port = npux_port_new();
    CHECK(rig->port != NULL);
}

static inline void rig_open(struct rig *rig, const struct npux_engine_opts *opts)
{
    rig_attach(rig, engine_open(opts));
}

static inline void rig_detach(struct rig *rig)
{
    npux_port_close(rig->port);
    npux_port_unref(rig->port);
    rig->port = NULL;
}

static inline void engine_close_clean(struct npux_engine *engine)
{
    struct npux_close_report report;

    npux_engine_close(engine, (uint64_t)PATIENCE_MS * 1000000u, &report);
    CHECK_EQ(report.n_abandoned, 0);
    CHECK_EQ(report.n_stuck, 0);
    CHECK_EQ(report.acl_code, 0);
    npux_engine_free(engine);
}

/* Everything has come back: closes, and finds nothing left in the runtime. */
static inline void rig_close(struct rig *rig)
{
    engine_close_clean(rig->engine);
    rig_detach(rig);
    check_nothing_lives();
}

/* Jobs. --------------------------------------------------------------------------------------------- */

struct outcome {
    int status; /* 0: done without error */
    int acl_code;
    int path;
    char text[480];
    struct npux_block *block; /* a fresh block that was made for the op; this job's reference */
};

struct job {
    struct npux_request *request; /* NULL after DONE */
    bool captured, done, abandoned;
    uint32_t n;
    struct outcome out[];
};

static inline struct job *job_new(struct rig *rig, uint32_t n)
{
    struct job *job = calloc(1, sizeof(*job) + n * sizeof(struct outcome));

    CHECK(job != NULL);
    job->n = n;
    job->request = npux_request_new(rig->port, n);
    CHECK(job->request != NULL);
    job->request->user = job;
    job->request->key = job;
    return job;
}

/* block NULL: new memory (H2D). The op takes its own reference. */
static inline struct npux_op *job_target(struct job *job, uint32_t i, enum npux_direction direction,
                                         struct npux_block *block, size_t offset)
{
    struct npux_op *op = &job->request->ops[i];

    op->direction = (uint8_t)direction;
    if (block != NULL) {
        npux_block_ref(block);
        op->device = block;
        op->device_offset = offset;
    }
    return op;
}

static inline void job_set(struct job *job, uint32_t i, enum npux_direction direction, const void *host,
                           size_t nbytes, struct npux_block *block, size_t offset)
{
    struct npux_op *op = job_target(job, i, direction, block, offset);

    op->host = (struct npux_host){.base = (char *)(uintptr_t)host, .nbytes = nbytes};
}

static inline void job_free(struct job *job)
{
    CHECK(job->done);
    for (uint32_t i = 0; i < job->n; i++)
        if (job->out[i].block != NULL)
            npux_block_unref(job->out[i].block);
    free(job);
}

static inline void job_take_outcomes(struct job *job)
{
    for (uint32_t i = 0; i < job->n; i++) {
        struct npux_op *op = &job->request->ops[i];
        struct outcome *out = &job->out[i];
        out->path = op->path;
        if (op->err != NULL) {
            CHECK(op->err->status != 0);
            out->status = op->err->status;
            out->acl_code = op->err->acl_code;
            memcpy(out->text, op->err->text, sizeof(out->text));
        } else {
            CHECK(!atomic_load(&op->failed));
            if (op->fresh && op->device != NULL) {
                npux_block_ref(op->device);
                out->block = op->device;
            }
        }
    }
}

static inline void note_arrived(struct rig *rig, struct npux_note *note)
{
    struct job *job = note->request->user;

    if (note->what == NPUX_FLUSH) {
        CHECK(job->captured && !job->done);
        rig->n_flushed++;
        npux_engine_flush(rig->engine);
        return;
    }
    if (note->what == NPUX_CAPTURED) {
        CHECK(!job->captured && !job->done);
        job->captured = true;
        rig->n_captured++;
        return;
    }
    CHECK(!job->done);
    CHECK(job->captured || note->request->abandoned || note->request->awaits_end);
    job_take_outcomes(job);
    job->done = true;
    job->abandoned = note->request->abandoned;
    rig->n_done++;
    if (!job->abandoned) {
        npux_request_free(job->request);
        job->request = NULL;
    } /* else it stays reachable through the job: leaked on purpose */
}

/* Takes what has arrived. */
static inline void reap(struct rig *rig)
{
    struct npux_note *note = npux_port_drain(rig->port);

    while (note != NULL) {
        struct npux_note *next = note->next;
        note_arrived(rig, note);
        note = next;
    }
}

static inline bool port_is_readable(const struct npux_port *port, int timeout_ms)
{
    struct pollfd fd = {.fd = port->fd, .events = POLLIN};

    return poll(&fd, 1, timeout_ms) == 1;
}

/* Sleeps on the doorbell, as a user does, then takes what has arrived. */
static inline void reap_some(struct rig *rig)
{
    CHECK(port_is_readable(rig->port, PATIENCE_MS));
    reap(rig);
}

static inline void wait_done(struct rig *rig, const struct job *job)
{
    while (!job->done)
        reap_some(rig);
}

static inline void wait_captured(struct rig *rig, const struct job *job)
{
    while (!job->captured)
        reap_some(rig);
}

/* Returns what submit returned; a refused job is done with that status. */
static inline int job_submit(struct rig *rig, struct job *job)
{
    struct npux_err err = {0};
    bool captured = false;
    int rc = npux_engine_submit(rig->engine, job->request, &captured, &err);

    if (rc != 0) {
        CHECK_EQ(err.status, rc);
        npux_request_free(job->request);
        job->request = NULL;
        job->done = true;
        for (uint32_t i = 0; i < job->n; i++) {
            job->out[i].status = rc;
            job->out[i].acl_code = err.acl_code;
        }
        return rc;
    }
    job->captured = captured;
    return 0;
}

static inline struct job *start_one(struct rig *rig, enum npux_direction direction, const void *host,
                                    size_t nbytes, struct npux_block *block, size_t offset)
{
    struct job *job = job_new(rig, 1);

    job_set(job, 0, direction, host, nbytes, block, offset);
    CHECK_EQ(job_submit(rig, job), 0);
    return job;
}

static inline struct job *start_h2d(struct rig *rig, const void *src, size_t nbytes, struct npux_block *block)
{
    return start_one(rig, NPUX_H2D, src, nbytes, block, 0);
}

static inline struct job *start_d2h(struct rig *rig, void *dst, size_t nbytes, struct npux_block *block)
{
    return start_one(rig, NPUX_D2H, dst, nbytes, block, 0);
}

/* Waits, wants status, frees the job. */
static inline void finish(struct rig *rig, struct job *job, int status)
{
    wait_done(rig, job);
    if (job->out[0].status != status)
        fprintf(stderr, "outcome: %s\n", job->out[0].text);
    CHECK_EQ(job->out[0].status, status);
    job_free(job);
}

/* New device memory with this content; the caller's reference. */
static inline struct npux_block *upload(struct rig *rig, const void *src, size_t nbytes)
{
    struct job *job = start_h2d(rig, src, nbytes, NULL);
    struct npux_block *block;

    wait_done(rig, job);
    CHECK_EQ(job->out[0].status, 0);
    block = job->out[0].block;
    CHECK(block != NULL);
    npux_block_ref(block);
    job_free(job);
    return block;
}

static inline struct npux_block *upload_pattern(struct rig *rig, size_t nbytes, uint32_t seed)
{
    char *src = malloc(nbytes);
    struct npux_block *block;

    CHECK(src != NULL);
    fill(src, nbytes, seed);
    block = upload(rig, src, nbytes);
    free(src);
    return block;
}

static inline void download(struct rig *rig, void *dst, size_t nbytes, struct npux_block *block)
{
    finish(rig, start_d2h(rig, dst, nbytes, block), 0);
}

static inline struct npux_block *get_pinned(struct rig *rig, size_t nbytes)
{
    struct npux_block *block = NULL;
    struct npux_err err;

    CHECK_EQ(npux_engine_get_pinned(rig->engine, nbytes, &block, &err), 0);
    return block;
}

/* Waits for a condition that no descriptor announces. */
#define UNTIL(cond)                                                         \
    do {                                                                    \
        uint64_t until_ = npux_now_ns() + (uint64_t)PATIENCE_MS * 1000000u; \
        while (!(cond)) {                                                   \
            CHECK(npux_now_ns() < until_);                                  \
            sched_yield();                                                  \
        }                                                                   \
    } while (0)

/* The function table of the engine's library, for tests that put their own function into it. */
static inline struct npux_acl *acl_table(struct npux_engine *engine)
{
    return &engine->runtime->lib.fn;
}

#endif
