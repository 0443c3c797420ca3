/* devlimit.c - limits that a process sets for its devices.
 *
 * Threads: any. Locks: mu, a leaf.
 * Owns:    the limits. Invariant: (mu held) each value is in its range and aligned.
 */
#include "sim/sim.h"

enum { N_LIMITS = 5, N_RES = 2, WARP = 32 };

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

/* Defaults, steps and ranges: aclrtDeviceLimit, CANN 9.1 docs. max 0: the chip's own, in its profile. */
static const struct {
    uint64_t fallback, step, min, max;
    bool simt; /* 950 only */
} limits[N_LIMITS] = {
    [ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE] = {1152, 128, 0, UINT32_MAX, true},
    [ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE] = {1024, 128, 0, UINT32_MAX, true},
    [ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE] = {32 * KIB, 16 * KIB, 32 * KIB, 0, false},
    [ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE] = {32 * KIB, 8, KIB, 64 * MIB, false},
    [ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE] = {2 * MIB, 8, MIB, 64 * MIB, true},
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool is_set[N_LIMITS];
static uint64_t values[N_LIMITS]; /* where is_set */
static bool res_is_set[SIM_MAX_DEVICES][N_RES];
static uint32_t res_values[SIM_MAX_DEVICES][N_RES];

static uint64_t value_of(int limit) /* mu held */
{
    return is_set[limit] ? values[limit] : limits[limit].fallback;
}

static bool has_limit(aclrtDeviceLimit limit)
{
    return sim_profile.simd_stack_max != 0 && (!limits[limit].simt || sim_profile.chip == SIM_CHIP_950);
}

static aclError check_limit(aclrtDeviceLimit limit)
{
    if ((int)limit < 0 || (int)limit >= N_LIMITS)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "limit %d, expected value: [0, 4]", (int)limit);
    if (!has_limit(limit))
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    return ACL_SUCCESS;
}

static aclError store(aclrtDeviceLimit limit, uint64_t value) /* mu held; 0 or 107000 without text */
{
    uint64_t max = limits[limit].max != 0 ? limits[limit].max : sim_profile.simd_stack_max;
    int other = ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE + ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE - (int)limit;

    if (limit == ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE && value < limits[limit].min)
        value = limits[limit].min; /* documented; that more than the largest is cut to it is assumed */
    if (limit == ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE && value > max)
        value = max;
    if (value < limits[limit].min || value > max)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (limit <= ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE && value == 0 && value_of(other) == 0)
        return ACL_ERROR_RT_PARAM_INVALID;
    values[limit] = (value + limits[limit].step - 1) / limits[limit].step * limits[limit].step;
    is_set[limit] = true;
    return ACL_SUCCESS;
}

aclError sim_limit_set(aclrtDeviceLimit limit, uint64_t value)
{
    aclError code = has_limit(limit) ? ACL_SUCCESS : ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

    pthread_mutex_lock(&mu);
    if (code == 0)
        code = store(limit, value);
    pthread_mutex_unlock(&mu);
    return code;
}

/* The runtime does this on device 0, which docs say has to be visible; its code does not ask for that. */
aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value)
{
    SIM_CALL(aclrtDeviceSetLimit);
    aclError code;

    if ((int)limit >= 0 && (int)limit < N_LIMITS && value > UINT32_MAX)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "value %zu, expected value: [0, %u]", value,
                        UINT32_MAX);
    code = check_limit(limit);
    if (code != 0)
        return code;
    code = sim_limit_set(limit, value);
    if (code != 0)
        return sim_fail(code, "EE1003", "limit %d cannot be %zu", (int)limit, value);
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t *value)
{
    SIM_CALL(aclrtDeviceGetLimit);
    aclError code;

    if (value == NULL)
        return sim_fail_null("value");
    code = check_limit(limit);
    if (code != 0)
        return code;
    pthread_mutex_lock(&mu);
    *value = value_of((int)limit) * (limit == ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE ? WARP : 1);
    pthread_mutex_unlock(&mu);
    return ACL_SUCCESS;
}

/* --- cores that this process may use --- */

static uint32_t res_default(aclrtDevResLimitType type)
{
    return type == ACL_RT_DEV_RES_CUBE_CORE ? sim_profile.n_aicore : sim_profile.n_vector;
}

static aclError check_type(aclrtDevResLimitType type)
{
    if (type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "type %d, expected value: [0, 2)", (int)type);
}

static uint32_t res_of(int32_t device, aclrtDevResLimitType type)
{
    uint32_t value;

    pthread_mutex_lock(&mu);
    value = res_is_set[device][type] ? res_values[device][type] : res_default(type);
    pthread_mutex_unlock(&mu);
    return value;
}

aclError aclrtGetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t *value)
{
    SIM_CALL(aclrtGetDeviceResLimit);
    aclError code;

    if (value == NULL)
        return sim_fail_null("value");
    code = check_type(type);
    if (code == 0)
        code = sim_check_device_set(device);
    if (code == 0)
        *value = res_of(device, type);
    return code;
}

aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value)
{
    SIM_CALL(aclrtSetDeviceResLimit);
    aclError code = check_type(type);

    if (code == 0)
        code = sim_check_device_set(device);
    if (code != 0)
        return code;
    if (value > res_default(type))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "value %u, expected value: at most %u", value,
                        res_default(type));
    pthread_mutex_lock(&mu);
    res_is_set[device][type] = true;
    res_values[device][type] = value;
    pthread_mutex_unlock(&mu);
    return ACL_SUCCESS;
}

aclError aclrtResetDeviceResLimit(int32_t device)
{
    SIM_CALL(aclrtResetDeviceResLimit);
    aclError code = sim_check_device_set(device);

    if (code != 0)
        return code;
    pthread_mutex_lock(&mu);
    for (int type = 0; type < N_RES; type++)
        res_is_set[device][type] = false;
    pthread_mutex_unlock(&mu);
    return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    SIM_CALL(aclrtGetResInCurrentThread);
    struct sim_context *ctx;
    aclError code;

    if (value == NULL)
        return sim_fail_null("value");
    code = check_type(type);
    if (code == 0)
        code = sim_need_context(self, &ctx);
    if (code == 0)
        *value = res_of(ctx->dev->id, type);
    return code;
}
