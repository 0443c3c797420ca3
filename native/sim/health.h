/* health.h - what is wrong with each device, and the calls that ask and repair.
 *
 * Threads: any. Locks: sim.mu for every access to a record.
 * Owns:    the records. Invariant: n_uce > 0 only while error is ACL_RT_ERROR_MEMORY.
 */
#ifndef ACLSIM_HEALTH_H
#define ACLSIM_HEALTH_H

#include <stdint.h>

#include "acl/abi.h"

enum { SIM_MAX_UCE = 20 }; /* what aclrtErrorInfo holds */

struct sim_health {
    aclrtDeviceStatus status; /* of aclrtQueryDeviceStatus */
    aclrtErrorType error;     /* of aclrtGetErrorVerbose */
    uint32_t n_uce;
    aclrtMemUceInfo uce[SIM_MAX_UCE]; /* addresses with an uncorrectable error; reserved is 0 */
};

struct sim_health *sim_health(int32_t device); /* sim.mu held */

/* fault_lost.c: a repair call accepted its argument and the record was cleared. sim.mu held. */
void sim_health_repaired(int32_t device);

/* Runs the callbacks of aclrtRegDeviceStateCallback, without any lock (statecb.c). */
void sim_device_notify(int32_t device, aclrtDeviceState state);

#endif
