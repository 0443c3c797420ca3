/* register.c - see register.h.
 *
 * Threads: any. Locks: mu, then those of blocks.c.
 * Owns:    every registration, from its call to aclrtHostUnregister.
 * Invariant: a range that is pinned only by its registration has exactly one block.
 */
#include "sim/register.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/sim.h"

enum { PAGE = 4096 }; /* what addresses have to be aligned to (aclrtHostRegister, CANN docs) */

struct registration {
    struct registration *next;
    char *host;
    size_t nbytes;
    char *device;            /* NULL: not mapped */
    struct sim_block *block; /* NULL: the memory was pinned before */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct registration *all;
static atomic_uint n_mapped; /* so that programs that register nothing pay one load */

/* --- mu held --- */

static struct registration *by_base(const void *host)
{
    struct registration *r = all;

    while (r != NULL && r->host != host)
        r = r->next;
    return r;
}

static struct registration *overlapping(const char *host, size_t nbytes)
{
    struct registration *r = all;

    while (r != NULL && (host >= r->host + r->nbytes || r->host >= host + nbytes))
        r = r->next;
    return r;
}

static bool inside(const void *ptr, const char *start, size_t nbytes)
{
    return start != NULL && (uintptr_t)ptr - (uintptr_t)start < nbytes;
}

static size_t whole_pages(size_t nbytes)
{
    return (nbytes + PAGE - 1) / PAGE * PAGE;
}

static void destroy(struct registration *r)
{
    if (r->device != NULL) {
        munmap(r->device, whole_pages(r->nbytes));
        atomic_fetch_sub(&n_mapped, 1);
    }
    free(r);
}

/* NULL: no memory. */
static struct registration *create(void *host, size_t nbytes, bool mapped)
{
    struct registration *r = calloc(1, sizeof(*r));
    struct sim_found found;
    void *device;

    if (r == NULL)
        return NULL;
    r->host = host;
    r->nbytes = nbytes;
    if (mapped) {
        device =
            mmap(NULL, whole_pages(nbytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (device == MAP_FAILED) {
            free(r);
            return NULL;
        }
        r->device = device;
        atomic_fetch_add(&n_mapped, 1);
    }
    if (!sim_block_find(host, &found)) {
        r->block = sim_pinned_add(host, nbytes);
        if (r->block == NULL) {
            destroy(r);
            return NULL;
        }
    }
    r->next = all;
    all = r;
    return r;
}

/* --- checks --- */

static aclError check_range(struct sim_thread *self, const void *ptr, uint64_t nbytes)
{
    struct sim_context *ctx;

    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    if (((uintptr_t)ptr & (PAGE - 1)) != 0) /* the driver's answer (assumed) */
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "host memory %p does not start on a page; align it to %d bytes", ptr, PAGE);
    if (nbytes > PTRDIFF_MAX || sim_block_reserved(ptr))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "%llu bytes from %p are not host memory",
                        (unsigned long long)nbytes, ptr);
    return ACL_SUCCESS;
}

static aclError already_registered(const void *ptr, uint64_t nbytes)
{
    return sim_fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "EE1018",
                    "%llu bytes from %p overlap a range that is registered; unregister that first",
                    (unsigned long long)nbytes, ptr);
}

static aclError no_memory(void)
{
    return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE9999", "no host memory for a registration");
}

/* --- interface --- */

bool sim_is_mapped_address(const void *ptr)
{
    bool mapped = false;

    if (atomic_load_explicit(&n_mapped, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&mu);
    for (struct registration *r = all; r != NULL && !mapped; r = r->next)
        mapped = inside(ptr, r->device, whole_pages(r->nbytes));
    pthread_mutex_unlock(&mu);
    return mapped;
}

aclError aclrtHostRegister(void *ptr, uint64_t nbytes, aclrtHostRegisterType type, void **device_ptr)
{
    SIM_CALL(aclrtHostRegister);
    struct registration *r;
    aclError code;

    if (ptr == NULL)
        return sim_fail_null("ptr");
    if (device_ptr == NULL)
        return sim_fail_null("device_ptr");
    if (nbytes == 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size is 0, expected value: at least 1");
    /* The documents reserve the other types for later. */
    if (!sim_profile.has_host_register || type != ACL_HOST_REGISTER_MAPPED)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = check_range(self, ptr, nbytes);
    if (code != 0)
        return code;
    pthread_mutex_lock(&mu);
    /* The same range again is no error here, only in the second version (observed on the open runtime). */
    r = by_base(ptr);
    if (r == NULL && overlapping(ptr, (size_t)nbytes) != NULL)
        code = already_registered(ptr, nbytes);
    else if (r == NULL)
        r = create(ptr, (size_t)nbytes, true);
    if (code == 0 && (r == NULL || r->device == NULL))
        code = r == NULL ? no_memory() : already_registered(ptr, nbytes);
    if (code == 0)
        *device_ptr = r->device;
    pthread_mutex_unlock(&mu);
    return code;
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t nbytes, uint32_t flag)
{
    SIM_CALL(aclrtHostRegisterV2);
    const uint32_t known =
        ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
    struct sim_found found;
    aclError code;

    if (ptr == NULL)
        return sim_fail_null("ptr");
    if (nbytes == 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size is 0, expected value: at least 1");
    if (!sim_profile.has_host_register)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (flag == 0 || (flag & ~known) != 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "flag %#x, expected a combination of the ACL_HOST_REG values", flag);
    if ((flag & (ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY)) != 0) /* reserved for later (CANN docs) */
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = check_range(self, ptr, nbytes);
    if (code != 0)
        return code;
    pthread_mutex_lock(&mu);
    if (overlapping(ptr, (size_t)nbytes) != NULL)
        code = already_registered(ptr, nbytes);
    else if ((flag & ACL_HOST_REG_PINNED) != 0 && sim_block_find(ptr, &found)) /* which code: assumed */
        code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "%p is pinned memory already; leave out ACL_HOST_REG_PINNED", ptr);
    else if (create(ptr, (size_t)nbytes, (flag & ACL_HOST_REG_MAPPED) != 0) == NULL)
        code = no_memory();
    pthread_mutex_unlock(&mu);
    return code;
}

aclError aclrtHostUnregister(void *ptr)
{
    SIM_CALL(aclrtHostUnregister);
    struct registration **at = &all, *r;
    struct sim_context *ctx;

    if (ptr == NULL)
        return sim_fail_null("ptr");
    if (!sim_profile.has_host_register)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&mu);
    while (*at != NULL && (*at)->host != ptr)
        at = &(*at)->next;
    r = *at;
    if (r != NULL)
        *at = r->next;
    pthread_mutex_unlock(&mu);
    if (r == NULL)
        return sim_fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "EE1018",
                        "%p is not the start of registered host memory: unregister each range once", ptr);
    /* Copies that are queued fault when they run, as with freed memory (assumed); one that runs ends first.
     */
    if (r->block != NULL)
        sim_pinned_remove(r->block);
    destroy(r);
    return ACL_SUCCESS;
}

aclError aclrtHostGetDevicePointer(void *host_ptr, void **device_ptr, uint32_t flag)
{
    SIM_CALL(aclrtHostGetDevicePointer);
    struct sim_context *ctx;
    void *found = NULL;

    if (host_ptr == NULL)
        return sim_fail_null("host_ptr");
    if (device_ptr == NULL)
        return sim_fail_null("device_ptr");
    if (flag != 0)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "flag %u is reserved and has to be 0", flag);
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&mu);
    for (struct registration *r = all; r != NULL && found == NULL; r = r->next)
        if (r->device != NULL && inside(host_ptr, r->host, r->nbytes))
            found = r->device + ((char *)host_ptr - r->host);
    pthread_mutex_unlock(&mu);
    if (found == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                        "%p is not in host memory that was registered as mapped", host_ptr);
    *device_ptr = found;
    return ACL_SUCCESS;
}
