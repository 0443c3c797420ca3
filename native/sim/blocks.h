/* blocks.h - live memory blocks of the simulator: device memory and pinned host memory.
 *
 * Threads: any.
 * Locks:   one mutex inside blocks.c, a leaf. Pins are atomic and take no lock.
 * Owns:    the address space of the devices, every pinned mapping, the descriptions of both. Descriptions are
 *          recycled with a new generation and never given back, so that a stale reference is safe to test.
 * Invariant: memory is given back only when it is freed and nothing pins it; a pin succeeds only on a live
 *          block of the wanted generation.
 */
#ifndef ACLSIM_BLOCKS_H
#define ACLSIM_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_BLOCK_FREED (UINT64_C(1) << 31)
#define SIM_BLOCK_PINS (SIM_BLOCK_FREED - 1)

struct sim_block {
    uintptr_t base;
    size_t nbytes;   /* what copies may touch */
    size_t extent;   /* what it occupies */
    ptrdiff_t delta; /* from the address that callers know to the one where the bytes are */
    int32_t device;  /* -1: pinned host memory */
    bool is_free;
    bool registered; /* the program's own memory, pinned by aclrtHostRegister */
    uint32_t page_bytes;
    uint32_t prio;
    struct sim_made *made;          /* who allocated it; NULL: the program itself */
    atomic_ullong state;            /* generation << 32 | freed << 31 | pins */
    struct sim_block *left, *right; /* treap of live blocks by base */
    struct sim_block *prev, *next;  /* neighbours in the device's address space */
    struct sim_block *bin_prev, *bin_next;
};

struct sim_ref { /* a block as it was when it was looked up */
    struct sim_block *block;
    uint32_t gen;
};

struct sim_found { /* a block's fields as they were, and how to tell whether they still hold */
    uintptr_t base;
    size_t nbytes;
    int32_t device;
    uint32_t page_bytes;
    struct sim_ref ref;
};

enum { SIM_BINS = 56 };

struct sim_heap {
    int32_t device;
    uintptr_t base; /* PROT_NONE: the addresses that callers get. 0: not mapped yet */
    size_t nbytes;
    size_t free_bytes;
    size_t peak_bytes; /* most that was in use at once */
    ptrdiff_t delta;
    uint64_t bin_map;
    struct sim_block *bins[SIM_BINS]; /* free blocks by floor(log2(extent / granule)) */
    struct sim_block *live;           /* treap */
    struct sim_block *first;
};

struct sim_block_stats {
    uint64_t device_blocks, device_bytes, pinned_blocks, pinned_bytes;
};

/* Reserves a device's address space and backing; again when the profile's form changed and nothing is in
 * use. 0 or -1. In the form with one memory the processor reads device addresses, else they are PROT_NONE. */
int sim_heap_map(struct sim_heap *heap, int32_t device, size_t nbytes);
/* The new block's address, or NULL when there is no room. The size is rounded up to 32 and grows by pad. */
void *sim_heap_alloc(struct sim_heap *heap, size_t nbytes, size_t pad, uint32_t page_bytes);
/* In use now, and at most since the first call. */
void sim_heap_usage(struct sim_heap *heap, size_t *now, size_t *peak);
void sim_heap_clear(struct sim_heap *heap); /* frees every live block */
void sim_heap_room(struct sim_heap *heap, size_t *free_bytes, size_t *total_bytes);
void *sim_pinned_alloc(size_t nbytes);
/* Lets memory of the program count as pinned, until sim_pinned_remove, which waits for running copies. */
struct sim_block *sim_pinned_add(void *ptr, size_t nbytes);
void sim_pinned_remove(struct sim_block *block);
/* Frees the live block that starts at ptr. false: there is none of that kind. */
bool sim_block_free(const void *ptr, bool pinned);
/* The live block that contains ptr. */
bool sim_block_find(const void *ptr, struct sim_found *found);
bool sim_block_reserved(const void *ptr); /* inside some device's address space, live or not */
void sim_block_stats(struct sim_block_stats *out);

bool sim_block_pin(struct sim_ref ref);
void sim_block_unpin(struct sim_block *block);

static inline bool sim_ref_live(struct sim_ref ref)
{
    /* Acquire pairs with the release of the freeing thread: a caller that sees the block live uses it. */
    unsigned long long state = atomic_load_explicit(&ref.block->state, memory_order_acquire);

    return (uint32_t)(state >> 32) == ref.gen && (state & SIM_BLOCK_FREED) == 0;
}

#endif
