/* sim_plog.c - log files: where they are, the line of each record, the levels. */
#include "tests/sim_util.h"

#include <dirent.h>
#include <regex.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_START                                                                                       \
    "\\([0-9]+,sim_plog\\):[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}\\.[0-9]{3} " \
    "\\[[a-z_]+\\.c:[0-9]+\\][0-9]+ "

static char folder[] = "sim_plog_XXXXXX";

static int matches(const char *text, const char *pattern)
{
    regex_t regex;
    int found;

    OK(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB));
    found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

/* The one file of a folder, and what is in it; both are removed. */
static void take(const char *part, char *text, size_t n)
{
    char path[256], file[768], name[300] = "";
    struct dirent *entry;
    size_t have;
    DIR *dir;
    FILE *in;

    snprintf(path, sizeof(path), "%s/%s/plog", folder, part);
    dir = opendir(path);
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.') {
            CHECK(name[0] == '\0');
            snprintf(name, sizeof(name), "%s", entry->d_name);
        }
    closedir(dir);
    CHECK(matches(name, "^plog-[0-9]+_[0-9]{17}\\.log$"));
    snprintf(file, sizeof(file), "%s/%s", path, name);
    in = fopen(file, "r");
    CHECK(in != NULL);
    have = fread(text, 1, n - 1, in);
    text[have] = '\0';
    fclose(in);
    OK(unlink(file));
    OK(rmdir(path));
    snprintf(path, sizeof(path), "%s/%s", folder, part);
    OK(rmdir(path));
}

static void fail_in_three_ways(void)
{
    OK(aclInit(NULL));
    CHECK_EQ(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);        /* by the runtime */
    CHECK_EQ(aclrtGetDevice(NULL), ACL_ERROR_INVALID_PARAM);            /* by the layer above */
    CHECK_EQ(aclrtGetDevice(&(int32_t){0}), ACL_ERROR_RT_CONTEXT_NULL); /* with a known inner code */
    OK(aclrtSetDevice(0));
    OK(aclrtResetDevice(0));
}

/* A process of its own, because the environment is read once. text: its standard output. */
static void run(void (*body)(void), char *text, size_t n)
{
    int ends[2], status;
    size_t have = 0;
    ssize_t got;
    pid_t child;

    OK(pipe(ends));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
        body();
        exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + have, n - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void check_files(void)
{
    char text[8192], screen[512];

    OK(setenv("ASCEND_PROCESS_LOG_PATH", folder, 1));
    run(fail_in_three_ways, screen, sizeof(screen));
    CHECK_EQ(screen[0], '\0');
    take("debug", text, sizeof(text));
    CHECK(matches(text, "^\\[ERROR\\] RUNTIME" LINE_START "rtSetDevice:ErrCode=107001, desc=\\[device 77, "));
    CHECK(matches(text,
                  "^\\[ERROR\\] ASCENDCL" LINE_START "aclrtSetDeviceImpl:failed, runtime result = 107001$"));
    CHECK(matches(text,
                  "^\\[ERROR\\] ASCENDCL" LINE_START "aclrtGetDeviceImpl:device is null, result = 100000$"));
    CHECK(matches(text, "rtGetDevice:ErrCode=107002, desc=\\[.*\\], InnerCode=0x7070001$"));
    CHECK(!matches(text, "^\\[(WARNING|INFO)"));
    take("run", text, sizeof(text));
    CHECK(matches(text, "^\\[INFO\\] RUNTIME" LINE_START "Start:simulated runtime, profile "));
}

static void fail_quietly(void)
{
    aclrtEvent e;
    aclrtEventStatus status;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    CHECK_EQ(aclrtQueryEvent(e, &status), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtDestroyEvent(e));
    OK(aclrtResetDevice(0));
}

static void check_levels(void)
{
    char text[8192], screen[8192];

    OK(setenv("ASCEND_GLOBAL_LOG_LEVEL", "2", 1));
    run(fail_quietly, screen, sizeof(screen));
    take("debug", text, sizeof(text));
    take("run", screen, sizeof(screen));
    CHECK(matches(text, "^\\[WARNING\\] RUNTIME" LINE_START "rtQueryEvent:ErrCode=207000"));
    OK(setenv("ASCEND_GLOBAL_LOG_LEVEL", "3", 1));
    run(fail_quietly, screen, sizeof(screen));
    CHECK(access(folder, F_OK) == 0 && rmdir(folder) == 0); /* empty: there was nothing to say */
    OK(setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1", 1));
    run(fail_in_three_ways, screen, sizeof(screen));
    CHECK(matches(screen, "^\\[ERROR\\] RUNTIME" LINE_START "rtSetDevice:ErrCode=107001"));
    CHECK(access(folder, F_OK) != 0);
    OK(setenv("ASCEND_GLOBAL_LOG_LEVEL", "4", 1));
    run(fail_in_three_ways, screen, sizeof(screen));
    CHECK_EQ(screen[0], '\0');
    OK(unsetenv("ASCEND_GLOBAL_LOG_LEVEL"));
    OK(unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT"));
    OK(unsetenv("ASCEND_PROCESS_LOG_PATH"));
    run(fail_in_three_ways, screen, sizeof(screen));
    CHECK_EQ(screen[0], '\0');
    CHECK(access(folder, F_OK) != 0);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    check_files();
    check_levels();
    return 0;
}
