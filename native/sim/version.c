/* version.c - versions of the simulated release and the name of its chip.
 *
 * Threads: any. Locks: none. Owns: nothing.
 * Invariant: the numbers are those of the profile.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VERSION = 128 }; /* aclsysGetVersionStr, CANN 9.1 docs: what the caller's array holds */

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

static bool same_name(const char *a, const char *b) /* '-' and '_' are one, as in the open runtime */
{
    for (; *a != '\0' && *b != '\0'; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
            return false;
    return *a == *b;
}

/* The packages that CANN reads a version file of. The real calls need ASCEND_HOME_PATH; this one does not. */
static const char *version_of(const char *package)
{
    static const char *const cann[] = {"runtime", "bisheng-compiler", "hccl", "oam-tools", "ops-legacy"};

    for (size_t i = 0; i < sizeof(cann) / sizeof(cann[0]); i++)
        if (same_name(package, cann[i]))
            return sim_profile.cann_version;
    if (strcmp(package, "driver") == 0)
        return "25.5.0"; /* assumed */
    return strcmp(package, "firmware") == 0 ? "7.8.0" /* assumed */ : NULL;
}

static aclError find_version(const char *package, const char **version)
{
    *version = version_of(package);
    if (*version != NULL)
        return ACL_SUCCESS;
    return sim_fail(ACL_ERROR_INVALID_FILE, "EH0003",
                    "package %.64s has no version file; there are: runtime, bisheng-compiler, hccl, "
                    "oam-tools, ops-legacy, driver, firmware",
                    package);
}

aclError aclsysGetVersionStr(char *package, char *version)
{
    SIM_CALL(aclsysGetVersionStr);
    const char *found;

    if (package == NULL || version == NULL)
        return sim_fail_null("package or version");
    if (find_version(package, &found) != 0)
        return ACL_ERROR_INVALID_FILE;
    snprintf(version, MAX_VERSION, "%s", found);
    return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char *package, int32_t *version)
{
    SIM_CALL(aclsysGetVersionNum);
    /* Weights of the three numbers: open runtime. All versions above are releases, without a suffix. */
    static const int32_t weights[] = {10000000, 100000, 1000};
    const char *found;
    char *at;
    int32_t sum = 0;

    if (package == NULL || version == NULL)
        return sim_fail_null("package or version");
    if (find_version(package, &found) != 0)
        return ACL_ERROR_INVALID_FILE;
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
        sum += weights[i] * (int32_t)strtol(found, &at, 10);
        found = *at == '.' ? at + 1 : at;
    }
    *version = sum;
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void)
{
    SIM_COUNT(aclrtGetSocName);
    return sim_profile.soc_name;
}
