/* settings.c - see settings.h.
 *
 * Threads: see settings.h. Locks: none of its own.
 * Owns:    the fault texts, the visible list as given, the link as given.
 * Invariant: a value that is not valid keeps the default and is reported by every aclInit.
 */
#include "sim/settings.h"

#include "sim/copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char env_fault[768];
/* ASCEND_RT_VISIBLE_DEVICES; empty: all devices, as for an empty value (assumed). */
static char visible_text[256];
static char visible_fault[512];
static char link_text[512];

static void env_refuse_as(const char *name, const char *value, const char *between, const char *text)
{
    char line[sizeof(env_fault)];

    snprintf(line, sizeof(line), "aclsim: %s=%.160s is not valid%s%s", name, value, between, text);
    fprintf(stderr, "%s\n", line);
    if (env_fault[0] == '\0')
        memcpy(env_fault, line, sizeof(line));
}

static void env_refuse(const char *name, const char *value, const char *accepted)
{
    env_refuse_as(name, value, "; accepted: ", accepted);
}

const char *sim_settings_fault(void)
{
    return sim_profile_fault()[0] != '\0' ? sim_profile_fault() : env_fault;
}

/* NULL when the variable is unset or empty, which both keep the default. */
static const char *env_value(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

/* Digits only: strtoull alone would take a sign and blanks. *end is behind them. */
static bool parse_digits(const char *text, const char **end, uint64_t *value)
{
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

bool sim_parse_whole(const char *text, uint64_t *value)
{
    const char *end;

    return parse_digits(text, &end, value) && *end == '\0';
}

bool sim_parse_devices(const char *text, uint32_t *count)
{
    uint64_t value;

    if (!sim_parse_whole(text, &value) || value < 1 || value > SIM_MAX_DEVICES)
        return false;
    *count = (uint32_t)value;
    return true;
}

bool sim_parse_bytes(const char *text, uint64_t *nbytes)
{
    static const struct {
        const char *suffix;
        uint64_t unit;
    } units[] = {{"", 1},
                 {"KiB", UINT64_C(1) << 10},
                 {"MiB", UINT64_C(1) << 20},
                 {"GiB", UINT64_C(1) << 30},
                 {"TiB", UINT64_C(1) << 40}};
    const char *end;
    uint64_t value;

    if (!parse_digits(text, &end, &value))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].suffix) == 0 && value <= UINT64_MAX / units[i].unit) {
            *nbytes = value * units[i].unit;
            return true;
        }
    return false;
}

bool sim_parse_memory(const char *text, uint64_t *nbytes)
{
    uint64_t value;

    if (!sim_parse_bytes(text, &value) || value == 0)
        return false;
    *nbytes = value;
    return true;
}

/* --- links --- */

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

bool sim_parse_link(const char *text, struct aclsim_link *link)
{
    char copy[sizeof(link_text)], *save = NULL, *item;

    *link = (struct aclsim_link){.move_bytes = 1};
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return false;
    item = strtok_r(copy, ",", &save);
    if (item != NULL && strcmp(item, "chip") == 0) {
        sim_profile_link(link);
        item = strtok_r(NULL, ",", &save);
    } else if (item != NULL && strcmp(item, "instant") == 0) {
        item = strtok_r(NULL, ",", &save);
    }
    for (; item != NULL; item = strtok_r(NULL, ",", &save)) {
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

void sim_use_link(const char *text)
{
    struct aclsim_link link;

    if (!sim_parse_link(text, &link))
        return; /* the callers parsed it before */
    snprintf(link_text, sizeof(link_text), "%s", text);
    for (int d = 0; d < SIM_MAX_DEVICES; d++) {
        sim.dev[d].link = link;
        atomic_store(&sim.dev[d].submit_ns, link.submit_ns);
    }
}

void sim_follow_profile(void)
{
    char text[sizeof(link_text)];

    snprintf(text, sizeof(text), "%s", link_text);
    if (strncmp(text, "chip", 4) == 0)
        sim_use_link(text);
}

void sim_forget_link(void)
{
    link_text[0] = '\0';
}

/* --- visible devices --- */

const char *sim_visible_fault(void)
{
    return visible_fault[0] != '\0' ? visible_fault : NULL;
}

static void visible_refuse(const char *reason)
{
    sim.n_devices = 0;
    snprintf(visible_fault, sizeof(visible_fault),
             "ASCEND_RT_VISIBLE_DEVICES=%s leaves no device: %s; set it to ascending ids of the %u devices, "
             "such as 0,1, or unset it",
             visible_text, reason, sim.n_physical);
}

/* The list counts up to its first id that is no device. A list that repeats an id or does not ascend leaves
 * no device at all: aclrtGetDeviceCount then reports no device (open runtime). */
void sim_use_devices(uint32_t count)
{
    const char *at = visible_text, *end;
    uint64_t id, last = 0;
    uint32_t n = 0;

    visible_fault[0] = '\0';
    sim.n_physical = count;
    sim.n_devices = count;
    for (uint32_t d = 0; d < SIM_MAX_DEVICES; d++)
        sim.dev[d].phys = (int32_t)d;
    if (*at == '\0')
        return;
    while (parse_digits(at, &end, &id) && (*end == ',' || *end == '\0') && id < count) {
        if (n > 0 && id <= last) {
            visible_refuse(id == last ? "an id is there twice" : "the ids do not ascend");
            return;
        }
        sim.dev[n++].phys = (int32_t)id;
        last = id;
        if (*end == '\0')
            break;
        at = end + 1;
    }
    sim.n_devices = n;
    if (n == 0)
        visible_refuse("its first id is no device");
}

/* --- the environment --- */

/* What other files own. The seed first, since a mode starts with it. */
static void read_others(void)
{
    const char *text = env_value("ACLSIM_SEED");
    uint64_t seed = 0;

    if (text != NULL && (!sim_parse_whole(text, &seed) || sim_config_seed(seed) != 0))
        env_refuse("ACLSIM_SEED", text, SIM_SEED_FORMS);
    text = env_value("ACLSIM_MODE");
    if (text != NULL && sim_config_mode(text) != 0)
        env_refuse("ACLSIM_MODE", text, SIM_MODE_FORMS);
    text = env_value("ACLSIM_GUARDS");
    if (text != NULL && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        env_refuse("ACLSIM_GUARDS", text, "0 or 1");
    else if (text != NULL)
        sim_guard_ask(*text == '1');
    text = env_value("ACLSIM_STRICT");
    if (text != NULL && strcmp(text, "align") != 0)
        env_refuse("ACLSIM_STRICT", text, "align");
    else if (text != NULL)
        sim_ask_strict(true);
    text = env_value("ACLSIM_FAULTS");
    if (text != NULL && sim_config_faults(text) != 0)
        env_refuse_as("ACLSIM_FAULTS", text, ": ", aclsim_fault_error());
}

void sim_settings_read(void)
{
    const char *text = env_value("ASCEND_RT_VISIBLE_DEVICES");
    uint32_t count = 1;
    struct aclsim_link link;

    if (text != NULL)
        snprintf(visible_text, sizeof(visible_text), "%s", text);
    text = env_value("ACLSIM_DEVICES");
    if (text != NULL && !sim_parse_devices(text, &count))
        env_refuse("ACLSIM_DEVICES", text, SIM_DEVICE_FORMS);
    sim_use_devices(count);
    sim.device_bytes = UINT64_C(32) << 30;
    text = env_value("ACLSIM_DEVICE_MEMORY");
    if (text != NULL && !sim_parse_memory(text, &sim.device_bytes))
        env_refuse("ACLSIM_DEVICE_MEMORY", text, SIM_MEMORY_FORMS);
    text = env_value("ACLSIM_LINK");
    if (text != NULL && !sim_parse_link(text, &link)) {
        env_refuse("ACLSIM_LINK", text, SIM_LINK_FORMS);
        text = NULL;
    }
    sim_use_link(text != NULL ? text : "instant");
    read_others();
}
