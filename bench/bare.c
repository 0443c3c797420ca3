/* bare.c - the limit: the same copies from C loops over the ACL ABI, without Python and without our engine.
 *
 * Compiled by bench/_bare.py with native/acl/loader.c, so that it runs on whatever library the engine runs
 * on. One thread calls it. Memory is the caller's; streams are made once and kept.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "acl/loader.h"

#define EXPORT __attribute__((visibility("default")))

enum bare_mode {
    BARE_SYNC = 0,   /* aclrtMemcpy, one after the other */
    BARE_WINDOW = 1, /* aclrtMemcpyAsync, at most one copy on each of `depth` streams */
    BARE_QUEUE = 2,  /* aclrtMemcpyAsync of everything over `depth` streams, then one wait for each */
    BARE_SINGLE = 3, /* aclrtMemcpyAsync and a wait, one after the other, on one stream */
};

enum { MAX_DEPTH = 64, MAX_THREADS = 64, SLAB_NBYTES = 32 << 20 };

static struct npux_acl_lib lib;
static aclrtStream streams[2][MAX_DEPTH];
static int own_device;

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Sets the device for the calling thread, which stays set until the process ends. 0 or an aclError. */
EXPORT int bare_open(const char *library, int device)
{
    struct npux_err err;
    int code;

    if (npux_acl_load(&lib, library, &err) != 0)
        return 1;
    lib.fn.aclInit(NULL); /* an error when it was called before */
    own_device = device;
    code = lib.fn.aclrtSetDevice(device);
    for (int i = 0; code == 0 && i < 2 * MAX_DEPTH; i++)
        code = lib.fn.aclrtCreateStreamWithConfig(&streams[i / MAX_DEPTH][i % MAX_DEPTH], 0,
                                                  ACL_STREAM_FAST_LAUNCH);
    return code;
}

static int copy_one(int to_device, int mode, char *host, char *device, size_t nbytes, aclrtStream stream)
{
    aclrtMemcpyKind kind = to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
    char *dst = to_device ? device : host, *src = to_device ? host : device;

    if (mode == BARE_SYNC)
        return lib.fn.aclrtMemcpy(dst, nbytes, src, nbytes, kind);
    return lib.fn.aclrtMemcpyAsync(dst, nbytes, src, nbytes, kind, stream);
}

/* Seconds for n_copies of nbytes each, the i-th from and to i * stride; negative: the aclError. */
EXPORT double bare_copies(int to_device, int mode, char *host, char *device, size_t nbytes, size_t stride,
                          int n_copies, int depth)
{
    aclrtStream *own = streams[to_device ? 0 : 1];
    double start = now_s();
    int code = depth < 1 || depth > MAX_DEPTH ? 1 : 0;

    for (int i = 0; code == 0 && i < n_copies; i++) {
        aclrtStream stream = own[mode == BARE_SINGLE ? 0 : i % depth];
        size_t at = (size_t)i * stride;

        if (mode == BARE_WINDOW && i >= depth)
            code = lib.fn.aclrtSynchronizeStream(stream);
        if (code == 0)
            code = copy_one(to_device, mode, host + at, device + at, nbytes, stream);
        if (code == 0 && mode == BARE_SINGLE)
            code = lib.fn.aclrtSynchronizeStream(stream);
    }
    for (int i = 0; (mode == BARE_WINDOW || mode == BARE_QUEUE) && i < depth; i++) {
        int end = lib.fn.aclrtSynchronizeStream(own[i]);
        code = code != 0 ? code : end;
    }
    return code == 0 ? now_s() - start : -(double)code;
}

/* The same in both directions at once, from one thread: n_copies each way. */
EXPORT double bare_duplex(char *up, char *down, char *device_up, char *device_down, size_t nbytes,
                          int n_copies, int depth)
{
    double start = now_s();
    int code = depth < 1 || depth > MAX_DEPTH ? 1 : 0;

    for (int i = 0; code == 0 && i < n_copies; i++)
        for (int way = 0; code == 0 && way < 2; way++) {
            aclrtStream stream = streams[way][i % depth];

            if (i >= depth)
                code = lib.fn.aclrtSynchronizeStream(stream);
            if (code == 0)
                code = copy_one(way == 0, BARE_WINDOW, way == 0 ? up : down,
                                way == 0 ? device_up : device_down, nbytes, stream);
        }
    for (int i = 0; i < 2 * depth; i++) {
        int end = lib.fn.aclrtSynchronizeStream(streams[i % 2][i / 2]);
        code = code != 0 ? code : end;
    }
    return code == 0 ? now_s() - start : -(double)code;
}

/* ---- wake-ups ---- */

struct waiter {
    sem_t ready; /* posted when a copy was queued, or when there is nothing left to do */
    int bell;    /* eventfd: written when it has ended */
    int copies;  /* whether there is a copy to wait for */
    int n, code;
};

static void *wait_and_ring(void *arg)
{
    struct waiter *waiter = arg;
    uint64_t one = 1;

    if (waiter->copies)
        waiter->code = lib.fn.aclrtSetDevice(own_device);
    for (int i = 0; i < waiter->n; i++) {
        while (sem_wait(&waiter->ready) != 0)
            ;
        if (waiter->copies && waiter->code == 0)
            waiter->code = lib.fn.aclrtSynchronizeStream(streams[0][0]);
        if (write(waiter->bell, &one, sizeof(one)) != sizeof(one))
            return NULL;
    }
    return NULL;
}

/* Seconds for n rounds of: queue a copy (nbytes 0: nothing), let a thread wait for it and ring an eventfd,
 * and see that in epoll, as an event loop does. */
EXPORT double bare_wakes(char *host, char *device, size_t nbytes, int n)
{
    struct waiter waiter = {.bell = eventfd(0, EFD_CLOEXEC), .copies = nbytes != 0, .n = n};
    struct epoll_event event = {.events = EPOLLIN};
    int poller = epoll_create1(EPOLL_CLOEXEC), code = 0;
    pthread_t thread;
    uint64_t rung;
    double start;

    sem_init(&waiter.ready, 0, 0);
    epoll_ctl(poller, EPOLL_CTL_ADD, waiter.bell, &event);
    if (pthread_create(&thread, NULL, wait_and_ring, &waiter) != 0)
        return -1.0;
    start = now_s();
    for (int i = 0; i < n; i++) {
        if (nbytes != 0 && code == 0)
            code = copy_one(1, BARE_WINDOW, host, device, nbytes, streams[0][0]);
        sem_post(&waiter.ready);
        while (epoll_wait(poller, &event, 1, -1) < 1)
            ;
        if (read(waiter.bell, &rung, sizeof(rung)) != sizeof(rung))
            code = 1;
    }
    start = now_s() - start;
    pthread_join(thread, NULL);
    code = code != 0 ? code : waiter.code;
    sem_destroy(&waiter.ready);
    close(poller);
    close(waiter.bell);
    return code == 0 ? start : -(double)code;
}

/* ---- host copies ---- */

struct part {
    char *slab;
    char *far;
    size_t nbytes, chunk;
    int from_slab;
};

static void *copy_part(void *arg)
{
    struct part *part = arg;
    size_t n_slots = SLAB_NBYTES / part->chunk;

    for (size_t at = 0, i = 0; at < part->nbytes; at += part->chunk, i++) {
        size_t n = part->nbytes - at < part->chunk ? part->nbytes - at : part->chunk;
        char *slot = part->slab + i % n_slots * part->chunk;

        if (part->from_slab)
            memcpy(part->far + at, slot, n);
        else
            memcpy(slot, part->far + at, n);
    }
    return NULL;
}

/* Seconds in which n_threads copy nbytes between ordinary memory and chunks that go round in 32 MiB each:
 * what staging could do at most. `slabs` has 32 MiB for each thread. */
EXPORT double bare_host_copy(char *far, char *slabs, size_t nbytes, size_t chunk, int n_threads,
                             int from_slab)
{
    struct part parts[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    size_t each;
    double start;

    if (n_threads < 1 || n_threads > MAX_THREADS || chunk == 0 || chunk > SLAB_NBYTES)
        return -1.0;
    each = (nbytes + (size_t)n_threads - 1) / (size_t)n_threads;
    start = now_s();
    for (int i = 0; i < n_threads; i++) {
        size_t at = (size_t)i * each < nbytes ? (size_t)i * each : nbytes;

        parts[i] = (struct part){slabs + (size_t)i * SLAB_NBYTES, far + at,
                                 nbytes - at < each ? nbytes - at : each, chunk, from_slab};
        if (i > 0 && pthread_create(&threads[i], NULL, copy_part, &parts[i]) != 0)
            return -1.0;
    }
    copy_part(&parts[0]);
    for (int i = 1; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    return now_s() - start;
}
