/* health.c - see health.h. A healthy device answers that there is no error.
 *
 * Threads: any. Locks: sim.mu. Owns: the records.
 * Invariant: see health.h.
 */
#include "sim/health.h"

#include "sim/sim.h"

#include <string.h>

enum { MAX_REPAIR = 128 }; /* entries that aclrtMemUceRepair takes (open runtime) */

static struct sim_health records[SIM_MAX_DEVICES];

struct sim_health *sim_health(int32_t device)
{
    return &records[device];
}

/* 910, 310P and 310B: not supported (CANN 9.1 docs); no text, as in the open runtime. */
static aclError need(int32_t device)
{
    if (!sim_profile.has_task_abort)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    return sim_check_device(device);
}

aclError aclrtGetErrorVerbose(int32_t device, aclrtErrorInfo *info)
{
    SIM_CALL(aclrtGetErrorVerbose);
    const struct sim_health *health;
    aclError code;

    if (info == NULL)
        return sim_fail_null("info");
    code = need(device);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    health = sim_health(device);
    info->errorType = health->error;
    info->tryRepair = health->error == ACL_RT_ERROR_MEMORY || health->error == ACL_RT_ERROR_LINK;
    info->hasDetail = health->n_uce > 0;
    if (health->n_uce > 0) {
        info->detail.uceInfo.arraySize = health->n_uce;
        memcpy(info->detail.uceInfo.memUceInfoArray, health->uce, health->n_uce * sizeof(health->uce[0]));
    } else {
        info->detail.aicoreErrType = ACL_RT_AICORE_ERROR_UNKNOWN;
    }
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

static void clear(int32_t device) /* sim.mu held */
{
    struct sim_health *health = sim_health(device);

    health->error = ACL_RT_NO_ERROR;
    health->n_uce = 0;
    sim_health_repaired(device);
}

aclError aclrtRepairError(int32_t device, const aclrtErrorInfo *info)
{
    SIM_CALL(aclrtRepairError);
    aclrtErrorType other; /* than a memory error */
    aclError code;

    if (info == NULL)
        return sim_fail_null("info");
    if (info->tryRepair == 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "tryRepair is 0: there is nothing to repair");
    code = need(device);
    if (code != 0)
        return code;
    other = sim_profile.chip == SIM_CHIP_950 ? ACL_RT_ERROR_LINK : ACL_RT_NO_ERROR; /* open runtime */
    if (info->errorType != ACL_RT_ERROR_MEMORY && info->errorType != other)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "errorType %d, expected value: %d or %d",
                        (int)info->errorType, (int)ACL_RT_ERROR_MEMORY, (int)other);
    code = sim_check_device_set(device);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    clear(device);
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

aclError aclrtGetMemUceInfo(int32_t device, aclrtMemUceInfo *array, size_t n_array, size_t *n_found)
{
    SIM_CALL(aclrtGetMemUceInfo);
    const struct sim_health *health;
    uint32_t have;
    aclError code;

    if (array == NULL || n_found == NULL)
        return sim_fail_null("array or n_found");
    code = need(device);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    health = sim_health(device);
    have = health->n_uce;
    if (n_array >= have) {
        memcpy(array, health->uce, have * sizeof(array[0]));
        *n_found = have;
    }
    pthread_mutex_unlock(&sim.mu);
    if (n_array < have)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the array has %zu entries and needs %u", n_array,
                        have);
    return ACL_SUCCESS;
}

aclError aclrtMemUceRepair(int32_t device, aclrtMemUceInfo *array, size_t n_array)
{
    SIM_CALL(aclrtMemUceRepair);
    aclError code;

    if (array == NULL)
        return sim_fail_null("array");
    if (n_array > MAX_REPAIR)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the array has %zu entries, at most %d are taken",
                        n_array, (int)MAX_REPAIR);
    for (size_t i = 0; i < n_array; i++)
        for (size_t k = 0; k < sizeof(array[i].reserved) / sizeof(array[i].reserved[0]); k++)
            if (array[i].reserved[k] != 0)
                return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                                "entry %zu: reserved has to be 0, only addr and len are set", i);
    code = need(device);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    clear(device);
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}
