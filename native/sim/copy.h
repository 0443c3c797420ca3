/* copy.h - copies of memory: where the sides are, what runs in which direction, how it is queued and moved.
 *
 * Threads: any; sim_move on an engine thread or by the owner of the drive (drive.h).
 * Locks:   sim.mu in the functions that submit, never while bytes move.
 * Owns:    the descriptions that indirect tasks point to, until the task is published or dropped.
 * Invariant: the order of the checks is that of the real runtime; a queued copy's bytes are read when it
 *          executes, whatever kind of memory they are in.
 */
#ifndef ACLSIM_COPY_H
#define ACLSIM_COPY_H

#include "sim/sim.h"

enum { DIR_H2H = ACLSIM_N_DIRECTIONS }; /* no engine */

enum { HOST = ACL_MEM_LOCATION_TYPE_HOST, DEVICE, UNREGISTERED, N_LOCATIONS };

struct sim_copy {
    char *dst;
    const char *src;
    size_t nbytes;
    int dst_loc, src_loc;
    struct sim_ref dst_ref, src_ref;
};

/* Copies of rows. nbytes of the copy is width * height, its dst and src are those of the first row. */
struct sim_rows {
    size_t dpitch, spitch, width, height;
};

/* --- locations and kinds (location.c) --- */

struct sim_copy sim_copy_of(struct sim_thread *self, void *dst, const void *src, size_t nbytes);
/* Replaces *kind by the effective one, or 107000 with the text and the log records of the release. stream_id:
 * for the log; -1 without a stream. */
aclError sim_correct_kind(const struct sim_copy *c, aclrtMemcpyKind *kind, int32_t stream_id);
/* For locations that fit no copy at all, for example freed device memory. */
bool sim_locations_usable(const struct sim_copy *c);
/* The engine that runs a copy between these locations; DIR_H2H for none. */
int sim_direction(const struct sim_copy *c);
bool sim_is_pageable(const struct sim_copy *c, aclrtMemcpyKind kind);

/* Bytes that the block allows from ptr on; SIZE_MAX for ordinary memory. */
size_t sim_room(struct sim_ref ref, const void *ptr);
/* Bytes between the first and the last one of the rows. SIZE_MAX: more than the address space. */
size_t sim_rows_span(size_t pitch, size_t width, size_t height);

/* Whether a copy on dev may touch the memory of both sides; see peer.h. */
bool sim_copy_reaches(const struct sim_device *dev, const struct sim_copy *c);

/* --- immediate copies (copy_now.c) --- */

/* rows NULL: one run of bytes. */
aclError sim_copy_now(const struct sim_copy *c, const struct sim_rows *rows, struct sim_device *dev);

/* --- queued copies (copy_queue.c) --- */

/* Whether the context takes copies and fills for this stream now: the last check before a submission. */
aclError sim_may_submit(const struct sim_stream *s, struct sim_context *ctx);
/* Splits into tasks of the size that one descriptor can carry. When the stream is closed meanwhile, what was
 * submitted before stays submitted. */
aclError sim_copy_queue(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c, int dir);
/* Copy kind 5: the source is free for reuse when the call returns. */
aclError sim_copy_queue_buffered(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c);
aclError sim_copy_queue_rows(struct sim_thread *self, struct sim_stream *s, const struct sim_copy *c,
                             const struct sim_rows *rows, int dir);
/* Takes the malloc'd description. */
struct sim_indirect;
aclError sim_copy_queue_indirect(struct sim_thread *self, struct sim_stream *s, struct sim_indirect *what,
                                 size_t nbytes);
/* Ordinary memory: drains the stream, then copies here. */
aclError sim_copy_pageable(struct sim_stream *s, const struct sim_copy *c, const struct sim_rows *rows,
                           struct sim_device *dev);

/* --- what is reported about a copy (copy_note.c) --- */

void sim_ask_strict(bool on); /* aclsim_set_strict, also while the environment is read */
/* Counts an unaligned copy and reports it where the release documents 64 bytes; 107000 in strict mode. */
aclError sim_note_alignment(const void *dst, const void *src);
/* Reports ordinary memory in an asynchronous copy. kind: the corrected one. */
void sim_note_ordinary(const struct sim_copy *c, aclrtMemcpyKind kind);

/* --- execution (move.c) --- */

/* In the description that copy.src of a task with SIM_TASK_INDIRECT points to. */
enum sim_indirect_kind {
    SIM_ROWS,   /* rows */
    SIM_OFFSET, /* the addresses are in device memory, and offsets are added to them */
    SIM_DESC    /* addresses and size are in a descriptor in device memory */
};
struct sim_indirect {
    enum sim_indirect_kind kind;
    struct sim_rows rows;
    const char *src; /* SIM_ROWS: of the first row; else where the source address or descriptor is */
    char *dst;       /* SIM_OFFSET: where the destination address is */
    size_t src_offset, dst_offset;
};

struct sim_desc { /* what aclrtSetMemcpyDesc leaves in device memory; smaller than a real descriptor */
    uint64_t nbytes;
    char *dst;
    const char *src;
};

/* Executes a SIM_COPY or SIM_MEMSET on an engine: checks both sides, moves the bytes unless the link only
 * models time, adds what was copied to *n_bytes. The pins go from one task to the next; the caller drops the
 * last ones. 0 or the code of the fault. */
aclError sim_move(const struct sim_task *t, struct sim_ref *dst_pin, struct sim_ref *src_pin, bool move_bytes,
                  uint64_t *n_bytes);
/* The source that a failed task's report names. */
const void *sim_task_src(const struct sim_task *t);

#endif
