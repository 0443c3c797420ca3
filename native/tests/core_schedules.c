/* core_schedules.c - random schedules of the engine on the adversarial simulator: copies run at the last
 * legal moment, streams interleave at random, and every unordered, freed or changed memory is a finding. Each
 * schedule checks the content of all memory against a model and ends with no finding.
 *
 * Usage: core_schedules [how many [first seed]]; the 10,000 of the release notes are "core_schedules 10000".
 */
#include "tests/engine_fixture.h"

enum { N_HOSTS = 5, N_BLOCKS = 4, N_JOBS = 10, N_STEPS = 24, MOST_NBYTES = 160 * 1024 };

struct host {
    struct npux_block *pinned; /* NULL: ordinary memory */
    char *bytes, *model;
    size_t nbytes;
};

struct block {
    struct npux_block *device;
    char *model;
    size_t nbytes;
};

struct pending {
    struct job *job;
    struct host *host;
    enum npux_direction direction;
};

struct schedule {
    struct rig rig;
    uint64_t rng;
    struct host hosts[N_HOSTS];
    struct block blocks[N_BLOCKS];
    struct pending pending[N_JOBS];
};

static struct {
    int (*set_mode)(int mode, uint64_t seed);
    int64_t (*finding_count)(const char *name);
    int (*finding_text)(const char *name, uint32_t index, char *out, size_t nbytes);
} control;

static void control_load(void)
{
    void *handle = dlopen(sim.path, RTLD_NOW | RTLD_LOCAL), *address;

    CHECK(handle != NULL);
    address = sim_symbol(handle, "aclsim_set_mode");
    memcpy(&control.set_mode, &address, sizeof(address));
    address = sim_symbol(handle, "aclsim_finding_count");
    memcpy(&control.finding_count, &address, sizeof(address));
    address = sim_symbol(handle, "aclsim_finding_text");
    memcpy(&control.finding_text, &address, sizeof(address));
}

static size_t some_nbytes(struct schedule *s)
{
    return 1 + rng_below(&s->rng, (size_t)1 << (4 + rng_below(&s->rng, 14)));
}

static void scramble(struct schedule *s, char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += 8) {
        uint64_t word = rng_next(&s->rng);
        memcpy(bytes + i, &word, nbytes - i < 8 ? nbytes - i : 8);
    }
}

static void settle(struct pending *p)
{
    CHECK_EQ(p->job->out[0].status, 0);
    job_free(p->job);
    p->job = NULL;
}

static struct pending *free_place(struct schedule *s)
{
    for (;;) {
        for (int i = 0; i < N_JOBS; i++) {
            if (s->pending[i].job != NULL && s->pending[i].job->done)
                settle(&s->pending[i]);
            if (s->pending[i].job == NULL)
                return &s->pending[i];
        }
        reap_some(&s->rig);
    }
}

/* Until the caller may write the memory: sources are captured, or done when they are page-locked (lent, not
 * captured), and destinations are done. */
static void wait_mine(struct schedule *s, const struct host *h)
{
    for (int i = 0; i < N_JOBS; i++) {
        struct pending *p = &s->pending[i];

        if (p->job == NULL || p->host != h)
            continue;
        if (p->direction == NPUX_H2D && h->pinned == NULL) {
            while (!p->job->captured && !p->job->done)
                reap_some(&s->rig);
        } else {
            wait_done(&s->rig, p->job);
        }
    }
}

static void transfer(struct schedule *s, enum npux_direction direction)
{
    struct pending *p = free_place(s);
    struct host *h = &s->hosts[rng_below(&s->rng, N_HOSTS)];
    struct block *b = &s->blocks[rng_below(&s->rng, N_BLOCKS)];
    size_t most = h->nbytes < b->nbytes ? h->nbytes : b->nbytes;
    size_t nbytes = 1 + rng_below(&s->rng, most);
    size_t host_at = rng_below(&s->rng, h->nbytes - nbytes + 1);
    size_t device_at = rng_below(&s->rng, b->nbytes - nbytes + 1);

    if (direction == NPUX_D2H)
        wait_mine(s, h); /* a lent source must not be written */
    p->host = h;
    p->direction = direction;
    p->job = job_new(&s->rig, 1);
    p->job->request->priority = (uint8_t)rng_below(&s->rng, NPUX_N_PRIORITIES);
    p->job->request->awaits_end = rng_below(&s->rng, 2) == 0;
    job_set(p->job, 0, direction, h->bytes + host_at, nbytes, b->device, device_at);
    if (direction == NPUX_H2D)
        memcpy(b->model + device_at, h->model + host_at, nbytes);
    else
        memcpy(h->model + host_at, b->model + device_at, nbytes);
    CHECK_EQ(job_submit(&s->rig, p->job), 0);
}

/* The caller's own write, in the earliest moment that the contract allows. */
static void overwrite(struct schedule *s)
{
    struct host *h = &s->hosts[rng_below(&s->rng, N_HOSTS)];

    wait_mine(s, h);
    for (int i = 0; i < N_JOBS; i++) /* what a download brings is in the model, so it has to be here first */
        if (s->pending[i].job != NULL && s->pending[i].host == h && s->pending[i].direction == NPUX_D2H)
            wait_done(&s->rig, s->pending[i].job);
    scramble(s, h->model, h->nbytes);
    memcpy(h->bytes, h->model, h->nbytes);
}

/* A new block in place of an old one, which goes back to the arena while copies still use it. */
static void replace_block(struct schedule *s)
{
    struct block *b = &s->blocks[rng_below(&s->rng, N_BLOCKS)];

    if (b->device != NULL) {
        npux_block_unref(b->device);
        free(b->model);
    }
    b->nbytes = some_nbytes(s);
    b->model = malloc(b->nbytes);
    scramble(s, b->model, b->nbytes);
    b->device = upload(&s->rig, b->model, b->nbytes);
}

/* The same for all of them in one request, so that they share a copy. */
static void replace_all(struct schedule *s)
{
    struct job *job = job_new(&s->rig, N_BLOCKS);

    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        struct block *b = &s->blocks[i];
        npux_block_unref(b->device);
        free(b->model);
        b->nbytes = some_nbytes(s);
        b->model = malloc(b->nbytes);
        scramble(s, b->model, b->nbytes);
        job_set(job, i, NPUX_H2D, b->model, b->nbytes, NULL, 0);
    }
    CHECK_EQ(job_submit(&s->rig, job), 0);
    wait_done(&s->rig, job);
    for (int i = 0; i < N_BLOCKS; i++) {
        CHECK_EQ(job->out[i].status, 0);
        s->blocks[i].device = job->out[i].block;
        npux_block_ref(s->blocks[i].device);
    }
    job_free(job);
}

/* And back, into memory of its own, behind whatever still writes to them. */
static void fetch_all(struct schedule *s)
{
    struct job *job = job_new(&s->rig, N_BLOCKS);
    char *got[N_BLOCKS];

    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        struct block *b = &s->blocks[(i + 1) % N_BLOCKS];
        got[i] = malloc(b->nbytes);
        job_set(job, i, NPUX_D2H, got[i], b->nbytes, b->device, 0);
    }
    CHECK_EQ(job_submit(&s->rig, job), 0);
    wait_done(&s->rig, job);
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        struct block *b = &s->blocks[(i + 1) % N_BLOCKS];
        CHECK_EQ(job->out[i].status, 0);
        CHECK(memcmp(got[i], b->model, b->nbytes) == 0);
        free(got[i]);
    }
    job_free(job);
}

static void begin(struct schedule *s, uint64_t seed)
{
    struct npux_engine_opts opts = default_opts();

    memset(s, 0, sizeof(*s));
    s->rng = seed;
    opts.n_lanes = 1 + (uint32_t)rng_below(&s->rng, 4);
    opts.n_stagers = 1 + (uint32_t)rng_below(&s->rng, 3);
    opts.pageable = (enum npux_pageable)rng_below(&s->rng, NPUX_N_PAGEABLE);
    opts.spin_ns = 20000 * rng_below(&s->rng, 2);
    opts.chunk_nbytes = 32 * KIB;
    opts.staging_nbytes = 256 * KIB;
    opts.inline_nbytes = rng_below(&s->rng, 2) == 0 ? 0 : 8 * KIB;
    rig_open(&s->rig, &opts);
    s->rig.port->has_turns = rng_below(&s->rng, 2) == 0;
    for (int i = 0; i < N_HOSTS; i++) {
        struct host *h = &s->hosts[i];

        h->nbytes = some_nbytes(s);
        if (i % 2 == 0)
            h->pinned = get_pinned(&s->rig, h->nbytes);
        h->bytes = h->pinned != NULL ? h->pinned->address : malloc(h->nbytes);
        h->model = malloc(h->nbytes);
        scramble(s, h->model, h->nbytes);
        memcpy(h->bytes, h->model, h->nbytes);
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        struct block *b = &s->blocks[i];

        b->nbytes = some_nbytes(s);
        b->model = malloc(b->nbytes);
        scramble(s, b->model, b->nbytes);
        b->device = upload(&s->rig, b->model, b->nbytes);
    }
}

static void check_and_end(struct schedule *s)
{
    char *got = malloc(MOST_NBYTES);

    for (int i = 0; i < N_JOBS; i++)
        if (s->pending[i].job != NULL) {
            wait_done(&s->rig, s->pending[i].job);
            settle(&s->pending[i]);
        }
    for (int i = 0; i < N_BLOCKS; i++) {
        struct block *b = &s->blocks[i];

        CHECK(b->nbytes <= MOST_NBYTES);
        CHECK_EQ(sim.peek(b->device->address, got, b->nbytes), 0);
        CHECK(memcmp(got, b->model, b->nbytes) == 0);
        npux_block_unref(b->device);
        free(b->model);
    }
    for (int i = 0; i < N_HOSTS; i++) {
        struct host *h = &s->hosts[i];

        CHECK(memcmp(h->bytes, h->model, h->nbytes) == 0);
        if (h->pinned != NULL)
            npux_block_unref(h->pinned);
        else
            free(h->bytes);
        free(h->model);
    }
    free(got);
    rig_close(&s->rig);
}

static void check_no_finding(uint64_t seed)
{
    static const char *const races[] = {"source-changed", "freed", "unordered", "stale-handle",
                                        "in-callback"};
    char text[1024];

    for (size_t i = 0; i < sizeof(races) / sizeof(races[0]); i++)
        if (control.finding_count(races[i]) != 0) {
            text[0] = '\0';
            control.finding_text(races[i], 0, text, sizeof(text));
            fprintf(stderr, "seed %llu: %s: %s\n", (unsigned long long)seed, races[i], text);
            exit(1);
        }
}

static void run(uint64_t seed)
{
    struct schedule *s = malloc(sizeof(*s));

    CHECK(s != NULL);
    CHECK_EQ(control.set_mode(2, seed), 0);
    begin(s, seed);
    for (int step = 0; step < N_STEPS; step++)
        switch (rng_below(&s->rng, 10)) {
        case 0:
            overwrite(s);
            break;
        case 1:
            replace_block(s);
            break;
        case 8:
            replace_all(s);
            break;
        case 9:
            fetch_all(s);
            break;
        case 2:
        case 3:
        case 4:
            transfer(s, NPUX_H2D);
            break;
        default:
            transfer(s, NPUX_D2H);
            break;
        }
    check_and_end(s);
    check_no_finding(seed);
    free(s);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 60;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : npux_now_ns() % 1000000;
    uint64_t start_ns = npux_now_ns();

    printf("first seed %llu\n", (unsigned long long)first);
    fflush(stdout);
    sim_load();
    control_load();
    for (uint64_t i = 0; i < n; i++)
        run(first + i);
    printf("%llu schedules of %d steps, no finding, %.1f s\n", (unsigned long long)n, N_STEPS,
           (double)(npux_now_ns() - start_ns) / 1e9);
    return 0;
}
