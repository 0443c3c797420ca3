/* state.c - process state: environment, profile, initialisation counting, clocks.
 *
 * Threads: any. Locks: its own init_mu for the aclInit count; sim_once is a pthread_once.
 * Owns:    the one struct sim_state, the copy of the aclInit configuration.
 * Invariant: the environment is read once, before the first other action of the library.
 */
#include "sim/sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct sim_profile sim_profile = {
    .soc_name = "Ascend910B",
    .cann_version = "9.1.0",
    .acl_version = {1, 17, 0},
    .queue_depth = 2013,
    .max_streams = 1984,
    .max_events = 65536,
    .ns_per_tick = 20,
    .chunk_bytes = UINT64_C(64) << 20,
    .chunk_d2d_bytes = UINT64_C(4) << 30,
    .zero_count_ok = true,
};

struct sim_state sim;

static pthread_mutex_t init_mu = PTHREAD_MUTEX_INITIALIZER;
static uint64_t init_count;
static bool finalized;
static char *init_config;

uint64_t sim_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

void sim_sleep_until(uint64_t when_ns)
{
    enum { SPIN_NS = 80000 }; /* how late a sleeping thread is usually woken */
    uint64_t now = sim_now_ns();

    if (now + SPIN_NS < when_ns) {
        struct timespec ts = to_timespec(when_ns - SPIN_NS);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
            ;
    }
    while (sim_now_ns() < when_ns)
        sched_yield(); /* gives the core to anybody who has work */
}

void sim_cond_init(pthread_cond_t *cv)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cv, &attr);
    pthread_condattr_destroy(&attr);
}

bool sim_cond_wait_until(pthread_cond_t *cv, uint64_t deadline_ns)
{
    struct timespec ts;

    if (deadline_ns == SIM_FOREVER) {
        pthread_cond_wait(cv, &sim.mu);
        return true;
    }
    ts = to_timespec(deadline_ns);
    return pthread_cond_timedwait(cv, &sim.mu, &ts) != ETIMEDOUT;
}

/* --- environment --- */

static uint64_t parse_bytes(const char *text, uint64_t fallback)
{
    static const struct {
        const char *suffix;
        uint64_t unit;
    } units[] = {{"", 1}, {"KiB", 1u << 10}, {"MiB", 1u << 20}, {"GiB", 1u << 30}};
    char *end;
    unsigned long long value;

    if (text == NULL || *text == '\0')
        return fallback;
    value = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].suffix) == 0 && value > 0)
            return value * units[i].unit;
    fprintf(stderr, "aclsim: cannot read ACLSIM_DEVICE_MEMORY=%s\n", text);
    return fallback;
}

static void parse_link_item(const char *key, double value, struct aclsim_link *link)
{
    if (strcmp(key, "h2d") == 0)
        link->h2d_bytes_per_s = (uint64_t)value;
    else if (strcmp(key, "d2h") == 0)
        link->d2h_bytes_per_s = (uint64_t)value;
    else if (strcmp(key, "d2d") == 0)
        link->d2d_bytes_per_s = (uint64_t)value;
    else if (strcmp(key, "latency_us") == 0)
        link->latency_ns = (uint64_t)(value * 1000.0);
    else if (strcmp(key, "submit_us") == 0)
        link->submit_ns = (uint64_t)(value * 1000.0);
    else if (strcmp(key, "move") == 0)
        link->move_bytes = value != 0;
    else
        fprintf(stderr, "aclsim: unknown key %s in ACLSIM_LINK\n", key);
}

static void parse_link(const char *text, struct aclsim_link *link)
{
    char copy[512], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", text != NULL ? text : "");
    for (char *item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(item, '=');
        double value;

        if (equals == NULL) {
            fprintf(stderr, "aclsim: no value for %s in ACLSIM_LINK\n", item);
            continue;
        }
        *equals = '\0';
        value = strtod(equals + 1, NULL);
        parse_link_item(item, value > 0 ? value : 0, link);
    }
}

/* Engine threads run this library's code for ever, so dlclose must not unmap it. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr((void *)&sim, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void init_once(void)
{
    struct aclsim_link link = {.move_bytes = 1};
    pthread_mutexattr_t attr;
    unsigned long count = parse_bytes(getenv("ACLSIM_DEVICES"), 1);

    stay_loaded();
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* held for well under a microsecond */
    pthread_mutex_init(&sim.mu, &attr);
    pthread_mutexattr_destroy(&attr);
    sim.n_devices = count > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : (uint32_t)count;
    sim.device_bytes = parse_bytes(getenv("ACLSIM_DEVICE_MEMORY"), UINT64_C(32) << 30);
    parse_link(getenv("ACLSIM_LINK"), &link);
    for (int32_t d = 0; d < SIM_MAX_DEVICES; d++) {
        sim.dev[d].id = d;
        sim.dev[d].link = link;
        atomic_init(&sim.dev[d].submit_ns, link.submit_ns);
        for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++) {
            sim.dev[d].engine[dir].dev = &sim.dev[d];
            sim.dev[d].engine[dir].dir = dir;
            sim_cond_init(&sim.dev[d].engine[dir].cv);
        }
    }
}

void sim_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, init_once);
}

/* --- aclInit and versions --- */

/* The file's text, "" for no file; NULL with *code set when it cannot be used. */
static char *read_config(const char *path, aclError *code)
{
    size_t n_read = 0;
    char *text = calloc(1, 65536);
    FILE *file;

    *code = text == NULL ? ACL_ERROR_BAD_ALLOC : 0;
    if (text == NULL || path == NULL || *path == '\0')
        return text;
    file = fopen(path, "re");
    if (file != NULL) {
        n_read = fread(text, 1, 65535, file);
        fclose(file);
        while (n_read > 0 && strchr(" \t\r\n", text[n_read - 1]) != NULL)
            text[--n_read] = '\0';
    }
    if (file == NULL)
        *code = sim_fail(ACL_ERROR_INVALID_FILE, "EH0003", "cannot open the configuration file %s", path);
    else if (n_read < 2 || text[strspn(text, " \t\r\n")] != '{' || text[n_read - 1] != '}')
        *code = sim_fail(ACL_ERROR_PARSE_FILE, "EH0004", "the configuration file %s is not JSON", path);
    if (*code != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

aclError aclInit(const char *config_path)
{
    SIM_CALL(aclInit);
    aclError code;
    char *config = read_config(config_path, &code);

    if (config == NULL)
        return code;
    pthread_mutex_lock(&init_mu);
    if (init_count == 0) {
        free(init_config);
        init_config = config;
        config = NULL;
        init_count = 1;
        finalized = false;
    } else if (strcmp(init_config, config) != 0) {
        code = ACL_ERROR_INVALID_PARAM;
    } else {
        init_count++;
        code = ACL_ERROR_REPEAT_INITIALIZE;
    }
    pthread_mutex_unlock(&init_mu);
    free(config);
    if (code == ACL_ERROR_INVALID_PARAM)
        return sim_fail(code, "EH0001", "aclInit was called before with another configuration");
    return code;
}

/* The shared tail of both finalising calls; init_mu held. */
static aclError finalize_locked(void)
{
    if (finalized)
        return ACL_ERROR_REPEAT_FINALIZE;
    init_count = 0;
    finalized = true;
    return ACL_SUCCESS;
}

aclError aclFinalize(void)
{
    SIM_CALL(aclFinalize);
    aclError code;

    pthread_mutex_lock(&init_mu);
    code = finalize_locked();
    pthread_mutex_unlock(&init_mu);
    return code;
}

aclError aclFinalizeReference(uint64_t *ref_count)
{
    SIM_CALL(aclFinalizeReference);
    aclError code = ACL_SUCCESS;

    pthread_mutex_lock(&init_mu);
    if (init_count > 1)
        init_count--;
    else
        code = finalize_locked();
    if (ref_count != NULL)
        *ref_count = init_count;
    pthread_mutex_unlock(&init_mu);
    return code;
}

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
    SIM_CALL(aclrtGetVersion);
    if (major == NULL || minor == NULL || patch == NULL)
        return sim_fail_null("major, minor or patch");
    *major = sim_profile.acl_version[0];
    *minor = sim_profile.acl_version[1];
    *patch = sim_profile.acl_version[2];
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *package, char *version)
{
    SIM_CALL(aclsysGetVersionStr);
    if (package == NULL || version == NULL)
        return sim_fail_null("package or version");
    strcpy(version, sim_profile.cann_version);
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void)
{
    SIM_COUNT(aclrtGetSocName);
    return sim_profile.soc_name;
}
