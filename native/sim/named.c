/* named.c - see named.h.
 *
 * Threads: see named.h. Locks: see named.h. Owns: nothing itself.
 * Invariant: see named.h.
 */
#include "sim/named.h"

#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

/* mu held. */
static void drop(struct sim_named_list *list, size_t at)
{
    free(list->at[at].name);
    list->at[at] = list->at[--list->n];
}

/* mu held. */
static aclError add(struct sim_named_list *list, const char *name, void (*callback)(void), void *args)
{
    struct sim_named *grown = realloc(list->at, (list->n + 1) * sizeof(*grown));
    char *copy = strdup(name);

    if (grown != NULL)
        list->at = grown;
    if (grown == NULL || copy == NULL) {
        free(copy);
        return ACL_ERROR_BAD_ALLOC;
    }
    list->at[list->n++] = (struct sim_named){copy, callback, args};
    return ACL_SUCCESS;
}

/* An empty name and a name that is there already are refused by aclrtRegDeviceStateCallback and
 * aclrtRegStreamStateCallback, CANN 9.1 docs; that the code is 107000, and that removing a name that is not
 * there is success, is assumed. */
aclError sim_named_set(struct sim_named_list *list, const char *name, void (*callback)(void), void *args)
{
    aclError code = ACL_SUCCESS;
    size_t at = 0;

    if (name == NULL)
        return sim_fail_null("name");
    if (*name == '\0')
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "name is empty: pass a name of your own");
    pthread_mutex_lock(&list->mu);
    while (at < list->n && strcmp(list->at[at].name, name) != 0)
        at++;
    if (callback != NULL)
        code = at < list->n ? ACL_ERROR_RT_PARAM_INVALID : add(list, name, callback, args);
    else if (at < list->n)
        drop(list, at);
    pthread_mutex_unlock(&list->mu);
    if (code == ACL_ERROR_BAD_ALLOC)
        return sim_fail(code, "EH0001", "no host memory for a callback");
    if (code != 0)
        return sim_fail(code, "EE1001",
                        "the name %.64s is registered already: pass a null callback to remove it first",
                        name);
    return ACL_SUCCESS;
}

struct sim_named *sim_named_now(struct sim_named_list *list, size_t *n)
{
    struct sim_named *now = NULL;

    *n = 0;
    pthread_mutex_lock(&list->mu);
    if (list->n != 0)
        now = malloc(list->n * sizeof(*now));
    if (now != NULL) {
        memcpy(now, list->at, list->n * sizeof(*now));
        *n = list->n;
    }
    pthread_mutex_unlock(&list->mu);
    for (size_t i = 0; i < *n; i++)
        now[i].name = NULL;
    return now;
}
