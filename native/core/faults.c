#include "core/faults.h"

#include <pthread.h>
#include <stddef.h>

enum { N_RECORDS = 256 };

struct record {
    int32_t device;
    int32_t stream_id;
    int code; /* 0: empty */
    uint16_t task_id;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct record records[N_RECORDS];
static unsigned next_record;
static const struct npux_acl *table; /* set before the callback can run */

static void on_exception(aclrtExceptionInfo *info)
{
    struct record r = {
        .device = (int32_t)table->aclrtGetDeviceIdFromExceptionInfo(info),
        .stream_id = (int32_t)table->aclrtGetStreamIdFromExceptionInfo(info),
        .code = (int)table->aclrtGetErrorCodeFromExceptionInfo(info),
        .task_id = (uint16_t)table->aclrtGetTaskIdFromExceptionInfo(info),
    };
    pthread_mutex_lock(&mu);
    records[next_record++ % N_RECORDS] = r;
    pthread_mutex_unlock(&mu);
}

bool npux_faults_install(const struct npux_acl *acl, bool we_initialised)
{
    if (acl->aclrtGetTaskIdFromExceptionInfo == NULL || acl->aclrtGetStreamIdFromExceptionInfo == NULL ||
        acl->aclrtGetDeviceIdFromExceptionInfo == NULL || acl->aclrtGetErrorCodeFromExceptionInfo == NULL ||
        acl->aclrtGetThreadLastTaskId == NULL || acl->aclrtStreamGetId == NULL)
        return false;
    table = acl;
    if (acl->aclrtExceptionInfoCallbackRegister != NULL)
        return acl->aclrtExceptionInfoCallbackRegister(on_exception) == ACL_SUCCESS;
    if (we_initialised && acl->aclrtSetExceptionInfoCallback != NULL)
        return acl->aclrtSetExceptionInfoCallback(on_exception) == ACL_SUCCESS;
    return false;
}

void npux_faults_remove(const struct npux_acl *acl)
{
    if (acl->aclrtExceptionInfoCallbackUnregister != NULL)
        acl->aclrtExceptionInfoCallbackUnregister(on_exception);
    else if (acl->aclrtSetExceptionInfoCallback != NULL)
        acl->aclrtSetExceptionInfoCallback(NULL);
}

int npux_faults_take(int32_t device, int32_t stream_id, uint16_t first, uint16_t last)
{
    int code = 0;

    pthread_mutex_lock(&mu);
    for (unsigned i = 0; i < N_RECORDS; i++) {
        struct record *r = &records[i];
        uint16_t distance = (uint16_t)(r->task_id - first);
        if (r->code != 0 && r->device == device && r->stream_id == stream_id &&
            distance <= (uint16_t)(last - first)) {
            if (code == 0)
                code = r->code;
            r->code = 0;
        }
    }
    pthread_mutex_unlock(&mu);
    return code;
}
