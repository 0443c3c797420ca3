/* statecb.c - callbacks that hear of every stream's creation and destruction, default streams included.
 *
 * Threads: registration by any; the callbacks run on the thread that creates or destroys.
 * Locks:   mu, a leaf, never held during a callback.
 * Owns:    the copies of the names. Invariant: a name is in the list at most once.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    char *name;
    aclrtStreamStateCallback fn;
    void *args;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static size_t n_entries;

static void tell(struct sim_stream *s, aclrtStreamState state)
{
    struct entry *now = NULL;
    size_t n = 0;

    pthread_mutex_lock(&mu);
    if (n_entries != 0)
        now = malloc(n_entries * sizeof(*now));
    if (now != NULL) {
        memcpy(now, entries, n_entries * sizeof(*now));
        n = n_entries;
    }
    pthread_mutex_unlock(&mu);
    for (size_t i = 0; i < n; i++)
        now[i].fn(s, state, now[i].args);
    free(now);
}

void sim_state_created(struct sim_stream *s)
{
    tell(s, ACL_RT_STREAM_STATE_CREATE_POST);
}

void sim_state_destroying(struct sim_stream *s)
{
    if (!atomic_exchange(&s->told, true))
        tell(s, ACL_RT_STREAM_STATE_DESTROY_PRE);
}

/* mu held. */
static void remove_entry(size_t at)
{
    free(entries[at].name);
    entries[at] = entries[--n_entries];
}

static aclError add_entry(const char *name, aclrtStreamStateCallback fn, void *args)
{
    struct entry *grown = realloc(entries, (n_entries + 1) * sizeof(*grown));
    char *copy = strdup(name);

    if (grown != NULL)
        entries = grown;
    if (grown == NULL || copy == NULL) {
        free(copy);
        return ACL_ERROR_BAD_ALLOC;
    }
    entries[n_entries++] = (struct entry){copy, fn, args};
    return ACL_SUCCESS;
}

/* A null callback removes the name. Registering a name twice is documented as not supported; that it gives
 * 107000, and that removing an unknown name is success, is assumed. */
aclError aclrtRegStreamStateCallback(const char *name, aclrtStreamStateCallback callback, void *args)
{
    SIM_CALL(aclrtRegStreamStateCallback);
    aclError code = ACL_SUCCESS;
    size_t at = 0;

    if (name == NULL)
        return sim_fail_null("name");
    pthread_mutex_lock(&mu);
    while (at < n_entries && strcmp(entries[at].name, name) != 0)
        at++;
    if (callback == NULL) {
        if (at < n_entries)
            remove_entry(at);
    } else {
        code = at < n_entries ? ACL_ERROR_RT_PARAM_INVALID : add_entry(name, callback, args);
    }
    pthread_mutex_unlock(&mu);
    if (code == ACL_ERROR_BAD_ALLOC)
        return sim_fail(code, "EH0001", "no host memory for a callback");
    return code == 0
               ? code
               : sim_fail(code, "EE1001",
                          "the name %s is registered already: pass a null callback to remove it first", name);
}
