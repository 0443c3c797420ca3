/* timer.c - time limits of waits on a stream.
 *
 * Threads: one timer thread, started with the first limit, never joined.
 * Locks:   sim.mu; released while an exception callback runs.
 * Owns:    the list of streams with a limit. A stream whose front went on in time stays in it until the
 *          thread looks again.
 * Invariant: a stream is in the list at most once; its limit holds for the task timer_seq only.
 */
#include "sim/sim.h"

static struct sim_stream *armed;
static pthread_cond_t changed;
static bool started;

static bool still_waits(const struct sim_stream *s)
{
    return s->dep_list != NULL && atomic_load_explicit(&s->done, memory_order_relaxed) == s->timer_seq;
}

/* The wait is a failed task: the exception callbacks hear of it, then the stream goes on. running keeps the
 * stream as it is while sim.mu is free. The code is assumed; the documents only say that the next
 * synchronisation reports an error. */
static void expire(struct sim_stream *s)
{
    const struct sim_task *t = &s->ring[s->timer_seq & SIM_RING_MASK];
    struct sim_failure failure = {.code = ACL_ERROR_RT_TASK_TIMEOUT,
                                  .task_id = (uint32_t)(s->timer_seq & 0xFFFF),
                                  .task = sim_ext_name(t)};
    uint32_t tid = t->tid;

    sim_stream_undepend(s);
    s->running = true;
    pthread_mutex_unlock(&sim.mu);
    sim_exception_report(s, &failure, tid);
    pthread_mutex_lock(&sim.mu);
    s->running = false;
    sim_stream_failed(s, &failure);
    sim_stream_publish(s, s->timer_seq + 1);
    if (s->closing || s->aborting != 0)
        pthread_cond_broadcast(&s->cv);
    sim_sched_push(s);
    sim_sched_run();
}

static void *timer_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&sim.mu);
    for (;;) {
        uint64_t now = sim_real_ns(), next = SIM_FOREVER;
        struct sim_stream **at = &armed, *due = NULL;

        while (*at != NULL && due == NULL) {
            struct sim_stream *s = *at;

            if (still_waits(s) && s->timer_ns > now) {
                if (s->timer_ns < next)
                    next = s->timer_ns;
                at = &s->timer_next;
            } else {
                *at = s->timer_next;
                s->in_timer = false;
                if (still_waits(s))
                    due = s;
            }
        }
        if (due != NULL)
            expire(due);
        else
            (void)sim_cond_wait_until(&changed, next == SIM_FOREVER ? next : sim_now_ns() + (next - now));
    }
    return NULL;
}

void sim_timer_arm(struct sim_stream *s, uint32_t timeout_s)
{
    s->timer_seq = atomic_load_explicit(&s->done, memory_order_relaxed);
    s->timer_ns = sim_real_ns() + (uint64_t)timeout_s * 1000000000u;
    if (!s->in_timer) {
        s->in_timer = true;
        s->timer_next = armed;
        armed = s;
    }
    if (!started) {
        started = true;
        sim_cond_init(&changed);
        sim_worker_start(timer_main, NULL);
    }
    pthread_cond_signal(&changed);
}
