/* bare.c - the limit: the same copies from a C loop over the ACL ABI, without Python and without our engine.
 *
 * Compiled by bench/_bare.py with native/acl/loader.c, so that it runs on whatever library the engine runs
 * on.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/loader.h"

enum bare_mode {
    BARE_SYNC_PAGEABLE = 0, /* aclrtMemcpy of ordinary memory */
    BARE_ASYNC_PINNED = 1,  /* aclrtMemcpyAsync of page-locked memory, `depth` at a time on as many streams */
};

enum { MAX_DEPTH = 64 };

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int run(const struct npux_acl *acl, int to_device, enum bare_mode mode, char *host, char *device,
               size_t nbytes, int n_copies, int depth)
{
    aclrtMemcpyKind kind = to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
    char *dst = to_device ? device : host;
    char *src = to_device ? host : device;
    aclrtStream streams[MAX_DEPTH] = {NULL};
    int code = 0;

    for (int i = 0; mode == BARE_ASYNC_PINNED && i < depth; i++)
        code |= acl->aclrtCreateStreamWithConfig(&streams[i], 0, ACL_STREAM_FAST_LAUNCH);
    for (int i = 0; code == 0 && i < n_copies; i++) {
        if (mode == BARE_SYNC_PAGEABLE) {
            code = acl->aclrtMemcpy(dst, nbytes, src, nbytes, kind);
            continue;
        }
        if (i >= depth)
            code = acl->aclrtSynchronizeStream(streams[i % depth]);
        if (code == 0)
            code = acl->aclrtMemcpyAsync(dst, nbytes, src, nbytes, kind, streams[i % depth]);
    }
    for (int i = 0; mode == BARE_ASYNC_PINNED && i < depth; i++) {
        int end = acl->aclrtSynchronizeStream(streams[i]);
        code = code != 0 ? code : end;
        acl->aclrtDestroyStream(streams[i]);
    }
    return code;
}

/* Seconds for n_copies of nbytes each; negative: the aclError that ended it. The memory is warm. */
__attribute__((visibility("default"))) double bare_copies(const char *library, int device, int to_device,
                                                          int mode, size_t nbytes, int n_copies, int depth)
{
    struct npux_acl_lib lib;
    struct npux_err err;
    const struct npux_acl *acl = &lib.fn;
    void *host = NULL, *memory = NULL;
    double start, seconds;
    int code;

    if (depth < 1 || depth > MAX_DEPTH || npux_acl_load(&lib, library, &err) != 0)
        return -1.0;
    acl->aclInit(NULL);
    code = acl->aclrtSetDevice(device);
    if (code == 0)
        code = acl->aclrtMalloc(&memory, nbytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code == 0 && mode == BARE_ASYNC_PINNED)
        code = acl->aclrtMallocHost(&host, nbytes);
    if (mode == BARE_SYNC_PAGEABLE)
        host = malloc(nbytes);
    if (code == 0 && host != NULL) {
        memset(host, 1, nbytes);
        code = run(acl, to_device, mode, host, memory, nbytes, 2, 1);
    }
    start = now_s();
    if (code == 0)
        code = run(acl, to_device, mode, host, memory, nbytes, n_copies, depth);
    seconds = now_s() - start;
    if (memory != NULL)
        acl->aclrtFree(memory);
    if (mode == BARE_SYNC_PAGEABLE)
        free(host);
    else if (host != NULL)
        acl->aclrtFreeHost(host);
    acl->aclrtResetDevice(device);
    acl->aclFinalize();
    return code == 0 ? seconds : -(double)code;
}
