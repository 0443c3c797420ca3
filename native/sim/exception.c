/* exception.c - callbacks that name a failed task.
 *
 * Threads: registration by any; the callbacks run on the engine thread of the failed copy.
 * Locks:   mu, a leaf, never held during a callback.
 * Owns:    the list of callbacks. An aclrtExceptionInfo lives for the duration of the callback only.
 * Invariant: a report returns before the failed task counts as finished.
 */
#include "sim/sim.h"

struct rtExceptionInfo {
    uint32_t task_id, stream_id, thread_id, device_id, code;
};

enum { MAX_CALLBACKS = 16 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static aclrtExceptionInfoCallback set_callback;
static aclrtExceptionInfoCallback registered[MAX_CALLBACKS];
static int n_registered;

void sim_exception_report(const struct sim_stream *s, const struct sim_failure *failure, uint32_t tid)
{
    struct rtExceptionInfo info = {failure->task_id, (uint32_t)s->id, tid, (uint32_t)s->dev->id,
                                   (uint32_t)failure->code};
    aclrtExceptionInfoCallback calls[MAX_CALLBACKS + 1];
    int n = 0;

    pthread_mutex_lock(&mu);
    if (set_callback != NULL)
        calls[n++] = set_callback;
    for (int i = 0; i < n_registered; i++)
        calls[n++] = registered[i];
    pthread_mutex_unlock(&mu);
    for (int i = 0; i < n; i++)
        calls[i](&info);
}

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
    SIM_CALL(aclrtSetExceptionInfoCallback);
    pthread_mutex_lock(&mu);
    set_callback = callback;
    pthread_mutex_unlock(&mu);
    return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback)
{
    SIM_CALL(aclrtExceptionInfoCallbackRegister);
    bool room;

    if (callback == NULL)
        return sim_fail_null("callback");
    pthread_mutex_lock(&mu);
    room = n_registered < MAX_CALLBACKS;
    if (room)
        registered[n_registered++] = callback;
    pthread_mutex_unlock(&mu);
    if (!room)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1023", "%d callbacks are registered", MAX_CALLBACKS);
    return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback)
{
    SIM_CALL(aclrtExceptionInfoCallbackUnregister);
    int at = 0;

    if (callback == NULL)
        return sim_fail_null("callback");
    pthread_mutex_lock(&mu);
    while (at < n_registered && registered[at] != callback)
        at++;
    if (at < n_registered) {
        n_registered--;
        for (int i = at; i < n_registered; i++)
            registered[i] = registered[i + 1];
        at = -1;
    }
    pthread_mutex_unlock(&mu);
    if (at >= 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the callback is not registered");
    return ACL_SUCCESS;
}

/* A null info gives all ones, which no task has. */
#define GETTER(name, field)                             \
    uint32_t name(const aclrtExceptionInfo *info)       \
    {                                                   \
        SIM_COUNT(name);                                \
        return info != NULL ? info->field : UINT32_MAX; \
    }

GETTER(aclrtGetTaskIdFromExceptionInfo, task_id)
GETTER(aclrtGetStreamIdFromExceptionInfo, stream_id)
GETTER(aclrtGetThreadIdFromExceptionInfo, thread_id)
GETTER(aclrtGetDeviceIdFromExceptionInfo, device_id)
GETTER(aclrtGetErrorCodeFromExceptionInfo, code)
