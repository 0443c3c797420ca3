/* sim_peer_copy.c - copies between devices: access, splitting, the device that a stream belongs to. */
#include "tests/sim_util.h"

enum { N = 4096, MIB = 1 << 20 };

static char *here, *there, *host;
static aclrtStream s;

static void check_refused(void)
{
    struct aclsim_counters before, after;

    aclsim_counters(&before);
    fill(host, N, 1);
    OK(aclrtMemcpy(there, N, host, N, ACL_MEMCPY_DEFAULT)); /* host memory needs no access */
    OK(aclrtMemset(here, N, 7, N));
    OK(aclrtMemcpyAsync(here, N, there, N, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    CHECK_EQ(aclrtMemcpy(here, N, there, N, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    CHECK(message_has("aclrtDeviceEnablePeerAccess"));
    OK(aclsim_peek(here, host, N));
    CHECK(holds_byte(host, N, 7));
    aclsim_counters(&after);
    CHECK_EQ(after.copies[ACLSIM_D2D], before.copies[ACLSIM_D2D]);
    fill(host, N, 1);
}

static void check_allowed(void)
{
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemcpyAsync(here, N, there, N, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(here, N, 1));
    fill(host, N, 2);
    OK(aclrtMemcpy(here, N, host, N, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpy(there, N, here, N, ACL_MEMCPY_DEFAULT));
    CHECK(device_holds(there, N, 2));
}

/* Between devices one task carries 64 MiB, inside a device 4 GiB. */
static void check_chunks(void)
{
    const size_t nbytes = 65 * (size_t)MIB;
    char *from = device_alloc(nbytes), *to;
    uint32_t before, after;

    OK(aclrtSetDevice(1));
    to = device_alloc(nbytes);
    OK(aclrtSetDevice(0));
    OK(aclrtMemset(from, nbytes, 3, nbytes));
    OK(aclrtMemcpyAsync(here, N, here + N, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtGetThreadLastTaskId(&before));
    OK(aclrtMemcpyAsync(to, nbytes, from, nbytes, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtGetThreadLastTaskId(&after));
    CHECK_EQ((uint16_t)(after - before), 2);
    OK(aclrtSynchronizeStream(s));
    OK(aclsim_peek(to + nbytes - N, host, N));
    CHECK(holds_byte(host, N, 3));
    OK(aclrtFree(from));
    OK(aclrtFree(to));
}

static void check_foreign_stream(void)
{
    OK(aclrtSetDevice(1));
    CHECK_EQ(aclrtMemcpyAsync(here, N, there, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtSetDevice(0));
}

/* A batch names the device of each side. */
static void check_batch(void)
{
    void *dsts[] = {there}, *srcs[] = {host};
    size_t nbytes = N, index = 0, fail = 77;
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};

    CHECK_EQ(aclrtMemcpyBatch(dsts, &nbytes, srcs, &nbytes, 1, &attr, &index, 1, &fail),
             ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(fail, 0);
    attr.dstLoc.id = 1;
    OK(aclrtMemcpyBatch(dsts, &nbytes, srcs, &nbytes, 1, &attr, &index, 1, &fail));
}

int main(void)
{
    OK(setenv("ACLSIM_DEVICES", "2", 1));
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    there = device_alloc(N);
    OK(aclrtSetDevice(0));
    here = device_alloc(2 * N);
    host = malloc(N);
    s = stream_new();
    check_refused();
    check_allowed();
    check_chunks();
    check_foreign_stream();
    check_batch();
    free(host);
    return 0;
}
