/* threads.c - contexts and threads.
 *
 * Threads: main and one other at a time, joined before main goes on.
 * Locks:   none; join orders the two.
 * Owns:    its blocks, streams and contexts.
 * Invariant: only one thread checks at a time.
 */
#include <pthread.h>

#include "conf.h"

#define OBSERVED "observed on the open runtime, CANN 9.2"
#define DOCS "aclrtCreateContext docs, CANN 9.1"

enum { N = 64 };

static struct {
    void *device, *pinned;
    aclrtStream stream;
    aclrtContext context;
} shared;

static aclError up(aclrtStream s)
{
    return acl->aclrtMemcpyAsync(shared.device, N, shared.pinned, N, ACL_MEMCPY_HOST_TO_DEVICE, s);
}

/* A thread that has set nothing. */
static void *bare(void *unused)
{
    int32_t device = -1;
    aclrtContext context = NULL;
    aclrtStream stream = NULL;
    void *block = NULL;

    (void)unused;
    check_code("no device", OBSERVED, 107002, acl->aclrtGetDevice(&device));
    check_code("no context", OBSERVED, 107002, acl->aclrtGetCurrentContext(&context));
    check_code("no stream", OBSERVED, 107002, acl->aclrtCreateStream(&stream));
    check_code("no memory", OBSERVED, 107002, acl->aclrtMalloc(&block, N, ACL_MEM_MALLOC_HUGE_FIRST));
    check_code("no pinned memory", OBSERVED, 107002, acl->aclrtMallocHost(&block, N));
    check_code("no copy", OBSERVED, 107002, up(shared.stream));
    check_code("no wait", OBSERVED, 107002,
               acl->aclrtSynchronizeStreamWithTimeout(shared.stream, CONF_WAIT_MS));
    return NULL;
}

/* A thread that sets the same device. */
static void *same_device(void *unused)
{
    aclrtContext context = NULL;

    (void)unused;
    check_code("the device is set", OBSERVED, 0, acl->aclrtSetDevice(0));
    check_code("it has a context", OBSERVED, 0, acl->aclrtGetCurrentContext(&context));
    check_true("the one of the other thread", OBSERVED, context == shared.context);
    check_code("the other thread's stream takes a copy", OBSERVED, 0, up(shared.stream));
    check_code("which ends", OBSERVED, 0,
               acl->aclrtSynchronizeStreamWithTimeout(shared.stream, CONF_WAIT_MS));
    check_true("and arrives", OBSERVED, conf_holds(shared.device, N, 2));
    check_code("the device is reset", OBSERVED, 0, acl->aclrtResetDevice(0));
    return NULL;
}

static void run(void *(*body)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, NULL) != 0)
        exit(2);
    pthread_join(thread, NULL);
}

static void contexts(void)
{
    aclrtContext other = NULL, now = NULL;

    check_code("a context is made", DOCS, 0, acl->aclrtCreateContext(&other, 0));
    check_code("and asked for", DOCS, 0, acl->aclrtGetCurrentContext(&now));
    check_true("it is current at once", DOCS, now == other && other != shared.context);
    check_code("a stream of the other refuses work", OBSERVED, 107003, up(shared.stream));
    check_code("but may be waited for", OBSERVED, 0,
               acl->aclrtSynchronizeStreamWithTimeout(shared.stream, CONF_WAIT_MS));
    check_code("and is not destroyed from here", OBSERVED, 107003, acl->aclrtDestroyStream(shared.stream));
    check_code("the first is current again", DOCS, 0, acl->aclrtSetCurrentContext(shared.context));
    check_code("the second is destroyed", DOCS, 0, acl->aclrtDestroyContext(other));
}

int main(int argc, char **argv)
{
    conf_open(argc, argv);
    shared.device = conf_device(N, 1);
    shared.pinned = conf_pinned(N, 2);
    shared.stream = conf_stream();
    acl->aclrtGetCurrentContext(&shared.context);
    run(bare);
    run(same_device);
    contexts();
    check_code("the stream is destroyed", DOCS, 0, acl->aclrtDestroyStream(shared.stream));
    acl->aclrtFree(shared.device);
    acl->aclrtFreeHost(shared.pinned);
    return conf_end();
}
