/* sim_register.c - host memory of the program that is registered with the runtime. */
#include "tests/sim_util.h"

enum { PAGE = 4096, N = 4 * PAGE };

static char *dev;
static aclrtStream s;

static char *pages(void)
{
    return aligned_alloc(PAGE, N);
}

static int location(const void *ptr)
{
    aclrtPtrAttributes a;

    OK(aclrtPointerGetAttributes(ptr, &a));
    return (int)a.location.type;
}

static void check_arguments(void)
{
    char *heap = pages(), *pin = pinned_alloc(N);
    void *mapped;

    CHECK_EQ(aclrtHostRegisterV2(NULL, N, ACL_HOST_REG_PINNED), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtHostRegisterV2(heap, 0, ACL_HOST_REG_PINNED), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtHostRegisterV2(heap, N, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtHostRegisterV2(heap, N, 0x1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_IOMEMORY), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtHostRegisterV2(heap + 64, PAGE, ACL_HOST_REG_PINNED), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtHostRegisterV2(pin, N, ACL_HOST_REG_PINNED), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtHostRegisterV2(dev, N, ACL_HOST_REG_PINNED), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtHostRegister(heap, N, ACL_HOST_REGISTER_MAPPED, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtHostRegister(heap, N, ACL_HOST_REGISTER_READONLY, &mapped),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtHostUnregister(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtHostUnregister(heap), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_PINNED));
    CHECK_EQ(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_PINNED), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_EQ(aclrtHostRegisterV2(heap + PAGE, PAGE, ACL_HOST_REG_MAPPED),
             ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_EQ(aclrtHostUnregister(heap + PAGE), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(aclrtHostUnregister(heap));
    CHECK_EQ(aclrtHostUnregister(heap), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(aclrtFreeHost(pin));
    free(heap);
}

/* A pinned range behaves like memory of aclrtMallocHost: queued, read when the copy executes. */
static void check_pinned(void)
{
    struct aclsim_counters before, after;
    char *heap = pages();

    aclsim_counters(&before);
    OK(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_PINNED));
    CHECK_EQ(location(heap), ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_EQ(location(heap + N - 1), ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_EQ(location(heap + N), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    CHECK_EQ(aclrtFreeHost(heap), ACL_ERROR_RT_PARAM_INVALID); /* not the runtime's to free */
    fill(heap, N, 1);
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, heap, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    fill(heap, N, 2);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 2));
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies, before.pageable_copies);
    CHECK_EQ(after.live_pinned_blocks, before.live_pinned_blocks);
    OK(aclrtHostUnregister(heap));
    CHECK_EQ(location(heap), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    OK(aclrtMemcpyAsync(heap, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
    CHECK(holds(heap, N, 2));
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies, before.pageable_copies + 1);
    free(heap);
}

/* A mapped range has an address on the device that copies refuse. */
static void check_mapped(void)
{
    char *heap = pages(), *pin = pinned_alloc(N), *view = NULL, *again = NULL;

    OK(aclrtHostRegisterV2(pin, N, ACL_HOST_REG_MAPPED)); /* pinned memory may be mapped */
    OK(aclrtHostGetDevicePointer(pin, (void **)&view, 0));
    OK(aclrtHostGetDevicePointer(pin + 100, (void **)&again, 0));
    CHECK(again == view + 100);
    CHECK_EQ(aclrtHostGetDevicePointer(pin, (void **)&again, 1), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtHostGetDevicePointer(heap, (void **)&again, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpyAsync(dev, N, view, N, ACL_MEMCPY_DEFAULT, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpy(view, N, pin, N, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtHostUnregister(pin));
    CHECK_EQ(aclrtHostGetDevicePointer(pin, (void **)&again, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(location(pin), ACL_MEM_LOCATION_TYPE_HOST);
    OK(aclrtFreeHost(pin));

    OK(aclrtHostRegister(heap, N, ACL_HOST_REGISTER_MAPPED, (void **)&view));
    OK(aclrtHostRegister(heap, N, ACL_HOST_REGISTER_MAPPED, (void **)&again)); /* no error in this version */
    CHECK(view == again);
    CHECK_EQ(location(heap), ACL_MEM_LOCATION_TYPE_HOST);
    OK(aclrtHostUnregister(heap));
    free(heap);
}

/* Unregistered under a queued copy: the copy fails, the stream goes on. */
static void check_unregister_under_copy(void)
{
    char *heap = pages();

    OK(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_PINNED));
    OK(aclrtMemset(dev, N, 7, N));
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, heap, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtHostUnregister(heap));
    free(heap);
    OK(aclsim_release_stream(s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSynchronizeStream(s));
    heap = malloc(N);
    OK(aclrtMemcpy(heap, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(holds_byte(heap, N, 7));
    free(heap);
}

/* Registering and unregistering while copies run: one that runs ends before the call returns. */
static void check_busy(void)
{
    enum { ROUNDS = 200 };
    char *heap = pages();

    for (int i = 0; i < ROUNDS; i++) {
        aclError code;

        OK(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_PINNED));
        for (int k = 0; k < 8; k++)
            OK(aclrtMemcpyAsync(heap, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
        OK(aclrtHostUnregister(heap));
        memset(heap, 3, N);
        code = aclrtSynchronizeStream(s);
        CHECK(code == 0 || code == ACL_ERROR_RT_TS_ERROR);
        CHECK(holds_byte(heap, N, 3));
    }
    free(heap);
}

static void *without_context(void *heap)
{
    CHECK_EQ(aclrtHostRegisterV2(heap, N, ACL_HOST_REG_PINNED), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtHostUnregister(heap), ACL_ERROR_RT_CONTEXT_NULL);
    return NULL;
}

int main(void)
{
    char *heap = pages();

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    dev = device_alloc(N);
    s = stream_new();
    check_arguments();
    check_pinned();
    check_mapped();
    check_unregister_under_copy();
    check_busy();
    in_thread(without_context, heap);
    free(heap);
    return 0;
}
