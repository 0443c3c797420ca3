/* join.h - waiting for the end of a thread, with a limit.
 *
 * Threads: one joiner per thread. Locks: none. Owns: nothing.
 * Invariant: after true the thread is gone; after false it is detached and may run on.
 */
#ifndef NPUX_BASE_JOIN_H
#define NPUX_BASE_JOIN_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"

/* Waits until deadline_ns of npux_now_ns; 0: without limit. */
static inline bool npux_join(pthread_t thread, uint64_t deadline_ns)
{
    uint64_t now_ns = npux_now_ns();
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    struct timespec wall, deadline;

    if (deadline_ns == 0)
        return pthread_join(thread, NULL) == 0;
    /* The only timed join of older C libraries uses the wall clock. */
    clock_gettime(CLOCK_REALTIME, &wall);
    deadline = npux_timespec((uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec + left_ns);
    if (pthread_timedjoin_np(thread, NULL, &deadline) == 0)
        return true;
    pthread_detach(thread);
    return false;
}

#endif
