/* fault_rule.c - the text grammar of fault rules: ACTION key=value ...
 *
 * Threads: any. Locks: none. Owns: nothing.
 * Invariant: a rule that was read has every field set; a key that its action does not know is an error.
 */
#include "sim/settings.h"
#include "sim/sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_DEVICE = 1 << 0,
    KEY_DIRECTION = 1 << 1,
    KEY_STREAM = 1 << 2,
    KEY_BYTES = 1 << 3,
    KEY_CODE = 1 << 4,
    KEY_WHEN = 1 << 5, /* nth, every, times, probability, seed */
    KEY_NAME = 1 << 6,
    KEY_KIND = 1 << 7, /* with per_call and total */
    KEY_LIMIT = 1 << 8,
    KEY_SLOW = 1 << 9, /* factor, delay_us */
    KEY_RATE = 1 << 10,
    MAX_FILE_BYTES = 65536,
    COPIES = KEY_DEVICE | KEY_DIRECTION | KEY_STREAM | KEY_BYTES | KEY_WHEN
};

static const struct action {
    const char *name;
    unsigned keys;
    int32_t code;    /* the default; 0: there is none, or none is needed */
    bool stays;      /* fires for ever unless times= says otherwise */
    const char *say; /* what the error for an unknown key lists */
} actions[SIM_N_ACTIONS] = {
    [SIM_FAULT_CALL] = {"call", KEY_NAME | KEY_CODE | KEY_DEVICE | KEY_WHEN, 0, false, "name, code, device"},
    [SIM_FAULT_COPY] = {"copy", COPIES | KEY_CODE, ACL_ERROR_RT_TS_ERROR, false,
                        "code, device, direction, stream, min_bytes, max_bytes"},
    [SIM_FAULT_EVENT] = {"event", KEY_DEVICE | KEY_STREAM | KEY_CODE | KEY_WHEN, ACL_ERROR_RT_TS_ERROR, false,
                         "code, device, stream"},
    [SIM_FAULT_FREE] = {"free", KEY_NAME | KEY_CODE | KEY_DEVICE | KEY_WHEN, ACL_ERROR_RT_MEMORY_FREE, false,
                        "name, code, device"},
    [SIM_FAULT_ALLOC] = {"alloc", KEY_KIND | KEY_DEVICE | KEY_BYTES | KEY_WHEN, 0, true,
                         "kind, per_call, total, device, min_bytes, max_bytes"},
    [SIM_FAULT_STREAMS] = {"streams", KEY_LIMIT | KEY_DEVICE | KEY_WHEN, ACL_ERROR_RT_NO_STREAM_RESOURCE,
                           true, "limit, device"},
    [SIM_FAULT_EVENTS] = {"events", KEY_LIMIT | KEY_DEVICE | KEY_WHEN, ACL_ERROR_RT_NO_EVENT_RESOURCE, true,
                          "limit, device"},
    [SIM_FAULT_REGISTER] = {"register", KEY_CODE | KEY_DEVICE | KEY_WHEN, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                            false, "code, device"},
    [SIM_FAULT_SLOW] = {"slow", COPIES | KEY_SLOW, 0, false,
                        "factor, delay_us, device, direction, stream, min_bytes, max_bytes"},
    [SIM_FAULT_STALL] = {"stall", COPIES, 0, false, "device, direction, stream, min_bytes, max_bytes"},
    [SIM_FAULT_LOSE] = {"lose", COPIES | KEY_CODE | KEY_NAME, ACL_ERROR_RT_LOST_HEARTBEAT, false,
                        "code, name, device, direction, stream, min_bytes, max_bytes"},
    [SIM_FAULT_SICK] = {"sick", COPIES | KEY_CODE, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, false,
                        "code, device, direction, stream, min_bytes, max_bytes"},
    [SIM_FAULT_RANDOM] = {"random", COPIES | KEY_RATE, 0, true,
                          "rate, seed, device, direction, stream, min_bytes, max_bytes"},
};

static bool read_number(const char *text, double least, double most, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= least && *value <= most; /* refuses a NaN, too */
}

static bool read_int(const char *text, int32_t most, int32_t *value)
{
    uint64_t whole;

    if (!sim_parse_whole(text, &whole) || whole > (uint64_t)most)
        return false;
    *value = (int32_t)whole;
    return true;
}

static bool read_direction(const char *text, int32_t *dir)
{
    for (int32_t i = 0; i < ACLSIM_N_DIRECTIONS; i++)
        if (strcmp(text, sim_dir_names[i]) == 0) {
            *dir = i;
            return true;
        }
    return false;
}

static bool read_seed(const char *text, struct sim_rule *r)
{
    if (!sim_parse_whole(text, &r->random))
        return false;
    r->random = r->random * 2 + 1; /* never 0, and other seeds stay other seeds below 2^63 */
    return true;
}

static bool read_kind(const char *text, struct sim_rule *r)
{
    r->want_device = strcmp(text, "device") == 0;
    r->want_pinned = strcmp(text, "pinned") == 0;
    return r->want_device != r->want_pinned;
}

/* Which keys exist, to which group each belongs, and whether the value could be read. */
static bool set(struct sim_rule *r, unsigned keys, const char *key, const char *value, bool *known)
{
    double number;

#define TAKES(group, name) (((keys) & (group)) != 0 && strcmp(key, name) == 0)
    *known = true;
    if (TAKES(KEY_NAME, "name"))
        return (r->fn = sim_fn_by_name(value)) >= 0;
    if (TAKES(KEY_CODE, "code"))
        return read_int(value, INT32_MAX, &r->code) && r->code != 0;
    if (TAKES(KEY_DEVICE, "device"))
        return read_int(value, SIM_MAX_DEVICES - 1, &r->device);
    if (TAKES(KEY_DIRECTION, "direction"))
        return read_direction(value, &r->dir);
    if (TAKES(KEY_STREAM, "stream"))
        return read_int(value, INT32_MAX, &r->stream);
    if (TAKES(KEY_BYTES, "min_bytes"))
        return sim_parse_bytes(value, &r->min_bytes);
    if (TAKES(KEY_BYTES, "max_bytes"))
        return sim_parse_bytes(value, &r->max_bytes);
    if (TAKES(KEY_WHEN, "nth"))
        return sim_parse_whole(value, &r->nth) && r->nth != 0;
    if (TAKES(KEY_WHEN, "every"))
        return sim_parse_whole(value, &r->every) && r->every != 0;
    if (TAKES(KEY_WHEN, "times"))
        return sim_parse_whole(value, &r->times);
    if (TAKES(KEY_WHEN, "probability") || TAKES(KEY_RATE, "rate"))
        return read_number(value, 0, 1, &r->probability);
    if (TAKES(KEY_WHEN, "seed"))
        return read_seed(value, r);
    if (TAKES(KEY_KIND, "kind"))
        return read_kind(value, r);
    if (TAKES(KEY_KIND, "per_call"))
        return sim_parse_bytes(value, &r->per_call);
    if (TAKES(KEY_KIND, "total"))
        return sim_parse_bytes(value, &r->total);
    if (TAKES(KEY_LIMIT, "limit"))
        return sim_parse_whole(value, &r->limit);
    if (TAKES(KEY_SLOW, "factor"))
        return read_number(value, 1, 1e6, &r->factor);
    if (TAKES(KEY_SLOW, "delay_us")) {
        if (!read_number(value, 0, 3.6e9, &number))
            return false;
        r->delay_ns = (uint64_t)(number * 1000);
        return true;
    }
#undef TAKES
    *known = false;
    return false;
}

static bool refuse(char *why, size_t n_why, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool refuse(char *why, size_t n_why, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, n_why, fmt, args);
    va_end(args);
    return false;
}

/* What one key alone cannot tell. */
static bool complete(const struct action *a, struct sim_rule *r, bool said_times, char *why, size_t n_why)
{
    if (r->action == SIM_FAULT_CALL && r->fn < 0)
        return refuse(why, n_why, "call needs name=, an ACL function");
    if (r->action == SIM_FAULT_CALL && r->code == 0)
        return refuse(why, n_why, "call needs code=, the aclError to return");
    if ((a->keys & KEY_LIMIT) != 0 && r->limit == UINT64_MAX)
        return refuse(why, n_why, "%s needs limit=", a->name);
    if (r->action == SIM_FAULT_SLOW && r->delay_ns == 0 && r->factor <= 1)
        return refuse(why, n_why, "slow needs delay_us= or factor= above 1");
    if (r->action == SIM_FAULT_RANDOM && r->probability >= 1)
        return refuse(why, n_why, "random needs rate= below 1");
    if (r->action == SIM_FAULT_SICK &&
        (r->code < ACL_ERROR_RT_DEVICE_MEM_ERROR || r->code > ACL_ERROR_RT_SUSPECT_REMOTE_ERROR))
        return refuse(why, n_why, "sick needs a code from 507053 to 507057");
    if (r->min_bytes > r->max_bytes)
        return refuse(why, n_why, "min_bytes is above max_bytes");
    if (!said_times)
        r->times = a->stays || r->probability < 1 ? 0 : 1;
    return true;
}

static struct sim_rule blank_rule(const struct action *a)
{
    return (struct sim_rule){.action = (enum sim_action)(a - actions),
                             .fn = -1,
                             .device = -1,
                             .dir = -1,
                             .stream = -1,
                             .code = a->code,
                             .want_device = true,
                             .want_pinned = true,
                             .max_bytes = UINT64_MAX,
                             .nth = 1,
                             .every = 1,
                             .probability = 1,
                             .random = 3,
                             .factor = 1,
                             .per_call = UINT64_MAX,
                             .total = UINT64_MAX,
                             .limit = UINT64_MAX};
}

static bool parse_entry(const char *text, size_t n_text, struct sim_rule *rule, char *why, size_t n_why)
{
    char copy[1024], *save = NULL, *word;
    const struct action *a = NULL;
    bool said_times = false, said_when = false;

    if (n_text >= sizeof(copy))
        return refuse(why, n_why, "an entry has %zu characters, at most %zu are read", n_text,
                      sizeof(copy) - 1);
    memcpy(copy, text, n_text);
    copy[n_text] = '\0';
    word = strtok_r(copy, " \t\r,", &save);
    for (int i = 0; word != NULL && i < SIM_N_ACTIONS; i++)
        if (strcmp(word, actions[i].name) == 0)
            a = &actions[i];
    if (a == NULL)
        return refuse(why, n_why,
                      "'%.64s' is no action; accepted: call, copy, event, free, alloc, streams, events, "
                      "register, slow, stall, lose, sick, random",
                      word != NULL ? word : "");
    *rule = blank_rule(a);
    while ((word = strtok_r(NULL, " \t\r,", &save)) != NULL) {
        char *value = strchr(word, '=');
        bool known;

        if (value == NULL)
            return refuse(why, n_why, "'%.64s' is not key=value", word);
        *value++ = '\0';
        said_times = said_times || strcmp(word, "times") == 0;
        said_when = said_when || (strcmp(word, "device") != 0 && strcmp(word, "code") != 0);
        if (set(rule, a->keys, word, value, &known))
            continue;
        if (known)
            return refuse(why, n_why, "%s: the value of %s=%.64s is not valid", a->name, word, value);
        return refuse(why, n_why, "%s has no key '%.64s'; accepted: %s%s", a->name, word, a->say,
                      (a->keys & KEY_WHEN) != 0 ? ", nth, every, times, probability, seed" : "");
    }
    rule->at_once = !said_when && (rule->action == SIM_FAULT_LOSE || rule->action == SIM_FAULT_SICK);
    return complete(a, rule, said_times, why, n_why);
}

/* --- several entries --- */

/* Puts the entry in front of what is wrong with it. */
static void name_entry(const char *entry, size_t n_entry, char *why, size_t n_why)
{
    enum { SHOWN = 80 };
    char reason[512];

    while (n_entry != 0 && strchr(" \t\r", entry[n_entry - 1]) != NULL)
        n_entry--;
    snprintf(reason, sizeof(reason), "%s", why);
    snprintf(why, n_why, "in '%.*s': %s", (int)(n_entry < SHOWN ? n_entry : SHOWN), entry, reason);
}

int sim_rules_parse(const char *text, struct sim_rule *out, int most, char *why, size_t n_why)
{
    int n = 0;

    while (*text != '\0') {
        size_t n_line = strcspn(text, ";\n"), n_entry = n_line, blank;
        const char *hash = memchr(text, '#', n_line);

        if (hash != NULL) { /* a comment ends with its line, not at a ';' in it */
            n_entry = (size_t)(hash - text);
            n_line = strcspn(text, "\n");
        }
        blank = strspn(text, " \t\r");
        if (blank < n_entry) {
            if (n == most) {
                snprintf(why, n_why, "more than %d %s", most, most == 1 ? "entry" : "entries");
                return -1;
            }
            if (!parse_entry(text, n_entry, &out[n], why, n_why)) {
                name_entry(text + blank, n_entry - blank, why, n_why);
                return -1;
            }
            n++;
        }
        text += n_line + (text[n_line] != '\0');
    }
    return n;
}

char *sim_rules_file(const char *path, char *why, size_t n_why)
{
    char *text = calloc(1, MAX_FILE_BYTES + 1);
    FILE *file = text != NULL ? fopen(path, "re") : NULL;
    size_t n = 0;

    if (file != NULL) {
        n = fread(text, 1, MAX_FILE_BYTES + 1, file);
        fclose(file);
    }
    if (file != NULL && n <= MAX_FILE_BYTES)
        return text;
    if (file == NULL)
        snprintf(why, n_why, "cannot read the file %.256s: %s", path, strerror(errno));
    else
        snprintf(why, n_why, "the file %.256s has more than %d bytes", path, (int)MAX_FILE_BYTES);
    free(text);
    return NULL;
}
