/* copies.c - what copies refuse and what they move.
 *
 * Threads: one. Locks: none. Owns: its blocks and streams.
 * Invariant: holds in each profile with a host, EP, whatever the release.
 */
#include "conf.h"

#define OBSERVED "observed on the open runtime, CANN 9.2"
#define DOCS "aclrtMemcpyAsync docs, CANN 9.1"

enum { N = 4096 };

static aclError up(void *dst, size_t dest_max, const void *src, size_t count, int kind, aclrtStream s)
{
    return acl->aclrtMemcpyAsync(dst, dest_max, src, count, (aclrtMemcpyKind)kind, s);
}

static void refusals(void *device, const void *pinned, aclrtStream s)
{
    check_code("a null destination", OBSERVED, 100000, up(NULL, N, pinned, N, 1, s));
    check_code("a null source", OBSERVED, 100000, up(device, N, NULL, N, 1, s));
    check_code("kind 6", OBSERVED, 100000, up(device, N, pinned, N, 6, s));
    check_code("kind 99", OBSERVED, 100000, up(device, N, pinned, N, 99, s));
    check_code("more bytes than destMax", OBSERVED, 107000, up(device, 4, pinned, 8, 1, s));
    check_code("the kind is checked first", OBSERVED, 100000, up(device, 4, pinned, 8, 99, s));
    check_true("nothing was copied", DOCS, conf_holds(device, N, 1));
}

static void content(void *device, void *pinned, aclrtStream s)
{
    void *other = conf_device(N, 3), *back = conf_pinned(N, 4);

    check_code("up is accepted", DOCS, 0, up(device, N, pinned, N, 1, s));
    check_code("inside the device is accepted", DOCS, 0, up(other, N, device, N, 3, s));
    check_code("down is accepted", DOCS, 0, up(back, N, other, N, 2, s));
    check_code("they end", DOCS, 0, acl->aclrtSynchronizeStreamWithTimeout(s, CONF_WAIT_MS));
    check_true("the bytes made the whole way", DOCS, memcmp(back, pinned, N) == 0);
    check_code("a copy on the default stream", OBSERVED, 0, up(other, N, pinned, 1, 1, NULL));
    check_code("ends too", OBSERVED, 0, acl->aclrtSynchronizeStreamWithTimeout(NULL, CONF_WAIT_MS));
    check_code("H2H asynchronous", DOCS, 207000, up(back, N, pinned, N, 0, s));
    check_code("a block is freed", DOCS, 0, acl->aclrtFree(other));
    check_code("once", OBSERVED, 107000, acl->aclrtFree(other));
    check_code("a pinned block is freed", DOCS, 0, acl->aclrtFreeHost(back));
}

/* Kind 5 takes the bytes during the call. */
static void buffered(void *device, aclrtStream s)
{
    void *host = conf_pinned(N, 5);

    check_code("kind 5 is accepted", OBSERVED, 0, up(device, N, host, N, 5, s));
    memset(host, 6, N);
    check_code("it ends", OBSERVED, 0, acl->aclrtSynchronizeStreamWithTimeout(s, CONF_WAIT_MS));
    check_true("it took the bytes at the call", OBSERVED, conf_holds(device, N, 5));
    acl->aclrtFreeHost(host);
}

int main(int argc, char **argv)
{
    conf_open(argc, argv);
    {
        void *device = conf_device(N, 1), *pinned = conf_pinned(N, 2);
        aclrtStream s = conf_stream();

        refusals(device, pinned, s);
        content(device, pinned, s);
        buffered(device, s);
        check_code("the stream is destroyed", DOCS, 0, acl->aclrtDestroyStream(s));
        acl->aclrtFree(device);
        acl->aclrtFreeHost(pinned);
    }
    return conf_end();
}
