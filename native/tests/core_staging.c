/* core_staging.c - the pool of staging threads: what one direction waits for does not hold up the other, and
 * the pool goes behind the rest of its process. */
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/engine_fixture.h"

static struct rig rig;

static unsigned n_starved(void)
{
    unsigned n;

    pthread_mutex_lock(&rig.engine->sched.mu);
    n = rig.engine->sched.turn.n_starved;
    pthread_mutex_unlock(&rig.engine->sched.mu);
    return n;
}

/* An upload has all of its staging memory on a stream that does not move, and wants more. */
static void check_download_beside_held_upload(unsigned n_stagers)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *block;
    struct job *up, *down;
    char *src = malloc(20 * MIB), *dst = malloc(3 * MIB);

    CHECK(src != NULL && dst != NULL);
    opts.staging_nbytes = 4 * MIB;
    opts.chunk_nbytes = 1 * MIB;
    opts.n_stagers = n_stagers;
    opts.pageable = NPUX_PAGEABLE_STAGED;
    rig_open(&rig, &opts);
    block = upload_pattern(&rig, 3 * MIB, 5);
    fill(src, 20 * MIB, 1);
    memset(dst, 0xdd, 3 * MIB);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    up = start_h2d(&rig, src, 20 * MIB, NULL);
    UNTIL(n_starved() == n_stagers);
    down = start_d2h(&rig, dst, 3 * MIB, block);
    wait_done(&rig, down);
    CHECK(!up->done);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, down, 0);
    CHECK(holds(dst, 3 * MIB, 5));
    wait_done(&rig, up);
    CHECK_EQ(up->out[0].status, 0);
    CHECK(device_holds(up->out[0].block, 0, 20 * MIB, 1));
    job_free(up);
    npux_block_unref(block);
    rig_close(&rig);
    free(src);
    free(dst);
}

/* The stager has taken an upload and is in the runtime, for device memory, when a landed chunk is queued for
 * the pool. Then it finds that there is no staging memory: it empties the chunk before it sleeps. */
static aclError (*real_malloc)(void **, size_t, aclrtMemMallocPolicy);
static atomic_bool is_shut, is_inside;

static aclError gated_malloc(void **address, size_t nbytes, aclrtMemMallocPolicy policy)
{
    atomic_store(&is_inside, true);
    UNTIL(!atomic_load(&is_shut));
    return real_malloc(address, nbytes, policy);
}

static bool drain_is_queued(void)
{
    bool is_queued;

    pthread_mutex_lock(&rig.engine->sched.mu);
    is_queued = rig.engine->sched.drains != NULL;
    pthread_mutex_unlock(&rig.engine->sched.mu);
    return is_queued;
}

static void check_emptied_before_sleep(void)
{
    struct npux_engine_opts opts = default_opts();
    struct npux_block *block;
    struct npux_acl *acl;
    struct job *first, *second, *down;
    char *src = malloc(40 * MIB), *dst = malloc(MIB);

    CHECK(src != NULL && dst != NULL);
    opts.staging_nbytes = 4 * MIB;
    opts.chunk_nbytes = 1 * MIB;
    opts.n_stagers = 1;
    opts.pageable = NPUX_PAGEABLE_STAGED;
    rig_open(&rig, &opts);
    acl = acl_table(rig.engine);
    real_malloc = acl->aclrtMalloc;
    block = upload_pattern(&rig, MIB, 6);
    fill(src, 40 * MIB, 2);
    memset(dst, 0xdd, MIB);
    CHECK_EQ(sim.hold_engine(0, ACLSIM_H2D), 0);
    first = start_h2d(&rig, src, 4 * MIB, NULL); /* as much as there is staging memory */
    wait_captured(&rig, first);
    atomic_store(&is_inside, false);
    atomic_store(&is_shut, true);
    acl->aclrtMalloc = gated_malloc;
    second = start_h2d(&rig, src, 40 * MIB, NULL); /* more than what the device arena has at hand */
    UNTIL(atomic_load(&is_inside));
    down = start_d2h(&rig, dst, MIB, block);
    UNTIL(drain_is_queued());
    atomic_store(&is_shut, false);
    wait_done(&rig, down);
    CHECK(!first->done && !second->done);
    CHECK(holds(dst, MIB, 6));
    finish(&rig, down, 0);
    UNTIL(n_starved() == 1);
    CHECK_EQ(sim.release_engine(0, ACLSIM_H2D), 0);
    finish(&rig, first, 0);
    wait_done(&rig, second);
    CHECK_EQ(second->out[0].status, 0);
    CHECK(device_holds(second->out[0].block, 0, 40 * MIB, 2));
    job_free(second);
    acl->aclrtMalloc = real_malloc;
    npux_block_unref(block);
    rig_close(&rig);
    free(src);
    free(dst);
}

/* Ids of the threads of this process. */
static size_t list_threads(int *ids, size_t most)
{
    struct dirent *entry;
    size_t n = 0;
    DIR *tasks = opendir("/proc/self/task");

    CHECK(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        int id = atoi(entry->d_name);
        CHECK(n < most);
        if (id > 0)
            ids[n++] = id;
    }
    CHECK_EQ(closedir(tasks), 0);
    return n;
}

static bool is_among(int id, const int *ids, size_t n)
{
    while (n > 0)
        if (ids[--n] == id)
            return true;
    return false;
}

/* In a process that is nice itself, the pool is behind the rest of it too. Last here, because only a
 * privileged process can take it back. */
static void check_nice(void)
{
    enum { MOST = 256, NICE = 12 };
    struct npux_engine_opts opts = default_opts();
    int before[MOST], ids[MOST], own;
    size_t n_before, n;
    unsigned n_behind = 0;

    opts.n_stagers = 1;
    opts.pageable = NPUX_PAGEABLE_STAGED;
    if (getpriority(PRIO_PROCESS, 0) < NICE)
        CHECK_EQ(setpriority(PRIO_PROCESS, 0, NICE), 0);
    own = getpriority(PRIO_PROCESS, 0);
    n_before = list_threads(before, MOST);
    rig_open(&rig, &opts);
    npux_block_unref(upload_pattern(&rig, MIB, 3)); /* the stager has come so far */
    n = list_threads(ids, MOST);
    CHECK(n > n_before);
    for (size_t i = 0; i < n; i++) {
        int its = getpriority(PRIO_PROCESS, (id_t)ids[i]);
        if (is_among(ids[i], before, n_before))
            continue;
        CHECK(its >= own);
        n_behind += its > own;
    }
    CHECK_EQ(n_behind, own < 19); /* nothing is behind 19 */
    rig_close(&rig);
}

int main(void)
{
    sim_load();
    CHECK_EQ(sim.set_device_count(1), 0);
    for (unsigned n = 1; n <= 3; n++) {
        printf("%u stagers\n", n);
        check_download_beside_held_upload(n);
    }
    printf("emptied before sleep\n");
    check_emptied_before_sleep();
    check_nice();
    return 0;
}
