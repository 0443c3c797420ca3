/* sim_init.c - initialisation counts, devices, contexts, error texts and last errors, call counts. */
#include "tests/sim_util.h"

#include <unistd.h>

static void check_finalize_before_init(void)
{
    uint64_t left = 99;

    CHECK_EQ(aclFinalizeReference(&left), ACL_ERROR_REPEAT_FINALIZE);
    CHECK_EQ(left, 0);
    OK(aclFinalize());
    CHECK_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

static void check_init_counts(void)
{
    uint64_t left = 99;

    OK(aclInit(NULL));
    CHECK_EQ(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_EQ(aclInit(""), ACL_ERROR_REPEAT_INITIALIZE);
    OK(aclFinalizeReference(&left));
    CHECK_EQ(left, 2);
    OK(aclFinalizeReference(&left));
    CHECK_EQ(left, 1);
    OK(aclFinalizeReference(&left));
    CHECK_EQ(left, 0);
    CHECK_EQ(aclFinalizeReference(&left), ACL_ERROR_REPEAT_FINALIZE);
    OK(aclInit(NULL));
    CHECK_EQ(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    OK(aclFinalize()); /* whatever the count is */
    CHECK_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

static void check_init_file(void)
{
    char path[] = "npux_sim_init_XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "{\"a\": 1}\n", 9), 9);
    CHECK_EQ(aclInit("no/such/file"), ACL_ERROR_INVALID_FILE);
    OK(ftruncate(fd, 4));
    CHECK_EQ(aclInit(path), ACL_ERROR_PARSE_FILE);
    CHECK_EQ(pwrite(fd, "{\"a\": 1}\n", 9, 0), 9);
    OK(aclInit(path));
    CHECK_EQ(aclInit(path), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_EQ(aclInit("no/such/file"), ACL_ERROR_REPEAT_INITIALIZE); /* not looked at while initialised */
    OK(aclFinalize());
    CHECK_EQ(aclInit(NULL), ACL_ERROR_INVALID_PARAM); /* from now on it has to be the first file */
    CHECK(message_has("differs from that of the first"));
    OK(aclInit(path));
    OK(aclFinalize());
    close(fd);
    unlink(path);
}

static void check_versions(void)
{
    int32_t major, minor, patch;
    char package[] = "runtime", version[64];

    OK(aclrtGetVersion(&major, &minor, &patch));
    CHECK_EQ(major, 1);
    CHECK_EQ(minor, 17);
    OK(aclsysGetVersionStr(package, version));
    CHECK(strcmp(version, "9.1.0") == 0);
    CHECK(strcmp(aclrtGetSocName(), "Ascend910B3") == 0);
    CHECK_EQ(aclsim_abi(), ACLSIM_ABI);
}

static void *without_context(void *arg)
{
    int32_t device;
    void *ptr;
    aclrtContext ctx;
    aclrtStream s;
    aclrtEvent e;
    aclrtStreamStatus status;
    char a[8], b[8];

    CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(message_has("EE1018"));
    CHECK(message_has("(EE1018)")); /* no context: reading adds a text of its own */
    CHECK_EQ(aclrtGetCurrentContext(&ctx), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtMalloc(&ptr, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtMallocHost(&ptr, 64), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtCreateStream(&s), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtMemcpy(a, 8, b, 8, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtMemcpyAsync(a, 8, b, 8, ACL_MEMCPY_DEFAULT, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtStreamQuery(NULL, &status), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetCurrentContext(arg));
    OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    return NULL;
}

static void *same_device(void *arg)
{
    aclrtContext ctx;

    OK(aclrtSetDevice(1));
    OK(aclrtGetCurrentContext(&ctx));
    CHECK(ctx == arg);
    OK(aclrtResetDevice(1));
    OK(aclrtGetCurrentContext(&ctx)); /* the main thread still has the device set */
    return NULL;
}

static void check_devices(void)
{
    uint32_t count;
    int32_t device;
    aclrtContext primary, other, current;
    aclrtStream s;
    aclrtRunMode mode;
    aclrtDeviceStatus status;

    OK(aclsim_set_device_count(2));
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 2);
    OK(aclrtGetRunMode(&mode));
    CHECK_EQ(mode, ACL_HOST);
    CHECK_EQ(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtQueryDeviceStatus(2, &status), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtQueryDeviceStatus(1, &status));
    CHECK_EQ(status, ACL_RT_DEVICE_STATUS_NORMAL);
    CHECK_EQ(aclrtResetDevice(1), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
    OK(aclrtSetDevice(1));
    CHECK_EQ(aclsim_set_device_count(3), -1);
    OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    OK(aclrtGetCurrentContext(&primary));
    in_thread(same_device, primary);
    in_thread(without_context, primary);
    CHECK_EQ(aclrtDestroyContext(primary), ACL_ERROR_RT_PARAM_INVALID);

    OK(aclrtCreateContext(&other, 0));
    OK(aclrtGetCurrentContext(&current));
    CHECK(current == other);
    s = stream_new();
    OK(aclrtSetCurrentContext(primary));
    OK(aclrtDestroyContext(other));
    CHECK_EQ(aclrtSetCurrentContext(other), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(message_has("(EE1017)"));

    s = stream_new();
    OK(aclrtResetDevice(1));
    CHECK_EQ(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtSetDevice(1));
    OK(aclrtSetDevice(1));
    OK(aclrtDestroyStream(stream_new()));
    OK(aclrtResetDeviceForce(1));
    CHECK_EQ(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclsim_set_device_count(1));
}

static void *sees_no_text(void *arg)
{
    (void)arg;
    OK(aclrtSetDevice(0));
    CHECK(aclGetRecentErrMsg() == NULL);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    OK(aclrtResetDevice(0));
    return NULL;
}

static void check_texts(void)
{
    char a[8], b[8], start[32];
    const char *text;
    int year, month, day, hour, minute, second, ms, us, used = 0;

    OK(aclrtSetDevice(0));
    (void)aclGetRecentErrMsg();
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    CHECK(aclGetRecentErrMsg() == NULL);
    CHECK_EQ(aclrtMemcpy(a, 4, b, 8, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    in_thread(sees_no_text, NULL);
    text = aclGetRecentErrMsg();
    CHECK(text != NULL);
    snprintf(start, sizeof(start), "[PID: %d] ", (int)getpid());
    CHECK(strncmp(text, start, strlen(start)) == 0);
    CHECK_EQ(sscanf(text + strlen(start), "%4d-%2d-%2d-%2d:%2d:%2d.%3d.%3d %n", &year, &month, &day, &hour,
                    &minute, &second, &ms, &us, &used),
             8);
    CHECK(used > 0 && strstr(text, "(EE1003): ") != NULL &&
          strstr(text, "TraceBack (most recent call last):\n\t"));
    CHECK(aclGetRecentErrMsg() == NULL);

    CHECK_EQ(aclrtMemcpy(NULL, 8, b, 8, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has("(EH0008)"));
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_PARAM_INVALID); /* not the 100000 */
    OK(aclrtMemcpy(a, 8, b, 8, ACL_MEMCPY_HOST_TO_HOST));
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    OK(aclrtResetDevice(0));
}

static void *counts_elsewhere(void *arg)
{
    uint32_t count;

    for (int i = 0; i < 7; i++)
        OK(aclrtGetDeviceCount(&count));
    *(uint64_t *)arg = (uint64_t)gettid();
    return NULL;
}

static void check_counts(void)
{
    uint32_t count;
    uint64_t other = 0;

    aclsim_reset_counters();
    CHECK_EQ(aclsim_call_count("aclrtGetDeviceCount", 0), 0);
    OK(aclrtGetDeviceCount(&count));
    OK(aclrtGetDeviceCount(&count));
    in_thread(counts_elsewhere, &other);
    CHECK_EQ(aclsim_call_count("aclrtGetDeviceCount", 0), 9);
    CHECK_EQ(aclsim_call_count("aclrtGetDeviceCount", other), 7);
    CHECK_EQ(aclsim_call_count("aclrtGetDeviceCount", (uint64_t)gettid()), 2);
    CHECK_EQ(aclsim_call_count("aclrtSetDevice", 0), 0);
    CHECK_EQ(aclsim_call_count("aclrtNoSuchCall", 0), -1);
}

int main(void)
{
    check_finalize_before_init();
    check_init_counts();
    check_init_file();
    check_versions();
    check_devices();
    check_texts();
    check_counts();
    return 0;
}
