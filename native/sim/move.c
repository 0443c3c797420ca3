/* move.c - what an engine does for one copy or fill: checks both sides, then moves the bytes.
 *
 * Threads: the engine threads, or the owner of the drive (drive.h). Locks: none while bytes move.
 * Owns:    nothing; descriptions belong to their tasks.
 * Invariant: no byte moves unless both sides are live for the whole range; ordinary memory that is gone is a
 *          fault of the device, not of this process.
 */
#include "sim/copy.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Which code a device reports for a bad address depends on chip and driver (assumed: the general one). */
enum { FAULT = ACL_ERROR_RT_TS_ERROR };

struct side {
    char *ptr; /* where the bytes are */
    bool ordinary;
};

/* Makes *held a pin on the block. false: it is gone. */
static bool hold_block(struct sim_ref *held, struct sim_block *block, uint32_t gen)
{
    struct sim_ref ref = {block, gen};

    if (held->block == block && held->gen == gen)
        return sim_ref_live(ref); /* still pinned, but freed since: no further copy may use it */
    if (held->block != NULL)
        sim_block_unpin(held->block);
    held->block = NULL;
    if (!sim_block_pin(ref))
        return false;
    *held = ref;
    return true;
}

static bool hold_side(struct side *side, struct sim_ref *held, const void *ptr, struct sim_block *block,
                      uint32_t gen, size_t nbytes, bool ordinary)
{
    side->ptr = (char *)(uintptr_t)ptr;
    side->ordinary = block == NULL;
    if (block == NULL)
        return ordinary;
    if (!hold_block(held, block, gen) || nbytes > sim_room(*held, ptr))
        return false;
    side->ptr += block->delta;
    return true;
}

/* The bytes where a live block says that they are, for an address that was read from device memory. */
static bool hold_found(struct side *side, struct sim_ref *held, const void *ptr, size_t nbytes)
{
    struct sim_found found;

    return sim_block_find(ptr, &found) &&
           hold_side(side, held, ptr, found.ref.block, found.ref.gen, nbytes, false);
}

/* Copies to or from ordinary memory of this process that may be gone. false: it is. */
static bool probe_copy(void *dst, const void *src, size_t nbytes)
{
    const size_t step = (size_t)1 << 30; /* one call moves less than 2 GiB */

    for (size_t at = 0; at < nbytes;) {
        size_t want = nbytes - at < step ? nbytes - at : step;
        struct iovec to = {(char *)dst + at, want}, from = {(char *)(uintptr_t)src + at, want};
        ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

        if (got < 0 && (errno == EPERM || errno == ENOSYS)) { /* a sandbox forbids it: no probe then */
            memcpy((char *)dst + at, (const char *)src + at, want);
            got = (ssize_t)want;
        }
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

static bool move_run(struct side dst, struct side src, size_t nbytes)
{
    if (dst.ordinary || src.ordinary)
        return probe_copy(dst.ptr, src.ptr, nbytes);
    memmove(dst.ptr, src.ptr, nbytes);
    return true;
}

static bool move_rows(struct side dst, struct side src, const struct sim_rows *rows)
{
    for (size_t row = 0; row < rows->height; row++) {
        if (!move_run(dst, src, rows->width))
            return false;
        dst.ptr += rows->dpitch;
        src.ptr += rows->spitch;
    }
    return true;
}

/* Reads device memory that a task points to. */
static bool read_device(struct sim_ref *pin, const void *ptr, void *out, size_t nbytes)
{
    struct side at;

    if (!hold_found(&at, pin, ptr, nbytes) || pin->block->device < 0)
        return false;
    memcpy(out, at.ptr, nbytes);
    return true;
}

/* The addresses as they are now: whoever wrote them may have done so on this stream. */
static bool resolve(const struct sim_indirect *what, struct sim_ref *pin, struct sim_desc *out)
{
    if (what->kind == SIM_DESC)
        return read_device(pin, what->src, out, sizeof(*out));
    if (!read_device(pin, what->src, &out->src, sizeof(out->src)) ||
        !read_device(pin, what->dst, &out->dst, sizeof(out->dst)))
        return false;
    out->src += what->src_offset;
    out->dst += what->dst_offset;
    return true;
}

static aclError move_indirect(const struct sim_task *t, struct sim_ref *dst_pin, struct sim_ref *src_pin,
                              bool move_bytes, uint64_t *n_bytes)
{
    const struct sim_indirect *what = (const void *)t->copy.src;
    struct sim_desc at = {.nbytes = t->copy.nbytes};
    struct side dst, src;

    if (!resolve(what, src_pin, &at) || !hold_found(&dst, dst_pin, at.dst, at.nbytes) ||
        !hold_found(&src, src_pin, at.src, at.nbytes) || dst_pin->block->device < 0 ||
        src_pin->block->device < 0)
        return FAULT;
    if (move_bytes)
        move_run(dst, src, at.nbytes);
    *n_bytes += at.nbytes;
    return ACL_SUCCESS;
}

static void fill_words(char *dst, uint32_t word, size_t nbytes)
{
    for (size_t at = 0; at < nbytes; at += sizeof(word))
        memcpy(dst + at, &word, sizeof(word));
}

static aclError fill(const struct sim_task *t, struct sim_ref *dst_pin, bool move_bytes)
{
    struct side dst;

    if (!hold_side(&dst, dst_pin, t->copy.dst, t->copy.dst_block, t->copy.dst_gen, t->copy.nbytes, false))
        return FAULT;
    if (move_bytes && (t->flags & SIM_TASK_WORDS) != 0)
        fill_words(dst.ptr, (uint32_t)(uintptr_t)t->copy.src, t->copy.nbytes);
    else if (move_bytes)
        memset(dst.ptr, t->value, t->copy.nbytes);
    return ACL_SUCCESS;
}

static aclError move_task(const struct sim_task *t, struct sim_ref *dst_pin, struct sim_ref *src_pin,
                          bool move_bytes, uint64_t *n_bytes)
{
    const struct sim_indirect *what = (t->flags & SIM_TASK_INDIRECT) != 0 ? (const void *)t->copy.src : NULL;
    const bool ordinary = (t->flags & SIM_TASK_ORDINARY) != 0;
    const struct sim_rows one = {.width = t->copy.nbytes, .height = 1};
    const struct sim_rows *rows = what != NULL ? &what->rows : &one;
    struct side dst, src;

    if (t->kind == SIM_MEMSET)
        return fill(t, dst_pin, move_bytes);
    if (what != NULL && what->kind != SIM_ROWS)
        return move_indirect(t, dst_pin, src_pin, move_bytes, n_bytes);
    if (!hold_side(&dst, dst_pin, t->copy.dst, t->copy.dst_block, t->copy.dst_gen,
                   sim_rows_span(rows->dpitch, rows->width, rows->height), ordinary))
        return FAULT;
    if (what == NULL && (t->flags & SIM_TASK_OWNS_SRC) != 0)
        src = (struct side){.ptr = (char *)(uintptr_t)t->copy.src};
    else if (!hold_side(&src, src_pin, sim_task_src(t), t->copy.src_block, t->copy.src_gen,
                        sim_rows_span(rows->spitch, rows->width, rows->height), ordinary))
        return FAULT;
    if (move_bytes && !move_rows(dst, src, rows))
        return FAULT;
    *n_bytes += t->copy.nbytes;
    return ACL_SUCCESS;
}

/* The program's own fault, whatever the mode: failures on purpose do not come here. */
aclError sim_move(const struct sim_task *t, struct sim_ref *dst_pin, struct sim_ref *src_pin, bool move_bytes,
                  uint64_t *n_bytes)
{
    aclError code = move_task(t, dst_pin, src_pin, move_bytes, n_bytes);

    if (code == FAULT)
        sim_find(
            SIM_FOUND_FREED,
            "a %s of %zu bytes from %p to %p, submitted by thread %u, failed with %d: when its turn came, "
            "memory of it was freed, unmapped or too short; keep memory until its copies are complete "
            "(adversarial mode names the calls)",
            t->kind == SIM_MEMSET ? "fill" : "copy", t->copy.nbytes, sim_task_src(t), (void *)t->copy.dst,
            t->tid, code);
    return code;
}

const void *sim_task_src(const struct sim_task *t)
{
    if (t->kind == SIM_MEMSET)
        return NULL;
    return (t->flags & SIM_TASK_INDIRECT) != 0 ? ((const struct sim_indirect *)(const void *)t->copy.src)->src
                                               : t->copy.src;
}
