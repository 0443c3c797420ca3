/* report.h - what is pending, and what each transfer waits for, for people who look into a program that
 * stands still.
 *
 * Threads: any.
 * Locks:   sched->mu while it looks; the time is proportional to what is pending.
 * Owns:    nothing; the caller's array is filled with copies.
 * Invariant: a stage is where the op was at one moment; the report holds no reference to it.
 */
#ifndef NPUX_CORE_REPORT_H
#define NPUX_CORE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"

enum npux_stage {
    NPUX_AT_FOLLOW = 0, /* other transfers, named by `after`, are to end first */
    NPUX_AT_ORDER = 1,  /* earlier transfers use the same memory */
    NPUX_AT_STREAM = 2, /* work on a stream of others is to end first */
    NPUX_AT_STAGER = 3, /* in the queue of the threads that fill staging memory */
    NPUX_AT_READY = 4,  /* in the queue of the lanes */
    NPUX_AT_WORK = 5,   /* a thread of the engine has it, or it waits for memory */
    NPUX_AT_DEVICE = 6, /* a part of it was put on a stream */
    NPUX_AT_END = 7,    /* over; other arrays of its request are not */
};

struct npux_report_row {
    const void *key; /* of its request */
    uint64_t age_ns; /* since submit; the clock ticks every few milliseconds */
    size_t nbytes;
    size_t planned; /* bytes cut into chunks so far */
    uint32_t index; /* of the op in its request */
    uint8_t direction, path, priority, stage;
    bool withdrawn;
    int32_t stream; /* that has a part of it, -1: none, or its id is not known */
};

/* Fills rows for the ops that are pending, oldest request first, or for those of one request if key is not
 * NULL. Returns how many there are, which may be more than max. */
size_t npux_engine_report(struct npux_engine *e, const void *key, struct npux_report_row *rows, size_t max);

#endif
