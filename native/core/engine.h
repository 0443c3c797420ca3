/* engine.h - one engine: one device, its threads, its memory, its transfers.
 *
 * Threads: control (opens, allocates, tears down), n_stagers stagers (fill and empty staging memory), and
 * n_lanes lanes per direction (each the only submitter of one ACL stream). None of them touches Python.
 * Locks:   sched->mu, then the leaves. See native/DESIGN.md for the whole order.
 * Owns:    the device's reset, streams, arenas; a user block outlives the engine as a dead block.
 * Invariant: a transfer is reported as done without error only after the synchronisation of the stream that
 *            carried it returned success; an event alone does not prove that a copy worked.
 */
#ifndef NPUX_CORE_ENGINE_H
#define NPUX_CORE_ENGINE_H

#include "core/control.h"
#include "core/deadline.h"
#include "core/op.h"
#include "core/runtime.h"
#include "core/sched.h"

struct npux_engine_opts {
    const char *library; /* path of the ACL library */
    int32_t device;
    size_t staging_nbytes; /* cap per direction */
    size_t chunk_nbytes;   /* staged copies are cut to this */
    size_t result_nbytes;  /* of idle result memory kept for reuse */
    size_t inline_nbytes;  /* up to this, submit itself fills the staging memory */
    unsigned n_lanes;      /* per direction */
    enum npux_pageable pageable;
    uint64_t window_ops;    /* most transfers accepted and not done; 0: no limit */
    uint64_t window_nbytes; /* most bytes in them; one request that is larger goes alone; 0: no limit */
    unsigned n_stagers; /* threads that copy between pageable and staging memory, both directions together */
    uint64_t spin_ns;   /* how long a lane that has run dry looks for work before it sleeps; 0: not at all */
};

struct npux_afters;
struct npux_befores;
struct npux_lane;

struct npux_engine_stats {
    struct npux_counters counters;
    uint64_t n_pending;
    struct npux_arena_stats device, pinned, results;
    struct npux_arena_stats staging[NPUX_N_DIRECTIONS];
};

struct npux_engine {
    struct npux_engine_opts opts;
    struct npux_runtime *runtime;
    const struct npux_acl *acl;
    aclrtContext context; /* the device's primary context; every thread of ours makes it current */
    struct npux_sched sched;
    struct npux_control control;
    struct npux_control foreign; /* for calls on streams of others, which may block as long as these like */
    struct npux_arena *device_arena;
    struct npux_arena *pinned_arena;                     /* arrays of the user */
    struct npux_arena *staging_arena[NPUX_N_DIRECTIONS]; /* between pageable memory and the DMA */
    struct npux_arena *result_arena;                     /* ordinary memory for to_host results */
    struct npux_arena *lent_arena;                       /* device memory of others, see lend.h */
    struct npux_lane *lanes;
    struct npux_afters *afters; /* transfers that wait for work of others */
    struct npux_deadlines deadlines;
    struct npux_befores *befores; /* work of others that waits for transfers */
    pthread_t *stagers;
    unsigned n_stagers; /* started and not joined */
    bool device_set;
    atomic_bool closing;  /* refuse new work; set under sched->mu */
    atomic_uint n_inside; /* calls of submit and get_... under way; close waits for them */
    atomic_bool dead;     /* set under sched->mu, after death, which holds the first cause */
    atomic_bool abandon;  /* lanes give up waiting for the device */
    struct npux_err death;
    bool torn_down;                      /* sched->mu: the arenas are going; last_stats stands in for them */
    struct npux_engine_stats last_stats; /* sched->mu */
    struct npux_call sweep;              /* see withdraw.c */
    bool foreign_stuck;                  /* close found a call on a stream of others that does not return */
    bool leaked;                         /* a thread is stuck in ACL: nothing of this engine may be freed */
};

struct npux_close_report {
    uint64_t n_abandoned; /* transfers without an end when the time was up */
    size_t pinned_nbytes; /* page-locked bytes that arrays of the user still show; see close */
    unsigned n_stuck;     /* threads still inside an ACL call; their memory is never freed */
    int acl_code;         /* first error of the teardown calls, 0 if none */
    const char *acl_call;
};

/* Opens the device and starts the threads. The calling thread's ACL context is not touched. */
int npux_engine_open(const struct npux_engine_opts *opts, struct npux_engine **engine, struct npux_err *err);

/* Takes the request, whose ops have host, direction, and device (or NULL for new memory, H2D only) filled.
 * On success *captured says whether every source is free again; if not, a CAPTURED note follows. On failure
 * nothing was started and the request still belongs to the caller: -EAGAIN when the window is full. */
int npux_engine_submit(struct npux_engine *e, struct npux_request *request, bool *captured,
                       struct npux_err *err);

/* Drops what is not issued of the request with this key, see withdraw.c; nothing happens if it is over. What
 * is on a stream ends as it would have. */
void npux_engine_withdraw(struct npux_engine *e, const void *key);

/* A page-locked block for an array of the user. Blocks while the runtime allocates. */
int npux_engine_get_pinned(struct npux_engine *e, size_t nbytes, struct npux_block **block,
                           struct npux_err *err);
/* Ordinary memory for a result. */
int npux_engine_get_result(struct npux_engine *e, size_t nbytes, struct npux_block **block,
                           struct npux_err *err);

/* Sleeps until there are fewer transfers than now, until close, or for timeout_ns. */
void npux_engine_wait_room(struct npux_engine *e, uint64_t timeout_ns);
uint64_t npux_engine_pending(struct npux_engine *e);
/* Counters and memory now; after close, as they were when the last transfer had ended. */
void npux_engine_stats(struct npux_engine *e, struct npux_engine_stats *out);

/* Refuses new work, waits up to timeout_ns for what is pending, then tears down: streams, staging memory,
 * the rest, device, runtime. What has no end by then gets a DONE note with an error. While arrays of the user
 * still show page-locked memory, the device stays set, and is reset when the last of them dies. Call once.
 * The engine struct itself is freed by npux_engine_free. */
void npux_engine_close(struct npux_engine *e, uint64_t timeout_ns, struct npux_close_report *report);
/* No call on it may be under way. */
void npux_engine_free(struct npux_engine *e);

/* For the stager and the lanes. ------------------------------------------------------------------- */

/* What a thread has still to do after it has finished ops: ring each port once for many notes, and start the
 * ops that waited for the finished ones (a loop, not a recursion: a refused one finishes at once). */
struct npux_ringer {
    struct npux_port *port;
    struct npux_op *started, *started_tail;
    bool starting;
};
void npux_ringer_flush(struct npux_ringer *ringer);

/* Drops what was withdrawn and nobody has taken up, now. */
void npux_engine_sweep(struct npux_engine *e);
/* Ends these ops with an error, none of which anything was issued of. */
void npux_engine_refuse_ops(struct npux_engine *e, struct npux_op *ops, const struct npux_err *err,
                            struct npux_ringer *ringer);
/* Fails a list of chunks and retires them. */
void npux_engine_fail_chunks(struct npux_engine *e, struct npux_chunk *chunks, const struct npux_err *err,
                             struct npux_ringer *ringer);
/* Records the first failure of an op; later ones are dropped. */
void npux_engine_fail_op(struct npux_engine *e, struct npux_op *op, int32_t stream_id,
                         const struct npux_err *err);
/* The same for the ops of a chunk and of those packed with it. */
void npux_engine_fail_chunk(struct npux_engine *e, const struct npux_chunk *leader, int32_t stream_id,
                            const struct npux_err *err);
/* The op's source is no longer needed. Before the last chunk is pushed. */
void npux_engine_captured(struct npux_op *op, struct npux_ringer *ringer);
/* Gives back one count of op->n_chunks_left; the last one finishes the op. */
void npux_engine_retire(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer);
/* Frees a chunk and those packed with it, with the staging block, then retires them. */
void npux_engine_retire_chunk(struct npux_engine *e, struct npux_chunk *chunk, struct npux_ringer *ringer);
/* An op that nothing is issued of, and those packed with it, end with this error. */
void npux_engine_refuse_op(struct npux_engine *e, struct npux_op *op, const struct npux_err *err,
                           struct npux_ringer *ringer);
/* Fills a pack with this memory, which it takes over, and makes its copy ready. */
void npux_engine_stage_pack(struct npux_engine *e, struct npux_op *leader, struct npux_block *device,
                            struct npux_block *stage, struct npux_ringer *ringer);
/* Sends the ops of a pack that there is no memory for to the stager one by one. */
void npux_engine_unpack(struct npux_engine *e, struct npux_op *leader);
/* Puts an admitted op on its way: to the stager if bytes or device memory must come first; else to a lane. */
void npux_engine_start_op(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer);
/* The turn of a loop is over: what was deferred in it starts. */
void npux_engine_flush(struct npux_engine *e);
/* How many bytes a chunk of the op has at most. */
size_t npux_engine_chunk_nbytes(const struct npux_engine *e, const struct npux_op *op);
/* Cuts the whole op into chunks without staging memory and makes them ready. */
void npux_engine_plan(struct npux_engine *e, struct npux_op *op, struct npux_ringer *ringer);
/* Keeps close out of the arenas while the caller is in them, until it leaves. -ESHUTDOWN once close has
 * begun. */
int npux_engine_enter(struct npux_engine *e, const char *call, struct npux_err *err);
void npux_engine_leave(struct npux_engine *e);
/* Fails everything that waits in the queues of the stager and the lanes. */
void npux_engine_fail_queued(struct npux_engine *e, const struct npux_err *cause, struct npux_ringer *ringer);
/* The device or a thread is lost: fails everything that is not issued and refuses what comes. */
void npux_engine_die(struct npux_engine *e, const struct npux_err *cause, struct npux_ringer *ringer);

#endif
