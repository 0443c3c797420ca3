/* fuzz_ops.h - the random calls of sim_fuzz.c, by subject.
 *
 * Threads: the caller's; see fuzz_world.h. Locks: none. Owns: nothing.
 * Invariant: an operation leaves no hold or fault that the referee cannot end.
 */
#ifndef NPUX_TESTS_FUZZ_OPS_H
#define NPUX_TESTS_FUZZ_OPS_H

#include "tests/fuzz_world.h"

/* --- what the library calls --- */

static void light_calls(struct fuzz *f)
{
    aclrtStreamStatus status;
    aclrtEventRecordedStatus recorded;
    aclrtContext ctx;

    T(aclrtStreamQuery, a_stream(f), &status);
    T(aclrtQueryEventStatus, an_event(f), &recorded);
    if (one_in(f, 4))
        T(aclrtGetCurrentContext, &ctx);
    /* Forbidden, and must not break anything. What waits for ever would wait for its own callback. */
    if (one_in(f, 30) && f->depth < 2)
        T(aclrtMemsetAsync, device_address(f), MAX_BYTES, 1, 64, a_stream(f));
    if (one_in(f, 30) && f->depth < 2)
        T(aclrtRecordEvent, an_event(f), a_stream(f));
    if (one_in(f, 30) && f->depth < 2)
        T(aclrtSynchronizeStreamWithTimeout, a_stream(f), 1);
}

static void called(void)
{
    struct fuzz *before = self_fuzz, other = {.index = FUZZ_THREADS}, *f = &other;

    other.random = 88172645463325252ull + atomic_fetch_add(&world.n_callbacks, 1);
    other.depth = before != NULL ? before->depth + 1 : 1;
    self_fuzz = f;
    light_calls(f);
    self_fuzz = before;
}

static void on_stream(void *data)
{
    (void)data;
    called();
}

static void on_exception(aclrtExceptionInfo *info)
{
    struct fuzz other = {.index = FUZZ_THREADS}, *f = &other;
    void *args;
    uint32_t nbytes;
    aclrtFuncHandle function;

    V(aclrtGetTaskIdFromExceptionInfo, info);
    V(aclrtGetStreamIdFromExceptionInfo, info);
    V(aclrtGetThreadIdFromExceptionInfo, info);
    V(aclrtGetDeviceIdFromExceptionInfo, info);
    V(aclrtGetErrorCodeFromExceptionInfo, info);
    V(aclrtGetArgsFromExceptionInfo, info, &args, &nbytes);
    V(aclrtGetFuncHandleFromExceptionInfo, info, &function);
    called();
}

static void on_state(aclrtStream stream, aclrtStreamState state, void *args)
{
    struct fuzz other = {.index = FUZZ_THREADS}, *f = &other;
    int32_t id;

    (void)state, (void)args;
    T(aclrtStreamGetId, stream, &id);
}

static void on_device(int32_t device, aclrtDeviceState state, void *args)
{
    (void)device, (void)state, (void)args;
}

/* --- devices and contexts --- */

static void op_device(struct fuzz *f)
{
    int32_t device = a_device(f), number;

    switch (below(f, 16)) {
    case 0:
        T(aclrtResetDevice, device);
        break;
    case 1:
        if (one_in(f, 6))
            T(aclrtResetDeviceForce, device);
        break;
    case 2:
        if (f->own == NULL)
            T(aclrtCreateContext, &f->own, device);
        else
            T(aclrtSetCurrentContext, f->own);
        break;
    case 3:
        if (T(aclrtDestroyContext, f->own) == 0)
            f->own = NULL;
        break;
    case 4:
        T(aclrtSynchronizeDeviceWithTimeout, a_timeout_ms(f));
        break;
    case 5:
        T(aclrtSynchronizeDevice);
        break;
    case 6:
        if (one_in(f, 3))
            T(aclrtDeviceTaskAbort, device, below(f, 3));
        break;
    case 7:
        T(aclrtDeviceEnablePeerAccess, device, below(f, 10) / 9);
        break;
    case 8:
        T(aclrtDeviceDisablePeerAccess, device);
        break;
    case 9:
        T(aclrtGetDevice, one_in(f, 9) ? NULL : &number);
        break;
    default:
        T(aclrtSetDevice, device);
    }
}

/* --- memory --- */

static void op_alloc(struct fuzz *f)
{
    _Atomic(void *) *slot = &world.block[below(f, BLOCKS)];
    aclrtMemMallocPolicy policy = (aclrtMemMallocPolicy)below(f, 9);
    aclrtMallocAttribute attribute = {(aclrtMallocAttrType)below(f, 5), {.deviceId = below(f, 3)}};
    aclrtMallocConfig cfg = {&attribute, below(f, 2)};
    size_t nbytes = one_in(f, 20) ? 0 : MAX_BYTES + 8192;
    void *fresh = NULL, *old;

    switch (below(f, 7)) {
    case 0:
        T(aclrtMallocAlign32, &fresh, nbytes, policy);
        break;
    case 1:
        T(aclrtMallocCached, &fresh, nbytes, policy);
        break;
    case 2:
        T(aclrtMallocWithCfg, &fresh, nbytes, policy, one_in(f, 4) ? NULL : &cfg);
        break;
    case 3:
        T(aclrtMalloc, NULL, nbytes, policy);
        break;
    default:
        T(aclrtMalloc, &fresh, nbytes, policy);
    }
    if (fresh == NULL)
        return;
    old = atomic_exchange(slot, fresh);
    if (one_in(f, 2))
        T(aclrtFree, old);
    else
        T(aclrtFreeWithDevSync, old);
}

static void op_pinned(struct fuzz *f)
{
    void **slot = &f->pinned[below(f, PINNED)];

    if (*slot == NULL && one_in(f, 3))
        T(aclrtMallocHostWithCfg, slot, one_in(f, 9) ? 0 : MAX_BYTES + 8192, NULL);
    else if (*slot == NULL)
        T(aclrtMallocHost, slot, one_in(f, 9) ? 0 : MAX_BYTES + 8192);
    else if ((one_in(f, 3) ? T(aclrtFreeHostWithDevSync, *slot) : T(aclrtFreeHost, *slot)) == 0)
        *slot = NULL;
}

static void op_register(struct fuzz *f)
{
    static const uint32_t flags[] = {ACL_HOST_REG_MAPPED, ACL_HOST_REG_PINNED, 0, 1,
                                     ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED};
    size_t nbytes = one_in(f, 5) ? PLAIN_BYTES / 2 : PLAIN_BYTES;
    void *device_ptr = NULL;

    switch (below(f, 4)) {
    case 0:
        T(aclrtHostRegister, plain[f->index], nbytes, (aclrtHostRegisterType)(below(f, 3) * 4), &device_ptr);
        break;
    case 1:
        T(aclrtHostRegisterV2, plain[f->index], nbytes, flags[below(f, 5)]);
        break;
    case 2:
        T(aclrtHostGetDevicePointer, plain[f->index], &device_ptr, below(f, 12) / 11);
        break;
    default:
        T(aclrtHostUnregister, plain[f->index]);
    }
}

static void op_memory_info(struct fuzz *f)
{
    aclrtPtrAttributes attributes;
    aclrtMemUsageInfo usage[4];
    size_t a, b;
    void *base;

    switch (below(f, 6)) {
    case 0:
        T(aclrtPointerGetAttributes, one_in(f, 2) ? device_address(f) : host_address(f), &attributes);
        break;
    case 1:
        T(aclrtGetMemInfo, (aclrtMemAttr)below(f, 19), &a, &b);
        break;
    case 2:
        T(aclrtMemGetAddressRange, device_address(f), &base, one_in(f, 2) ? NULL : &a);
        break;
    case 3:
        T(aclrtGetMemUsageInfo, a_device(f), one_in(f, 9) ? NULL : usage, below(f, 5), &a);
        break;
    case 4:
        T(aclrtMemFlush, device_address(f), a_size(f));
        break;
    default:
        T(aclrtMemInvalidate, device_address(f), a_size(f));
    }
}

/* --- copies --- */

struct ends {
    char *dst, *src;
    aclrtMemcpyKind kind;
};

static struct ends some_ends(struct fuzz *f)
{
    struct ends e;

    switch (below(f, 7)) {
    case 0:
        e = (struct ends){device_address(f), device_address(f), ACL_MEMCPY_DEVICE_TO_DEVICE};
        break;
    case 1:
        e = (struct ends){host_address(f), host_address(f), ACL_MEMCPY_HOST_TO_HOST};
        break;
    case 2:
    case 3:
        e = (struct ends){host_address(f), device_address(f), ACL_MEMCPY_DEVICE_TO_HOST};
        break;
    default:
        e = (struct ends){device_address(f), host_address(f), ACL_MEMCPY_HOST_TO_DEVICE};
    }
    e.kind = a_kind(f, e.kind);
    return e;
}

static void op_copy(struct fuzz *f)
{
    struct ends e = some_ends(f);
    size_t n = a_size(f), limit = a_limit(f, n);

    switch (below(f, 8)) {
    case 0:
        T(aclrtMemcpy, e.dst, limit, e.src, n, e.kind);
        break;
    case 1:
        T(aclrtMemcpyAsyncWithCondition, e.dst, limit, e.src, n, e.kind, a_stream(f));
        break;
    case 2:
        T(aclrtMemcpy2d, e.dst, 128, e.src, 96, one_in(f, 8) ? 200 : 64, below(f, 16), e.kind);
        break;
    case 3:
        T(aclrtMemcpy2dAsync, e.dst, 128, e.src, 96, one_in(f, 8) ? 200 : 64, below(f, 16), e.kind,
          a_stream(f));
        break;
    default:
        T(aclrtMemcpyAsync, e.dst, limit, e.src, n, e.kind, a_stream(f));
    }
}

static void op_batch(struct fuzz *f)
{
    struct ends e = some_ends(f), g = some_ends(f);
    void *dsts[2] = {e.dst, g.dst}, *srcs[2] = {e.src, g.src};
    size_t sizes[2] = {a_size(f), a_size(f)}, maxs[2] = {a_limit(f, sizes[0]), sizes[1]}, at[2] = {0, 1};
    size_t failed = 0, n = below(f, 3);
    aclrtMemcpyBatchAttr attrs[2] = {{.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE}, {.rsv = {0}}};

    for (int i = 0; i < 2; i++) {
        attrs[i].dstLoc.type = (aclrtMemLocationType)below(f, 2);
        attrs[i].srcLoc.type = (aclrtMemLocationType)below(f, 2);
        attrs[i].dstLoc.id = attrs[i].srcLoc.id = below(f, 2);
        attrs[i].rsv[3] = (uint8_t)one_in(f, 16);
    }
    switch (below(f, 4)) {
    case 0:
        T(aclrtMemcpyBatch, dsts, maxs, srcs, sizes, n, attrs, at, n, &failed);
        break;
    case 1:
        T(aclrtMemcpyBatchV2, dsts, maxs, srcs, sizes, n, attrs, at, n);
        break;
    case 2:
        T(aclrtMemcpyBatchAsync, dsts, maxs, srcs, sizes, n, attrs, at, n, &failed, a_stream(f));
        break;
    default:
        T(aclrtMemcpyBatchAsyncV2, dsts, maxs, srcs, sizes, n, attrs, at, n, a_stream(f));
    }
}

static void op_described(struct fuzz *f)
{
    struct ends e = some_ends(f);
    void *dst = e.dst;
    const void *src = e.src;
    size_t nbytes;

    switch (below(f, 4)) {
    case 0:
        T(aclrtMemcpyAsyncWithOffset, &dst, MAX_BYTES, 64, &src, 1 + below(f, 1024), 32, e.kind, a_stream(f));
        break;
    case 1:
        T(aclrtGetMemcpyDescSize, e.kind, &nbytes);
        break;
    case 2:
        T(aclrtSetMemcpyDesc, device_address(f), e.kind, e.src, e.dst, 1 + below(f, 1024), NULL);
        break;
    default:
        T(aclrtMemcpyAsyncWithDesc, device_address(f), e.kind, a_stream(f));
    }
}

static void op_fill(struct fuzz *f)
{
    char *at = one_in(f, 4) ? host_address(f) : device_address(f);
    size_t n = a_size(f);

    switch (below(f, 6)) {
    case 0:
        T(aclrtMemset, at, a_limit(f, n), 7, n);
        break;
    case 1:
        T(aclrtMemsetD32, at, a_limit(f, n / 4 * 4), 7, n / 4);
        break;
    case 2:
        T(aclrtMemsetD32Async, at, n / 4 * 4, 7, n / 4, a_stream(f));
        break;
    case 3:
        T(aclrtValueWrite, device_address(f), below(f, 3), below(f, 20) / 19, a_stream(f));
        break;
    case 4:
        T(aclrtValueWait, device_address(f), below(f, 3), below(f, 5), a_stream(f));
        break;
    default:
        T(aclrtMemsetAsync, at, a_limit(f, n), 7, n, a_stream(f));
    }
}

/* --- streams --- */

static void op_stream(struct fuzz *f)
{
    _Atomic(void *) *slot = &world.stream[below(f, STREAMS)];
    aclrtStreamAttrValue value = {.reserve = {below(f, 3)}};
    aclrtStream fresh = NULL, old = atomic_load(slot);
    aclrtStreamStatus status;
    uint32_t number;

    switch (below(f, 16)) {
    case 0:
    case 1:
        if ((one_in(f, 2) ? T(aclrtCreateStream, &fresh)
                          : T(aclrtCreateStreamWithConfig, &fresh, below(f, 9), below(f, 80))) == 0)
            old = atomic_exchange(slot, fresh);
        if (old != NULL)
            T(aclrtDestroyStream, old);
        break;
    case 2:
        T(aclrtDestroyStreamForce, old);
        break;
    case 3:
        if (one_in(f, 3))
            T(aclrtStreamAbort, a_stream(f));
        break;
    case 4:
        T(aclrtStreamStop, a_stream(f));
        break;
    case 5:
        if (one_in(f, 10))
            T(aclrtSetStreamFailureMode, a_stream(f), below(f, 2));
        break;
    case 6:
        T(aclrtSetStreamAttribute, a_stream(f), (aclrtStreamAttr)(2 + below(f, 5)), &value);
        break;
    case 7:
        T(aclrtGetStreamAttribute, a_stream(f), (aclrtStreamAttr)below(f, 7), &value);
        break;
    case 8:
        T(aclrtGetStreamAvailableNum, &number);
        break;
    case 9:
        T(aclrtStreamGetPriority, a_stream(f), &number);
        break;
    case 10:
        T(aclrtStreamGetFlags, a_stream(f), &number);
        break;
    case 11:
        T(aclrtRegStreamStateCallback, one_in(f, 2) ? "a" : "b", one_in(f, 2) ? NULL : on_state, NULL);
        break;
    case 12:
        T(aclrtSynchronizeStream, a_stream(f));
        break;
    case 13:
        T(aclrtSynchronizeStreamWithTimeout, a_stream(f), a_timeout_ms(f));
        break;
    default:
        T(aclrtStreamQuery, a_stream(f), one_in(f, 30) ? NULL : &status);
    }
}

/* --- events and notifies --- */

static void op_event_life(struct fuzz *f)
{
    static const uint32_t flags[] = {ACL_EVENT_SYNC,
                                     ACL_EVENT_TIME_LINE,
                                     ACL_EVENT_IPC,
                                     ACL_EVENT_EXTERNAL,
                                     ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE,
                                     0,
                                     3,
                                     ACL_EVENT_DEVICE_USE_ONLY};
    _Atomic(void *) *slot = &world.event[below(f, EVENTS)];
    aclrtEvent fresh = NULL, old = atomic_load(slot);
    aclrtIpcEventHandle handle = {{0}};

    switch (below(f, 5)) {
    case 0:
        T(aclrtCreateEventWithFlag, &fresh, flags[below(f, 8)]);
        break;
    case 1:
        T(aclrtCreateEventExWithFlag, &fresh, flags[below(f, 8)]);
        break;
    case 2:
        if (T(aclrtIpcGetEventHandle, old, &handle) == 0 || one_in(f, 9))
            T(aclrtIpcOpenEventHandle, handle, &fresh);
        break;
    default:
        T(aclrtCreateEvent, one_in(f, 30) ? NULL : &fresh);
    }
    if (fresh == NULL)
        return;
    old = atomic_exchange(slot, fresh);
    T(aclrtDestroyEvent, old);
}

static void op_event(struct fuzz *f)
{
    aclrtEvent event = an_event(f), other = an_event(f);
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus status;
    aclrtEventWaitStatus waiting;
    uint64_t stamp;
    uint32_t number;
    float ms;

    switch (below(f, 22)) {
    case 0:
        T(aclrtResetEvent, event, a_stream(f));
        break;
    case 1:
        T(aclrtRecordEventWithFlag, event, a_stream(f), below(f, 3));
        break;
    case 2:
        T(aclrtStreamWaitEventWithFlag, a_stream(f), event, below(f, 2), below(f, 3));
        break;
    case 3:
        T(aclrtStreamWaitEventWithTimeout, a_stream(f), event, (int32_t)below(f, 3) - 1);
        break;
    case 4:
        T(aclrtQueryEvent, event, &status);
        break;
    case 5:
        T(aclrtQueryEventWaitStatus, event, &waiting);
        break;
    case 6:
        T(aclrtSynchronizeEvent, event);
        break;
    case 7:
        T(aclrtSynchronizeEventWithTimeout, event, a_timeout_ms(f));
        break;
    case 8:
        T(aclrtEventElapsedTime, &ms, event, other);
        break;
    case 9:
        T(aclrtEventGetTimestamp, event, &stamp);
        break;
    case 10:
        T(aclrtGetEventId, event, &number);
        break;
    case 11:
        T(aclrtGetEventAvailNum, &number);
        break;
    case 12:
        T(aclrtDestroyEvent, event);
        break;
    case 13:
    case 14:
        T(aclrtQueryEventStatus, event, &recorded);
        break;
    case 15:
    case 16:
    case 17:
        T(aclrtStreamWaitEvent, a_stream(f), event);
        break;
    default:
        T(aclrtRecordEvent, event, a_stream(f));
    }
}

static void op_notify(struct fuzz *f)
{
    _Atomic(void *) *slot = &world.notify[below(f, NOTIFIES)];
    aclrtNotify fresh = NULL;
    uint32_t number;

    switch (below(f, 8)) {
    case 0:
        if (T(aclrtCreateNotify, &fresh, below(f, 3)) == 0)
            T(aclrtDestroyNotify, atomic_exchange(slot, fresh));
        break;
    case 1:
        T(aclrtGetNotifyId, atomic_load(slot), &number);
        break;
    case 2:
    case 3:
        T(aclrtWaitAndResetNotify, atomic_load(slot), a_stream(f), below(f, 9) / 8);
        break;
    default:
        T(aclrtRecordNotify, atomic_load(slot), a_stream(f));
    }
}

/* --- callbacks --- */

static void op_callback(struct fuzz *f)
{
    uint64_t thread = one_in(f, 5) ? 1 : (uint64_t)(uintptr_t)pthread_self();

    switch (below(f, 9)) {
    case 0:
        T(aclrtSubscribeReport, thread, a_stream(f));
        break;
    case 1:
        T(aclrtUnSubscribeReport, thread, a_stream(f));
        break;
    case 2:
    case 3:
        T(aclrtLaunchCallback, one_in(f, 30) ? NULL : on_stream, f, (aclrtCallbackBlockType)below(f, 2),
          a_stream(f));
        break;
    case 4:
    case 5:
        T(aclrtProcessReport, one_in(f, 20) ? 0 : 1);
        break;
    case 6:
        T(aclrtSetExceptionInfoCallback, one_in(f, 2) ? NULL : on_exception);
        break;
    case 7:
        if (one_in(f, 2))
            T(aclrtExceptionInfoCallbackRegister, on_exception);
        else
            T(aclrtExceptionInfoCallbackUnregister, on_exception);
        break;
    default:
        T(aclrtLaunchHostFunc, a_stream(f), on_stream, f);
    }
}

#endif
