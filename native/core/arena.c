#include "core/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"

enum { BLOCK_ALIGN = 64, MIN_CLASS = 256, N_CLASSES = 4 * 40 };
static const size_t SMALL_STEP = (size_t)64 << 10; /* rounding of spans of their own below 32 MiB */
static const size_t LARGE_STEP = (size_t)2 << 20;  /* and above; the huge page of the device */

struct npux_span {
    struct npux_arena *arena;
    char *address;
    size_t nbytes;
    size_t class_nbytes; /* 0 while idle */
    int class_index;     /* -1: one block only */
    uint32_t n_blocks;
    uint32_t n_out;
    bool dead;
    struct npux_block *free_blocks;
    struct npux_block *blocks;
    struct npux_span *next, *prev; /* in a class list (has free blocks) or the idle list */
};

struct npux_arena {
    struct npux_arena_opts opts;
    pthread_mutex_t mu;
    pthread_cond_t returned_cv;
    struct npux_span *partial[N_CLASSES]; /* spans of a class that have a free block */
    struct npux_span *idle;               /* mapped, without blocks out */
    struct npux_span **sorted;            /* every mapped span, by address */
    size_t n_sorted, cap_sorted;
    atomic_size_t n_mapped; /* n_sorted, for those who hold no lock */
    uint64_t returns;
    bool interrupted, closed;
    void (*on_gone)(void *context);
    void *on_gone_context;
    size_t idle_nbytes;
    struct npux_arena_stats stats;
};

static size_t align_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Classes are 256, 320, 384, 448, 512, 640, ...: four to each doubling, so at most a fifth is wasted. */
static int class_of(size_t nbytes, size_t *class_nbytes)
{
    int index = 0;
    for (size_t base = MIN_CLASS;; base *= 2)
        for (size_t quarter = 0; quarter < 4; quarter++, index++)
            if (base + quarter * (base / 4) >= nbytes) {
                *class_nbytes = base + quarter * (base / 4);
                return index;
            }
}

static void list_push(struct npux_span **head, struct npux_span *span)
{
    span->prev = NULL;
    span->next = *head;
    if (*head != NULL)
        (*head)->prev = span;
    *head = span;
}

static void list_remove(struct npux_span **head, struct npux_span *span)
{
    if (span->prev != NULL)
        span->prev->next = span->next;
    else
        *head = span->next;
    if (span->next != NULL)
        span->next->prev = span->prev;
    span->next = span->prev = NULL;
}

struct npux_arena *npux_arena_new(const struct npux_arena_opts *opts)
{
    struct npux_arena *arena = calloc(1, sizeof(*arena));
    if (arena == NULL)
        return NULL;
    arena->opts = *opts;
    pthread_mutex_init(&arena->mu, NULL);
    npux_cond_init(&arena->returned_cv);
    return arena;
}

static void arena_free(struct npux_arena *arena)
{
    void (*on_gone)(void *context) = arena->on_gone;
    void *context = arena->on_gone_context;

    pthread_mutex_destroy(&arena->mu);
    pthread_cond_destroy(&arena->returned_cv);
    free(arena->sorted);
    free(arena);
    if (on_gone != NULL)
        on_gone(context);
}

/* What one request needs: a class, or a span of its own. */
struct need {
    int class_index;
    size_t class_nbytes;
    size_t span_nbytes;
};

static struct need plan(const struct npux_arena *arena, size_t nbytes)
{
    struct need need = {.class_index = -1};
    size_t padded = align_up(nbytes, 32) + arena->opts.pad_nbytes;

    if (padded <= arena->opts.span_nbytes / 8 && arena->opts.span_nbytes <= arena->opts.cap_nbytes) {
        need.class_index = class_of(padded, &need.class_nbytes);
        need.span_nbytes = arena->opts.span_nbytes;
    } else { /* no padding: the backing's own allocation ends behind it */
        need.span_nbytes = align_up(nbytes, nbytes < ((size_t)32 << 20) ? SMALL_STEP : LARGE_STEP);
        if (need.span_nbytes > arena->opts.cap_nbytes && nbytes <= arena->opts.cap_nbytes)
            need.span_nbytes = arena->opts.cap_nbytes; /* rounding must not make it impossible */
        need.class_nbytes = need.span_nbytes;
    }
    return need;
}

/* First index in sorted[] whose span starts above address. */
static size_t sorted_after(const struct npux_arena *arena, const char *address)
{
    size_t lo = 0, hi = arena->n_sorted;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((uintptr_t)arena->sorted[mid]->address <= (uintptr_t)address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool sorted_add(struct npux_arena *arena, struct npux_span *span)
{
    size_t at;
    if (arena->n_sorted == arena->cap_sorted) {
        size_t cap = arena->cap_sorted == 0 ? 16 : 2 * arena->cap_sorted;
        struct npux_span **grown = realloc(arena->sorted, cap * sizeof(*grown));
        if (grown == NULL)
            return false;
        arena->sorted = grown;
        arena->cap_sorted = cap;
    }
    at = sorted_after(arena, span->address);
    memmove(arena->sorted + at + 1, arena->sorted + at, (arena->n_sorted - at) * sizeof(*arena->sorted));
    arena->sorted[at] = span;
    atomic_store_explicit(&arena->n_mapped, ++arena->n_sorted, memory_order_relaxed);
    return true;
}

static void sorted_remove(struct npux_arena *arena, const struct npux_span *span)
{
    size_t at = sorted_after(arena, span->address) - 1;
    atomic_store_explicit(&arena->n_mapped, --arena->n_sorted, memory_order_relaxed);
    memmove(arena->sorted + at, arena->sorted + at + 1, (arena->n_sorted - at) * sizeof(*arena->sorted));
}

/* Cuts an idle span into blocks of the class (mu held). The headers are reused when they are enough. */
static bool span_cut(struct npux_span *span, const struct need *need)
{
    uint32_t n = (uint32_t)(need->class_index < 0 ? 1 : span->nbytes / need->class_nbytes);
    struct npux_block *blocks = calloc(n, sizeof(*blocks));

    if (blocks == NULL)
        return false;
    free(span->blocks);
    span->blocks = blocks;
    span->n_blocks = n;
    span->class_index = need->class_index;
    span->class_nbytes = need->class_index < 0 ? span->nbytes : need->class_nbytes;
    span->free_blocks = NULL;
    for (uint32_t i = n; i-- > 0;) {
        blocks[i].span = span;
        blocks[i].address = span->address + (size_t)i * span->class_nbytes;
        blocks[i].next = span->free_blocks;
        span->free_blocks = &blocks[i];
    }
    return true;
}

/* Takes a free block out of a span that has one (mu held). */
static struct npux_block *span_take(struct npux_arena *arena, struct npux_span *span, size_t nbytes)
{
    struct npux_block *block = span->free_blocks;

    span->free_blocks = block->next;
    if (span->free_blocks == NULL && span->class_index >= 0)
        list_remove(&arena->partial[span->class_index], span);
    span->n_out++;
    block->next = NULL;
    block->nbytes = nbytes;
    atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
    arena->stats.used_nbytes += nbytes;
    arena->stats.n_blocks_out++;
    return block;
}

/* An idle span that serves the need without wasting more than an eighth (mu held). */
static struct npux_span *idle_fit(struct npux_arena *arena, const struct need *need)
{
    struct npux_span *best = NULL;
    for (struct npux_span *s = arena->idle; s != NULL; s = s->next)
        if (s->nbytes >= need->span_nbytes && s->nbytes - need->span_nbytes <= need->span_nbytes / 8 &&
            (best == NULL || s->nbytes < best->nbytes))
            best = s;
    return best;
}

static struct npux_block *take_locked(struct npux_arena *arena, const struct need *need, size_t nbytes)
{
    struct npux_span *span;

    if (need->class_index >= 0 && arena->partial[need->class_index] != NULL)
        return span_take(arena, arena->partial[need->class_index], nbytes);
    span = idle_fit(arena, need);
    if (span == NULL || !span_cut(span, need))
        return NULL;
    list_remove(&arena->idle, span);
    arena->idle_nbytes -= span->nbytes;
    if (need->class_index >= 0)
        list_push(&arena->partial[need->class_index], span);
    return span_take(arena, span, nbytes);
}

struct npux_block *npux_arena_try_get(struct npux_arena *arena, size_t nbytes)
{
    struct need need = plan(arena, nbytes);
    struct npux_block *block;

    pthread_mutex_lock(&arena->mu);
    block = arena->closed ? NULL : take_locked(arena, &need, nbytes);
    pthread_mutex_unlock(&arena->mu);
    return block;
}

/* Takes idle spans out of the arena (mu held) until at least nbytes are out, or none is left. */
static struct npux_span *evict_locked(struct npux_arena *arena, size_t nbytes)
{
    struct npux_span *evicted = NULL;
    size_t freed = 0;

    while (arena->idle != NULL && freed < nbytes) {
        struct npux_span *span = arena->idle;
        list_remove(&arena->idle, span);
        arena->idle_nbytes -= span->nbytes;
        sorted_remove(arena, span);
        arena->stats.held_nbytes -= span->nbytes;
        freed += span->nbytes;
        list_push(&evicted, span);
    }
    return evicted;
}

static void span_free_header(struct npux_span *span)
{
    free(span->blocks);
    free(span);
}

static void span_free(struct npux_arena *arena, struct npux_span *span)
{
    arena->opts.backing.unmap(arena->opts.backing.context, span->address, span->nbytes);
    span_free_header(span);
}

static void unmap_list(struct npux_arena *arena, struct npux_span *spans)
{
    while (spans != NULL) {
        struct npux_span *span = spans;
        spans = span->next;
        span_free(arena, span);
    }
}

/* Maps one span, with one retry after everything idle was given back. No lock held. */
static int map_span(struct npux_arena *arena, size_t nbytes, void **address, struct npux_err *err)
{
    struct npux_span *evicted;
    int rc = arena->opts.backing.map(arena->opts.backing.context, nbytes, address, err);

    if (rc == 0)
        return 0;
    pthread_mutex_lock(&arena->mu);
    evicted = evict_locked(arena, SIZE_MAX);
    pthread_mutex_unlock(&arena->mu);
    if (evicted == NULL)
        return rc;
    unmap_list(arena, evicted);
    return arena->opts.backing.map(arena->opts.backing.context, nbytes, address, err);
}

/* Reserves span_nbytes of the cap (mu held); idle spans that must go first are returned in *evicted. */
static int reserve_locked(struct npux_arena *arena, size_t span_nbytes, struct npux_span **evicted)
{
    size_t cap = arena->opts.cap_nbytes;

    *evicted = NULL;
    if (arena->closed)
        return -ESHUTDOWN;
    if (span_nbytes > cap)
        return -E2BIG;
    if (arena->stats.held_nbytes > cap - span_nbytes) {
        *evicted = evict_locked(arena, arena->stats.held_nbytes - (cap - span_nbytes));
        if (arena->stats.held_nbytes > cap - span_nbytes)
            return -ENOSPC;
    }
    arena->stats.held_nbytes += span_nbytes;
    return 0;
}

/* Makes a span of freshly mapped memory part of the arena and takes its first block (mu held). */
static struct npux_block *adopt_locked(struct npux_arena *arena, struct npux_span *span,
                                       const struct need *need, size_t nbytes)
{
    if (!span_cut(span, need) || !sorted_add(arena, span))
        return NULL;
    arena->stats.n_maps++;
    if (arena->stats.held_nbytes > arena->stats.peak_nbytes)
        arena->stats.peak_nbytes = arena->stats.held_nbytes;
    if (need->class_index >= 0)
        list_push(&arena->partial[need->class_index], span);
    return span_take(arena, span, nbytes);
}

int npux_arena_get(struct npux_arena *arena, size_t nbytes, struct npux_block **block, struct npux_err *err)
{
    struct need need = plan(arena, nbytes);
    struct npux_span *span, *evicted = NULL;
    void *address = NULL;
    int rc = 0;

    pthread_mutex_lock(&arena->mu);
    *block = arena->closed ? NULL : take_locked(arena, &need, nbytes);
    if (*block == NULL)
        rc = reserve_locked(arena, need.span_nbytes, &evicted);
    pthread_mutex_unlock(&arena->mu);
    if (*block != NULL)
        return 0;
    unmap_list(arena, evicted);
    if (rc != 0)
        return npux_fail(err, rc, "arena", "%zu bytes asked, at most %zu may be held", nbytes,
                         arena->opts.cap_nbytes);
    span = calloc(1, sizeof(*span));
    rc = span == NULL ? npux_fail(err, -ENOMEM, "calloc", "no host memory for a span header")
                      : map_span(arena, need.span_nbytes, &address, err);
    if (rc == 0) {
        span->arena = arena;
        span->address = address;
        span->nbytes = need.span_nbytes;
    }
    pthread_mutex_lock(&arena->mu);
    if (rc == 0) {
        *block = adopt_locked(arena, span, &need, nbytes);
        rc = *block != NULL ? 0 : npux_fail(err, -ENOMEM, "calloc", "no host memory for block headers");
    }
    if (rc != 0) { /* who was refused for our reservation may try again; no block will come back for it */
        arena->stats.held_nbytes -= need.span_nbytes;
        arena->returns++;
        pthread_cond_broadcast(&arena->returned_cv);
    }
    pthread_mutex_unlock(&arena->mu);
    if (rc != 0 && address != NULL)
        span_free(arena, span);
    else if (rc != 0)
        free(span);
    return rc;
}

uint64_t npux_arena_returns(struct npux_arena *arena)
{
    uint64_t seen;
    pthread_mutex_lock(&arena->mu);
    seen = arena->returns;
    pthread_mutex_unlock(&arena->mu);
    return seen;
}

void npux_arena_wait(struct npux_arena *arena, uint64_t seen)
{
    pthread_mutex_lock(&arena->mu);
    while (arena->returns == seen && !arena->interrupted)
        pthread_cond_wait(&arena->returned_cv, &arena->mu);
    pthread_mutex_unlock(&arena->mu);
}

void npux_arena_wake(struct npux_arena *arena)
{
    pthread_mutex_lock(&arena->mu);
    arena->returns++; /* also for who has read it and is about to wait */
    pthread_cond_broadcast(&arena->returned_cv);
    pthread_mutex_unlock(&arena->mu);
}

void npux_arena_interrupt(struct npux_arena *arena)
{
    pthread_mutex_lock(&arena->mu);
    arena->interrupted = true;
    pthread_cond_broadcast(&arena->returned_cv);
    pthread_mutex_unlock(&arena->mu);
}

/* The span has no block out any more (mu held): keeps it for the next, or returns true: unmap and free it. */
static bool idle_locked(struct npux_arena *arena, struct npux_span *span)
{
    if (arena->closed)
        return true;
    if (span->class_index >= 0)
        list_remove(&arena->partial[span->class_index], span);
    if (arena->idle_nbytes + span->nbytes > arena->opts.keep_nbytes) {
        sorted_remove(arena, span);
        arena->stats.held_nbytes -= span->nbytes;
        return true;
    }
    arena->idle_nbytes += span->nbytes;
    list_push(&arena->idle, span);
    return false;
}

/* Returns the block to its span (mu held). True: that span is to be unmapped and freed. */
static bool put_locked(struct npux_arena *arena, struct npux_block *block)
{
    struct npux_span *span = block->span;

    arena->stats.used_nbytes -= block->nbytes;
    arena->stats.n_blocks_out--;
    if (span->free_blocks == NULL && span->class_index >= 0 && !arena->closed)
        list_push(&arena->partial[span->class_index], span);
    block->next = span->free_blocks;
    span->free_blocks = block;
    span->n_out--;
    arena->returns++;
    pthread_cond_broadcast(&arena->returned_cv);
    return span->n_out == 0 && idle_locked(arena, span);
}

void npux_block_unref(struct npux_block *block)
{
    struct npux_span *span = block->span;
    struct npux_arena *arena = span->arena;
    bool gone, last, keep_mapped;

    /* Release: our uses of the memory come before the reuse. Acquire: the last one sees everybody's. */
    if (atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (block->whole != NULL) {
        npux_block_unref(block->whole);
        return;
    }
    free(block->pieces);
    block->pieces = NULL;
    pthread_mutex_lock(&arena->mu);
    gone = put_locked(arena, block);
    last = arena->closed && arena->stats.n_blocks_out == 0;
    keep_mapped = arena->closed && arena->opts.stragglers != NPUX_STRAGGLERS_LATE;
    pthread_mutex_unlock(&arena->mu);
    if (gone && !keep_mapped)
        span_free(arena, span);
    else if (gone)
        span_free_header(span);
    if (last)
        arena_free(arena);
}

enum npux_side npux_block_side(const struct npux_block *block)
{
    return block->span->arena->opts.side;
}

bool npux_block_alive(const struct npux_block *block)
{
    struct npux_arena *arena = block->span->arena;
    bool alive;
    pthread_mutex_lock(&arena->mu);
    alive = !block->span->dead;
    pthread_mutex_unlock(&arena->mu);
    return alive;
}

const struct npux_arena *npux_block_arena(const struct npux_block *block)
{
    return block->span->arena;
}

struct npux_block *npux_arena_find(struct npux_arena *arena, const void *address, size_t nbytes)
{
    struct npux_block *found = NULL;
    size_t at;

    /* Whoever holds a block of this arena has seen it counted, so zero means that the address is not his. */
    if (atomic_load_explicit(&arena->n_mapped, memory_order_relaxed) == 0)
        return NULL;
    pthread_mutex_lock(&arena->mu);
    at = arena->closed ? 0 : sorted_after(arena, address);
    if (at > 0) {
        struct npux_span *span = arena->sorted[at - 1];
        size_t offset = (size_t)((const char *)address - span->address);
        size_t index =
            span->n_out == 0 || offset >= span->nbytes ? span->n_blocks : offset / span->class_nbytes;
        if (index < span->n_blocks) {
            struct npux_block *block = &span->blocks[index];
            size_t inside = (size_t)((const char *)address - block->address);
            if (inside <= block->nbytes && nbytes <= block->nbytes - inside &&
                npux_block_ref_unless_zero(block))
                found = block;
        }
    }
    pthread_mutex_unlock(&arena->mu);
    return found;
}

void npux_arena_stats(struct npux_arena *arena, struct npux_arena_stats *out)
{
    pthread_mutex_lock(&arena->mu);
    *out = arena->stats;
    pthread_mutex_unlock(&arena->mu);
}

/* Copies out which memory goes with the device (mu held); the blocks in it are dead from here on. Spans are
 * freed by whoever returns their last block, so only the addresses may be used after the lock. */
static struct iovec *condemn_locked(struct npux_arena *arena, size_t *n)
{
    struct iovec *memory = NULL;

    *n = 0;
    if (arena->opts.stragglers != NPUX_STRAGGLERS_UNMAP || arena->n_sorted == 0)
        return NULL;
    memory = calloc(arena->n_sorted, sizeof(*memory));
    for (size_t i = 0; i < arena->n_sorted; i++) {
        arena->sorted[i]->dead = true;
        if (memory != NULL)
            memory[(*n)++] = (struct iovec){arena->sorted[i]->address, arena->sorted[i]->nbytes};
    }
    return memory;
}

size_t npux_arena_close(struct npux_arena *arena)
{
    const struct npux_backing *backing = &arena->opts.backing;
    struct npux_span *idle;
    struct iovec *memory;
    size_t used, n;
    bool last;

    pthread_mutex_lock(&arena->mu);
    idle = evict_locked(arena, SIZE_MAX);
    memory = condemn_locked(arena, &n);
    arena->closed = true;
    arena->interrupted = true;
    pthread_cond_broadcast(&arena->returned_cv);
    used = arena->stats.used_nbytes;
    arena->stats.n_blocks_out++; /* ours: keeps the arena while we still read it */
    pthread_mutex_unlock(&arena->mu);
    unmap_list(arena, idle);
    for (size_t i = 0; i < n; i++)
        backing->unmap(backing->context, memory[i].iov_base, memory[i].iov_len);
    free(memory);
    pthread_mutex_lock(&arena->mu);
    last = --arena->stats.n_blocks_out == 0;
    pthread_mutex_unlock(&arena->mu);
    if (last)
        arena_free(arena);
    return used;
}

void npux_arena_set_on_gone(struct npux_arena *arena, void (*on_gone)(void *context), void *context)
{
    arena->on_gone = on_gone;
    arena->on_gone_context = context;
}
