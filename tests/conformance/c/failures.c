/* failures.c - a failed copy in the default mode, and waits that run out.
 *
 * Threads: one; the exception callback comes on a thread of the runtime.
 * Locks:   none; told is atomic.
 * Owns:    its blocks and streams.
 * Invariant: the failures themselves need the simulator; the rest holds on every library.
 */
#include <stdatomic.h>

#include "conf.h"

#define OBSERVED "observed on the open runtime, CANN 9.2"

enum { N = 64 };

static atomic_uint told, told_code;

static void on_exception(aclrtExceptionInfo *info)
{
    atomic_store(&told_code, acl->aclrtGetErrorCodeFromExceptionInfo(info));
    atomic_fetch_add(&told, 1);
}

static aclError sync(aclrtStream s, int timeout_ms)
{
    return acl->aclrtSynchronizeStreamWithTimeout(s, timeout_ms);
}

static void limits(aclrtStream s)
{
    check_code("a limit of 0", OBSERVED, 107000, sync(s, 0));
    check_code("a limit below -1", OBSERVED, 107000, sync(s, -2));
    check_code("a limit of -1", OBSERVED, 0, sync(s, -1));
    check_true("the failing call left a text", OBSERVED, acl->aclGetRecentErrMsg() != NULL);
    check_true("reading it took it away", OBSERVED, acl->aclGetRecentErrMsg() == NULL);
}

static void last_error(aclrtStream s)
{
    if (!conf_has(acl->aclrtPeekAtLastError != NULL, "aclrtPeekAtLastError"))
        return;
    acl->aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    check_code("a failure", OBSERVED, 107000, sync(s, 0));
    check_code("may be peeked at", OBSERVED, 107000, acl->aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    check_code("and got once", OBSERVED, 107000, acl->aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    check_code("then it is gone", OBSERVED, 0, acl->aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    acl->aclGetRecentErrMsg();
}

static void a_failed_copy(aclrtStream s)
{
    int64_t (*fail_copy)(int32_t, int, uint64_t, int32_t);
    void *control = conf_control("aclsim_fail_copy"), *device, *pinned;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;

    if (control == NULL)
        return;
    memcpy(&fail_copy, &control, sizeof fail_copy);
    device = conf_device(N, 1);
    pinned = conf_pinned(N, 2);
    acl->aclrtSetExceptionInfoCallback(on_exception);
    fail_copy(0, 0, 1, 507001);
    check_code("a copy that will fail is accepted", OBSERVED, 0,
               acl->aclrtMemcpyAsync(device, N, pinned, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    check_code("the next synchronisation says so", OBSERVED, 507001, sync(s, CONF_WAIT_MS));
    check_code("once", OBSERVED, 0, sync(s, CONF_WAIT_MS));
    check_code("the callback came once", OBSERVED, 1, atomic_load(&told));
    check_code("with the code", OBSERVED, 507001, atomic_load(&told_code));
    check_code("the stream can be asked", OBSERVED, 0, acl->aclrtStreamQuery(s, &status));
    check_code("and is COMPLETE", OBSERVED, ACL_STREAM_STATUS_COMPLETE, status);
    check_true("nothing was copied", OBSERVED, conf_holds(device, N, 1));
    check_code("the next copy", OBSERVED, 0,
               acl->aclrtMemcpyAsync(device, N, pinned, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    check_code("runs", OBSERVED, 0, sync(s, CONF_WAIT_MS));
    check_true("and arrives", OBSERVED, conf_holds(device, N, 2));
    acl->aclrtSetExceptionInfoCallback(NULL);
    acl->aclrtFree(device);
    acl->aclrtFreeHost(pinned);
}

int main(int argc, char **argv)
{
    aclrtStream s;

    conf_open(argc, argv);
    s = conf_stream();
    limits(s);
    last_error(s);
    a_failed_copy(s);
    acl->aclrtDestroyStream(s);
    return conf_end();
}
