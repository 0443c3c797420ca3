#include "core/backing.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/runtime.h"

static int map_device(void *context, size_t nbytes, void **address, struct npux_err *err)
{
    const struct npux_acl *acl = context;
    int code = acl->aclrtMalloc(address, nbytes, ACL_MEM_MALLOC_HUGE_FIRST);
    return code == ACL_SUCCESS ? 0 : npux_runtime_fail(acl, err, code, "aclrtMalloc");
}

/* A failing free leaves nothing to do: the memory stays with the runtime until the device is reset. */
static void unmap_device(void *context, void *address, size_t nbytes)
{
    const struct npux_acl *acl = context;
    acl->aclrtFree(address);
}

static int map_pinned(void *context, size_t nbytes, void **address, struct npux_err *err)
{
    const struct npux_acl *acl = context;
    int code = acl->aclrtMallocHost(address, nbytes);
    return code == ACL_SUCCESS ? 0 : npux_runtime_fail(acl, err, code, "aclrtMallocHost");
}

static void unmap_pinned(void *context, void *address, size_t nbytes)
{
    const struct npux_acl *acl = context;
    acl->aclrtFreeHost(address);
}

static int map_pageable(void *context, size_t nbytes, void **address, struct npux_err *err)
{
    *address = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*address == MAP_FAILED) {
        *address = NULL;
        return npux_fail(err, -errno, "mmap", "%zu bytes of ordinary memory: %s", nbytes, strerror(errno));
    }
    return 0;
}

static void unmap_pageable(void *context, void *address, size_t nbytes)
{
    munmap(address, nbytes);
}

/* The table outlives every arena and is not written through; the context pointer just cannot say so. */
struct npux_backing npux_backing_device(const struct npux_acl *acl)
{
    return (struct npux_backing){map_device, unmap_device, (void *)(uintptr_t)acl};
}

struct npux_backing npux_backing_pinned(const struct npux_acl *acl)
{
    return (struct npux_backing){map_pinned, unmap_pinned, (void *)(uintptr_t)acl};
}

struct npux_backing npux_backing_pageable(void)
{
    return (struct npux_backing){map_pageable, unmap_pageable, NULL};
}
