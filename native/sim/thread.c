/* thread.c - the per-thread records: call counts by function and by thread; and how the library starts
 * threads.
 *
 * Threads: each record is written by its own thread; the list is read by any.
 * Locks:   list_mu, a leaf, for the list and the base counts.
 * Owns:    every sim_thread, for the life of the process.
 * Invariant: a record is in the list before its thread counts anything.
 */
#include "sim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local struct sim_thread *sim_self;

static pthread_mutex_t list_mu = PTHREAD_MUTEX_INITIALIZER;
static struct sim_thread *list;

static const char *const fn_names[] = {
#define ACL_FN(result, name, need, since, parameters) #name,
#include "acl/symbols.def"
#undef ACL_FN
};

struct sim_thread *sim_thread_slow(void)
{
    struct sim_thread *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        fputs("aclsim: out of host memory\n", stderr);
        abort();
    }
    sim_once();
    self->tid = (uint32_t)gettid();
    self->last_task_id = UINT32_MAX;
    pthread_mutex_lock(&list_mu);
    self->next = list;
    list = self;
    pthread_mutex_unlock(&list_mu);
    sim_self = self;
    return self;
}

int sim_fn_by_name(const char *name)
{
    for (int fn = 0; name != NULL && fn < SIM_N_FN; fn++)
        if (strcmp(name, fn_names[fn]) == 0)
            return fn;
    return -1;
}

const char *sim_fn_name(enum sim_fn fn)
{
    return fn_names[fn];
}

int64_t sim_calls(enum sim_fn fn, uint64_t tid)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&list_mu);
    for (const struct sim_thread *t = list; t != NULL; t = t->next)
        if (tid == 0 || t->tid == tid)
            sum += atomic_load_explicit(&t->calls[fn], memory_order_relaxed) - t->base[fn];
    pthread_mutex_unlock(&list_mu);
    return (int64_t)sum;
}

/* Moves the base instead of clearing the counts, which only their owners write. */
void sim_calls_reset(void)
{
    pthread_mutex_lock(&list_mu);
    for (struct sim_thread *t = list; t != NULL; t = t->next)
        for (int fn = 0; fn < SIM_N_FN; fn++)
            t->base[fn] = atomic_load_explicit(&t->calls[fn], memory_order_relaxed);
    pthread_mutex_unlock(&list_mu);
}

/* --- threads of the library --- */

void sim_worker_start(void *(*entry)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals go to its own threads */
    if (pthread_create(&thread, &attr, entry, arg) != 0) {
        fputs("aclsim: cannot start a thread\n", stderr);
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}
