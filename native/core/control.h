/* control.h - one thread on which ACL may be called on behalf of others.
 *
 * The thread of a caller must keep its own current device and context, and ACL has no way to give a thread
 * none again, so every ACL call that a user's thread needs is made here.
 *
 * Threads: call and post from any thread; call blocks until the function has run.
 * Locks:   control->mu, a leaf; the function runs without it.
 * Owns:    its thread.
 * Invariant: calls run one at a time, in order.
 */
#ifndef NPUX_CORE_CONTROL_H
#define NPUX_CORE_CONTROL_H

#include <pthread.h>
#include <stdbool.h>

struct npux_call { /* of the caller, who waits for done; or posted, and then whoever runs last has it */
    struct npux_call *next;
    int (*function)(void *argument);
    void *argument;
    int result;
    bool done;
    bool posted;
};

struct npux_control {
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t work_cv;
    pthread_cond_t done_cv;
    struct npux_call *head, *tail;
    bool stop;
};

/* Starts the thread. Returns 0 or a negative errno. */
int npux_control_start(struct npux_control *control);
/* Runs function(argument) on the control thread and returns what it returned. */
int npux_control_call(struct npux_control *control, int (*function)(void *argument), void *argument);
/* The same without waiting; any lock above control->mu may be held. The call must stay until it runs, and may
 * be freed or posted again by its function. */
void npux_control_post(struct npux_control *control, struct npux_call *call);
/* Ends the thread after the calls before it. */
void npux_control_stop(struct npux_control *control);

#endif
