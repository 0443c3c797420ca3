/* config.c - the configuration file of aclInit. The object under "aclsim" is ours, the rest is CANN's, of
 * which the error scope, the device limits and the default device have an effect here.
 *
 * Threads: see config.h. Locks: sim.mu while applying. Owns: nothing.
 * Invariant: see config.h.
 */
#include "sim/config.h"

#include "sim/json.h"
#include "sim/settings.h"
#include "sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- the file --- */

enum { MAX_FILE_BYTES = 10 * 1024 * 1024 }; /* open runtime; more is no valid file for it */

static aclError bad_file(const char *path, const char *reason)
{
    return sim_fail(ACL_ERROR_INVALID_FILE, "EH0003", "cannot use the configuration file %s: %s", path,
                    reason);
}

aclError sim_config_read(const char *path, char **text, size_t *nbytes)
{
    struct stat info;
    FILE *file;
    aclError code = ACL_SUCCESS;

    *nbytes = 0;
    *text = NULL;
    if (path == NULL || *path == '\0') {
        *text = calloc(1, 1);
        return *text != NULL ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
    }
    if (stat(path, &info) != 0)
        return bad_file(path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return bad_file(path, "it is no regular file");
    if (info.st_size > MAX_FILE_BYTES)
        return bad_file(path, "it is larger than 10 MiB");
    file = fopen(path, "re");
    if (file == NULL)
        return bad_file(path, strerror(errno));
    *text = calloc(1, (size_t)info.st_size + 1);
    if (*text != NULL)
        *nbytes = fread(*text, 1, (size_t)info.st_size, file);
    else
        code = ACL_ERROR_BAD_ALLOC;
    if (ferror(file) != 0)
        code = bad_file(path, "it cannot be read");
    fclose(file);
    if (code != 0) {
        free(*text);
        *text = NULL;
    }
    return code;
}

/* --- our own object --- */

struct wish { /* what the file asks for; the flags say which fields are filled */
    bool has_profile, has_devices, has_bytes, has_seed;
    struct sim_profile profile;
    uint32_t n_devices;
    uint64_t device_bytes, seed;
    const char *link, *mode, *faults; /* into the tree, or NULL */
};

static aclError bad_value(const char *path, const struct sim_json *value, const char *accepted)
{
    return sim_fail(ACL_ERROR_FILE_ATTR_INVALID, "EH0004", "%s: aclsim.%s=%.128s is not valid; accepted: %s",
                    path, value->key, value->text != NULL ? value->text : "(a list or object)", accepted);
}

static aclError read_wish(const char *path, const struct sim_json *value, struct wish *wish)
{
    struct aclsim_link link;
    char why[160];
    const char *key = value->key;

    if (value->kind != SIM_JSON_STRING && value->kind != SIM_JSON_NUMBER)
        return bad_value(path, value, "a text or a number");
    if (strcmp(key, "profile") == 0) {
        wish->has_profile = true;
        if (!sim_profile_parse(value->text, &wish->profile, why, sizeof(why)))
            return sim_fail(ACL_ERROR_FILE_ATTR_INVALID, "EH0004",
                            "%s: aclsim.profile=%.128s is not valid (%s); accepted: " SIM_PROFILE_FORMS, path,
                            value->text, why);
    } else if (strcmp(key, "devices") == 0) {
        wish->has_devices = true;
        if (!sim_parse_devices(value->text, &wish->n_devices))
            return bad_value(path, value, SIM_DEVICE_FORMS);
    } else if (strcmp(key, "device_memory") == 0) {
        wish->has_bytes = true;
        if (!sim_parse_memory(value->text, &wish->device_bytes))
            return bad_value(path, value, SIM_MEMORY_FORMS);
    } else if (strcmp(key, "link") == 0) {
        wish->link = value->text;
        if (!sim_parse_link(value->text, &link))
            return bad_value(path, value, SIM_LINK_FORMS);
    } else if (strcmp(key, "mode") == 0) {
        wish->mode = value->text;
    } else if (strcmp(key, "seed") == 0) {
        wish->has_seed = true;
        if (!sim_parse_whole(value->text, &wish->seed))
            return bad_value(path, value, SIM_SEED_FORMS);
    } else if (strcmp(key, "faults") == 0) {
        wish->faults = value->text;
    } else {
        return sim_fail(ACL_ERROR_FILE_ATTR_INVALID, "EH0004",
                        "%s: aclsim.%.64s is unknown; known: profile, devices, device_memory, link, mode, "
                        "seed, faults",
                        path, key);
    }
    return ACL_SUCCESS;
}

static aclError ask_others(const char *path, const struct sim_json *ours, const struct wish *wish)
{
    if (wish->has_seed && sim_config_seed(wish->seed) != 0)
        return bad_value(path, sim_json_get(ours, "seed"), "a seed, before a device is set");
    if (wish->mode != NULL && sim_config_mode(wish->mode) != 0)
        return bad_value(path, sim_json_get(ours, "mode"), SIM_MODE_FORMS);
    if (wish->faults != NULL && sim_config_faults(wish->faults) != 0)
        return bad_value(path, sim_json_get(ours, "faults"), aclsim_fault_error());
    return ACL_SUCCESS;
}

/* sim.mu held and no device set. */
static void grant(const struct wish *wish)
{
    if (wish->has_profile) {
        sim_profile_use(&wish->profile);
        sim_follow_profile();
    }
    if (wish->has_bytes)
        sim.device_bytes = wish->device_bytes;
    if (wish->link != NULL)
        sim_use_link(wish->link);
    if (wish->has_devices)
        sim_use_devices(wish->n_devices);
}

static aclError apply_ours(const char *path, const struct sim_json *ours)
{
    struct wish wish = {0};
    aclError code = ACL_SUCCESS;
    bool busy;

    if (ours->kind != SIM_JSON_OBJECT)
        return sim_fail(ACL_ERROR_FILE_ATTR_INVALID, "EH0004", "%s: aclsim is no object", path);
    for (const struct sim_json *v = ours->first; v != NULL && code == 0; v = v->next)
        code = read_wish(path, v, &wish);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    busy = sim_any_device_set();
    pthread_mutex_unlock(&sim.mu);
    if (!busy) {
        code = ask_others(path, ours, &wish);
        if (code != 0)
            return code;
        pthread_mutex_lock(&sim.mu);
        busy = sim_any_device_set();
        if (!busy)
            grant(&wish);
        pthread_mutex_unlock(&sim.mu);
    }
    if (busy)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                        "%s sets aclsim values, and a device is set: call aclInit before aclrtSetDevice, or "
                        "reset the device first",
                        path);
    return ACL_SUCCESS;
}

/* "0" per thread, "1" per process, as texts and not as numbers (aclInit, CANN 9.1 docs; the number form is
 * refused by the open runtime). */
static aclError read_scope(const char *path, const struct sim_json *root, bool *by_process)
{
    const struct sim_json *mode = sim_json_get(root, "err_msg_mode");

    *by_process = false;
    if (mode == NULL)
        return ACL_SUCCESS;
    if (mode->kind == SIM_JSON_STRING && (strcmp(mode->text, "0") == 0 || strcmp(mode->text, "1") == 0)) {
        *by_process = mode->text[0] == '1';
        return ACL_SUCCESS;
    }
    return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                    "%s: err_msg_mode is neither the text \"0\" (per thread) nor \"1\" (per process)", path);
}

/* --- CANN's own keys that change what a transfer program sees --- */

static aclError bad_key(const char *path, const char *key, const char *accepted)
{
    return sim_fail(ACL_ERROR_FAILURE, "EH0004", "%s: %s is not valid; accepted: %s", path, key, accepted);
}

/* One limit, in bytes. A chip without it ignores it (open runtime). */
static aclError apply_limit(const char *path, const struct sim_json *parent, const char *key,
                            aclrtDeviceLimit limit, bool strict)
{
    const struct sim_json *value = sim_json_get(parent, key);
    uint64_t nbytes;
    aclError code;

    if (value == NULL)
        return ACL_SUCCESS;
    if (value->kind != SIM_JSON_NUMBER || !sim_parse_whole(value->text, &nbytes))
        return bad_key(path, key, "a whole number of bytes");
    code = sim_limit_set(limit, nbytes);
    if (code != ACL_ERROR_RT_PARAM_INVALID || !strict)
        return ACL_SUCCESS;
    return sim_fail(code, "EE1003", "%s: %s cannot be %llu", path, key, (unsigned long long)nbytes);
}

static aclError apply_limits(const char *path, const struct sim_json *root)
{
    const struct sim_json *stack = sim_json_get(root, "StackSize");
    const struct {
        const struct sim_json *parent;
        const char *key;
        aclrtDeviceLimit limit;
        bool strict; /* a stack outside of its range is passed over, a buffer is not (open runtime) */
    } rows[] = {
        {stack, "aicore_stack_size", ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, false},
        {stack, "simt_stack_size", ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE, false},
        {stack, "simt_divergence_stack_size", ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE, false},
        {root, "simd_printf_fifo_size_per_core", ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE, true},
        {root, "simt_printf_fifo_size", ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE, true},
    };
    aclError code = ACL_SUCCESS;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && code == 0; i++)
        code = apply_limit(path, rows[i].parent, rows[i].key, rows[i].limit, rows[i].strict);
    return code;
}

/* A decimal text without leading zeros (aclInit, CANN 9.1 docs); after the number of devices is known. */
static aclError apply_default_device(const char *path, const struct sim_json *root)
{
    const struct sim_json *value = sim_json_get(sim_json_get(root, "defaultDevice"), "default_device");
    uint64_t device;

    if (value == NULL)
        return ACL_SUCCESS;
    if (value->kind != SIM_JSON_STRING || !sim_parse_whole(value->text, &device) || device > INT32_MAX ||
        (value->text[0] == '0' && value->text[1] != '\0'))
        return bad_key(path, "defaultDevice.default_device", "a device id as a text, such as \"0\"");
    if (sim_check_device((int32_t)device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    sim_set_default_device((int32_t)device);
    return ACL_SUCCESS;
}

aclError sim_config_apply(const char *path, const char *text, size_t nbytes)
{
    struct sim_json *root = NULL;
    const struct sim_json *ours;
    char why[128];
    bool by_process = false;
    aclError code;

    if (nbytes > 0) { /* an empty file counts as no configuration (open runtime) */
        root = sim_json_parse(text, nbytes, why, sizeof(why));
        if (root == NULL)
            return sim_fail(ACL_ERROR_PARSE_FILE, "EH0004", "the configuration file %s is not JSON: %s", path,
                            why);
    }
    code = read_scope(path, root, &by_process);
    ours = sim_json_get(root, "aclsim");
    if (code == 0 && ours != NULL)
        code = apply_ours(path, ours);
    if (code == 0)
        code = apply_limits(path, root);
    if (code == 0)
        code = apply_default_device(path, root);
    if (code == 0)
        sim_error_scope(by_process);
    sim_json_free(root);
    return code;
}
