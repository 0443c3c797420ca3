/* sim_callback.c - report threads, host functions, and what a blocking callback stops. */
#include "tests/sim_util.h"

#include <stdatomic.h>
#include <unistd.h>

enum { N = 256, MANY = 20 };

static aclrtStream s;
static char *dev, *pin;
static atomic_int calls, order[MANY];
static atomic_int gate;

static uint64_t me(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

static void count(void *data)
{
    int at = atomic_fetch_add(&calls, 1);

    if (at < MANY)
        atomic_store(&order[at], (int)(intptr_t)data);
}

static aclError launch(int number, aclrtCallbackBlockType block)
{
    return aclrtLaunchCallback(count, (void *)(intptr_t)number, block, s);
}

static void check_codes(void)
{
    aclrtStream other = stream_new(), dead = stream_new();
    aclrtContext ctx, second;

    CHECK_EQ(aclrtProcessReport(0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtProcessReport(-2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK_EQ(launch(1, ACL_CALLBACK_BLOCK), ACL_ERROR_RT_STREAM_NO_CB_REG);
    CHECK(message_has("(EE1018)"));
    CHECK_EQ(aclrtUnSubscribeReport(me(), s), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    OK(aclrtSubscribeReport(me(), s));
    CHECK_EQ(aclrtSubscribeReport(me(), s), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK_EQ(aclrtUnSubscribeReport(12345, s), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK_EQ(aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(message_has("(EE1004)"));
    CHECK_EQ(launch(1, (aclrtCallbackBlockType)2), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has("(EH0007)"));
    CHECK_EQ(aclrtLaunchHostFunc(s, count, NULL), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK(message_has("(EE1016)"));
    OK(aclrtSubscribeReport(me(), other)); /* one thread may serve many streams */
    OK(aclrtUnSubscribeReport(me(), other));
    OK(aclrtSubscribeReport(0, other)); /* any number is a thread */
    OK(aclrtDestroyStream(dead));
    CHECK_EQ(aclrtSubscribeReport(1, dead), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtGetCurrentContext(&ctx));
    OK(aclrtCreateContext(&second, 0));
    CHECK_EQ(launch(1, ACL_CALLBACK_BLOCK), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtSetCurrentContext(ctx));
    OK(aclrtDestroyContext(second));
    CHECK_EQ(aclrtProcessReport(1), ACL_ERROR_RT_REPORT_TIMEOUT);
    OK(aclrtUnSubscribeReport(me(), s));
    CHECK_EQ(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    OK(aclrtDestroyStream(other)); /* takes its subscription along */
}

/* One device per thread; a subscribed thread that gave up its streams may serve another device. */
static void check_two_devices(void)
{
    aclrtStream there;

    OK(aclrtSetDevice(1));
    there = stream_new();
    OK(aclrtSubscribeReport(me(), s));
    CHECK_EQ(aclrtSubscribeReport(me(), there), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    OK(aclrtUnSubscribeReport(me(), s));
    OK(aclrtSubscribeReport(me(), there));
    OK(aclrtDestroyStream(there));
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(0));
}

/* One call runs all that is due; the callbacks of a stream keep its order. */
static void check_pending(void)
{
    atomic_store(&calls, 0);
    OK(aclrtSubscribeReport(me(), s));
    for (int i = 0; i < MANY; i++)
        OK(launch(i, ACL_CALLBACK_NO_BLOCK));
    OK(aclrtSynchronizeStream(s)); /* does not wait for them */
    CHECK_EQ(atomic_load(&calls), 0);
    OK(aclrtProcessReport(1000));
    CHECK_EQ(atomic_load(&calls), MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(atomic_load(&order[i]), i);
    CHECK_EQ(aclrtProcessReport(1), ACL_ERROR_RT_REPORT_TIMEOUT);
    OK(aclrtUnSubscribeReport(me(), s));
}

/* BLOCK: what follows waits until the callback returned. Each makes the next one due, so that one call each
 * is needed. */
static void check_block(void)
{
    atomic_store(&calls, 0);
    OK(aclrtMemset(dev, N, 0, N));
    fill(pin, N, 5);
    OK(aclrtSubscribeReport(me(), s));
    OK(launch(0, ACL_CALLBACK_BLOCK));
    OK(launch(1, ACL_CALLBACK_BLOCK));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 2), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(message_has("HOST_CALLBACK"));
    CHECK(!stream_complete(s));
    OK(aclrtProcessReport(1000));
    CHECK_EQ(atomic_load(&calls), 1);
    CHECK(!device_holds(dev, N, 5));
    OK(aclrtProcessReport(-1));
    CHECK_EQ(atomic_load(&calls), 2);
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 5));
    OK(aclrtUnSubscribeReport(me(), s));
}

/* What waits for a callback goes on when nobody can run it any more, and forced destruction drops it. */
static void check_dropped(void)
{
    aclrtStream other = stream_new();

    atomic_store(&calls, 0);
    OK(aclrtSubscribeReport(me(), s));
    OK(launch(0, ACL_CALLBACK_BLOCK));
    OK(launch(1, ACL_CALLBACK_BLOCK));
    OK(aclrtUnSubscribeReport(me(), s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtSubscribeReport(me(), other));
    OK(aclrtLaunchCallback(count, NULL, ACL_CALLBACK_BLOCK, other));
    OK(aclrtDestroyStreamForce(other));
    CHECK_EQ(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK_EQ(atomic_load(&calls), 0);
}

static void *report_loop(void *stop)
{
    while (!atomic_load((atomic_int *)stop))
        (void)aclrtProcessReport(20);
    return NULL;
}

static void check_report_thread(void)
{
    atomic_int stop = 0;
    pthread_t thread;

    atomic_store(&calls, 0);
    OK(pthread_create(&thread, NULL, report_loop, &stop));
    OK(aclrtSubscribeReport((uint64_t)(uintptr_t)thread, s));
    for (int i = 0; i < 500; i++)
        OK(launch(i, i % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK));
    OK(launch(500, ACL_CALLBACK_BLOCK)); /* the last one: all before it ran, as one thread runs them */
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(atomic_load(&calls), 501);
    atomic_store(&stop, 1);
    OK(pthread_join(thread, NULL));
    OK(aclrtUnSubscribeReport((uint64_t)(uintptr_t)thread, s));
}

static void check_group_limit(void)
{
    enum { GROUPS = 128 };
    aclrtStream streams[GROUPS + 1];

    for (int i = 0; i <= GROUPS; i++) {
        streams[i] = stream_new();
        CHECK_EQ(aclrtSubscribeReport((uint64_t)i + 1, streams[i]),
                 i < GROUPS ? 0 : ACL_ERROR_RT_INTERNAL_ERROR);
    }
    for (int i = 0; i <= GROUPS; i++)
        OK(aclrtDestroyStream(streams[i]));
}

/* --- host functions --- */

static struct {
    aclError device, event, malloc_host, copy;
    aclrtEvent watched;
    aclrtEventRecordedStatus status;
    pthread_t thread;
} seen;

static void look(void *data)
{
    int32_t device;
    void *ptr;

    seen.thread = pthread_self();
    seen.device = aclrtGetDevice(&device);
    seen.malloc_host = aclrtMallocHost(&ptr, 64);
    seen.copy = aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s);
    seen.event = aclrtQueryEventStatus(seen.watched, &seen.status);
    atomic_store(&gate, (int)(intptr_t)data);
}

static void check_host_func(void)
{
    aclrtEvent e;

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(e, s));
    seen.watched = e;
    atomic_store(&gate, 0);
    CHECK_EQ(aclrtLaunchHostFunc(s, NULL, NULL), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtLaunchHostFunc(s, look, (void *)7));
    OK(aclrtSynchronizeStream(s)); /* waits for it: it blocks the stream */
    CHECK_EQ(atomic_load(&gate), 7);
    CHECK(!pthread_equal(seen.thread, pthread_self()));
    CHECK_EQ(seen.device, ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(seen.malloc_host, ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(seen.copy, ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(seen.event, 0);
    CHECK_EQ(seen.status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_EQ(aclrtSubscribeReport(me(), s), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK_EQ(aclrtUnSubscribeReport(me(), s), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK_EQ(launch(1, ACL_CALLBACK_BLOCK), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    OK(aclrtDestroyEvent(e));
}

/* A context's thread ends with the context; the next context gets another one. */
static void check_contexts(void)
{
    aclrtContext first, ctx;

    OK(aclrtGetCurrentContext(&first));
    for (int i = 1; i < 4; i++) {
        aclrtStream own;

        OK(aclrtCreateContext(&ctx, 0));
        own = stream_new();
        atomic_store(&calls, 0);
        OK(aclrtLaunchHostFunc(own, count, NULL));
        OK(aclrtLaunchHostFunc(NULL, count, NULL));
        OK(aclrtSynchronizeDevice());
        CHECK_EQ(atomic_load(&calls), 2);
        OK(aclrtDestroyContext(ctx));
    }
    OK(aclrtSetCurrentContext(first));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclsim_set_device_count(2));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    check_codes();
    check_two_devices();
    check_pending();
    check_block();
    check_dropped();
    check_report_thread();
    check_group_limit();
    check_host_func();
    check_contexts();
    OK(aclrtDestroyStream(s));
    OK(aclrtResetDevice(0));
    return 0;
}
