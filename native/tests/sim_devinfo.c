/* sim_devinfo.c - what a program asks about devices, sets for them, and is told when they are set. */
#include "tests/sim_util.h"

static int64_t attr_of(aclrtDevAttr attr)
{
    int64_t value = -9;

    OK(aclrtGetDeviceInfo(0, attr, &value));
    return value;
}

static void attributes_follow_the_chip(void)
{
    int64_t value = -9;

    OK(aclsim_set_profile("a2"));
    CHECK_EQ(attr_of(ACL_DEV_ATTR_NPU_ARCH), 2201);
    CHECK_EQ(attr_of(ACL_DEV_ATTR_CUBE_CORE_NUM), 20);
    CHECK_EQ(attr_of(ACL_DEV_ATTR_VECTOR_CORE_NUM), 40);
    CHECK_EQ(attr_of(ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE), 1 << 30);
    CHECK_EQ(attr_of((aclrtDevAttr)202), 0);
    CHECK_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_HD_CONNECT_TYPE, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtGetDeviceInfo(4, ACL_DEV_ATTR_NPU_ARCH, &value), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtGetDeviceInfo(0, (aclrtDevAttr)103, &value), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(value, -9);
    OK(aclsim_set_profile("950"));
    CHECK_EQ(attr_of(ACL_DEV_ATTR_NPU_ARCH), 3510);
    CHECK_EQ(attr_of(ACL_DEV_ATTR_HD_CONNECT_TYPE), 2);
    CHECK_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUST_OP_PRIVILEGE, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static void capabilities_and_priorities(void)
{
    int32_t value = 9, least = 9, greatest = 9;

    OK(aclsim_set_profile("a2"));
    OK(aclrtGetDeviceCapability(3, ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, &value));
    CHECK(value == 0 || value == 1);
    CHECK_EQ(aclrtGetDeviceCapability(0, (aclrtDevFeatureType)99, &value), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtGetDeviceCapability(4, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &value),
             ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtGetDeviceCapability(0, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, NULL),
             ACL_ERROR_INVALID_PARAM);
    OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK_EQ(least, 7);
    CHECK_EQ(greatest, 0);
    OK(aclrtDeviceGetStreamPriorityRange(NULL, NULL));
}

static void devices_have_names(void)
{
    aclrtUuid a, b;
    char id[13], other[13];
    int32_t device = 9;

    OK(aclsim_set_profile("a2"));
    OK(aclrtDeviceGetUuid(0, &a));
    OK(aclrtDeviceGetUuid(1, &b));
    CHECK(memcmp(&a, &b, sizeof(a)) != 0);
    CHECK_EQ(aclrtDeviceGetUuid(4, &a), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtDeviceGetUuid(0, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtDeviceGetPCIBusId(0, id, 13));
    OK(aclrtDeviceGetPCIBusId(2, other, 13));
    CHECK_EQ(strlen(id), 12);
    CHECK(strcmp(id, other) != 0);
    OK(aclrtDeviceGetByPCIBusId(other, &device));
    CHECK_EQ(device, 2);
    CHECK_EQ(aclrtDeviceGetByPCIBusId("ffff:ff:ff.f", &device), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtDeviceGetPCIBusId(0, id, 12), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtDeviceGetPCIBusId(-1, id, 13), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclsim_set_profile("a3")); /* not on PCIe */
    CHECK_EQ(aclrtDeviceGetPCIBusId(0, id, 13), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtDeviceGetByPCIBusId(id, &device), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtDeviceGetUuid(0, &a));
    OK(aclsim_set_profile("310p"));
    CHECK_EQ(aclrtDeviceGetUuid(0, &a), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static void topology(void)
{
    uint64_t value = 0;

    OK(aclsim_set_profile("a3"));
    OK(aclrtGetDevicesTopo(0, 1, &value));
    CHECK_EQ(value, 0x20); /* two dies of one chip */
    OK(aclrtGetDevicesTopo(1, 2, &value));
    CHECK_EQ(value, 0x40);
    OK(aclrtGetDevicesTopo(1, 1, &value));
    CHECK_EQ(value, 1);
    CHECK_EQ(aclrtGetDevicesTopo(0, 4, &value), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtGetDevicesTopo(0, 1, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclsim_set_profile("310b-rc"));
    CHECK_EQ(aclrtGetDevicesTopo(0, 1, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static void utilization(void)
{
    aclrtUtilizationInfo info = {.cubeUtilization = 9};

    OK(aclsim_set_profile("a2"));
    OK(aclrtGetDeviceUtilizationRate(0, &info));
    CHECK_EQ(info.cubeUtilization, 0);
    CHECK_EQ(info.vectorUtilization, 0);
    CHECK_EQ(info.memoryUtilization, -1);
    OK(aclrtGetDeviceUtilizationRate(9, &info)); /* success, and nothing told */
    CHECK_EQ(info.cubeUtilization, -1);
    info.utilizationExtend = (aclrtUtilizationExtendInfo *)(void *)&info;
    CHECK_EQ(aclrtGetDeviceUtilizationRate(0, &info), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtGetDeviceUtilizationRate(0, NULL), ACL_ERROR_INVALID_PARAM);
}

static size_t limit_of(aclrtDeviceLimit limit)
{
    size_t value = 0;

    OK(aclrtDeviceGetLimit(limit, &value));
    return value;
}

static void limits(void)
{
    size_t value = 7;

    OK(aclsim_set_profile("a2"));
    CHECK_EQ(limit_of(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE), 32768);
    OK(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, 40000));
    CHECK_EQ(limit_of(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE), 49152); /* up to 16 KiB */
    OK(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, 5));
    CHECK_EQ(limit_of(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE), 32768);
    OK(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE, 1025));
    CHECK_EQ(limit_of(ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE), 1032);
    CHECK_EQ(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE, 8),
             ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE, 128), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtDeviceGetLimit((aclrtDeviceLimit)5, &value), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, (size_t)UINT32_MAX + 1),
             ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(value, 7);
    OK(aclsim_set_profile("950"));
    OK(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE, 256));
    CHECK_EQ(limit_of(ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE), 8192); /* for the 32 threads of a warp */
    OK(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE, 0));
    CHECK_EQ(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE, 0), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclsim_set_profile("910"));
    CHECK_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static void cores(void)
{
    uint32_t value = 0;

    OK(aclsim_set_profile("a2"));
    CHECK_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtGetDeviceResLimit(1, ACL_RT_DEV_RES_CUBE_CORE, &value) != 0); /* not set */
    OK(aclrtSetDevice(1));
    OK(aclrtSetDeviceResLimit(1, ACL_RT_DEV_RES_VECTOR_CORE, 1));
    OK(aclrtGetDeviceResLimit(1, ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 1);
    OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 1);
    OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
    CHECK_EQ(value, 20);
    CHECK_EQ(aclrtSetDeviceResLimit(1, ACL_RT_DEV_RES_CUBE_CORE, 21), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetDeviceResLimit(1, (aclrtDevResLimitType)2, 1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetDeviceResLimit(4, ACL_RT_DEV_RES_CUBE_CORE, 1), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtResetDeviceResLimit(1));
    OK(aclrtGetDeviceResLimit(1, ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 40);
    OK(aclrtResetDevice(1));
}

static void contexts(void)
{
    aclrtStream s = NULL, other = NULL;
    aclrtContext ctx;
    int32_t active = 9;
    uint32_t flags;

    OK(aclsim_set_profile("a2"));
    CHECK_EQ(aclrtCtxGetCurrentDefaultStream(&s), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtGetPrimaryCtxState(1, NULL, &active));
    CHECK_EQ(active, 0);
    OK(aclrtSetDevice(1));
    OK(aclrtGetPrimaryCtxState(1, NULL, &active));
    CHECK_EQ(active, 1);
    CHECK_EQ(aclrtGetPrimaryCtxState(1, &flags, &active), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtGetPrimaryCtxState(4, NULL, &active), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtCtxGetCurrentDefaultStream(&s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtCreateContext(&ctx, 1));
    OK(aclrtCtxGetCurrentDefaultStream(&other));
    CHECK(other != NULL && other != s);
    OK(aclrtDestroyContext(ctx));
    OK(aclrtResetDevice(1));
    OK(aclrtGetPrimaryCtxState(1, NULL, &active));
    CHECK_EQ(active, 0);
}

static void waiting_for_a_device(void)
{
    void *host, *device;

    OK(aclrtSetDevice(0));
    host = pinned_alloc(64);
    device = device_alloc(64);
    CHECK_EQ(aclrtSynchronizeDeviceWithTimeout(0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSynchronizeDeviceWithTimeout(-2), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclsim_hold_engine(0, ACLSIM_H2D));
    OK(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    CHECK_EQ(aclrtSynchronizeDeviceWithTimeout(5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(message_has("(EE1002)"));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    OK(aclrtSynchronizeDeviceWithTimeout(-1));
    OK(aclrtFree(device));
    OK(aclrtFreeHost(host));
    OK(aclrtResetDevice(0));
}

struct seen {
    char states[32];
    uint32_t n;
    int32_t device;
};

static void note(int32_t device, aclrtDeviceState state, void *args)
{
    struct seen *seen = args;
    uint32_t count;

    OK(aclrtGetDeviceCount(&count)); /* no lock is held */
    seen->device = device;
    seen->states[seen->n++] = (char)('0' + (int)state);
}

static void state_callbacks(void)
{
    struct seen seen = {.device = -1};

    OK(aclrtRegDeviceStateCallback("note", note, &seen));
    CHECK_EQ(aclrtRegDeviceStateCallback("note", note, &seen), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtRegDeviceStateCallback(NULL, note, &seen), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtRegDeviceStateCallback("", note, &seen), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSetDevice(2));
    CHECK_EQ(seen.device, 2);
    OK(aclrtResetDevice(2));
    OK(aclrtRegDeviceStateCallback("note", NULL, NULL));
    OK(aclrtSetDevice(2));
    OK(aclrtResetDeviceForce(2));
    CHECK(strcmp(seen.states, "0123") == 0);
}

static void healthy_devices(void)
{
    aclrtErrorInfo info;
    aclrtMemUceInfo uce[2] = {{.addr = NULL}};
    size_t n = 9;

    memset(&info, 0xff, sizeof(info));
    OK(aclrtGetErrorVerbose(0, &info));
    CHECK_EQ(info.errorType, ACL_RT_NO_ERROR);
    CHECK_EQ(info.tryRepair, 0);
    CHECK_EQ(info.hasDetail, 0);
    CHECK_EQ(aclrtRepairError(0, &info), ACL_ERROR_RT_PARAM_INVALID); /* nothing to repair */
    CHECK_EQ(aclrtGetErrorVerbose(4, &info), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtGetErrorVerbose(0, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtGetMemUceInfo(0, uce, 2, &n));
    CHECK_EQ(n, 0);
    OK(aclrtMemUceRepair(0, uce, 2));
    uce[1].reserved[3] = 1;
    CHECK_EQ(aclrtMemUceRepair(0, uce, 2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemUceRepair(0, uce, 129), ACL_ERROR_INVALID_PARAM);
    OK(aclrtSetDevice(0));
    info.tryRepair = 1;
    OK(aclrtRepairError(0, &info));
    info.errorType = ACL_RT_ERROR_LINK;
    CHECK_EQ(aclrtRepairError(0, &info), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtResetDevice(0));
    OK(aclsim_set_profile("310p"));
    CHECK_EQ(aclrtGetErrorVerbose(0, &info), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtGetMemUceInfo(0, uce, 2, &n), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclsim_set_profile("a2"));
}

/* One repair as the documents order it. Returns what a copy gives afterwards. */
static aclError after_repair(const char *profile, const char *rule, aclrtErrorType type, aclError repaired)
{
    aclrtErrorInfo info;
    void *dev, *pin;
    aclError code;

    OK(aclsim_set_profile(profile));
    OK(aclrtSetDevice(0));
    dev = device_alloc(64);
    pin = pinned_alloc(64);
    CHECK(aclsim_add_fault(rule) > 0);
    OK(aclrtMemcpyAsync(dev, 64, pin, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    CHECK(aclrtSynchronizeStream(NULL) != 0);
    OK(aclrtGetErrorVerbose(0, &info));
    CHECK_EQ(info.errorType, type);
    OK(aclrtDeviceTaskAbort(0, 0));
    CHECK_EQ(aclrtRepairError(0, &info), repaired);
    OK(aclrtMemcpyAsync(dev, 64, pin, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    code = aclrtSynchronizeStream(NULL);
    aclsim_clear_faults();
    OK(aclrtFreeHost(pin));
    OK(aclrtResetDeviceForce(0));
    OK(aclsim_set_profile("a2"));
    return code;
}

static void repairs(void)
{
    OK(after_repair("a2", "sick code=507054", ACL_RT_ERROR_MEMORY, 0));
    OK(after_repair("950", "sick code=507054", ACL_RT_ERROR_MEMORY, 0));
    OK(after_repair("950", "sick code=507056", ACL_RT_ERROR_LINK, 0));
    CHECK_EQ(after_repair("a2", "sick code=507056", ACL_RT_ERROR_OTHERS, ACL_ERROR_RT_PARAM_INVALID), 507056);
}

int main(void)
{
    OK(aclsim_set_device_count(4));
    attributes_follow_the_chip();
    capabilities_and_priorities();
    devices_have_names();
    topology();
    utilization();
    limits();
    cores();
    contexts();
    waiting_for_a_device();
    state_callbacks();
    healthy_devices();
    repairs();
    return 0;
}
