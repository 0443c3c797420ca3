/* op.h - a request (what one await waits for), its ops (one array each) and their chunks (what one ACL copy
 * moves of one array; a copy may carry several chunks, see pack.h).
 *
 * Life of an op: submitted -> admitted (no earlier transfer uses its memory against it) -> staged or planned
 * -> issued -> landed -> done. order.h admits it, the stager and the lanes do the rest.
 *
 * Threads: the submitting thread until npux_engine_submit returns 0; then the stager and the lanes; after
 *          the DONE note, the thread that drained it.
 * Locks:   op->err is written under sched->mu; the counters are atomic.
 * Owns:    a request owns its ops, a chunk its staging block, an op a reference to its device block.
 * Invariant: n_chunks_left counts chunks planned and not retired, plus one while more may be planned.
 *            The CAPTURED note is pushed before the last chunk of the last op can be issued, so it comes
 *            before the DONE note. A request may be freed only after its DONE note.
 */
#ifndef NPUX_CORE_OP_H
#define NPUX_CORE_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/arena.h"
#include "core/layout.h"
#include "core/port.h"

enum npux_direction { NPUX_H2D = 0, NPUX_D2H = 1, NPUX_N_DIRECTIONS = 2 };
/* Which of two that could go now goes first. ACL's own stream priority does nothing, so this is ours. */
enum npux_priority { NPUX_LATENCY = 0, NPUX_NORMAL = 1, NPUX_BULK = 2, NPUX_N_PRIORITIES = 3 };
/* ON_DEVICE: from device memory, counted so; it goes the way of DIRECT, from an address of the device.
 * SYNC: a lane copies pageable memory with the runtime's synchronous call, see plan.h. */
enum npux_path {
    NPUX_DIRECT = 0,
    NPUX_STAGED = 1,
    NPUX_NOTHING = 2,
    NPUX_SYNC = 3,
    NPUX_ON_DEVICE = 4,
    NPUX_N_PATHS = 5
};

struct npux_chunk {
    struct npux_chunk *next;
    struct npux_chunk *following; /* of the same op: takes its turn when this one is taken, see sched.h */
    struct npux_chunk *packed;    /* the next one that the same copy carries, of another op; see pack.h */
    struct npux_op *op;
    struct npux_block *stage; /* page-locked copy of the bytes, or NULL on the direct path */
    size_t offset;            /* in the op */
    size_t nbytes;
    size_t stage_offset; /* of its bytes in the staging block */
    size_t copy_nbytes;  /* of the copy that it leads: more than nbytes when others are packed with it */
    int acl_code;        /* of this chunk's own ACL call */
    uint16_t first_task; /* ids that this chunk's ACL call took; valid if tasks_known */
    uint16_t last_task;
    bool tasks_known;
    bool issued;
    bool heap; /* allocated; otherwise the one in the op */
};

enum { NPUX_ISSUED_ON = 2 }; /* so that an unknown stream, -1, is not 0 */

struct npux_op {
    struct npux_request *request;
    struct npux_op *next;          /* in one list at a time: stager queue, ops that may start */
    struct npux_op *next_on_block; /* order.h: waiting for the device block */
    struct npux_op *next_on_from;  /* order.h: waiting for the block that it reads */
    struct npux_op *next_on_host;  /* order.h: waiting for host memory */
    char *host_low, *host_high;    /* order.h: every byte of the layout is in [low, high) */
    uint8_t n_blockers;            /* order.h: device block and host memory not granted yet */
    struct npux_host host;
    struct npux_block *device; /* NULL until the stager or submit has found memory for it */
    size_t device_offset;
    struct npux_block *from;   /* H2D only: the source is this device block, and host.base an address in it */
    struct npux_block *pinned; /* direct path: keeps the page-locked host block */
    struct npux_err *err;      /* first failure (sched->mu); read by the layer above after DONE */
    int32_t err_stream;        /* id of the stream it happened on, -1 if none */
    uint8_t direction;
    uint8_t path;
    bool fresh;               /* the device block was made for this op: nobody else can use it yet */
    bool on_block;            /* order.h: counted on the device block */
    bool on_from;             /* order.h: counted on the block that it reads */
    bool on_host;             /* order.h: in the tree of host writers */
    bool starts_now;          /* submit only: was not put on a wait list */
    bool captured;            /* the source is no longer needed */
    size_t planned;           /* bytes handed to chunks so far (stagers; sched->mu) */
    atomic_size_t n_unfilled; /* bytes that are not in staging memory yet */
    uint64_t alone_ns;  /* when it was submitted, if its direction was idle then and it is to be measured */
    uint64_t n_earlier; /* transfers of its direction before it (sched->mu) */
    atomic_uint n_chunks_left;
    atomic_int issued_on; /* 0, or NPUX_ISSUED_ON more than the id of a stream that has got a part of it */
    /* err is set: chunks not yet issued are dropped. Not beside what lanes read without a lock: compilers
     * join reads of neighbours, which a thread sanitizer then takes for a race. */
    atomic_bool failed;
    uint8_t stage; /* report.c only (sched->mu) */
    struct npux_chunk chunk0;
};

struct npux_after;
struct npux_follow;

struct npux_request {
    struct npux_request *next_live, *prev_live; /* sched->mu; see npux_sched */
    struct npux_request *next_by_key;           /* the same */
    struct npux_port *port;
    struct npux_note captured_note;
    struct npux_note done_note;
    atomic_uint n_uncaptured; /* ops whose source is still needed, plus one held by submit */
    atomic_uint n_ops_left;
    bool awaits_end;  /* set before submit: nobody asks when the source is captured, so it may be borrowed */
    uint8_t priority; /* set before submit; NORMAL from the start */
    atomic_bool withdrawn; /* what is not issued is to be dropped, see withdraw.c */
    bool abandoned; /* DONE was sent although a copy may still run: never freed, see npux_engine_close */
    uint32_t n_ops;
    uint64_t submitted_ns;         /* npux_coarse_ns */
    void *user;                    /* the layer above: its handle */
    const void *key;               /* set before submit, or NULL: how others name it, see after.h */
    struct npux_after *after;      /* set before submit, or NULL: what it waits for; a reference */
    struct npux_follow *followers; /* what is to happen when it is over (sched->mu) */
    struct npux_op ops[];
};

/* A zeroed request with room for n_ops, holding a reference to the port; NULL when memory is out. */
struct npux_request *npux_request_new(struct npux_port *port, uint32_t n_ops);
/* Counts one source as free again; true: it was the last one. */
bool npux_request_uncount_capture(struct npux_request *request);
/* Gives back every block and layout. The layer above has released request->user. */
void npux_request_free(struct npux_request *request);

/* A chunk of the op: the embedded one if it covers everything, else from the heap; NULL if memory is out. */
struct npux_chunk *npux_chunk_new(struct npux_op *op, size_t offset, size_t nbytes);

/* Nobody wants it any more, and nothing of it is in a pack with others. */
static inline bool npux_op_withdrawn(const struct npux_op *op)
{
    return atomic_load_explicit(&op->request->withdrawn, memory_order_acquire) && op->chunk0.packed == NULL;
}

/* The op leads a pack that is still to be staged. */
static inline bool npux_op_leads_pack(const struct npux_op *op)
{
    return op->chunk0.packed != NULL;
}

static inline char *npux_op_device_address(const struct npux_op *op)
{
    return op->device->address + op->device_offset;
}

#endif
