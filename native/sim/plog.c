/* plog.c - see plog.h. Layout and line as in logs of the releases:
 *   FOLDER/debug/plog/plog-PID_YYYYMMDDhhmmssmmm.log, and the same below run for the run log
 *   [ERROR] RUNTIME(PID,NAME):YYYY-MM-DD-hh:mm:ss.mmm.uuu [FILE:LINE]TID FUNCTION:TEXT
 * with two phase tags in front of TEXT in the generations before 8.5.
 *
 * Threads: any. Locks: mu, a leaf, held while a record is written. Owns: the file of the debug log.
 * Invariant: see plog.h.
 */
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NO_LEVEL = 5, MAX_RECORD = 2048, MAX_PATH = 1024 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int least = NO_LEVEL; /* written once, before any reader */
static bool to_stdout;
static char folder[MAX_PATH / 2];

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int debug_fd = -1;
static pid_t owner; /* of debug_fd: a forked child opens files of its own */

/* 0 debug, 1 info, 2 warning, 3 error, 4 nothing; anything else is the default, as with CANN. */
static void read_environment(void)
{
    const char *path = getenv("ASCEND_PROCESS_LOG_PATH"), *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    const char *screen = getenv("ASCEND_SLOG_PRINT_TO_STDOUT");

    to_stdout = screen != NULL && strcmp(screen, "1") == 0;
    if (path != NULL && strlen(path) < sizeof(folder))
        strcpy(folder, path);
    if (folder[0] == '\0' && !to_stdout)
        return;
    least = SIM_LOG_ERROR;
    if (level != NULL && level[0] >= '0' && level[0] <= '4' && level[1] == '\0')
        least = level[0] - '0';
}

static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0750); /* it may exist; what is wrong shows when the file is opened */
        *slash = '/';
    }
}

static int open_file(const char *part, const struct timespec *now)
{
    char path[MAX_PATH], stamp[32];
    struct tm tm;

    localtime_r(&now->tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y%m%d%H%M%S", &tm);
    snprintf(path, sizeof(path), "%s/%s/plog/plog-%d_%s%03ld.log", folder, part, (int)getpid(), stamp,
             now->tv_nsec / 1000000);
    make_folders(path);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

static size_t prefix(char *out, size_t n, const char *level, const char *module, const char *file, int line,
                     const char *function, const struct timespec *now)
{
    const char *base = strrchr(file, '/');
    char stamp[32];
    struct tm tm;
    int length;

    localtime_r(&now->tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d-%H:%M:%S", &tm);
    length = snprintf(out, n, "[%s] %s(%d,%s):%s.%03ld.%03ld [%s:%d]%d %s:%s", level, module, (int)getpid(),
                      program_invocation_short_name, stamp, now->tv_nsec / 1000000,
                      now->tv_nsec / 1000 % 1000, base != NULL ? base + 1 : file, line, (int)gettid(),
                      function, sim_profile.gen < SIM_GEN_8_5 ? "[EXEC][DEFAULT]" : "");
    return length < 0 ? 0 : (size_t)length < n ? (size_t)length : n - 1;
}

static void put(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return; /* a full disk must not change what the program does */
        text += done;
        n -= (size_t)done;
    }
}

/* The run log tells that a process used the runtime, whatever the level. mu held. */
static void start_files(const struct timespec *now)
{
    char record[MAX_RECORD];
    size_t n;
    int fd;

    if (debug_fd >= 0)
        close(debug_fd);
    owner = getpid();
    debug_fd = open_file("debug", now);
    fd = open_file("run", now);
    if (fd < 0)
        return;
    n = prefix(record, sizeof(record) - 80, sim_profile.gen < SIM_GEN_8_5 ? "EVENT" : "INFO", "RUNTIME",
               __FILE__, __LINE__, "Start", now);
    n += (size_t)snprintf(record + n, 80, "simulated runtime, profile %s\n", sim_profile.name);
    put(fd, record, n);
    close(fd);
}

void sim_log_at(enum sim_log_level level, const char *module, const char *file, int line,
                const char *function, const char *fmt, ...)
{
    static const char *const levels[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    char record[MAX_RECORD];
    struct timespec now;
    va_list args;
    size_t n;
    int more;

    pthread_once(&once, read_environment);
    if ((int)level < least)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    n = prefix(record, sizeof(record) - 1, levels[level], module, file, line, function, &now);
    va_start(args, fmt);
    more = vsnprintf(record + n, sizeof(record) - 1 - n, fmt, args);
    va_end(args);
    if (more > 0)
        n = n + (size_t)more < sizeof(record) - 2 ? n + (size_t)more : sizeof(record) - 2;
    record[n++] = '\n';
    pthread_mutex_lock(&mu);
    if (!to_stdout && (debug_fd < 0 || owner != getpid()))
        start_files(&now);
    put(to_stdout ? STDOUT_FILENO : debug_fd, record, n);
    pthread_mutex_unlock(&mu);
}
