/* fault_group.c - which ACL functions a fault rule means when it names none.
 *
 * Threads: any. Locks: none. Owns: nothing.
 * Invariant: a function that is in no group is never refused by such a rule, nor by a lost device.
 */
#include "sim/sim.h"

#include <string.h>

/* By the beginning of the name. Releasing a handle or a block is the host's own bookkeeping and works on a
 * lost device, so that a program can clean up (assumed: the documents do not say). */
unsigned sim_fn_groups(int fn)
{
    static const struct {
        const char *prefix;
        unsigned groups;
    } table[] = {{"aclrtFree", SIM_GROUP_FREE},
                 {"aclrtHostRegister", SIM_GROUP_REGISTER | SIM_GROUP_DEVICE},
                 {"aclrtCreateStream", SIM_GROUP_STREAM | SIM_GROUP_DEVICE},
                 {"aclrtCreateEvent", SIM_GROUP_EVENT | SIM_GROUP_DEVICE},
                 {"aclrtMemcpyAsync", SIM_GROUP_COPY | SIM_GROUP_DEVICE},
                 {"aclrtMemcpyBatchAsync", SIM_GROUP_COPY | SIM_GROUP_DEVICE},
                 {"aclrtMemcpy2dAsync", SIM_GROUP_COPY | SIM_GROUP_DEVICE},
                 {"aclrtMem", SIM_GROUP_DEVICE},
                 {"aclrtMalloc", SIM_GROUP_DEVICE},
                 {"aclrtGetMem", SIM_GROUP_DEVICE},
                 {"aclrtRecord", SIM_GROUP_DEVICE},
                 {"aclrtResetEvent", SIM_GROUP_DEVICE},
                 {"aclrtQueryEvent", SIM_GROUP_DEVICE},
                 {"aclrtSynchronize", SIM_GROUP_DEVICE},
                 {"aclrtStreamQuery", SIM_GROUP_DEVICE},
                 {"aclrtStreamWait", SIM_GROUP_DEVICE},
                 {"aclrtStreamAbort", SIM_GROUP_DEVICE},
                 {"aclrtStreamStop", SIM_GROUP_DEVICE},
                 {"aclrtDeviceTaskAbort", SIM_GROUP_DEVICE},
                 {"aclrtDeviceEnable", SIM_GROUP_DEVICE},
                 {"aclrtCreate", SIM_GROUP_DEVICE},
                 {"aclrtLaunch", SIM_GROUP_DEVICE},
                 {"aclrtValue", SIM_GROUP_DEVICE},
                 {"aclrtReduce", SIM_GROUP_DEVICE},
                 {"aclrtWaitAndReset", SIM_GROUP_DEVICE},
                 {"aclrtIpc", SIM_GROUP_DEVICE}};
    const char *name = sim_fn_name((enum sim_fn)fn);

    if (strncmp(name, "aclrtMemUceRepair", 17) == 0)
        return 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strncmp(name, table[i].prefix, strlen(table[i].prefix)) == 0)
            return table[i].groups;
    return 0;
}
