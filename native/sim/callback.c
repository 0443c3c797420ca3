/* callback.c - host functions on a stream: run by a thread of the program, or by one of the library.
 *
 * Threads: callbacks run on the thread inside aclrtProcessReport, and host functions on one thread for each
 *          context, started with its first one; it ends with the context.
 * Locks:   sim.mu, never held while a callback runs.
 * Owns:    the groups, for the life of the process, and the entries: by the task until its turn in the
 *          stream, then by the group's queue, then by the thread that runs it.
 * Invariant: a live group has at least one stream, but for the group of a context.
 */
#include "sim/sim.h"
#include "sim/site.h"

#include <stdlib.h>

enum { MAX_GROUPS = 128 }; /* the default table of the open runtime; the documents advise 32 or fewer */

struct sim_callback {
    struct sim_callback *next;
    aclrtCallback fn;
    void *data;
    struct sim_stream *s;
    uint64_t seq;
    bool block;
    bool queued; /* the group or the running thread owns it */
};

struct sim_group {
    uint64_t thread; /* pthread_self of who processes; any value is accepted */
    struct sim_device *dev;
    struct sim_context *host_of; /* NULL: of a thread of the program */
    uint32_t n_streams;
    bool dead;
    struct sim_callback *head, *tail;
    uint32_t n_queued;
    struct sim_stream *blocked; /* streams that wait for one of its callbacks to return */
    pthread_cond_t cv;
    struct sim_group *next;
};

static struct sim_group *groups; /* all of them, dead ones too */
static uint32_t n_live;          /* of those with a thread of the program */

/* --- what a callback must not call --- */

/* Allocate or free, synchronise, launch, stop or destroy (aclrtLaunchCallback, CANN 9.1 docs). */
static const bool forbidden[SIM_N_FN] = {
    [SIM_FN_aclrtMalloc] = true,
    [SIM_FN_aclrtFree] = true,
    [SIM_FN_aclrtMallocHost] = true,
    [SIM_FN_aclrtFreeHost] = true,
    [SIM_FN_aclrtMallocAlign32] = true,
    [SIM_FN_aclrtMallocCached] = true,
    [SIM_FN_aclrtMallocWithCfg] = true,
    [SIM_FN_aclrtMallocHostWithCfg] = true,
    [SIM_FN_aclrtFreeWithDevSync] = true,
    [SIM_FN_aclrtFreeHostWithDevSync] = true,
    [SIM_FN_aclrtHostRegister] = true,
    [SIM_FN_aclrtHostRegisterV2] = true,
    [SIM_FN_aclrtHostUnregister] = true,
    [SIM_FN_aclrtSetDevice] = true,
    [SIM_FN_aclrtResetDevice] = true,
    [SIM_FN_aclrtResetDeviceForce] = true,
    [SIM_FN_aclrtCreateContext] = true,
    [SIM_FN_aclrtDestroyContext] = true,
    [SIM_FN_aclrtCreateStream] = true,
    [SIM_FN_aclrtCreateStreamWithConfig] = true,
    [SIM_FN_aclrtDestroyStream] = true,
    [SIM_FN_aclrtDestroyStreamForce] = true,
    [SIM_FN_aclrtCreateEvent] = true,
    [SIM_FN_aclrtCreateEventWithFlag] = true,
    [SIM_FN_aclrtCreateEventExWithFlag] = true,
    [SIM_FN_aclrtDestroyEvent] = true,
    [SIM_FN_aclrtCreateNotify] = true,
    [SIM_FN_aclrtDestroyNotify] = true,
    [SIM_FN_aclrtSynchronizeDevice] = true,
    [SIM_FN_aclrtSynchronizeDeviceWithTimeout] = true,
    [SIM_FN_aclrtSynchronizeStream] = true,
    [SIM_FN_aclrtSynchronizeStreamWithTimeout] = true,
    [SIM_FN_aclrtSynchronizeEvent] = true,
    [SIM_FN_aclrtSynchronizeEventWithTimeout] = true,
    [SIM_FN_aclrtStreamAbort] = true,
    [SIM_FN_aclrtStreamStop] = true,
    [SIM_FN_aclrtDeviceTaskAbort] = true,
    [SIM_FN_aclrtRecordEvent] = true,
    [SIM_FN_aclrtRecordEventWithFlag] = true,
    [SIM_FN_aclrtResetEvent] = true,
    [SIM_FN_aclrtStreamWaitEvent] = true,
    [SIM_FN_aclrtStreamWaitEventWithTimeout] = true,
    [SIM_FN_aclrtStreamWaitEventWithFlag] = true,
    [SIM_FN_aclrtRecordNotify] = true,
    [SIM_FN_aclrtWaitAndResetNotify] = true,
    [SIM_FN_aclrtMemcpy] = true,
    [SIM_FN_aclrtMemcpyAsync] = true,
    [SIM_FN_aclrtMemcpyAsyncWithCondition] = true,
    [SIM_FN_aclrtMemcpy2d] = true,
    [SIM_FN_aclrtMemcpy2dAsync] = true,
    [SIM_FN_aclrtMemcpyBatch] = true,
    [SIM_FN_aclrtMemcpyBatchV2] = true,
    [SIM_FN_aclrtMemcpyBatchAsync] = true,
    [SIM_FN_aclrtMemcpyBatchAsyncV2] = true,
    [SIM_FN_aclrtMemcpyAsyncWithOffset] = true,
    [SIM_FN_aclrtMemcpyAsyncWithDesc] = true,
    [SIM_FN_aclrtMemsetAsync] = true,
    [SIM_FN_aclrtMemsetD32Async] = true,
    [SIM_FN_aclrtValueWrite] = true,
    [SIM_FN_aclrtValueWait] = true,
    [SIM_FN_aclrtLaunchCallback] = true,
    [SIM_FN_aclrtLaunchHostFunc] = true,
    [SIM_FN_aclrtProcessReport] = true,
};

void sim_called_in_callback(enum sim_fn fn)
{
    if (forbidden[fn])
        sim_find(SIM_FOUND_IN_CALLBACK, "%s was called in a callback of a stream, where it may deadlock",
                 sim_site_text(sim_site_here()).text);
}

/* --- groups; sim.mu held --- */

static struct sim_group *find(uint64_t thread)
{
    for (struct sim_group *g = groups; g != NULL; g = g->next)
        if (!g->dead && g->host_of == NULL && g->thread == thread)
            return g;
    return NULL;
}

static struct sim_group *group_new(struct sim_device *dev, uint64_t thread)
{
    struct sim_group *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->dev = dev;
    g->thread = thread;
    sim_cond_init(&g->cv);
    g->next = groups;
    groups = g;
    return g;
}

/* Callbacks of s that wait in its group's queue are dropped: all, or those whose task is not finished. */
static void unqueue(struct sim_stream *s, bool all)
{
    struct sim_group *g = s->group;
    uint64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);
    struct sim_callback **at = &g->head, *last = NULL;

    while (*at != NULL) {
        struct sim_callback *c = *at;
        bool unfinished = c->block && c->seq >= done;

        if (c->s == s && (all || unfinished)) {
            *at = c->next;
            g->n_queued--;
            c->queued = false;
            if (!unfinished)
                free(c); /* else its task still has it */
        } else {
            last = c;
            at = &c->next;
        }
    }
    g->tail = last;
}

static void leave(struct sim_stream *s)
{
    struct sim_group *g = s->group;

    s->group = NULL;
    g->n_streams--;
    if (g->host_of != NULL || g->n_streams > 0)
        return;
    g->dead = true;
    n_live--;
    pthread_cond_broadcast(&g->cv);
    sim_drive_wake();
}

void sim_callback_forget(struct sim_stream *s)
{
    unqueue(s, false);
}

/* What was due before the stream ended still runs, if the group lives on. */
void sim_callback_closed(struct sim_stream *s)
{
    leave(s);
}

void sim_callback_context_closed(struct sim_context *ctx)
{
    if (ctx->host == NULL)
        return;
    ctx->host->dead = true;
    pthread_cond_broadcast(&ctx->host->cv);
    ctx->host = NULL;
}

/* --- the task; sim.mu held --- */

bool sim_callback_front(struct sim_stream *s, struct sim_task *t)
{
    struct sim_callback *c = t->callback.entry;
    struct sim_group *g = s->group;

    if (g == NULL) /* unsubscribed since: nobody is left to run it */
        return true;
    c->queued = true;
    c->seq = atomic_load_explicit(&s->done, memory_order_relaxed);
    if (g->tail != NULL)
        g->tail->next = c;
    else
        g->head = c;
    g->tail = c;
    g->n_queued++;
    pthread_cond_broadcast(&g->cv);
    sim_drive_wake();
    if (!c->block)
        return true;
    sim_stream_depend(s, &g->blocked);
    return false;
}

void sim_callback_done(struct sim_task *t)
{
    if (!t->callback.entry->queued)
        free(t->callback.entry);
}

static struct sim_callback *pop(struct sim_group *g)
{
    struct sim_callback *c = g->head;

    g->head = c->next;
    if (g->head == NULL)
        g->tail = NULL;
    g->n_queued--;
    return c;
}

/* Runs one callback, without the lock meanwhile. Its stream goes on, unless its work was dropped. */
static void run(struct sim_thread *self, struct sim_group *g)
{
    struct sim_callback *c = pop(g);
    struct sim_stream *s = c->s;

    self->in_callback++;
    pthread_mutex_unlock(&sim.mu);
    if (sim_guards())
        sim_guard_seen(s, c->seq); /* what came before the callback is complete, and now the host knows */
    c->fn(c->data);
    pthread_mutex_lock(&sim.mu);
    self->in_callback--;
    if (c->block && s->dep_list == &g->blocked &&
        c->seq == atomic_load_explicit(&s->done, memory_order_relaxed)) {
        sim_stream_release(s);
        sim_sched_run();
    }
    free(c);
}

/* --- a thread of the program --- */

static aclError host_bound(const struct sim_stream *s)
{
    return sim_fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "EE1016",
                    "stream %d runs host functions: use another stream for reports", s->id);
}

/* The stream that a call names, from any context; only the default stream needs one. */
static aclError named(struct sim_thread *self, struct sim_stream **s)
{
    struct sim_context *ctx;
    aclError code = sim_stream_check(*s);

    if (code != 0 || *s != NULL)
        return code;
    code = sim_need_context(self, &ctx);
    if (code == 0)
        *s = ctx->stream;
    return code;
}

/* sim.mu held. */
static aclError subscribe(struct sim_stream *s, uint64_t thread)
{
    struct sim_group *g = find(thread);

    if (s->closing)
        return ACL_ERROR_RT_INVALID_HANDLE;
    if (s->group != NULL)
        return ACL_ERROR_RT_STREAM_SUBSCRIBE;
    if (g != NULL && g->dev != s->dev)
        return ACL_ERROR_RT_THREAD_SUBSCRIBE;
    if (g == NULL) {
        if (n_live >= MAX_GROUPS)
            return ACL_ERROR_RT_INTERNAL_ERROR;
        g = group_new(s->dev, thread);
        if (g == NULL)
            return ACL_ERROR_RT_INTERNAL_ERROR;
        n_live++;
    }
    s->group = g;
    g->n_streams++;
    return ACL_SUCCESS;
}

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream)
{
    SIM_CALL(aclrtSubscribeReport);
    struct sim_stream *s = stream;
    aclError code = named(self, &s);
    bool by_host;

    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    by_host = s->group != NULL && s->group->host_of != NULL;
    if (!by_host)
        code = subscribe(s, thread);
    pthread_mutex_unlock(&sim.mu);
    if (by_host)
        return host_bound(s);
    if (code == ACL_ERROR_RT_INVALID_HANDLE)
        return sim_closed_meanwhile(s);
    if (code == ACL_ERROR_RT_STREAM_SUBSCRIBE)
        return sim_fail(code, "EE1016", "stream %d is subscribed already: unsubscribe it first", s->id);
    if (code == ACL_ERROR_RT_THREAD_SUBSCRIBE)
        return sim_fail(code, "EE1016",
                        "thread %llu serves another device than %d: use a thread for each device",
                        (unsigned long long)thread, s->dev->id);
    if (code != 0)
        return sim_fail(code, "EE1023", "%d threads are subscribed, which is the most: unsubscribe one first",
                        (int)MAX_GROUPS);
    return ACL_SUCCESS;
}

/* Callbacks that are due but were not run yet are dropped with the subscription (assumed). */
aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream)
{
    SIM_CALL(aclrtUnSubscribeReport);
    struct sim_stream *s = stream;
    aclError code = named(self, &s);
    bool by_host;

    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    by_host = s->group != NULL && s->group->host_of != NULL;
    if (s->group == NULL) {
        code = ACL_ERROR_RT_STREAM_SUBSCRIBE;
    } else if (!by_host && s->group->thread != thread) {
        code = ACL_ERROR_RT_THREAD_SUBSCRIBE;
    } else if (!by_host) {
        bool blocked = s->dep_list == &s->group->blocked;

        unqueue(s, true);
        leave(s);
        if (blocked) {
            sim_stream_release(s);
            sim_sched_run();
        }
    }
    pthread_mutex_unlock(&sim.mu);
    if (by_host)
        return host_bound(s);
    if (code == ACL_ERROR_RT_STREAM_SUBSCRIBE)
        return sim_fail(code, "EE1016", "stream %d is not subscribed: call aclrtSubscribeReport first",
                        s->id);
    if (code != 0)
        return sim_fail(code, "EE1016",
                        "thread %llu does not serve stream %d: pass the thread that was subscribed",
                        (unsigned long long)thread, s->id);
    return ACL_SUCCESS;
}

/* Takes c, also when it fails. */
static aclError launch(struct sim_thread *self, struct sim_stream *s, struct sim_callback *c)
{
    struct sim_task *t;

    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, SIM_CALLBACK);
    if (t != NULL) {
        t->callback.entry = c;
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    if (t != NULL)
        return ACL_SUCCESS;
    free(c);
    return sim_closed_meanwhile(s);
}

static aclError entry_new(struct sim_stream *s, aclrtCallback fn, void *data, bool block,
                          struct sim_callback **c)
{
    *c = calloc(1, sizeof(**c));
    if (*c == NULL)
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for a callback");
    **c = (struct sim_callback){.fn = fn, .data = data, .s = s, .block = block};
    return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *user_data, aclrtCallbackBlockType block_type,
                             aclrtStream stream)
{
    SIM_CALL(aclrtLaunchCallback);
    struct sim_stream *s = stream;
    struct sim_callback *c;
    bool has_group, by_host;
    aclError code;

    if (block_type != ACL_CALLBACK_NO_BLOCK && block_type != ACL_CALLBACK_BLOCK)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "block type %d, expected value: 0 or 1",
                        (int)block_type);
    code = sim_stream_check(s);
    if (code != 0)
        return code;
    if (fn == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1004", "fn is null");
    code = sim_ext_stream(self, &s);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    has_group = s->group != NULL;
    by_host = has_group && s->group->host_of != NULL;
    pthread_mutex_unlock(&sim.mu);
    if (by_host)
        return host_bound(s);
    if (!has_group)
        return sim_fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "EE1018",
                        "no thread serves stream %d: call aclrtSubscribeReport first", s->id);
    code = entry_new(s, fn, user_data, block_type == ACL_CALLBACK_BLOCK, &c);
    return code != 0 ? code : launch(self, s, c);
}

static bool has_report(void *arg)
{
    const struct sim_group *g = arg;

    return g->dead || g->n_queued != 0;
}

/* Neither failure leaves a text: both are the normal results of an idle loop. */
aclError aclrtProcessReport(int32_t timeout_ms)
{
    SIM_CALL(aclrtProcessReport);
    uint64_t deadline_ns = timeout_ms < 0 ? SIM_FOREVER : sim_now_ns() + (uint64_t)timeout_ms * 1000000u;
    struct sim_group *g;
    uint32_t n = 0;
    bool live;

    if (timeout_ms == 0 || timeout_ms < -1)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                        "timeout %d, expected value: -1 or (0, 2147483647]", timeout_ms);
    pthread_mutex_lock(&sim.mu);
    g = find((uint64_t)(uintptr_t)pthread_self());
    if (g != NULL)
        (void)sim_drive_wait(has_report, g, NULL, &g->cv, deadline_ns);
    live = g != NULL && !g->dead;
    if (live)
        n = g->n_queued;
    for (uint32_t i = 0; i < n && g->n_queued != 0; i++) /* a callback that unsubscribes empties the queue */
        run(self, g);
    pthread_mutex_unlock(&sim.mu);
    if (!live)
        return sim_fail_quiet(ACL_ERROR_RT_THREAD_SUBSCRIBE);
    return n != 0 ? ACL_SUCCESS : sim_fail_quiet(ACL_ERROR_RT_REPORT_TIMEOUT);
}

/* --- a thread of the library --- */

static void *host_main(void *arg)
{
    struct sim_group *g = arg;
    struct sim_thread *self = sim_self != NULL ? sim_self : sim_thread_slow(); /* without a context */

    pthread_mutex_lock(&sim.mu);
    while (!g->dead || g->n_queued != 0) {
        if (g->n_queued != 0)
            run(self, g);
        else
            (void)sim_cond_wait_until(&g->cv, SIM_FOREVER);
    }
    pthread_mutex_unlock(&sim.mu);
    return NULL;
}

/* sim.mu held. 0; 107011 when a thread of the program serves the stream; 207001. */
static aclError bind_host(struct sim_stream *s)
{
    struct sim_context *ctx = s->ctx;

    if (s->group != NULL)
        return s->group->host_of != NULL ? ACL_SUCCESS : ACL_ERROR_RT_STREAM_SUBSCRIBE;
    if (s->closing)
        return ACL_SUCCESS; /* the submission says so */
    if (ctx->host == NULL) {
        ctx->host = group_new(ctx->dev, 0);
        if (ctx->host == NULL)
            return ACL_ERROR_RT_MEMORY_ALLOCATION;
        ctx->host->host_of = ctx;
        sim_worker_start(host_main, ctx->host);
    }
    s->group = ctx->host;
    ctx->host->n_streams++;
    return ACL_SUCCESS;
}

/* Always in the fashion of ACL_CALLBACK_BLOCK. */
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
    SIM_CALL(aclrtLaunchHostFunc);
    struct sim_stream *s = stream;
    struct sim_callback *c;
    aclError code = sim_stream_check(s);

    if (code != 0)
        return code;
    if (fn == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1004", "fn is null");
    code = sim_ext_stream(self, &s);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    code = bind_host(s);
    pthread_mutex_unlock(&sim.mu);
    if (code == ACL_ERROR_RT_STREAM_SUBSCRIBE)
        return sim_fail(code, "EE1016",
                        "a thread of the program serves stream %d: use another stream for host functions",
                        s->id);
    if (code != 0)
        return sim_fail(code, "EE9999", "no host memory for a callback thread");
    code = entry_new(s, fn, args, true, &c);
    return code != 0 ? code : launch(self, s, c);
}
