/* sim_alloc.c - the other ways to allocate and free, and what is said about memory. */
#include "tests/sim_util.h"

enum { N = 4096, MIB = 1 << 20 };

static aclrtStream s;

static size_t block_nbytes(void *ptr)
{
    void *base = NULL;
    size_t nbytes = 0;

    OK(aclrtMemGetAddressRange(ptr, &base, &nbytes));
    CHECK(base == ptr);
    return nbytes;
}

/* Sizes are rounded up to 32; the usual calls add 32 more, the others do not. */
static void check_sizes(void)
{
    void *a, *b, *c, *d, *base;

    OK(aclrtMalloc(&a, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocCached(&b, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocAlign32(&c, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocWithCfg(&d, 100, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    CHECK_EQ(block_nbytes(a), 160);
    CHECK_EQ(block_nbytes(b), 160);
    CHECK_EQ(block_nbytes(c), 128);
    CHECK_EQ(block_nbytes(d), 128);
    CHECK_EQ((uintptr_t)d % 64, 0);
    OK(aclrtMemGetAddressRange((char *)a + 99, &base, NULL));
    CHECK(base == a);
    CHECK_EQ(aclrtMemGetAddressRange(NULL, &base, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemGetAddressRange(a, NULL, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemGetAddressRange(&base, &base, NULL), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFree(a));
    OK(aclrtFree(b));
    OK(aclrtFree(c));
    OK(aclrtFree(d));
}

static void check_attributes(void)
{
    aclrtMallocAttribute attrs[2] = {{ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 3}},
                                     {ACL_RT_MEM_ATTR_DEVICE_ID, {.deviceId = 0}}};
    aclrtMallocConfig cfg = {attrs, 2}, empty = {NULL, 1};
    void *ptr;

    OK(aclrtMallocWithCfg(&ptr, N, ACL_MEM_MALLOC_HUGE_FIRST, &cfg));
    OK(aclrtFree(ptr));
    attrs[1].value.deviceId = 1;
    CHECK_EQ(aclrtMallocWithCfg(&ptr, N, ACL_MEM_MALLOC_HUGE_FIRST, &cfg), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMallocWithCfg(&ptr, N, ACL_MEM_MALLOC_HUGE_FIRST, &empty), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMallocWithCfg(NULL, N, ACL_MEM_MALLOC_HUGE_FIRST, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMallocWithCfg(&ptr, 0, ACL_MEM_MALLOC_HUGE_FIRST, NULL), ACL_ERROR_INVALID_PARAM);
    attrs[1] = (aclrtMallocAttribute){ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 1}};
    OK(aclrtMallocHostWithCfg(&ptr, N, &cfg));
    memset(ptr, 1, N);
    OK(aclrtFreeHost(ptr));
    CHECK_EQ(aclrtMallocHostWithCfg(&ptr, 0, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMallocHostWithCfg(&ptr, N, &empty), ACL_ERROR_RT_PARAM_INVALID);
}

static void *free_all(void *ptrs)
{
    OK(aclrtSetDevice(0));
    OK(aclrtFreeWithDevSync(((void **)ptrs)[0]));
    OK(aclrtFreeHostWithDevSync(((void **)ptrs)[1]));
    OK(aclrtResetDevice(0));
    return NULL;
}

/* Freeing this way waits for the copies that use the memory, so they succeed. */
static void check_free_with_sync(void)
{
    char *dev = device_alloc(N), *pin = pinned_alloc(N), *keep = device_alloc(N);
    void *ptrs[] = {dev, pin};
    pthread_t thread;

    fill(pin, N, 1);
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtMemcpyAsync(keep, N, dev, N, ACL_MEMCPY_DEFAULT, s));
    OK(pthread_create(&thread, NULL, free_all, ptrs));
    while (aclsim_call_count("aclrtFreeWithDevSync", 0) == 0)
        sched_yield();
    OK(aclsim_release_stream(s));
    OK(pthread_join(thread, NULL));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(keep, N, 1));
    CHECK_EQ(aclrtFreeWithDevSync(dev), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtFreeWithDevSync(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtFreeHostWithDevSync(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtFree(keep));
}

static void check_info(void)
{
    aclrtMemUsageInfo usage[2], before;
    size_t n = 9, free_bytes = 9, total = 9;
    void *ptr;

    OK(aclrtGetMemInfo(ACL_DDR_MEM, &free_bytes, &total)); /* this chip has HBM */
    CHECK_EQ(free_bytes + total, 0);
    OK(aclrtGetMemInfo(ACL_MEM_HUGE, &free_bytes, &total));
    CHECK_EQ(total, 1024 * (size_t)MIB);
    OK(aclrtGetMemUsageInfo(0, &before, 1, &n));
    CHECK_EQ(n, 1);
    ptr = device_alloc(8 * MIB);
    OK(aclrtGetMemUsageInfo(0, usage, 2, &n));
    CHECK_EQ(n, 1);
    CHECK(usage[0].curMemSize >= before.curMemSize + 8 * MIB);
    OK(aclrtFree(ptr));
    OK(aclrtGetMemUsageInfo(0, usage, 2, &n));
    CHECK_EQ(usage[0].curMemSize, before.curMemSize);
    CHECK(usage[0].memPeakSize >= before.curMemSize + 8 * MIB);
    CHECK_EQ(aclrtGetMemUsageInfo(0, usage, 0, &n), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtGetMemUsageInfo(7, usage, 1, &n), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtGetMemUsageInfo(0, NULL, 1, &n), ACL_ERROR_INVALID_PARAM);
}

static void *without_context(void *ptr)
{
    void *out;

    CHECK_EQ(aclrtMallocAlign32(&out, N, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtMallocHostWithCfg(&out, N, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtMemFlush(ptr, N), ACL_ERROR_RT_CONTEXT_NULL);
    return NULL;
}

static void check_caches(void)
{
    void *ptr = device_alloc(N);

    OK(aclrtMemFlush(ptr, N));
    OK(aclrtMemInvalidate(ptr, N));
    CHECK_EQ(aclrtMemFlush(NULL, N), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemInvalidate(ptr, 0), ACL_ERROR_INVALID_PARAM);
    in_thread(without_context, ptr);
    OK(aclrtFree(ptr));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    check_sizes();
    check_attributes();
    check_free_with_sync();
    check_info();
    check_caches();
    return 0;
}
