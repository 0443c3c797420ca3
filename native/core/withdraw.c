/* withdraw.c - a request that nobody wants any more: what is not issued of it is dropped; declared in
 * engine.h.
 *
 * Whoever takes an op or a chunk of it up drops it: a stager, a lane, an op that is admitted. So that memory
 * and places in the window come back also while nobody takes anything up, the control thread sweeps the
 * queues, once for many withdrawals. Small arrays that are packed with others go with them. An op of which
 * nothing was dropped ends as if it had not been withdrawn.
 */
#include <errno.h>

#include "core/after.h"

int npux_fail_withdrawn(struct npux_err *err)
{
    return npux_fail(err, -ECANCELED, "withdraw", "withdrawn before it was copied");
}

static int sweep_on_control(void *argument)
{
    struct npux_engine *e = argument;
    struct npux_ringer ringer = {0};
    struct npux_chunk *chunks;
    struct npux_op *ops, *held;
    struct npux_err err;

    pthread_mutex_lock(&e->sched.mu);
    e->sched.sweeps = false;
    npux_sched_sweep_locked(&e->sched, &ops, &chunks);
    held = npux_afters_purge_locked(e, false);
    pthread_mutex_unlock(&e->sched.mu);
    npux_fail_withdrawn(&err);
    npux_engine_refuse_ops(e, ops, &err, &ringer);
    npux_engine_refuse_ops(e, held, &err, &ringer);
    npux_engine_fail_chunks(e, chunks, &err, &ringer);
    npux_ringer_flush(&ringer);
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
