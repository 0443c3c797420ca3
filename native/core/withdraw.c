/* withdraw.c - a request that nobody wants any more: what is not issued of it is dropped; declared in
 * engine.h.
 *
 * Whoever takes an op or a chunk of it up drops it: a stager, a lane, an op that is admitted. So that memory
 * and places in the window come back also while nobody takes anything up, the control thread sweeps the
 * queues, once for many withdrawals. Small arrays that are packed with others go with them. An op of which
 * nothing was dropped ends as if it had not been withdrawn. One that waits for earlier transfers keeps its
 * place until they are over.
 */
#include <errno.h>

#include "core/after.h"

void npux_engine_sweep(struct npux_engine *e)
{
    struct npux_ringer ringer = {0};
    struct npux_chunk *chunks;
    struct npux_op *lists[2];
    struct npux_err err;

    pthread_mutex_lock(&e->sched.mu);
    npux_sched_sweep_locked(&e->sched, &lists[0], &chunks);
    lists[1] = npux_afters_purge_locked(e, false);
    pthread_mutex_unlock(&e->sched.mu);
    for (int i = 0; i < 2; i++)
        while (lists[i] != NULL) {
            struct npux_op *op = lists[i];
            lists[i] = op->next;
            npux_fail_dropped(op, &err);
            npux_engine_refuse_op(e, op, &err, &ringer);
        }
    while (chunks != NULL) {
        struct npux_chunk *chunk = chunks;
        chunks = chunk->next;
        npux_fail_dropped(chunk->op, &err);
        npux_engine_fail_chunk(e, chunk, -1, &err);
        npux_engine_retire_chunk(e, chunk, &ringer);
    }
    npux_ringer_flush(&ringer);
    npux_arena_wake(e->staging_arena[NPUX_H2D]); /* those that wait for memory for something withdrawn */
    npux_arena_wake(e->staging_arena[NPUX_D2H]);
}

static int sweep_on_control(void *argument)
{
    struct npux_engine *e = argument;

    pthread_mutex_lock(&e->sched.mu);
    e->sched.sweeps = false;
    pthread_mutex_unlock(&e->sched.mu);
    npux_engine_sweep(e);
    return 0;
}

void npux_engine_withdraw(struct npux_engine *e, const void *key)
{
    struct npux_request *request;

    if (npux_engine_enter(e, "withdraw", NULL) != 0)
        return; /* close ends everything */
    pthread_mutex_lock(&e->sched.mu);
    request = npux_sched_find_live_locked(&e->sched, key);
    if (request != NULL)
        atomic_store(&request->withdrawn, true);
    if (request != NULL && !e->sched.sweeps) {
        e->sched.sweeps = true;
        e->sweep.function = sweep_on_control;
        e->sweep.argument = e;
        npux_control_post(&e->control, &e->sweep);
    }
    pthread_mutex_unlock(&e->sched.mu);
    npux_engine_leave(e);
}
