/* fuzz_world.h - what the random callers of sim_fuzz.c share: objects, randomness, and which codes a function
 * may return.
 *
 * Threads: each struct fuzz belongs to one thread; the slots of the world are atomic.
 * Locks:   none.
 * Owns:    the handles in the slots. A destroyed stream, event or notify may stay in its slot, so that stale
 *          handles are used, too. Memory that the processor can reach belongs to one thread, which alone
 * frees it: the use of freed addresses is undefined on hardware as well. Invariant: every call goes through
 * T, which counts it, names it for the watchdog and judges its code.
 */
#ifndef NPUX_TESTS_FUZZ_WORLD_H
#define NPUX_TESTS_FUZZ_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/sim_util.h"

enum {
    FUZZ_THREADS = 4,
    FUZZ_DEVICES = 2,
    STREAMS = 10,
    EVENTS = 14,
    NOTIFIES = 4,
    BLOCKS = 10,
    PINNED = 4,
    PLAIN_BYTES = 64 * 1024,
    MAX_BYTES = 48 * 1024
};

struct fuzz {
    uint64_t random;
    int index;
    int depth; /* inside of a callback */
    void *pinned[PINNED];
    aclrtContext own; /* an explicit context */
    _Atomic(const char *) at;
    atomic_ullong n_calls;
    atomic_bool ended;
    int64_t n_until;
};

static struct {
    _Atomic(void *) stream[STREAMS], event[EVENTS], notify[NOTIFIES], block[BLOCKS];
    struct fuzz fuzz[FUZZ_THREADS + 1]; /* the last one: whoever runs callbacks */
    atomic_ullong n_callbacks;
    atomic_bool loud;
} world;

static _Alignas(4096) char plain[FUZZ_THREADS + 1][PLAIN_BYTES];
static _Thread_local struct fuzz *self_fuzz;

static uint32_t below(struct fuzz *f, uint32_t n)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return (uint32_t)((f->random * UINT64_C(2685821657736338717)) >> 33) % n;
}

static int one_in(struct fuzz *f, uint32_t n)
{
    return below(f, n) == 0;
}

/* --- codes --- */

static const struct {
    aclError code;
    const char *only; /* parts of names, or NULL: any function */
} known_codes[] = {
    {0, NULL},
    {100000, NULL},
    {100002, "aclInit"},
    {100037, "aclFinalize"},
    {107000, NULL},
    {107001, NULL},
    {107002, NULL},
    {107003, NULL},
    {107006, "ElapsedTime Timestamp"},
    {107007, "ElapsedTime"},
    {107008, "Desc"},
    {107011, "Report Callback HostFunc"},
    {107012, "Report"},
    {107015, "LaunchCallback"},
    {107016, "GetMemInfo"},
    {107017, NULL},
    {107019, "DeviceTaskAbort"},
    {107020, NULL}, /* a failed task stops its context, and then every call */
    {107022, NULL},
    {107023, "Synchronize Memcpy Memset"},
    {107029, "WithFlag"},
    {200000, NULL},
    {200001, NULL}, /* not in the release */
    {200006, "PeerAccess"},
    {207000, NULL},
    {207001, NULL}, /* also a random fault on copies */
    {207002, "Free Unregister"},
    {207005, "Event"},
    {207007, "Event"},
    {207008, "CreateStream"},
    {207009, "Notify"},
    {507000, "ElapsedTime Timestamp SubscribeReport ResLimit RepairError"},
    {507001, NULL},
    {507007, "ResetDevice"},
    {507010, NULL},
    {507012, "ProcessReport"},
    {507046, "WithTimeout"},
    {507047, "WithTimeout"},
    {507054, NULL},
    {507899, NULL},
    {507910, "HostRegister"},
    {507911, "HostUnregister HostGetDevicePointer"},
};

static int has_part(const char *name, const char *parts)
{
    char part[40];
    int n = 0;

    for (; sscanf(parts, "%39s%n", part, &n) == 1; parts += n)
        if (strstr(name, part) != NULL)
            return 1;
    return 0;
}

static aclError judge(const char *name, aclError code)
{
    size_t i = 0, n = sizeof(known_codes) / sizeof(known_codes[0]);

    while (i < n && known_codes[i].code != code)
        i++;
    if (i < n && (known_codes[i].only == NULL || has_part(name, known_codes[i].only)))
        return code;
    fprintf(stderr, "%s returned %d, which it never does\n", name, code);
    exit(1);
}

#define T(fn, ...)                                             \
    (atomic_store_explicit(&f->at, #fn, memory_order_relaxed), \
     atomic_fetch_add_explicit(&f->n_calls, 1, memory_order_relaxed), judge(#fn, fn(__VA_ARGS__)))
/* The same for functions whose result is no code. */
#define V(fn, ...)                                             \
    (atomic_store_explicit(&f->at, #fn, memory_order_relaxed), \
     atomic_fetch_add_explicit(&f->n_calls, 1, memory_order_relaxed), (void)fn(__VA_ARGS__))

/* --- arguments --- */

static void *some(struct fuzz *f, _Atomic(void *) *slots, uint32_t n)
{
    return atomic_load(&slots[below(f, n)]);
}

static aclrtStream a_stream(struct fuzz *f)
{
    return one_in(f, 10) ? NULL : some(f, world.stream, STREAMS);
}

static aclrtEvent an_event(struct fuzz *f)
{
    return some(f, world.event, EVENTS);
}

static char *device_address(struct fuzz *f)
{
    char *base = some(f, world.block, BLOCKS);

    return base != NULL && one_in(f, 3) ? base + below(f, 4096) : base;
}

static char *host_address(struct fuzz *f)
{
    void *pinned = f->pinned[below(f, PINNED)];

    return pinned != NULL && !one_in(f, 4) ? pinned : plain[f->index];
}

static size_t a_size(struct fuzz *f)
{
    switch (below(f, 12)) {
    case 0:
        return 0;
    case 1:
        return MAX_BYTES;
    default:
        return 1 + below(f, one_in(f, 3) ? MAX_BYTES : 512);
    }
}

/* Host memory is never longer than what its owner has. */
static size_t a_limit(struct fuzz *f, size_t nbytes)
{
    return one_in(f, 12) ? nbytes / 2 : nbytes;
}

static int32_t a_device(struct fuzz *f)
{
    return one_in(f, 20) ? (int32_t)below(f, 5) - 2 : (int32_t)below(f, FUZZ_DEVICES);
}

static aclrtMemcpyKind a_kind(struct fuzz *f, aclrtMemcpyKind right)
{
    return one_in(f, 8) ? (aclrtMemcpyKind)below(f, 9) : right;
}

/* Mostly short, so that a wait for something that nobody does costs little. */
static int32_t a_timeout_ms(struct fuzz *f)
{
    return one_in(f, 12) ? (int32_t)below(f, 3) - 2 : 1 + (int32_t)below(f, 3);
}

#endif
