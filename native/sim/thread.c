/* thread.c - the per-thread records: call counts by function and by thread; and how the library starts
 * threads.
 *
 * Threads: each record is written by its own thread; the list is read by any.
 * Locks:   list_mu, a leaf, for the list and the base counts.
 * Owns:    every sim_thread: of living threads, and of the last KEPT that ended. The counts of older ones are
 *          in one sum.
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
static struct sim_thread *list; /* the latest first */
static uint32_t n_ended;
static uint64_t older[SIM_N_FN]; /* calls of threads that are in no list any more */
static pthread_key_t at_exit;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

enum { KEPT = 1024 }; /* threads whose own counts can still be asked for after their end */

static const char *const fn_names[] = {
#define ACL_FN(result, name, need, since, parameters) #name,
#include "acl/symbols.def"
#undef ACL_FN
};

/* list_mu held: the one that ended first of those that the list still has. */
static void forget_one(void)
{
    struct sim_thread **oldest = NULL, *gone;

    for (struct sim_thread **at = &list; *at != NULL; at = &(*at)->next)
        if ((*at)->ended != 0 && (oldest == NULL || (*at)->ended < (*oldest)->ended))
            oldest = at;
    gone = *oldest;
    *oldest = gone->next;
    for (int fn = 0; fn < SIM_N_FN; fn++)
        older[fn] += atomic_load_explicit(&gone->calls[fn], memory_order_relaxed) - gone->base[fn];
    free(gone->pending);
    free(gone->shown);
    free(gone);
    n_ended--;
}

/* A later destructor of the thread that calls in gets a new record. */
static void thread_ends(void *arg)
{
    static uint64_t n;
    struct sim_thread *self = arg;

    sim_self = NULL;
    pthread_mutex_lock(&list_mu);
    self->ended = ++n;
    if (++n_ended > KEPT)
        forget_one();
    pthread_mutex_unlock(&list_mu);
}

static void make_key(void)
{
    if (pthread_key_create(&at_exit, thread_ends) != 0) {
        fputs("aclsim: no thread-specific key is left\n", stderr);
        abort();
    }
}

struct sim_thread *sim_thread_slow(void)
{
    struct sim_thread *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        fputs("aclsim: out of host memory\n", stderr);
        abort();
    }
    sim_once();
    pthread_once(&key_once, make_key);
    self->tid = (uint32_t)gettid();
    self->last_task_id = UINT32_MAX;
    pthread_mutex_lock(&list_mu);
    self->next = list;
    list = self;
    pthread_mutex_unlock(&list_mu);
    sim_self = self;
    (void)pthread_setspecific(at_exit, self); /* without memory for it the record stays, and that is all */
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
    if (tid == 0)
        sum += older[fn];
    pthread_mutex_unlock(&list_mu);
    return (int64_t)sum;
}

/* Moves the base instead of clearing the counts, which only their owners write. */
void sim_calls_reset(void)
{
    pthread_mutex_lock(&list_mu);
    memset(older, 0, sizeof(older));
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
