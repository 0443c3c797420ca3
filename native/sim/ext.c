/* ext.c - the tasks that are neither copies nor plain events: one place that knows their kinds.
 *
 * Threads: any. Locks: sim.mu held, unless the name's comment in ext.h says otherwise.
 * Owns:    nothing. Invariant: see ext.h.
 */
#include "sim/sim.h"

#include <stdlib.h>

bool sim_ext_front(struct sim_stream *s, struct sim_task *t)
{
    switch (t->kind) {
    case SIM_CALLBACK:
        return sim_callback_front(s, t);
    case SIM_NOTIFY_RECORD:
    case SIM_NOTIFY_WAIT:
        return sim_notify_front(s, t);
    case SIM_VALUE_WRITE:
    case SIM_VALUE_WAIT:
        return sim_value_front(s, t);
    default:
        return sim_ipc_front(s, t);
    }
}

void sim_ext_done(struct sim_task *t)
{
    if (t->kind == SIM_CALLBACK)
        sim_callback_done(t);
    else if (t->kind == SIM_IPC_RECORD || t->kind == SIM_IPC_WAIT)
        sim_ipc_task_done(t);
}

void sim_ext_forget(struct sim_stream *s)
{
    if (s->group != NULL)
        sim_callback_forget(s);
}

void sim_ext_closed(struct sim_stream *s)
{
    if (s->group != NULL)
        sim_callback_closed(s);
}

const char *sim_ext_name(const struct sim_task *t)
{
    static const char *const names[] = {"HOST_CALLBACK", "NOTIFY_RECORD",    "NOTIFY_WAIT",   "VALUE_WRITE",
                                        "VALUE_WAIT",    "IPC_EVENT_RECORD", "IPC_EVENT_WAIT"};

    if (t->kind == SIM_WAIT)
        return "STREAM_WAIT_EVENT";
    return t->kind >= SIM_EXT_FIRST ? names[t->kind - SIM_EXT_FIRST] : "EVENT_RECORD";
}

/* Not told to the exception callbacks: these run without sim.mu, and the task is being finished under it. */
void sim_ext_fail(struct sim_stream *s, const struct sim_task *t, int32_t code)
{
    struct sim_failure failure = {
        .code = code,
        .task_id = (uint32_t)(atomic_load_explicit(&s->done, memory_order_relaxed) & 0xFFFF),
        .task = sim_ext_name(t)};

    sim_stream_failed(s, &failure);
}

aclError sim_ext_stream(struct sim_thread *self, struct sim_stream **s)
{
    struct sim_context *ctx;
    aclError code = sim_stream_resolve(self, s, &ctx);

    if (code != 0)
        return code;
    code = sim_stream_own(*s, ctx);
    return code != 0 ? code : sim_context_usable(ctx);
}
