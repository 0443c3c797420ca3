/* state.c - process state: environment, profile, initialisation counting.
 *
 * Threads: any. Locks: its own init_mu for the aclInit count; sim_once is a pthread_once.
 * Owns:    the one struct sim_state, the copy of the aclInit configuration.
 * Invariant: the environment is read once, before the first other action of the library. A bad value in it
 *          keeps the default, for calls that need no aclInit, and makes every aclInit fail with its text.
 */
#include "sim/sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_profile sim_profile = {
    .name = "a2-ep-9.1",
    .chip = SIM_CHIP_A2,
    .form = SIM_FORM_EP,
    .gen = SIM_GEN_9_1,
    .soc_name = "Ascend910B",
    .cann_version = "9.1.0",
    .acl_version = {1, 17, 0},
    .queue_depth = 2013,
    .max_streams = 1984,
    .max_events = 65536,
    .ticks_per_ms = 50000,
    .chunk_bytes = UINT64_C(64) << 20,
    .chunk_d2d_bytes = UINT64_C(4) << 30,
    .chunk_peer_bytes = UINT64_C(64) << 20,
    .zero_count_ok = true,
    .corrects_kind = true,
    .pageable_waits = true,
    .has_host_register = true,
    .has_batch_copy = true,
    .has_stream_abort = true,
    .has_task_abort = true,
    .has_op_wait_timeout = true,
    .has_2d_d2d = true,
    .needs_peer_access = true,
};

struct sim_state sim;

static pthread_mutex_t init_mu = PTHREAD_MUTEX_INITIALIZER;
static uint64_t init_count;
static bool finalized;
static char *init_config;

/* --- environment --- */

#define MEMORY_FORMS "bytes as a whole number above 0, or one with KiB, MiB, GiB or TiB"
#define LINK_FORMS                                                                                   \
    "h2d, d2h and d2d in bytes per second (0 for no limit, or 1e6 or more), latency_us, submit_us, " \
    "latency_ns, submit_ns, and move=0 or move=1, such as h2d=25e9,d2h=25e9,latency_us=8"

/* The first bad variable, or "". Written in sim_once, before any reader. */
static char env_fault[768];

static void env_refuse(const char *name, const char *value, const char *accepted)
{
    char line[sizeof(env_fault)];

    snprintf(line, sizeof(line), "aclsim: %s=%.256s is not valid; accepted: %s", name, value, accepted);
    fprintf(stderr, "%s\n", line);
    if (env_fault[0] == '\0')
        memcpy(env_fault, line, sizeof(line));
}

/* NULL when the variable is unset or empty, which both keep the default. */
static const char *env_value(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

/* Digits only: strtoull alone would take a sign and blanks. *end is behind them. */
static bool parse_whole(const char *text, const char **end, uint64_t *value)
{
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

static uint32_t read_n_devices(void)
{
    const char *text = env_value("ACLSIM_DEVICES"), *end;
    char accepted[64];
    uint64_t count;

    if (text == NULL)
        return 1;
    if (parse_whole(text, &end, &count) && *end == '\0' && count >= 1 && count <= SIM_MAX_DEVICES)
        return (uint32_t)count;
    snprintf(accepted, sizeof(accepted), "a whole number from 1 to %d", (int)SIM_MAX_DEVICES);
    env_refuse("ACLSIM_DEVICES", text, accepted);
    return 1;
}

static uint64_t read_device_bytes(uint64_t fallback)
{
    static const struct {
        const char *suffix;
        uint64_t unit;
    } units[] = {{"", 1},
                 {"KiB", UINT64_C(1) << 10},
                 {"MiB", UINT64_C(1) << 20},
                 {"GiB", UINT64_C(1) << 30},
                 {"TiB", UINT64_C(1) << 40}};
    const char *text = env_value("ACLSIM_DEVICE_MEMORY"), *end;
    uint64_t value;

    if (text == NULL)
        return fallback;
    if (parse_whole(text, &end, &value) && value > 0)
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
            if (strcmp(end, units[i].suffix) == 0 && value <= UINT64_MAX / units[i].unit)
                return value * units[i].unit;
    env_refuse("ACLSIM_DEVICE_MEMORY", text, MEMORY_FORMS);
    return fallback;
}

static bool set_link_item(const char *key, double value, struct aclsim_link *link)
{
    const struct {
        const char *key;
        uint64_t *field;
        double scale, least; /* least: of a value that is not 0 */
    } items[] = {{"h2d", &link->h2d_bytes_per_s, 1, 1e6}, {"d2h", &link->d2h_bytes_per_s, 1, 1e6},
                 {"d2d", &link->d2d_bytes_per_s, 1, 1e6}, {"latency_ns", &link->latency_ns, 1, 0},
                 {"submit_ns", &link->submit_ns, 1, 0},   {"latency_us", &link->latency_ns, 1000, 0},
                 {"submit_us", &link->submit_ns, 1000, 0}};

    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
        if (strcmp(key, items[i].key) == 0) {
            *items[i].field = (uint64_t)(value * items[i].scale);
            return value == 0 || value >= items[i].least;
        }
    link->move_bytes = value != 0;
    return strcmp(key, "move") == 0 && (value == 0 || value == 1);
}

/* False for a text that is not a list of KEY=NUMBER. */
static bool parse_link(const char *text, struct aclsim_link *link)
{
    char copy[512], *save = NULL;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return false;
    for (char *item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(item, '='), *end;
        double value;

        if (equals == NULL || equals[1] == '\0')
            return false;
        *equals = '\0';
        value = strtod(equals + 1, &end);
        /* Up to 1e15, which has room for the factor 1000; written so that a NaN is refused. */
        if (*end != '\0' || !(value >= 0 && value <= 1e15) || !set_link_item(item, value, link))
            return false;
    }
    return true;
}

static struct aclsim_link read_link(void)
{
    const struct aclsim_link fallback = {.move_bytes = 1};
    struct aclsim_link link = fallback;
    const char *text = env_value("ACLSIM_LINK");

    if (text == NULL || parse_link(text, &link))
        return link;
    env_refuse("ACLSIM_LINK", text, LINK_FORMS);
    return fallback;
}

/* Engine threads run this library's code for ever, so dlclose must not unmap it. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr((void *)&sim, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* The names of drive.h and race.h; the seed first, since the mode starts with it. */
static void read_mode(void)
{
    const char *mode = env_value("ACLSIM_MODE"), *seed = env_value("ACLSIM_SEED"), *end;
    const char *guards = env_value("ACLSIM_GUARDS");
    uint64_t value;

    if (seed != NULL && (!parse_whole(seed, &end, &value) || *end != '\0' || sim_config_seed(value) != 0))
        env_refuse("ACLSIM_SEED", seed, "a whole number from 0 to 18446744073709551615");
    if (mode != NULL && sim_config_mode(mode) != 0)
        env_refuse("ACLSIM_MODE", mode, "threads, virtual or adversarial");
    if (guards != NULL && strcmp(guards, "0") != 0 && strcmp(guards, "1") != 0)
        env_refuse("ACLSIM_GUARDS", guards, "0 or 1");
    else if (guards != NULL)
        sim_guard_ask(*guards == '1');
}

static void init_once(void)
{
    struct aclsim_link link;
    pthread_mutexattr_t attr;

    stay_loaded();
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* held for well under a microsecond */
    pthread_mutex_init(&sim.mu, &attr);
    pthread_mutexattr_destroy(&attr);
    sim.n_devices = read_n_devices();
    sim.device_bytes = read_device_bytes(UINT64_C(32) << 30);
    link = read_link();
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
    read_mode();
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
    char *config;

    if (env_fault[0] != '\0')
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "%s", env_fault);
    config = read_config(config_path, &code);
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
