/* sim_report.c - the report: what it says, when it is written, and by which processes. */
#include "tests/sim_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4096 };

static char folder[] = "sim_report_XXXXXX";
static char path[64];

static char *text_of(const char *name)
{
    static char text[32768];
    FILE *in = fopen(name, "r");
    size_t n;

    if (in == NULL)
        return NULL;
    n = fread(text, 1, sizeof(text) - 1, in);
    text[n] = '\0';
    fclose(in);
    return text;
}

/* Without blanks and line ends, so that the layout is free. */
static int report_has(const char *name, const char *part)
{
    char *text = text_of(name), *to = text;

    CHECK(text != NULL);
    for (const char *from = text; *from != '\0'; from++)
        if (strchr(" \n", *from) == NULL)
            *to++ = *from;
    *to = '\0';
    if (strstr(text, part) != NULL)
        return 1;
    fprintf(stderr, "%s is not in\n%s\n", part, text);
    return 0;
}

static pid_t start(void (*body)(void))
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        body();
        exit(0);
    }
    return child;
}

static void finish(pid_t child)
{
    int status;

    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void copy_and_leave(void)
{
    aclrtStream s;
    void *dev, *pin;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(2 * N);
    CHECK(aclsim_add_fault("copy nth=2") > 0);
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtMemcpyAsync(pin, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtFree(dev));
    OK(aclrtDestroyStream(s));
    /* and leave the page-locked block and the device as they are */
}

static void check_contents(void)
{
    pid_t child = start(copy_and_leave);
    char pid[32];

    finish(child);
    snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)child);
    CHECK(report_has(path, "{\"simulator\":true,"));
    CHECK(report_has(path, pid));
    CHECK(report_has(path, "\"profile\":\"a2-ep-9.1\","));
    CHECK(report_has(path, "\"mode\":\"threads\","));
    CHECK(report_has(path, "\"aclrtMemcpyAsync\":3"));
    CHECK(report_has(path, "\"copies\":{\"h2d\":{\"count\":1,\"bytes\":4096},\"d2h\":{\"count\":1,\"bytes\":"
                           "4096},\"d2d\":{\"count\":0,\"bytes\":0}},"));
    CHECK(report_has(path, "\"failed_copies\":1,\"pageable_copies\":0,\"unaligned_copies\":0,"));
    CHECK(report_has(path, "\"faults_fired\":1,"));
    CHECK(report_has(path, "\"findings\":[{\"kind\":\"leak\",\"count\":1,\"texts\":["));
    CHECK(report_has(path, "\"leaks\":{\"streams\":0,\"events\":0,\"device_blocks\":0,\"device_bytes\":0,"
                           "\"pinned_blocks\":1,\"pinned_bytes\":8192,\"devices\":[0]}"));
    OK(unlink(path));
}

static void fork_and_end(void)
{
    uint32_t count;
    pid_t child;

    OK(aclrtGetDeviceCount(&count));
    child = fork();
    if (child == 0)
        exit(0); /* did nothing: no report */
    finish(child);
    CHECK(access(path, F_OK) != 0 && errno == ENOENT);
    child = fork();
    if (child == 0) {
        OK(aclrtGetDeviceCount(&count));
        exit(0);
    }
    finish(child);
    {
        char own[96];

        CHECK(access(path, F_OK) != 0);
        snprintf(own, sizeof(own), "%s.%d", path, (int)child);
        CHECK(report_has(own, "\"simulator\":true"));
        OK(unlink(own));
    }
}

static void check_forks(void)
{
    finish(start(fork_and_end));
    CHECK(report_has(path, "\"aclrtGetDeviceCount\":1"));
    OK(unlink(path));
}

static void look(void)
{
    uint32_t count;

    OK(aclrtGetDeviceCount(&count));
}

static int hold[2], ready[2];

static void look_and_wait(void)
{
    char byte;

    look();
    CHECK_EQ(write(ready[1], "x", 1), 1);
    CHECK_EQ(read(hold[0], &byte, 1), 1);
}

/* Two processes at once do not overwrite each other; a file of an earlier run is replaced. */
static void check_two(void)
{
    char own[96], pid[32];
    pid_t first, second;
    FILE *old = fopen(path, "w");

    fputs("old", old);
    fclose(old);
    OK(utimensat(AT_FDCWD, path, (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0));
    OK(pipe(hold));
    OK(pipe(ready));
    first = start(look_and_wait);
    CHECK_EQ(read(ready[0], pid, 1), 1);
    second = start(look);
    finish(second);
    CHECK_EQ(write(hold[1], "x", 1), 1);
    finish(first);
    snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)second);
    CHECK(report_has(path, pid));
    snprintf(own, sizeof(own), "%s.%d", path, (int)first);
    snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)first);
    CHECK(report_has(own, pid));
    OK(unlink(own));
    OK(unlink(path));
}

static void look_and_vanish(void)
{
    look();
    _exit(0);
}

/* Whoever adds up reserves the name; who ends without a report leaves an empty one. */
static void check_reserved(void)
{
    char own[2][96], pid[32];
    struct stat info;
    pid_t child[2];
    FILE *reserved = fopen(path, "w");

    fclose(reserved);
    OK(utimensat(AT_FDCWD, path, (struct timespec[2]){{.tv_sec = 1L << 32}, {.tv_sec = 1L << 32}}, 0));
    child[0] = start(look);
    finish(child[0]);
    child[1] = start(look_and_vanish);
    finish(child[1]);
    for (int i = 0; i < 2; i++)
        snprintf(own[i], sizeof(own[i]), "%s.%d", path, (int)child[i]);
    snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)child[0]);
    CHECK(report_has(own[0], pid));
    OK(stat(own[1], &info));
    CHECK_EQ(info.st_size, 0);
    OK(stat(path, &info));
    CHECK_EQ(info.st_size, 0);
    OK(unlink(own[0]));
    OK(unlink(own[1]));
    OK(unlink(path));
}

static char fifo[80];

static void report_to_fifo(void)
{
    OK(setenv("ACLSIM_REPORT", fifo, 1));
    look();
    CHECK(aclsim_write_report("/dev/null") == 0);
}

/* What is no file is written to, not replaced. */
static void check_stream(void)
{
    char text[8];
    struct stat info;
    pid_t child;
    int in;

    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    OK(mkfifo(fifo, 0600));
    child = start(report_to_fifo);
    in = open(fifo, O_RDONLY);
    CHECK_EQ(read(in, text, 2), 2);
    CHECK_EQ(text[0], '{');
    while (read(in, text, sizeof(text)) > 0)
        continue;
    close(in);
    finish(child);
    OK(stat(fifo, &info));
    CHECK(S_ISFIFO(info.st_mode));
    OK(unlink(fifo));
    OK(stat("/dev/null", &info));
    CHECK(S_ISCHR(info.st_mode));
}

static void look_in_virtual(void)
{
    OK(aclsim_set_mode(ACLSIM_VIRTUAL, 0));
}

/* Simulated time counts from the start, whatever the clock's zero is. */
static void check_virtual_time(void)
{
    finish(start(look_in_virtual));
    CHECK(report_has(path, "\"virtual_ns\":0}"));
    OK(unlink(path));
}

static void write_now(void)
{
    char now[96];

    snprintf(now, sizeof(now), "%s.now", path);
    look();
    CHECK_EQ(aclsim_write_report(NULL), -1);
    CHECK_EQ(aclsim_write_report("no/such/folder/report.json"), -1);
    OK(aclsim_write_report(now));
    CHECK(report_has(now, "\"aclrtGetDeviceCount\":1"));
    OK(unlink(now));
    CHECK_EQ(aclsim_finding_count("leak"), 0);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/report.json", folder);
    OK(setenv("ACLSIM_REPORT", path, 1));
    check_contents();
    check_forks();
    check_two();
    check_reserved();
    check_stream();
    check_virtual_time();
    OK(unsetenv("ACLSIM_REPORT"));
    finish(start(write_now));
    OK(rmdir(folder)); /* nothing else was left there */
    return 0;
}
