#include "core/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/faults.h"

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct npux_runtime *runtimes;

int npux_runtime_fail(const struct npux_acl *acl, struct npux_err *err, int acl_code, const char *call)
{
    /* Messages are per thread and consumed by reading, so this must be the failing thread. */
    return npux_fail_acl(err, acl_code, call, acl->aclGetRecentErrMsg());
}

static int initialise(struct npux_runtime *runtime, struct npux_err *err)
{
    const struct npux_acl *acl = &runtime->lib.fn;
    int code = acl->aclInit(NULL);

    if (code != ACL_SUCCESS && code != ACL_ERROR_REPEAT_INITIALIZE)
        return npux_runtime_fail(acl, err, code, "aclInit");
    runtime->we_initialised = code == ACL_SUCCESS;
    runtime->faults_known = npux_faults_install(acl, runtime->we_initialised);
    return 0;
}

static int find_or_load(const char *path, struct npux_runtime **out, struct npux_err *err)
{
    struct npux_runtime *runtime, *same;
    int rc;

    for (runtime = runtimes; runtime != NULL; runtime = runtime->next)
        if (strcmp(runtime->lib.path, path) == 0) {
            *out = runtime;
            return 0;
        }
    runtime = calloc(1, sizeof(*runtime));
    if (runtime == NULL)
        return npux_fail(err, -ENOMEM, "calloc", "no host memory");
    rc = npux_acl_load(&runtime->lib, path, err);
    if (rc != 0) {
        free(runtime);
        return rc;
    }
    for (same = runtimes; same != NULL; same = same->next)
        if (same->lib.handle == runtime->lib.handle) { /* the same file under another name */
            npux_acl_unload(&runtime->lib);
            free(runtime);
            *out = same;
            return 0;
        }
    runtime->next = runtimes;
    runtimes = runtime;
    *out = runtime;
    return 0;
}

int npux_runtime_open(const char *path, struct npux_runtime **out, struct npux_err *err)
{
    int rc;

    pthread_mutex_lock(&mu);
    rc = find_or_load(path, out, err);
    if (rc == 0 && (*out)->n_users == 0)
        rc = initialise(*out, err);
    if (rc == 0)
        (*out)->n_users++;
    else
        *out = NULL; /* not counted, so not to be closed */
    pthread_mutex_unlock(&mu);
    return rc;
}

int npux_runtime_close(struct npux_runtime *runtime)
{
    const struct npux_acl *acl = &runtime->lib.fn;
    int code = ACL_SUCCESS;

    pthread_mutex_lock(&mu);
    if (--runtime->n_users == 0) {
        if (runtime->faults_known)
            npux_faults_remove(acl);
        if (runtime->we_initialised)
            code = acl->aclFinalize();
        runtime->we_initialised = false;
    }
    pthread_mutex_unlock(&mu);
    return code;
}
