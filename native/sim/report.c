/* report.c - what the simulator saw, as one JSON object: on request, and when the process ends.
 *
 * Threads: any; the end of the process on the thread that ends it, with other threads still running.
 * Locks:   those of what it reads, one at a time.
 * Owns:    nothing.
 * Invariant: a report appears under its final name complete or not at all.
 */
#include "sim/made.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PATH = 1024 };

static char report_path[MAX_PATH]; /* "": none. Written once, before any reader */
static pid_t start_pid;            /* of the process that read the environment */
static struct timespec start_time;
static uint64_t calls_at_fork; /* of the thread that forked; in the child */

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    fputc('"', out);
}

static void put_calls(FILE *out)
{
    const char *comma = "";

    fputs("  \"calls\": {", out);
    for (int fn = 0; fn < SIM_N_FN; fn++) {
        int64_t count = sim_calls((enum sim_fn)fn, 0);

        if (count == 0)
            continue;
        fprintf(out, "%s\n    \"%s\": %lld", comma, sim_fn_name((enum sim_fn)fn), (long long)count);
        comma = ",";
    }
    fputs("\n  },\n", out);
}

static void put_copies(FILE *out, const struct aclsim_counters *c)
{
    fputs("  \"copies\": {", out);
    for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++)
        fprintf(out, "%s\"%s\": {\"count\": %llu, \"bytes\": %llu}", dir != 0 ? ", " : "", sim_dir_names[dir],
                (unsigned long long)c->copies[dir], (unsigned long long)c->bytes[dir]);
    fprintf(out,
            "},\n  \"failed_copies\": %llu,\n  \"pageable_copies\": %llu,\n  \"unaligned_copies\": %llu,\n"
            "  \"faults_fired\": %lld,\n",
            (unsigned long long)c->failed_copies, (unsigned long long)c->pageable_copies,
            (unsigned long long)c->unaligned_copies, (long long)sim_faults_fired_total());
}

static void put_findings(FILE *out)
{
    const char *comma = "";

    fputs("  \"findings\": [", out);
    for (int kind = 0; kind < SIM_N_FOUND; kind++) {
        const char *name = sim_finding_name((enum sim_finding)kind);
        int64_t count = aclsim_finding_count(name);
        char text[640]; /* as long as any finding's */

        if (count == 0)
            continue;
        fprintf(out, "%s\n    {\"kind\": \"%s\", \"count\": %lld, \"texts\": [", comma, name,
                (long long)count);
        comma = ",";
        for (uint32_t i = 0; aclsim_finding_text(name, i, text, sizeof(text)) >= 0; i++) {
            fputs(i != 0 ? ",\n      " : "\n      ", out);
            put_text(out, text);
        }
        fputs("]}", out);
    }
    fputs("],\n", out);
}

static void put_leaks(FILE *out, const struct aclsim_counters *c)
{
    const char *comma = "";

    fprintf(out,
            "  \"leaks\": {\"streams\": %llu, \"events\": %llu, \"device_blocks\": %llu, \"device_bytes\": "
            "%llu, \"pinned_blocks\": %llu, \"pinned_bytes\": %llu, \"devices\": [",
            (unsigned long long)c->live_streams, (unsigned long long)c->live_events,
            (unsigned long long)c->live_device_blocks, (unsigned long long)c->live_device_bytes,
            (unsigned long long)c->live_pinned_blocks, (unsigned long long)c->live_pinned_bytes);
    for (int d = 0; d < SIM_MAX_DEVICES; d++) {
        bool set;

        pthread_mutex_lock(&sim.mu);
        set = sim.dev[d].refs != 0;
        pthread_mutex_unlock(&sim.mu);
        if (set) {
            fprintf(out, "%s%d", comma, d);
            comma = ", ";
        }
    }
    fputs("]}", out);
}

static void put_report(FILE *out)
{
    struct aclsim_counters c;
    int mode = sim_mode();

    aclsim_counters(&c);
    fprintf(out, "{\n  \"simulator\": true,\n  \"pid\": %d,\n  \"profile\": ", (int)getpid());
    put_text(out, sim_profile.name);
    fprintf(out, ",\n  \"mode\": \"%s\",\n", sim_mode_names[mode]);
    put_calls(out);
    put_copies(out, &c);
    put_findings(out);
    put_leaks(out, &c);
    if (mode == ACLSIM_VIRTUAL)
        fprintf(out, ",\n  \"virtual_ns\": %llu",
                (unsigned long long)(sim_now_ns() - SIM_VIRTUAL_START)); /* time that passed */
    fputs("\n}\n", out);
}

/* Beside its final place, so that a rename within one file system finishes it. false: cannot be written. */
static bool write_beside(const char *path, char *beside, size_t n)
{
    FILE *out;

    if (snprintf(beside, n, "%s.%d.part", path, (int)getpid()) >= (int)n)
        return false;
    out = fopen(beside, "we");
    if (out == NULL)
        return false;
    put_report(out);
    if (fclose(out) == 0)
        return true;
    unlink(beside);
    return false;
}

/* A pipe, a terminal or /dev/null is written to; a rename would put a file in its place. */
static bool is_stream(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static int write_stream(const char *path)
{
    FILE *out = fopen(path, "we");

    if (out == NULL)
        return -1;
    put_report(out);
    return fclose(out) == 0 ? 0 : -1;
}

int aclsim_write_report(const char *path)
{
    char beside[MAX_PATH + 32];

    sim_once();
    if (path == NULL || *path == '\0')
        return -1;
    if (strcmp(path, "-") == 0) {
        put_report(stderr);
        return 0;
    }
    if (is_stream(path))
        return write_stream(path);
    if (!write_beside(path, beside, sizeof(beside)))
        return -1;
    if (rename(beside, path) == 0)
        return 0;
    unlink(beside);
    return -1;
}

/* --- the end of the process --- */

static uint64_t own_calls(void)
{
    uint64_t sum = 0;

    for (int fn = 0; sim_self != NULL && fn < SIM_N_FN; fn++)
        sum += atomic_load_explicit(&sim_self->calls[fn], memory_order_relaxed);
    return sum;
}

static void in_child(void)
{
    calls_at_fork = own_calls();
}

/* Another process of this run wrote there: since this one started. */
static bool taken(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return false;
    return info.st_mtim.tv_sec > start_time.tv_sec ||
           (info.st_mtim.tv_sec == start_time.tv_sec && info.st_mtim.tv_nsec >= start_time.tv_nsec);
}

static void name_own(char *own, size_t n)
{
    snprintf(own, n, "%s.%d", report_path, (int)getpid());
}

/* Whoever is first gets the name: a rename would replace the report of a process that ends now, too. */
static int write_first(void)
{
    char beside[MAX_PATH + 32], own[MAX_PATH + 16];
    const char *to = report_path;

    if (!write_beside(report_path, beside, sizeof(beside)))
        return -1;
    if (link(beside, report_path) == 0)
        return unlink(beside);
    if (errno == EEXIST) {
        name_own(own, sizeof(own));
        to = own;
    } /* else: a file system without links */
    if (rename(beside, to) == 0)
        return 0;
    unlink(beside);
    return -1;
}

static void at_end(void)
{
    char path[MAX_PATH + 16];
    int failed;

    /* A child that only forked and left did not use the simulator; locks may be held for ever in it, too. */
    if (getpid() != start_pid && own_calls() == calls_at_fork)
        return;
    sim_made_find_leaks();
    if (report_path[0] == '\0')
        return;
    name_own(path, sizeof(path));
    if (strcmp(report_path, "-") == 0 || is_stream(report_path)) {
        strcpy(path, report_path);
        failed = aclsim_write_report(path);
    } else if (getpid() != start_pid || taken(report_path)) {
        failed = aclsim_write_report(path);
    } else {
        failed = write_first();
    }
    if (failed != 0)
        fprintf(stderr, "aclsim: cannot write the report %s: %s\n", report_path, strerror(errno));
}

/* A file that is there already is of an earlier run, and goes; or somebody who adds up what many processes
 * write has reserved the name (see taken), and shall also see those that end without writing anything. */
static void clear_place(void)
{
    char own[MAX_PATH + 16];
    int file;

    if (strcmp(report_path, "-") == 0 || is_stream(report_path))
        return;
    if (!taken(report_path)) {
        unlink(report_path);
        return;
    }
    name_own(own, sizeof(own));
    file = open(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0)
        close(file);
}

void sim_report_init(void)
{
    const char *path = getenv("ACLSIM_REPORT");

    if (path != NULL && strlen(path) < sizeof(report_path))
        strcpy(report_path, path);
    if (report_path[0] == '\0' && !sim_find_tells())
        return;
    start_pid = getpid();
    /* The coarse clock is the one of file times. */
    clock_gettime(CLOCK_REALTIME_COARSE, &start_time);
    if (report_path[0] != '\0')
        clear_place();
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_end);
}
