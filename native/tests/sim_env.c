/* sim_env.c - the environment is read once, before anything else, and a bad value stops aclInit. */
#include "tests/sim_util.h"

#include <sys/wait.h>
#include <unistd.h>

/* In the child: the bad value fails every aclInit with the line, and the rest of the library has defaults. */
static void meet_bad_value(const char *name, const char *value, const char *line)
{
    struct aclsim_link link;
    uint32_t count = 0;

    OK(setenv(name, value, 1));
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 1);
    CHECK_EQ(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(message_has(line));
    CHECK_EQ(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclsim_get_link(0, &link));
    CHECK_EQ(link.h2d_bytes_per_s, 0);
    CHECK_EQ(link.move_bytes, 1);
}

/* A child process for each value, because the environment is read once. */
static void refused(const char *name, const char *value, const char *accepted)
{
    char line[1024], said[4096];
    size_t have = 0;
    ssize_t n;
    int ends[2], status;
    pid_t child;

    snprintf(line, sizeof(line), "aclsim: %s=%s is not valid; accepted: %s", name, value, accepted);
    OK(pipe(ends));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
        meet_bad_value(name, value, line);
        exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + have, sizeof(said) - 1 - have)) > 0)
        have += (size_t)n;
    said[have] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status != 0 || strncmp(said, line, strlen(line)) != 0 || strchr(said, '\n') != said + have - 1) {
        fprintf(stderr, "%s=%s: status %d, said: %s\n", name, value, status, said);
        exit(1);
    }
}

static void bad_values_are_refused(void)
{
    static const char *const counts[] = {
        "x", "0", "65", "99", "-1", " 2", "2x", "1KiB", "99999999999999999999"};
    static const char *const sizes[] = {"x", "0", "-1", "32GB", "1.5GiB", "1 GiB", "17179869184TiB"};
    static const char *const links[] = {
        "foo",      "h2d",       "h2d=",   "h2d=fast", "h2d=1e9x", "h2d=-1",           "h2d=nan",
        "h2d=1e99", "speed=1e9", "h2d=25", "move=2",   "=1",       "h2d=1e9,latency=8"};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        refused("ACLSIM_DEVICES", counts[i], "a whole number from 1 to 64");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        refused("ACLSIM_DEVICE_MEMORY", sizes[i], "bytes as a whole number above 0, or one with KiB");
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        refused("ACLSIM_LINK", links[i], "h2d, d2h and d2d in bytes per second");
    refused("ACLSIM_STRICT", "yes", "align");
}

int main(void)
{
    struct aclsim_link link;
    uint32_t count = 0;
    size_t free_bytes, total;

    OK(setenv("ACLSIM_DEVICES", "", 1));
    OK(setenv("ACLSIM_DEVICE_MEMORY", "", 1));
    bad_values_are_refused(); /* before the first call here */
    OK(setenv("ACLSIM_DEVICES", "3", 1));
    OK(setenv("ACLSIM_DEVICE_MEMORY", "65536KiB", 1));
    OK(setenv("ACLSIM_LINK", "h2d=25e9,d2h=24e9,d2d=1e12,latency_us=8,submit_us=1.9,move=0", 1));
    OK(aclInit(NULL));
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 3);
    OK(setenv("ACLSIM_DEVICES", "4", 1));
    OK(setenv("ACLSIM_LINK", "h2d=1", 1));
    OK(aclrtSetDevice(2));
    CHECK_EQ(aclrtSetDevice(3), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(total, 65536 * 1024);
    CHECK_EQ(free_bytes, total);
    OK(aclsim_get_link(2, &link));
    CHECK_EQ(link.h2d_bytes_per_s, 25000000000);
    CHECK_EQ(link.d2h_bytes_per_s, 24000000000);
    CHECK_EQ(link.d2d_bytes_per_s, 1000000000000);
    CHECK_EQ(link.latency_ns, 8000);
    CHECK_EQ(link.submit_ns, 1900);
    CHECK_EQ(link.move_bytes, 0);
    OK(aclrtResetDevice(2));
    OK(aclFinalize());
    return 0;
}
