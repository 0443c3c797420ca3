/* sim_profile.c - which chips, forms and releases there are, and what a release lacks. */
#include "tests/sim_util.h"

#include <unistd.h>

#include "acl/loader.h"

static int named(const char *text, const char *name)
{
    char now[32];

    if (aclsim_set_profile(text) != 0)
        return 0;
    OK(aclsim_get_profile(now, sizeof(now)));
    if (strcmp(now, name) != 0)
        fprintf(stderr, "%s became %s\n", text, now);
    return strcmp(now, name) == 0;
}

static void spellings_mean_the_same(void)
{
    CHECK(named("a2", "a2-ep-9.1"));
    CHECK(named("910B", "a2-ep-9.1"));
    CHECK(named("310p-rc-8.0", "310p-rc-8.0"));
    CHECK(named("8.3,a3", "a3-ep-8.3"));
    CHECK(named("rc 310b 9.0", "310b-rc-9.0"));
    CHECK(named("classic", "a2-ep-8.0"));
    CHECK(named("950", "950-ep-9.1"));
    CHECK(named("910-8.5", "910-ep-8.5"));
}

static void bad_names_change_nothing(void)
{
    static const char *const bad[] = {"",        "a4",          "a2-a3",    "a2-ep-ep", "9.1-8.0",
                                      "7.0",     "a2--x",       "a2-rc",    "950-rc",   "910-rc",
                                      "950-8.3", "classic-950", "a2 ep 91", "a2_ep_9.1"};
    char now[32];

    OK(aclsim_set_profile("310b"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (aclsim_set_profile(bad[i]) != -1) {
            fprintf(stderr, "%s was accepted\n", bad[i]);
            exit(1);
        }
    CHECK_EQ(aclsim_set_profile(NULL), -1);
    OK(aclsim_get_profile(now, sizeof(now)));
    CHECK(strcmp(now, "310b-ep-9.1") == 0);
    CHECK_EQ(aclsim_get_profile(now, 4), -1);
}

static void no_change_while_in_use(void)
{
    aclrtContext ctx;

    OK(aclsim_set_profile("a2"));
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclsim_set_profile("a3"), -1);
    OK(aclrtResetDevice(0));
    OK(aclrtCreateContext(&ctx, 0));
    CHECK_EQ(aclsim_set_profile("a3"), -1);
    OK(aclrtDestroyContext(ctx));
    OK(aclInit(NULL));
    CHECK_EQ(aclsim_set_profile("a3"), -1);
    OK(aclFinalize());
    OK(aclsim_set_profile("a3"));
}

static void a_release_lacks_what_came_later(void)
{
    static const struct {
        const char *name, *last_without; /* NULL: all have it */
    } cases[] = {{"aclrtMalloc", NULL},         {"aclrtCreateEventExWithFlag", NULL},
                 {"aclrtGetMemUceInfo", NULL},  {"aclrtMemcpyBatch", "8.0"},
                 {"aclrtStreamAbort", "8.3"},   {"aclrtMemGetAddressRange", "8.5"},
                 {"aclrtMemcpyBatchV2", "9.0"}, {"aclrtDeviceGetLimit", "9.0"}};
    static const char *const releases[] = {"8.0", "8.3", "8.5", "9.0", "9.1"};

    for (size_t r = 0; r < sizeof(releases) / sizeof(releases[0]); r++) {
        OK(aclsim_set_profile(releases[r]));
        CHECK_EQ(aclsim_has_function("aclrtNoSuchCall"), -1);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            int has = cases[i].last_without == NULL || strcmp(releases[r], cases[i].last_without) > 0;

            if (aclsim_has_function(cases[i].name) != has) {
                fprintf(stderr, "%s in %s: expected %d\n", cases[i].name, releases[r], has);
                exit(1);
            }
        }
    }
}

static void a_lacking_function_touches_nothing(void)
{
    uint64_t refs = 77;
    size_t value = 77;

    OK(aclsim_set_profile("a2-8.3"));
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclFinalizeReference(&refs), ACL_ERROR_API_NOT_SUPPORT);
    CHECK(message_has("aclFinalizeReference first comes with CANN 8.5.0"));
    CHECK_EQ(refs, 77);
    CHECK_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value), ACL_ERROR_API_NOT_SUPPORT);
    CHECK(message_has("(profile a2-ep-8.3)"));
    CHECK_EQ(value, 77);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0); /* not the runtime's error */
    OK(aclrtResetDevice(0));
    OK(aclsim_set_profile("a2-9.1"));
    OK(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value));
    CHECK_EQ(value, 32768);
}

static void the_loader_leaves_the_slots_empty(void)
{
    struct npux_acl_lib lib;
    struct npux_err err = {0};

    OK(aclsim_set_profile("a2-8.3"));
    OK(npux_acl_load(&lib, getenv("NPUX_SIM_PATH"), &err));
    CHECK(lib.fn.aclrtMalloc == aclrtMalloc);
    CHECK(lib.fn.aclrtPeekAtLastError == aclrtPeekAtLastError);
    CHECK(lib.fn.aclrtGetDeviceInfo == NULL);
    CHECK(lib.fn.aclrtDeviceGetLimit == NULL);
    npux_acl_unload(&lib);
    OK(aclsim_set_profile("a2-9.1"));
    OK(npux_acl_load(&lib, getenv("NPUX_SIM_PATH"), &err));
    CHECK(lib.fn.aclrtGetDeviceInfo != NULL);
    CHECK(lib.fn.aclrtDeviceGetLimit != NULL);
    npux_acl_unload(&lib);
}

static void versions_follow_the_profile(void)
{
    int32_t major, minor, patch, number;
    char version[128], runtime[] = "runtime", odd[] = "bisheng_compiler", none[] = "compiler",
                       driver[] = "driver";

    OK(aclsim_set_profile("310p-9.0"));
    CHECK(strcmp(aclrtGetSocName(), "Ascend310P3") == 0);
    OK(aclrtGetVersion(&major, &minor, &patch));
    CHECK_EQ(major, 1);
    CHECK_EQ(minor, 15);
    CHECK_EQ(patch, 0);
    OK(aclsysGetVersionStr(runtime, version));
    CHECK(strcmp(version, "9.0.0") == 0);
    OK(aclsysGetVersionNum(odd, &number));
    CHECK_EQ(number, 90000000);
    OK(aclsim_set_profile("8.5"));
    OK(aclsysGetVersionNum(runtime, &number));
    CHECK_EQ(number, 80500000);
    OK(aclsysGetVersionStr(driver, version));
    CHECK(strcmp(version, "8.5.0") != 0);
    CHECK_EQ(aclsysGetVersionStr(none, version), ACL_ERROR_INVALID_FILE);
    CHECK_EQ(aclsysGetVersionNum(none, &number), ACL_ERROR_INVALID_FILE);
    CHECK_EQ(aclsysGetVersionNum(NULL, &number), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclsysGetVersionStr(runtime, NULL), ACL_ERROR_INVALID_PARAM);
}

static void limits_follow_the_chip(void)
{
    aclrtStream streams[513];
    aclrtRunMode mode;
    aclError code = 0;
    int n = 0;

    OK(aclsim_set_profile("310b-rc"));
    OK(aclrtGetRunMode(&mode));
    CHECK_EQ(mode, ACL_DEVICE);
    OK(aclrtSetDevice(0));
    while (n < 513 && (code = aclrtCreateStream(&streams[n])) == 0)
        n++;
    CHECK_EQ(code, ACL_ERROR_RT_NO_STREAM_RESOURCE);
    CHECK(n >= 510 && n <= 512); /* 512, less those that the contexts have */
    while (n > 0)
        OK(aclrtDestroyStream(streams[--n]));
    OK(aclrtResetDevice(0));
    OK(aclsim_set_profile("310b"));
    OK(aclrtGetRunMode(&mode));
    CHECK_EQ(mode, ACL_HOST);
}

int main(void)
{
    spellings_mean_the_same();
    bad_names_change_nothing();
    no_change_while_in_use();
    a_release_lacks_what_came_later();
    a_lacking_function_touches_nothing();
    the_loader_leaves_the_slots_empty();
    versions_follow_the_profile();
    limits_follow_the_chip();
    return 0;
}
