/* named.h - callbacks that a program registers under names: of devices, of streams.
 *
 * Threads: any. Locks: mu of the list, a leaf, never held during a callback.
 * Owns:    the copies of the names, until they are removed.
 * Invariant: (mu held) names in a list are distinct.
 */
#ifndef ACLSIM_NAMED_H
#define ACLSIM_NAMED_H

#include <pthread.h>
#include <stddef.h>

struct sim_named {
    char *name;
    void (*callback)(void); /* of the type that the list's owner knows */
    void *args;
};

struct sim_named_list { /* starts as zeros and PTHREAD_MUTEX_INITIALIZER */
    pthread_mutex_t mu;
    struct sim_named *at;
    size_t n;
};

/* Adds the callback or, when it is null, removes the name. 0, or a code with text. */
int sim_named_set(struct sim_named_list *list, const char *name, void (*callback)(void), void *args);
/* The list as it is now, malloc'd, without names; *n of them. Nothing without host memory. */
struct sim_named *sim_named_now(struct sim_named_list *list, size_t *n);

#endif
