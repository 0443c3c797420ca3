/* init.c - aclInit, the two finalising calls, and the profile, which may change only outside of them.
 *
 * Threads: any. Locks: init_mu, taken before sim.mu.
 * Owns:    the count, and the text of the first configuration.
 * Invariant: (init_mu held) count > 0 exactly between an aclInit that succeeded and the call that finalises.
 */
#include "sim/config.h"
#include "sim/settings.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t init_mu = PTHREAD_MUTEX_INITIALIZER;
static uint64_t count;
static bool finalized;
static char *first_config; /* NULL until an aclInit with a file that is not empty succeeded */
static size_t first_nbytes;

/* init_mu held. While the count is above 0 the file is not even looked at; after a finalisation it has to be
 * the first one again (both: open runtime). That an aclInit without a file fixes nothing is assumed. */
static aclError init_locked(const char *path)
{
    char *config;
    size_t nbytes;
    aclError code;

    if (count > 0) {
        count++;
        return ACL_ERROR_REPEAT_INITIALIZE;
    }
    code = sim_config_read(path, &config, &nbytes);
    if (code != 0)
        return code;
    if (first_config != NULL && (nbytes != first_nbytes || memcmp(config, first_config, nbytes) != 0))
        code = sim_fail(ACL_ERROR_INVALID_PARAM, "EH0003",
                        "the configuration %s differs from that of the first aclInit of this process",
                        path != NULL ? path : "(none)");
    if (code == 0)
        code = sim_config_apply(path, config, nbytes);
    if (code == 0) {
        count = 1;
        finalized = false;
    }
    if (code == 0 && first_config == NULL && nbytes > 0) {
        first_config = config;
        first_nbytes = nbytes;
        return ACL_SUCCESS;
    }
    free(config);
    return code;
}

aclError aclInit(const char *config_path)
{
    SIM_CALL(aclInit);
    const char *fault = sim_settings_fault();
    aclError code;

    if (*fault != '\0')
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001", "%s", fault);
    pthread_mutex_lock(&init_mu);
    code = init_locked(config_path);
    pthread_mutex_unlock(&init_mu);
    return code;
}

static void finalize_locked(void) /* devices stay as they are (observed on the open runtime) */
{
    count = 0;
    finalized = true;
    sim_set_default_device(-1);
}

aclError aclFinalize(void)
{
    SIM_CALL(aclFinalize);
    aclError code = ACL_ERROR_REPEAT_FINALIZE;

    pthread_mutex_lock(&init_mu);
    if (!finalized) { /* also before the first aclInit (observed on the open runtime) */
        finalize_locked();
        code = ACL_SUCCESS;
    }
    pthread_mutex_unlock(&init_mu);
    return code;
}

aclError aclFinalizeReference(uint64_t *ref_count)
{
    SIM_CALL(aclFinalizeReference);
    aclError code = ACL_SUCCESS;

    pthread_mutex_lock(&init_mu);
    if (count == 0)
        code = ACL_ERROR_REPEAT_FINALIZE; /* also before the first aclInit (open runtime) */
    else if (--count == 0)
        finalize_locked();
    if (ref_count != NULL)
        *ref_count = count;
    pthread_mutex_unlock(&init_mu);
    return code;
}

/* --- the profile --- */

int aclsim_set_profile(const char *name)
{
    struct sim_profile profile;
    char why[160];
    int result = -1;

    sim_once();
    if (name == NULL || !sim_profile_parse(name, &profile, why, sizeof(why)))
        return -1;
    pthread_mutex_lock(&init_mu);
    pthread_mutex_lock(&sim.mu);
    if (count == 0 && !sim_any_device_set()) {
        sim_profile_use(&profile);
        sim_follow_profile();
        result = 0;
    }
    pthread_mutex_unlock(&sim.mu);
    pthread_mutex_unlock(&init_mu);
    return result;
}

int aclsim_get_profile(char *out, size_t nbytes)
{
    int length;

    sim_profile_once();
    if (out == NULL || nbytes == 0)
        return -1;
    length = snprintf(out, nbytes, "%s", sim_profile.name);
    return length >= 0 && (size_t)length < nbytes ? 0 : -1;
}
