/* blocks.c - see blocks.h.
 *
 * Threads: any. Locks: mu, a leaf; not held while blocks are poisoned.
 * Owns:    see blocks.h. Invariant: (mu held) the extents of a device's blocks, free ones too, tile its
 * memory.
 */
#include "sim/blocks.h"
#include "sim/made.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/fault.h"
#include "sim/poison.h"
#include "sim/race.h"
#include "sim/sim.h"
#include "sim/treap.h"

enum {
    GRANULE = 512,    /* device blocks start and end on multiples of this */
    SIZE_STEP = 32,   /* the runtime rounds sizes up to this */
    FIT_TRIES = 32,   /* blocks of the same size class to look at before a larger class is cut */
    META_CHUNK = 128, /* descriptions made at once */
    MAX_HEAPS = 64
};

struct meta_chunk {
    struct meta_chunk *next;
    struct sim_block blocks[META_CHUNK];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct meta_chunk *chunks; /* keeps every description reachable */
static struct sim_block *spare;   /* by right */
static struct sim_block *pinned_live;
static struct sim_heap *heaps[MAX_HEAPS];
static struct sim_block_stats stats;

/* --- descriptions; mu held --- */

static struct sim_block *meta_new(void)
{
    static uint32_t seed = 2463534242u;
    struct sim_block *b;

    if (spare == NULL) {
        struct meta_chunk *chunk = calloc(1, sizeof(*chunk));

        if (chunk == NULL)
            return NULL;
        chunk->next = chunks;
        chunks = chunk;
        for (int i = 0; i < META_CHUNK; i++) {
            atomic_init(&chunk->blocks[i].state, SIM_BLOCK_FREED);
            chunk->blocks[i].right = spare;
            spare = &chunk->blocks[i];
        }
    }
    b = spare;
    spare = b->right;
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    b->prio = seed;
    b->left = b->right = b->prev = b->next = b->bin_prev = b->bin_next = NULL;
    b->is_free = b->registered = false;
    b->made = NULL;
    return b;
}

static void meta_drop(struct sim_block *b)
{
    b->right = spare;
    spare = b;
}

/* From here on references to an earlier use of this description fail. */
static void meta_live(struct sim_block *b)
{
    uint64_t gen = (atomic_load_explicit(&b->state, memory_order_relaxed) >> 32) + 1;

    /* Release pairs with sim_ref_live and sim_block_pin: who sees the generation sees the fields. */
    atomic_store_explicit(&b->state, gen << 32, memory_order_release);
}

/* --- free extents of one device; mu held --- */

static int bin_of(size_t extent)
{
    return 63 - __builtin_clzll(extent / GRANULE);
}

static void bin_add(struct sim_heap *heap, struct sim_block *b)
{
    int bin = bin_of(b->extent);

    b->is_free = true;
    b->bin_prev = NULL;
    b->bin_next = heap->bins[bin];
    if (b->bin_next != NULL)
        b->bin_next->bin_prev = b;
    heap->bins[bin] = b;
    heap->bin_map |= UINT64_C(1) << bin;
}

static void bin_remove(struct sim_heap *heap, struct sim_block *b)
{
    int bin = bin_of(b->extent);

    b->is_free = false;
    if (b->bin_next != NULL)
        b->bin_next->bin_prev = b->bin_prev;
    if (b->bin_prev != NULL)
        b->bin_prev->bin_next = b->bin_next;
    else
        heap->bins[bin] = b->bin_next;
    if (heap->bins[bin] == NULL)
        heap->bin_map &= ~(UINT64_C(1) << bin);
}

static struct sim_block *fit_in_bin(const struct sim_heap *heap, int bin, size_t extent, int tries)
{
    for (struct sim_block *b = heap->bins[bin]; b != NULL && tries != 0; b = b->bin_next, tries--)
        if (b->extent >= extent)
            return b;
    return NULL;
}

static struct sim_block *fit(const struct sim_heap *heap, size_t extent)
{
    int bin = bin_of(extent);
    uint64_t larger = heap->bin_map & ~((UINT64_C(2) << bin) - 1);
    struct sim_block *b = fit_in_bin(heap, bin, extent, FIT_TRIES);

    if (b == NULL && larger != 0)
        b = heap->bins[__builtin_ctzll(larger)];
    return b != NULL ? b : fit_in_bin(heap, bin, extent, -1);
}

/* Cuts b down to extent; the rest becomes a free block of its own, if a description can be had. */
static void split(struct sim_heap *heap, struct sim_block *b, size_t extent)
{
    struct sim_block *rest = b->extent > extent ? meta_new() : NULL;

    if (rest == NULL)
        return;
    rest->base = b->base + extent;
    rest->extent = b->extent - extent;
    rest->device = b->device;
    rest->delta = b->delta;
    rest->prev = b;
    rest->next = b->next;
    if (rest->next != NULL)
        rest->next->prev = rest;
    b->next = rest;
    b->extent = extent;
    bin_add(heap, rest);
}

/* Swallows the free block that follows b. */
static void merge_next(struct sim_heap *heap, struct sim_block *b)
{
    struct sim_block *gone = b->next;

    bin_remove(heap, gone);
    b->extent += gone->extent;
    b->next = gone->next;
    if (b->next != NULL)
        b->next->prev = b;
    meta_drop(gone);
}

static void extent_free(struct sim_heap *heap, struct sim_block *b)
{
    heap->free_bytes += b->extent;
    if (b->next != NULL && b->next->is_free)
        merge_next(heap, b);
    if (b->prev != NULL && b->prev->is_free) {
        struct sim_block *low = b->prev;

        bin_add(heap, b); /* merge_next takes it out again */
        bin_remove(heap, low);
        merge_next(heap, low);
        b = low;
    }
    bin_add(heap, b);
}

/* The last use is over: nobody pins b and nobody will. */
static void release(struct sim_block *b)
{
    if (b->device < 0) {
        if (!b->registered)
            munmap((void *)b->base, b->extent);
        pthread_mutex_lock(&mu);
        meta_drop(b);
    } else {
        sim_poison_freed((char *)(b->base + (uintptr_t)b->delta), b->extent);
        pthread_mutex_lock(&mu);
        extent_free(heaps[b->device], b);
    }
    pthread_mutex_unlock(&mu);
}

/* --- pins --- */

bool sim_block_pin(struct sim_ref ref)
{
    unsigned long long state = atomic_load_explicit(&ref.block->state, memory_order_relaxed);

    do {
        if ((uint32_t)(state >> 32) != ref.gen || (state & SIM_BLOCK_FREED) != 0)
            return false;
        /* Acquire pairs with meta_live. */
    } while (!atomic_compare_exchange_weak_explicit(&ref.block->state, &state, state + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

void sim_block_unpin(struct sim_block *b)
{
    /* Acquire-release: the one that releases comes after every access made under a pin. */
    unsigned long long state = atomic_fetch_sub_explicit(&b->state, 1, memory_order_acq_rel) - 1;

    if ((state & SIM_BLOCK_FREED) != 0 && (state & SIM_BLOCK_PINS) == 0)
        release(b);
}

static void retire(struct sim_block *b)
{
    unsigned long long state = atomic_fetch_or_explicit(&b->state, SIM_BLOCK_FREED, memory_order_acq_rel);

    if ((state & SIM_BLOCK_PINS) == 0)
        release(b);
}

/* --- interface --- */

/* Gives the addresses back. false: something is in use. */
static bool unmap(struct sim_heap *heap)
{
    bool idle;

    pthread_mutex_lock(&mu);
    idle = heap->free_bytes == heap->nbytes;
    if (idle) {
        struct sim_block *all = heap->bins[bin_of(heap->nbytes)];

        bin_remove(heap, all);
        meta_drop(all);
        heaps[heap->device] = NULL;
    }
    pthread_mutex_unlock(&mu);
    if (!idle)
        return false;
    munmap((void *)heap->base, heap->nbytes);
    if (heap->delta != 0)
        munmap((void *)(heap->base + (uintptr_t)heap->delta), heap->nbytes);
    heap->base = 0;
    return true;
}

/* Addresses for the callers and, unless these are readable, the bytes elsewhere. */
static int map(size_t nbytes, bool readable, uintptr_t *base, ptrdiff_t *delta)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, rw = PROT_READ | PROT_WRITE;
    void *addresses = mmap(NULL, nbytes, readable ? rw : PROT_NONE, flags, -1, 0), *backing = addresses;

    if (addresses == MAP_FAILED)
        return -1;
    if (!readable)
        backing = mmap(NULL, nbytes, rw, flags, -1, 0);
    if (backing == MAP_FAILED) {
        munmap(addresses, nbytes);
        return -1;
    }
    *base = (uintptr_t)addresses;
    *delta = (ptrdiff_t)((uintptr_t)backing - (uintptr_t)addresses);
    return 0;
}

int sim_heap_map(struct sim_heap *heap, int32_t device, size_t nbytes)
{
    const bool readable = sim_profile.form == SIM_FORM_RC;
    struct sim_block *all;
    uintptr_t base;
    ptrdiff_t delta;

    if (heap->base != 0 && ((heap->delta == 0) == readable || !unmap(heap)))
        return 0;
    nbytes &= ~(size_t)4095;
    if (map(nbytes, readable, &base, &delta) != 0)
        return -1;
    pthread_mutex_lock(&mu);
    all = meta_new();
    if (all != NULL) {
        heap->device = device;
        heap->base = base;
        heap->nbytes = heap->free_bytes = nbytes;
        heap->delta = delta;
        all->base = base;
        all->extent = nbytes;
        all->device = device;
        all->delta = delta;
        bin_add(heap, all);
        heaps[device] = heap;
    }
    pthread_mutex_unlock(&mu);
    if (all != NULL)
        return 0;
    munmap((void *)base, nbytes);
    if (delta != 0)
        munmap((void *)(base + (uintptr_t)delta), nbytes);
    return -1;
}

void *sim_heap_alloc(struct sim_heap *heap, size_t nbytes, size_t pad, uint32_t page_bytes)
{
    size_t padded, extent;
    struct sim_block *b;

    if (nbytes > heap->nbytes || !sim_fault_allows(heap->device, nbytes))
        return NULL;
    padded = ((nbytes + SIZE_STEP - 1) / SIZE_STEP) * SIZE_STEP + pad;
    extent = ((padded + GRANULE - 1) / GRANULE) * GRANULE;
    pthread_mutex_lock(&mu);
    b = fit(heap, extent);
    if (b != NULL) {
        bin_remove(heap, b);
        split(heap, b, extent);
        b->nbytes = padded;
        b->page_bytes = page_bytes;
        heap->free_bytes -= b->extent;
        if (heap->nbytes - heap->free_bytes > heap->peak_bytes)
            heap->peak_bytes = heap->nbytes - heap->free_bytes;
        stats.device_blocks++;
        stats.device_bytes += b->extent;
        b->made = sim_made_here(SIM_MADE_DEVICE_BLOCK, b->extent);
    }
    pthread_mutex_unlock(&mu);
    if (b == NULL)
        return NULL;
    sim_poison_fresh((char *)(b->base + (uintptr_t)b->delta), b->extent);
    pthread_mutex_lock(&mu);
    meta_live(b);
    sim_treap_insert(&heap->live, b);
    pthread_mutex_unlock(&mu);
    return (void *)b->base;
}

void *sim_pinned_alloc(size_t nbytes)
{
    size_t extent = (nbytes + 4095) & ~(size_t)4095;
    void *bytes;
    struct sim_block *b;

    if (extent < nbytes || !sim_fault_allows(-1, nbytes))
        return NULL;
    bytes = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    sim_poison_fresh(bytes, extent);
    pthread_mutex_lock(&mu);
    b = meta_new();
    if (b != NULL) {
        b->base = (uintptr_t)bytes;
        b->nbytes = nbytes;
        b->extent = extent;
        b->delta = 0;
        b->device = -1;
        b->page_bytes = 4096;
        stats.pinned_blocks++;
        stats.pinned_bytes += b->extent;
        b->made = sim_made_here(SIM_MADE_PINNED_BLOCK, b->extent);
        meta_live(b);
        sim_treap_insert(&pinned_live, b);
    }
    pthread_mutex_unlock(&mu);
    if (b == NULL) {
        munmap(bytes, extent);
        return NULL;
    }
    return bytes;
}

struct sim_block *sim_pinned_add(void *ptr, size_t nbytes)
{
    struct sim_block *b;

    pthread_mutex_lock(&mu);
    b = meta_new();
    if (b != NULL) {
        b->base = (uintptr_t)ptr;
        b->nbytes = b->extent = nbytes;
        b->delta = 0;
        b->device = -1;
        b->page_bytes = 4096;
        b->registered = true;
        meta_live(b);
        sim_treap_insert(&pinned_live, b);
    }
    pthread_mutex_unlock(&mu);
    return b;
}

/* mu held. */
static struct sim_heap *heap_of(uintptr_t addr)
{
    for (int d = 0; d < MAX_HEAPS; d++)
        if (heaps[d] != NULL && addr - heaps[d]->base < heaps[d]->nbytes)
            return heaps[d];
    return NULL;
}

/* mu held: out of the table and the counts; the caller retires it after unlocking. */
static void take_out(struct sim_block **root, struct sim_block *b)
{
    sim_treap_remove(root, b);
    if (b->registered)
        return;
    sim_made_gone(b->made, b->extent);
    if (b->device < 0) {
        stats.pinned_blocks--;
        stats.pinned_bytes -= b->extent;
    } else {
        stats.device_blocks--;
        stats.device_bytes -= b->extent;
    }
}

void sim_pinned_remove(struct sim_block *b)
{
    unsigned long long state;

    pthread_mutex_lock(&mu);
    take_out(&pinned_live, b);
    pthread_mutex_unlock(&mu);
    if (sim_guards())
        sim_guard_free(b);
    state = atomic_fetch_or_explicit(&b->state, SIM_BLOCK_FREED, memory_order_acq_rel);
    if ((state & SIM_BLOCK_PINS) == 0) {
        release(b);
        return;
    }
    /* The program may give the memory away next. The last unpin recycles b, which changes its generation or
     * leaves it without pins. */
    while ((state >> 32) == (atomic_load_explicit(&b->state, memory_order_acquire) >> 32) &&
           (atomic_load_explicit(&b->state, memory_order_acquire) & SIM_BLOCK_PINS) != 0)
        sched_yield();
}

bool sim_block_free(const void *ptr, bool pinned)
{
    struct sim_block **root = NULL, *b = NULL;
    struct sim_heap *heap;

    pthread_mutex_lock(&mu);
    heap = pinned ? NULL : heap_of((uintptr_t)ptr);
    root = pinned ? &pinned_live : heap != NULL ? &heap->live : NULL;
    if (root != NULL)
        b = sim_treap_floor(*root, (uintptr_t)ptr);
    if (b != NULL && (b->base != (uintptr_t)ptr || b->registered))
        b = NULL;
    if (b != NULL)
        take_out(root, b);
    pthread_mutex_unlock(&mu);
    if (b == NULL)
        return false;
    if (sim_guards())
        sim_guard_free(b);
    retire(b);
    return true;
}

void sim_heap_clear(struct sim_heap *heap)
{
    struct sim_block *b;

    do {
        pthread_mutex_lock(&mu);
        b = heap->live;
        if (b != NULL)
            take_out(&heap->live, b);
        pthread_mutex_unlock(&mu);
        if (b != NULL)
            retire(b);
    } while (b != NULL);
}

void sim_heap_usage(struct sim_heap *heap, size_t *now, size_t *peak)
{
    pthread_mutex_lock(&mu);
    *now = heap->base != 0 ? heap->nbytes - heap->free_bytes : 0;
    *peak = heap->peak_bytes;
    pthread_mutex_unlock(&mu);
}

void sim_heap_room(struct sim_heap *heap, size_t *free_bytes, size_t *total_bytes)
{
    pthread_mutex_lock(&mu);
    *free_bytes = heap->free_bytes;
    *total_bytes = heap->nbytes;
    pthread_mutex_unlock(&mu);
}

bool sim_block_find(const void *ptr, struct sim_found *found)
{
    struct sim_heap *heap;
    struct sim_block *b;

    pthread_mutex_lock(&mu);
    heap = heap_of((uintptr_t)ptr);
    b = sim_treap_floor(heap != NULL ? heap->live : pinned_live, (uintptr_t)ptr);
    if (b != NULL && (uintptr_t)ptr - b->base >= b->nbytes)
        b = NULL;
    if (b != NULL) {
        uint32_t gen = (uint32_t)(atomic_load_explicit(&b->state, memory_order_relaxed) >> 32);

        *found = (struct sim_found){b->base, b->nbytes, b->device, b->page_bytes, {b, gen}};
    }
    pthread_mutex_unlock(&mu);
    return b != NULL;
}

bool sim_block_reserved(const void *ptr)
{
    bool inside;

    pthread_mutex_lock(&mu);
    inside = heap_of((uintptr_t)ptr) != NULL;
    pthread_mutex_unlock(&mu);
    return inside;
}

void sim_block_stats(struct sim_block_stats *out)
{
    pthread_mutex_lock(&mu);
    *out = stats;
    pthread_mutex_unlock(&mu);
}
