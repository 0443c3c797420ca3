/* sim_desc.c - copies whose addresses are in device memory. */
#include "tests/sim_util.h"

enum { N = 4096 };
#define KIND ACL_MEMCPY_INNER_DEVICE_TO_DEVICE

static char *src, *dst, *desc;
static aclrtStream s;

static void plant(char *device_ptr, uint32_t seed)
{
    char bytes[N];

    fill(bytes, N, seed);
    OK(aclsim_poke(device_ptr, bytes, N));
}

static void check_desc_arguments(void)
{
    char *pin = pinned_alloc(N);
    size_t nbytes = 0;

    CHECK_EQ(aclrtGetMemcpyDescSize(KIND, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtGetMemcpyDescSize((aclrtMemcpyKind)8, &nbytes), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &nbytes), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtGetMemcpyDescSize(KIND, &nbytes));
    CHECK(nbytes >= 24 && nbytes <= 64);
    CHECK_EQ(aclrtSetMemcpyDesc(NULL, KIND, src, dst, N, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtSetMemcpyDesc(desc, KIND, NULL, dst, N, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtSetMemcpyDesc(desc, KIND, src, dst, 0, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtSetMemcpyDesc(desc, KIND, src, dst, N, desc), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_DEFAULT, src, dst, N, NULL),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtSetMemcpyDesc(desc + 32, KIND, src, dst, N, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetMemcpyDesc(pin, KIND, src, dst, N, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetMemcpyDesc(desc, KIND, pin, dst, N, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetMemcpyDesc(desc, KIND, src, dst, (size_t)1 << 33, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpyAsyncWithDesc(NULL, KIND, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpyAsyncWithDesc(desc, KIND, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtMemcpyAsyncWithDesc(desc + 32, KIND, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpyAsyncWithDesc(pin, KIND, s), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(pin));
}

/* The descriptor is read when the copy executes, not when it is submitted. */
static void check_desc(void)
{
    struct aclsim_counters before, after;
    char *other = device_alloc(N);

    aclsim_counters(&before);
    plant(src, 1);
    plant(dst, 2);
    plant(other, 3);
    OK(aclrtSetMemcpyDesc(desc, KIND, src, dst, N, NULL));
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsyncWithDesc(desc, KIND, s));
    CHECK(device_holds(dst, N, 2));
    OK(aclrtSetMemcpyDesc(desc, KIND, src, other, N - 5, NULL));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dst, N, 2));
    CHECK(device_holds(other, N - 5, 1));
    CHECK(!device_holds(other, N, 1));
    aclsim_counters(&after);
    CHECK_EQ(after.copies[ACLSIM_D2D] - before.copies[ACLSIM_D2D], 1);
    CHECK_EQ(after.bytes[ACLSIM_D2D] - before.bytes[ACLSIM_D2D], N - 5);
    OK(aclrtFree(other));
    OK(aclrtMemcpyAsyncWithDesc(desc, KIND, s)); /* its destination is gone */
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
}

static void check_desc_garbage(void)
{
    OK(aclrtMemset(desc, 64, 0xFF, 64));
    OK(aclrtMemcpyAsyncWithDesc(desc, KIND, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtMemset(desc, 64, 0, 64));
    OK(aclrtMemcpyAsyncWithDesc(desc, KIND, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
}

/* The addresses are in device memory, and the offsets are added to them. */
static void check_offset(void)
{
    char *slots = device_alloc(64), *values[2] = {dst, src};
    void **to = (void **)slots;
    const void **from = (const void **)(slots + sizeof(void *));

    OK(aclsim_poke(slots, values, sizeof(values)));
    plant(src, 5);
    plant(dst, 6);
    OK(aclrtMemcpyAsyncWithOffset(NULL, 0, 0, NULL, 0, 0, KIND, s));
    CHECK_EQ(aclrtMemcpyAsyncWithOffset(NULL, 8, 0, from, 8, 0, KIND, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpyAsyncWithOffset(to, 8, 0, from, 9, 0, KIND, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpyAsyncWithOffset(to, 8, 0, from, 8, 0, ACL_MEMCPY_DEFAULT, s),
             ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtMemcpyAsyncWithOffset(to, N, 0, from, 1000, 0, KIND, s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dst, 1000, 5));
    CHECK(!device_holds(dst, 1001, 5));
    OK(aclrtMemcpyAsyncWithOffset(to, N, 1000, from, N - 1000, 1000, KIND, s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dst, N, 5));
    OK(aclrtMemcpyAsyncWithOffset(to, N, 1000, from, N, 1000, KIND, s)); /* past the end of both */
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtMemcpyAsyncWithOffset((void **)dst, N, 0, from, 8, 0, KIND, s)); /* no address in there */
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtFree(slots));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    src = device_alloc(N);
    dst = device_alloc(N);
    desc = device_alloc(64);
    check_desc_arguments();
    check_desc();
    check_desc_garbage();
    check_offset();
    return 0;
}
