/* sim_config.c - the file that aclInit reads, and the variables that only CANN or the profile defines. */
#include "tests/sim_util.h"

#include <sys/wait.h>
#include <unistd.h>

static char path[] = "npux_sim_config_XXXXXX";

static void put(const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    OK(fclose(file));
}

/* Each case in a child, because a file that was accepted has to stay the same and the environment is read
 * once. */
static void in_child(void (*body)(const void *), const void *arg)
{
    int status;
    pid_t child;

    fflush(stderr);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        body(arg);
        exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

struct file_case {
    const char *text;
    aclError code;
    const char *part; /* of the message */
};

static void read_file(const void *arg)
{
    const struct file_case *c = arg;
    aclError code;

    put(c->text);
    code = aclInit(path);
    if (code != c->code || (c->part != NULL && !message_has(c->part))) {
        fprintf(stderr, "%s: code %d, %s\n", c->text, code, aclGetRecentErrMsg());
        exit(1);
    }
}

#define TEN_OPEN "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
#define DEEP_LIST "[[[[[[[[[["

static void files_are_checked(void)
{
    static const struct file_case cases[] = {
        {"", 0, NULL},
        {"{}", 0, NULL},
        {" \t\n{ \"dump\": {\"dump_list\": [ ], \"x\": [1, -2.5e+3, true, null]} }\r\n", 0, NULL},
        {"{\"err_msg_mode\": \"0\"}", 0, NULL},
        {"{\"text\": \"\\u00e9\\ud83d\\ude00 \303\251 \\\"\\\\\\/\\b\\f\\n\\r\\t\"}", 0, NULL},
        {TEN_OPEN "{}}}}}}}}}}", 0, NULL},
        {TEN_OPEN "{\"a\":{}}}}}}}}}}}}", ACL_ERROR_PARSE_FILE, "more than 10 levels"},
        {DEEP_LIST "]]]]]]]]]]", 0, NULL},
        {DEEP_LIST "[]]]]]]]]]]]", ACL_ERROR_PARSE_FILE, "more than 10 levels"},
        {"{", ACL_ERROR_PARSE_FILE, "a name in quotes is missing at byte 1"},
        {"{\"a\"}", ACL_ERROR_PARSE_FILE, "a colon is missing at byte 4"},
        {"{\"a\":}", ACL_ERROR_PARSE_FILE, "a value is missing at byte 5"},
        {"{\"a\":1,}", ACL_ERROR_PARSE_FILE, "a name in quotes"},
        {"{\"a\":1}}", ACL_ERROR_PARSE_FILE, "something follows"},
        {"{'a':1}", ACL_ERROR_PARSE_FILE, NULL},
        {"{\"a\":01}", ACL_ERROR_PARSE_FILE, NULL},
        {"{\"a\":1.}", ACL_ERROR_PARSE_FILE, NULL},
        {"{\"a\":-}", ACL_ERROR_PARSE_FILE, NULL},
        {"{\"a\":nul}", ACL_ERROR_PARSE_FILE, NULL},
        {"[1 2]", ACL_ERROR_PARSE_FILE, NULL},
        {"{\"a\":\"x", ACL_ERROR_PARSE_FILE, "a string without end"},
        {"{\"a\":\"x\\", ACL_ERROR_PARSE_FILE, "a string without end"},
        {"{\"a\":\"\\q\"}", ACL_ERROR_PARSE_FILE, "an unknown escape"},
        {"{\"a\":\"\\u12\"}", ACL_ERROR_PARSE_FILE, NULL},
        {"{\"a\":\"\\ud800\"}", ACL_ERROR_PARSE_FILE, "surrogate"},
        {"{\"a\":\"\n\"}", ACL_ERROR_PARSE_FILE, "a control character"},
        {"{\"err_msg_mode\": 1}", ACL_ERROR_INVALID_PARAM, "err_msg_mode"},
        {"{\"err_msg_mode\": \"2\"}", ACL_ERROR_INVALID_PARAM, "err_msg_mode"},
        {"{\"StackSize\": {\"aicore_stack_size\": \"1\"}}", ACL_ERROR_FAILURE,
         "aicore_stack_size is not valid"},
        {"{\"StackSize\": {\"simt_stack_size\": 1}}", 0, NULL}, /* not on this chip */
        {"{\"simd_printf_fifo_size_per_core\": 1}", ACL_ERROR_RT_PARAM_INVALID, "cannot be 1"},
        {"{\"defaultDevice\": {\"default_device\": 0}}", ACL_ERROR_FAILURE, "as a text"},
        {"{\"defaultDevice\": {\"default_device\": \"00\"}}", ACL_ERROR_FAILURE, "as a text"},
        {"{\"defaultDevice\": {\"default_device\": \"1\"}}", ACL_ERROR_RT_INVALID_DEVICEID, "device 1"},
        {"{\"aclsim\": 1}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim is no object"},
        {"{\"aclsim\": {\"speed\": 1}}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim.speed is unknown"},
        {"{\"aclsim\": {\"devices\": 0}}", ACL_ERROR_FILE_ATTR_INVALID,
         "accepted: a whole number from 1 to 64"},
        {"{\"aclsim\": {\"devices\": 1.5}}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim.devices=1.5"},
        {"{\"aclsim\": {\"devices\": [2]}}", ACL_ERROR_FILE_ATTR_INVALID, "a text or a number"},
        {"{\"aclsim\": {\"devices\": true}}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim.devices=true"},
        {"{\"aclsim\": {\"device_memory\": \"1GB\"}}", ACL_ERROR_FILE_ATTR_INVALID, "KiB"},
        {"{\"aclsim\": {\"link\": \"h2d=fast\"}}", ACL_ERROR_FILE_ATTR_INVALID, "bytes per second"},
        {"{\"aclsim\": {\"profile\": \"950-8.0\"}}", ACL_ERROR_FILE_ATTR_INVALID,
         "the 950 came with CANN 8.5"},
        {"{\"aclsim\": {\"seed\": -1}}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim.seed=-1"},
        {"{\"aclsim\": {\"mode\": \"sideways\"}}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim.mode=sideways"},
        {"{\"aclsim\": {\"faults\": \"sideways\"}}", ACL_ERROR_FILE_ATTR_INVALID, "aclsim.faults=sideways"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        in_child(read_file, &cases[i]);
}

static void file_sets_everything(const void *arg)
{
    char now[32];
    uint32_t count;
    size_t free_bytes, total;
    struct aclsim_link link;

    (void)arg;
    put("{\"aclsim\": {\"devices\": 3, \"profile\": \"a3-9.0\", \"link\": \"chip,latency_us=5\","
        " \"device_memory\": \"64MiB\", \"devices\": \"2\"}, \"other\": [{}]}");
    OK(aclInit(path));
    OK(aclsim_get_profile(now, sizeof(now)));
    CHECK(strcmp(now, "a3-ep-9.0") == 0);
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 2); /* the last one counts */
    OK(aclrtSetDevice(1));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(total, 64 << 20);
    OK(aclsim_get_link(1, &link));
    CHECK_EQ(link.latency_ns, 5000);
    CHECK(link.h2d_bytes_per_s > 0 && link.d2d_bytes_per_s > link.h2d_bytes_per_s);
    CHECK_EQ(aclInit(path), ACL_ERROR_REPEAT_INITIALIZE);
}

static void refused_file_changes_nothing(const void *arg)
{
    char now[32];
    uint32_t count;

    (void)arg;
    put("{\"aclsim\": {\"devices\": 3, \"profile\": \"a3\", \"link\": \"no\"}}");
    CHECK_EQ(aclInit(path), ACL_ERROR_FILE_ATTR_INVALID);
    OK(aclsim_get_profile(now, sizeof(now)));
    CHECK(strcmp(now, "a2-ep-9.1") == 0);
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 1);
    OK(aclInit(NULL)); /* the refused one does not count as the first */
}

static void values_come_before_the_device(const void *arg)
{
    (void)arg;
    put("{\"aclsim\": {\"devices\": 3}}");
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclInit(path), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has("a device is set"));
    OK(aclrtResetDevice(0));
    OK(aclInit(path));
}

static void *needs_no_set_device(void *arg)
{
    int32_t device = 9;

    (void)arg;
    OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    OK(aclrtFreeHost(pinned_alloc(64)));
    OK(aclrtResetDevice(1));
    return NULL;
}

static void cann_keys_work(const void *arg)
{
    size_t nbytes = 0;
    int32_t device;

    (void)arg;
    put("{\"aclsim\": {\"devices\": 2}, \"defaultDevice\": {\"default_device\": \"1\"},"
        " \"StackSize\": {\"aicore_stack_size\": 65536}}");
    OK(aclInit(path));
    OK(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &nbytes));
    CHECK_EQ(nbytes, 65536);
    in_thread(needs_no_set_device, NULL);
    OK(aclrtSetDevice(0)); /* goes before the default */
    OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 0);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
}

static void *fails_elsewhere(void *arg)
{
    (void)arg;
    CHECK_EQ(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);
    return NULL;
}

static void texts_by_process(const void *arg)
{
    (void)arg;
    put("{\"err_msg_mode\": \"1\"}");
    OK(aclInit(path));
    OK(aclrtSetDevice(0));
    in_thread(fails_elsewhere, NULL);
    CHECK(message_has("device 77"));
    CHECK(aclGetRecentErrMsg() == NULL);
}

static void odd_files(const void *arg)
{
    (void)arg;
    CHECK_EQ(aclInit("."), ACL_ERROR_INVALID_FILE);
    CHECK(message_has("no regular file"));
    put("{}");
    OK(truncate(path, 10 * 1024 * 1024 + 1));
    CHECK_EQ(aclInit(path), ACL_ERROR_INVALID_FILE);
    CHECK(message_has("larger than 10 MiB"));
}

/* --- the environment --- */

struct visible_case {
    const char *list;
    uint32_t count; /* 0: none, and no device can be set */
    int32_t phys[3];
    const char *part;
};

static void see_devices(const void *arg)
{
    const struct visible_case *c = arg;
    uint32_t count = 99;
    int64_t phys;

    OK(setenv("ACLSIM_DEVICES", "5", 1));
    OK(setenv("ASCEND_RT_VISIBLE_DEVICES", c->list, 1));
    if (c->count == 0) {
        CHECK_EQ(aclrtGetDeviceCount(&count), ACL_ERROR_RT_NO_DEVICE);
        CHECK(message_has(c->part));
        CHECK_EQ(count, 99);
        CHECK_EQ(aclrtSetDevice(0), ACL_ERROR_RT_INVALID_DEVICEID);
        return;
    }
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, c->count);
    for (uint32_t d = 0; d < count && d < 3; d++) {
        OK(aclrtGetDeviceInfo(d, ACL_DEV_ATTR_PHY_CHIP_ID, &phys));
        CHECK_EQ(phys, c->phys[d]);
    }
    CHECK_EQ(aclrtSetDevice((int32_t)count), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtSetDevice((int32_t)count - 1));
}

static void visible_devices_are_renumbered(void)
{
    static const struct visible_case cases[] = {
        {"", 5, {0, 1, 2}, NULL},
        {"1,3", 2, {1, 3, 0}, NULL},
        {"4", 1, {4, 0, 0}, NULL},
        {"0,2,5,3", 2, {0, 2, 0}, NULL}, /* up to the first that is no device */
        {"1,x,2", 1, {1, 0, 0}, NULL},
        {"2,-1", 1, {2, 0, 0}, NULL},
        {"5", 0, {0, 0, 0}, "its first id is no device"},
        {"x", 0, {0, 0, 0}, "its first id is no device"},
        {"2,1", 0, {0, 0, 0}, "do not ascend"},
        {"1,1", 0, {0, 0, 0}, "an id is there twice"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        in_child(see_devices, &cases[i]);
}

static void profile_variable(const void *arg)
{
    char now[32];

    OK(setenv("ACLSIM_PROFILE", arg, 1));
    OK(setenv("ACLSIM_LINK", "chip", 1));
    CHECK_EQ(aclsim_has_function("aclrtStreamAbort"), 0);
    OK(aclInit(NULL));
    OK(aclsim_get_profile(now, sizeof(now)));
    CHECK(strcmp(now, arg) == 0);
}

static void bad_variable(const void *arg)
{
    const char *const *pair = arg;

    OK(setenv(pair[0], pair[1], 1));
    if (freopen("/dev/null", "w", stderr) == NULL)
        exit(1);
    CHECK_EQ(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has(pair[0]));
    CHECK(message_has("is not valid"));
}

static void chip_link_follows_the_profile(const void *arg)
{
    struct aclsim_link big, small;

    (void)arg;
    OK(setenv("ACLSIM_LINK", "chip", 1));
    OK(aclsim_get_link(0, &big));
    OK(aclsim_set_profile("310b"));
    OK(aclsim_get_link(0, &small));
    CHECK(small.h2d_bytes_per_s > 0 && small.h2d_bytes_per_s < big.h2d_bytes_per_s);
    small.h2d_bytes_per_s = 7000000;
    OK(aclsim_set_link(-1, &small));
    OK(aclsim_set_profile("a2"));
    OK(aclsim_get_link(0, &big));
    CHECK_EQ(big.h2d_bytes_per_s, 7000000); /* set by hand: no longer the chip's */
}

int main(void)
{
    static const char *const bad[][2] = {{"ACLSIM_PROFILE", "a9"},
                                         {"ACLSIM_MODE", "sideways"},
                                         {"ACLSIM_SEED", "x"},
                                         {"ACLSIM_GUARDS", "2"},
                                         {"ACLSIM_FAULTS", "sideways"}};
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    close(fd);
    files_are_checked();
    in_child(file_sets_everything, NULL);
    in_child(refused_file_changes_nothing, NULL);
    in_child(values_come_before_the_device, NULL);
    in_child(texts_by_process, NULL);
    in_child(odd_files, NULL);
    in_child(cann_keys_work, NULL);
    visible_devices_are_renumbered();
    in_child(profile_variable, "310p-rc-8.0");
    in_child(chip_link_follows_the_profile, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        in_child(bad_variable, bad[i]);
    unlink(path);
    return 0;
}
