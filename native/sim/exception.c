/* exception.c - callbacks that name a failed task.
 *
 * Threads: registration by any; the callbacks run on the thread that executes the failed task: an engine's,
 *          the timer's, or in the driven modes one that waits or asks.
 * Locks:   mu, a leaf, never held during a callback.
 * Owns:    the list of callbacks. An aclrtExceptionInfo lives for the duration of the callback only.
 * Invariant: a report returns before the failed task counts as finished.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

struct rtExceptionInfo {
    uint32_t task_id, stream_id, thread_id, device_id, code;
};

#define NO_INFO UINT32_MAX /* what the getters return without an info; no task has it */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static aclrtExceptionInfoCallback set_callback;
static aclrtExceptionInfoCallback *registered;
static size_t n_registered;

void sim_exception_report(const struct sim_stream *s, const struct sim_failure *failure, uint32_t tid)
{
    struct rtExceptionInfo info = {failure->task_id, (uint32_t)s->id, tid, (uint32_t)s->dev->id,
                                   (uint32_t)failure->code};
    aclrtExceptionInfoCallback *calls;
    size_t n = 0;

    pthread_mutex_lock(&mu);
    calls = malloc((n_registered + 1) * sizeof(*calls));
    if (calls != NULL && set_callback != NULL)
        calls[n++] = set_callback;
    for (size_t i = 0; calls != NULL && i < n_registered; i++)
        calls[n++] = registered[i];
    pthread_mutex_unlock(&mu);
    for (size_t i = 0; i < n; i++)
        calls[i](&info);
    free(calls);
}

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
    SIM_CALL(aclrtSetExceptionInfoCallback);
    pthread_mutex_lock(&mu);
    set_callback = callback;
    pthread_mutex_unlock(&mu);
    return ACL_SUCCESS;
}

/* mu held; n_registered: it is not there. */
static size_t find(aclrtExceptionInfoCallback callback)
{
    size_t at = 0;

    while (at < n_registered && registered[at] != callback)
        at++;
    return at;
}

static aclError null_callback(void)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EH0008", "callback is null");
}

/* A function that is registered again is kept once (aclrtExceptionInfoCallbackRegister, CANN 9.2 docs). */
aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback)
{
    SIM_CALL(aclrtExceptionInfoCallbackRegister);
    aclrtExceptionInfoCallback *grown = NULL;
    bool known;

    if (callback == NULL)
        return null_callback();
    pthread_mutex_lock(&mu);
    known = find(callback) < n_registered;
    if (!known)
        grown = realloc(registered, (n_registered + 1) * sizeof(*grown));
    if (grown != NULL) {
        registered = grown;
        registered[n_registered++] = callback;
    }
    pthread_mutex_unlock(&mu);
    if (known || grown != NULL)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_BAD_ALLOC, "EH0001", "no host memory for a callback");
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback)
{
    SIM_CALL(aclrtExceptionInfoCallbackUnregister);
    size_t at;
    bool known;

    if (callback == NULL)
        return null_callback();
    pthread_mutex_lock(&mu);
    at = find(callback);
    known = at < n_registered;
    if (known) {
        n_registered--;
        memmove(&registered[at], &registered[at + 1], (n_registered - at) * sizeof(*registered));
    }
    pthread_mutex_unlock(&mu);
    if (!known)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "the callback is not registered: register it first");
    return ACL_SUCCESS;
}

/* A null info gives all ones, which no task has. */
#define GETTER(name, field)                          \
    uint32_t name(const aclrtExceptionInfo *info)    \
    {                                                \
        SIM_COUNT(name);                             \
        return info != NULL ? info->field : NO_INFO; \
    }

GETTER(aclrtGetTaskIdFromExceptionInfo, task_id)
GETTER(aclrtGetStreamIdFromExceptionInfo, stream_id)
GETTER(aclrtGetThreadIdFromExceptionInfo, thread_id)
GETTER(aclrtGetDeviceIdFromExceptionInfo, device_id)
GETTER(aclrtGetErrorCodeFromExceptionInfo, code)

/* A copy has no kernel arguments, and the runtime refuses its kind of info with this value, which is no error
 * code of the tables (observed in the open runtime). */
static aclError no_kernel(const char *what)
{
    return sim_fail((aclError)NO_INFO, "EH0001", "%s", what);
}

aclError aclrtGetArgsFromExceptionInfo(const aclrtExceptionInfo *info, void **args, uint32_t *nbytes)
{
    SIM_CALL(aclrtGetArgsFromExceptionInfo);
    if (info == NULL)
        return no_kernel("info is null");
    if (args == NULL || nbytes == NULL)
        return sim_fail_null("args or nbytes");
    return no_kernel("the failed task was no kernel: it has no arguments");
}

aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info, aclrtFuncHandle *function)
{
    SIM_CALL(aclrtGetFuncHandleFromExceptionInfo);
    if (info == NULL)
        return no_kernel("info is null");
    if (function == NULL)
        return sim_fail_null("function");
    *function = NULL;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                    "the failed task was no kernel: it has no function");
}
