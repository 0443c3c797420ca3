/* sim_fail.c - injected failures: what sees them, what does not, and what the callbacks are told. */
#include "tests/sim_util.h"

#include <stdatomic.h>
#include <unistd.h>

enum { N = 4096 };

static char *dev, *pin;
static aclrtStream s;

static struct {
    atomic_int calls;
    uint32_t task, stream, thread, device, code;
    int complete;    /* what the event said during the callback */
    int64_t pending; /* and how many tasks were unfinished */
    aclrtEvent event;
} seen;

static void on_exception(aclrtExceptionInfo *info)
{
    seen.task = aclrtGetTaskIdFromExceptionInfo(info);
    seen.stream = aclrtGetStreamIdFromExceptionInfo(info);
    seen.thread = aclrtGetThreadIdFromExceptionInfo(info);
    seen.device = aclrtGetDeviceIdFromExceptionInfo(info);
    seen.code = aclrtGetErrorCodeFromExceptionInfo(info);
    seen.complete = seen.event != NULL && event_complete(seen.event);
    seen.pending = aclsim_pending_tasks(0);
    atomic_fetch_add(&seen.calls, 1);
}

static atomic_int other_calls;

static void on_exception_too(aclrtExceptionInfo *info)
{
    CHECK_EQ(aclrtGetErrorCodeFromExceptionInfo(info), ACL_ERROR_RT_TS_ERROR);
    atomic_fetch_add(&other_calls, 1);
}

static void copy(size_t offset)
{
    OK(aclrtMemcpyAsync(dev + offset, N, pin + offset, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
}

static void prepare(uint32_t seed)
{
    fill(pin, 4 * N, seed);
    OK(aclrtMemset(dev, 4 * N, 0, 4 * N));
}

/* CONTINUE mode: only a synchronisation of the stream tells, and once. */
static void check_one_failure(void)
{
    aclrtEvent e, before;
    struct aclsim_counters c0, c1;
    uint32_t task;
    int32_t id;
    char text[128];

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&before, ACL_EVENT_SYNC));
    prepare(50);
    aclsim_counters(&c0);
    OK(aclrtSetExceptionInfoCallback(on_exception));
    seen.event = e;
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 2, ACL_ERROR_RT_TS_ERROR) > 0);
    OK(aclsim_hold_stream(s)); /* so that the event is recorded before the callback asks */
    copy(0);
    OK(aclrtRecordEvent(before, s));
    copy(N);
    OK(aclrtGetThreadLastTaskId(&task));
    OK(aclrtStreamGetId(s, &id));
    copy(2 * N);
    OK(aclrtRecordEvent(e, s));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeEvent(before));
    OK(aclrtSynchronizeEvent(e));
    CHECK(event_complete(e));
    CHECK(stream_complete(s));
    CHECK(device_holds(dev, N, 50));
    CHECK(!device_holds(dev + N, 1, 50 + 1));
    CHECK_EQ(atomic_load(&seen.calls), 1); /* before the completion was visible */
    CHECK_EQ(seen.task, task);
    CHECK_EQ(seen.stream, id);
    CHECK_EQ(seen.thread, gettid());
    CHECK_EQ(seen.device, 0);
    CHECK_EQ(seen.code, ACL_ERROR_RT_TS_ERROR);
    CHECK_EQ(seen.complete, 0);
    OK(aclrtMemcpy(pin, N, dev, N, ACL_MEMCPY_DEFAULT)); /* a copy without stream does not report it */
    (void)aclGetRecentErrMsg();
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    snprintf(text, sizeof(text), "device_id=0, stream_id=%d, task_id=%u, copy_type=H2D, length=%d", id, task,
             N);
    CHECK(message_has(text));
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSynchronizeStream(s));
    aclsim_counters(&c1);
    CHECK_EQ(c1.failed_copies - c0.failed_copies, 1);
    CHECK_EQ(c1.copies[ACLSIM_H2D] - c0.copies[ACLSIM_H2D], 2);
    OK(aclrtSetExceptionInfoCallback(NULL));
    seen.event = NULL;
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyEvent(before));
}

static void check_bytes_of_failed_copy(void)
{
    unsigned char got[3 * N];

    prepare(60);
    CHECK(aclsim_fail_copy(-1, -1, 2, ACL_ERROR_RT_TS_ERROR) > 0);
    for (size_t i = 0; i < 3; i++)
        copy(i * N);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclsim_peek(dev, got, 3 * N));
    CHECK(memcmp(got, pin, N) == 0);
    CHECK(holds_byte(got + N, N, 0));
    CHECK(memcmp(got + 2 * N, pin + 2 * N, N) == 0);
}

/* The later of two failures is reported; a device synchronisation takes it. */
static void check_two_failures(void)
{
    prepare(61);
    OK(aclsim_hold_stream(s));
    copy(0);
    copy(N);
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 2, ACL_ERROR_RT_LOST_HEARTBEAT) > 0);
    OK(aclsim_release_stream(s));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 60000), ACL_ERROR_RT_LOST_HEARTBEAT);
    OK(aclrtSynchronizeStream(s));
    CHECK(aclsim_fail_copy(0, -1, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    copy(0);
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_TS_ERROR);
    CHECK(message_has("(EE9999)"));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtSynchronizeDevice());
}

static void check_callback_list(void)
{
    int before = atomic_load(&seen.calls);

    prepare(62);
    CHECK_EQ(aclrtExceptionInfoCallbackRegister(NULL), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtExceptionInfoCallbackRegister(on_exception));
    OK(aclrtExceptionInfoCallbackRegister(on_exception_too));
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    copy(0);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    CHECK_EQ(atomic_load(&seen.calls), before + 1);
    CHECK_EQ(seen.pending, 1); /* the failed copy itself: it is not finished before the callback is */
    CHECK_EQ(atomic_load(&other_calls), 1);
    OK(aclrtExceptionInfoCallbackUnregister(on_exception));
    CHECK_EQ(aclrtExceptionInfoCallbackUnregister(on_exception), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclsim_fail_copy(0, ACLSIM_H2D, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    copy(0);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    CHECK_EQ(atomic_load(&seen.calls), before + 1);
    CHECK_EQ(atomic_load(&other_calls), 2);
    OK(aclrtExceptionInfoCallbackUnregister(on_exception_too));
}

static void check_calls(void)
{
    void *ptr = NULL;
    struct aclsim_counters c0, c1;

    aclsim_counters(&c0);
    CHECK_EQ(aclsim_fail_call("aclrtNoSuchCall", 1, 1), -1);
    CHECK_EQ(aclsim_fail_call("aclrtMallocHost", 0, 1), -1);
    CHECK(aclsim_fail_call("aclrtMallocHost", 2, ACL_ERROR_RT_MEMORY_ALLOCATION) > 0);
    OK(aclrtMallocHost(&ptr, 64));
    OK(aclrtFreeHost(ptr));
    CHECK_EQ(aclrtMallocHost(&ptr, 64), ACL_ERROR_RT_MEMORY_ALLOCATION);
    aclsim_counters(&c1);
    CHECK_EQ(c1.live_pinned_blocks, c0.live_pinned_blocks);
    OK(aclrtMallocHost(&ptr, 64));
    OK(aclrtFreeHost(ptr));
    CHECK(aclsim_fail_call("aclrtMemcpyAsync", 1, ACL_ERROR_RT_LOST_HEARTBEAT) > 0);
    CHECK(aclsim_fail_copy(0, 0, 1, ACL_ERROR_RT_TS_ERROR) > 0);
    CHECK_EQ(aclsim_clear_faults(), 2);
    copy(0);
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(aclsim_clear_faults(), 0);
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(4 * N);
    pin = pinned_alloc(4 * N);
    check_one_failure();
    check_bytes_of_failed_copy();
    check_two_failures();
    check_callback_list();
    check_calls();
    OK(aclrtDestroyStream(s));
    return 0;
}
