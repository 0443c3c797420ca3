/* devstate.c - callbacks around setting and resetting a device.
 *
 * Threads: any. Locks: mu, a leaf; callbacks run without it, on the thread that sets or resets.
 * Owns:    the list of registered callbacks.
 * Invariant: (mu held) names in the list are distinct.
 */
#include "sim/health.h"
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CALLBACKS = 64, MAX_NAME = 64 };

struct entry {
    char name[MAX_NAME];
    aclrtDeviceStateCallback callback;
    void *args;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[MAX_CALLBACKS];
static uint32_t n_entries;

void sim_device_notify(int32_t device, aclrtDeviceState state)
{
    struct entry now[MAX_CALLBACKS];
    uint32_t n;

    pthread_mutex_lock(&mu);
    n = n_entries;
    memcpy(now, entries, n * sizeof(now[0]));
    pthread_mutex_unlock(&mu);
    for (uint32_t i = 0; i < n; i++)
        now[i].callback(device, state, now[i].args);
}

/* 0; or what is wrong. mu held. Removing a name that is not there is no error (assumed). */
static const char *change(const char *name, aclrtDeviceStateCallback callback, void *args)
{
    uint32_t at = 0;

    while (at < n_entries && strcmp(entries[at].name, name) != 0)
        at++;
    if (callback == NULL) {
        if (at < n_entries)
            entries[at] = entries[--n_entries];
        return NULL;
    }
    if (at < n_entries)
        return "it is registered already";
    if (n_entries == MAX_CALLBACKS)
        return "there are too many";
    snprintf(entries[at].name, MAX_NAME, "%s", name);
    entries[at].callback = callback;
    entries[at].args = args;
    n_entries++;
    return NULL;
}

aclError aclrtRegDeviceStateCallback(const char *name, aclrtDeviceStateCallback callback, void *args)
{
    SIM_CALL(aclrtRegDeviceStateCallback);
    const char *wrong = NULL;

    if (name == NULL)
        return sim_fail_null("name");
    if (*name == '\0' || strlen(name) >= MAX_NAME)
        wrong = "a name has 1 to 63 bytes";
    if (wrong == NULL) {
        pthread_mutex_lock(&mu);
        wrong = change(name, callback, args);
        pthread_mutex_unlock(&mu);
    }
    if (wrong != NULL) /* refused by the docs; the code is assumed */
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "callback name %.64s: %s", name, wrong);
    return ACL_SUCCESS;
}
