/* devinfo.c - what a program can ask about a device.
 *
 * Threads: any. Locks: none. Owns: nothing.
 * Invariant: the answers depend on the profile, the number of devices and their order only.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

enum { BUS_ID_BYTES = 13 }; /* dddd:bb:dd.f and the zero (aclrtDeviceGetPCIBusId, CANN 9.1 docs) */
enum { DIES_PER_CHIP = 2 }; /* of the A3: two devices are one chip */
enum { HCCS_GROUP = 4 };    /* devices of a 910 board that HCCS joins; assumed */
enum { TOPO_HCCS = 1, TOPO_PHB = 8, TOPO_SYS = 0x10, TOPO_SIO = 0x20, TOPO_HCCS_SW = 0x40 };
enum { LEAST = 7, GREATEST = 0 }; /* stream priorities */
enum { FEATURE_MAX = 22 };        /* feature numbers end here; assumed */

static aclError no_feature(const char *what)
{
    return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1005", "%s does not tell %s", sim_profile.name,
                    what);
}

/* -1: the chip does not tell. */
static int64_t read_attr(const struct sim_device *dev, aclrtDevAttr attr)
{
    bool is_950 = sim_profile.chip == SIM_CHIP_950;
    bool pod = is_950 || sim_profile.chip == SIM_CHIP_A3; /* assumed */

    switch (attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
        return sim_profile.n_aicpu;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
        return sim_profile.n_aicore;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
        return sim_profile.n_vector;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        return (int64_t)sim.device_bytes;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
        return (int64_t)sim_profile.l2_bytes;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
        return dev->phys;
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
        return pod ? dev->phys : -1;
    case ACL_DEV_ATTR_SMP_ID: /* one host, one board, no pod: all 0 (assumed) */
    case ACL_DEV_ATTR_MAINBOARD_ID:
    case ACL_DEV_ATTR_IS_VIRTUAL:
        return 0;
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
        return pod ? 0 : -1;
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE: /* this one is not, the next two are for the 950 only */
        return is_950 ? -1 : 0;
    case ACL_DEV_ATTR_HD_CONNECT_TYPE:
        return is_950 ? (int64_t)sim_profile.connect : -1;
    case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
        return is_950 ? 0 : -1;
    case ACL_DEV_ATTR_NPU_ARCH:
        return sim_profile.npu_arch;
    }
    return -1;
}

static bool known_attr(aclrtDevAttr attr)
{
    return attr == 1 || attr == 101 || attr == 102 || (attr >= 201 && attr <= 212) || attr == 301 ||
           attr == 302 || (attr >= 401 && attr <= 409) || attr == 501 || attr == 601;
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t *value)
{
    SIM_CALL(aclrtGetDeviceInfo);
    int64_t found;

    if (value == NULL)
        return sim_fail_null("value");
    if (device >= sim.n_devices) /* this one call answers 107000 */
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "device %u, expected value: [0, %u)", device,
                        sim.n_devices);
    if (!known_attr(attr))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003",
                        "attr %d is unknown: pass a member of aclrtDevAttr", (int)attr);
    if (attr >= 202 && attr <= 212) { /* SIMT sizes: 0 without SIMT; those of the 950 are not modelled */
        *value = 0;
        return ACL_SUCCESS;
    }
    found = read_attr(&sim.dev[device], attr);
    if (found < 0)
        return no_feature("this attribute");
    *value = found;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCapability(int32_t device, aclrtDevFeatureType feature, int32_t *value)
{
    SIM_CALL(aclrtGetDeviceCapability);
    if (value == NULL)
        return sim_fail_null("value");
    if ((int)feature < 0 || (int)feature >= FEATURE_MAX ||
        (feature != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
         feature != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "feature %d, expected value: 1 or 21",
                        (int)feature);
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    *value = sim_profile.has_task_abort ? 1 : 0; /* both by the newer chips only: assumed */
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid)
{
    SIM_CALL(aclrtDeviceGetUuid);
    if (uuid == NULL)
        return sim_fail_null("uuid");
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (!sim_profile.has_identity)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    memset(uuid->bytes, 0, sizeof(uuid->bytes));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "aclsim-%03d", sim.dev[device].phys);
    uuid->bytes[sizeof(uuid->bytes) - 1] = (char)sim_profile.chip;
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t *least, int32_t *greatest)
{
    SIM_CALL(aclrtDeviceGetStreamPriorityRange);
    if (least != NULL) /* either may be null, also both */
        *least = LEAST;
    if (greatest != NULL)
        *greatest = GREATEST;
    return ACL_SUCCESS;
}

/* --- buses --- */

static bool on_pci(void)
{
    return sim_profile.has_identity && sim_profile.connect == SIM_CONNECT_PCIE;
}

static void write_bus_id(const struct sim_device *dev, char id[BUS_ID_BYTES])
{
    snprintf(id, BUS_ID_BYTES, "0000:%02x:00.0", (unsigned)(0x10 + dev->phys) & 0xff);
}

aclError aclrtDeviceGetPCIBusId(int32_t device, char *bus_id, int32_t nbytes)
{
    SIM_CALL(aclrtDeviceGetPCIBusId);
    if (bus_id == NULL)
        return sim_fail_null("bus_id");
    if (nbytes < BUS_ID_BYTES)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "length %d, expected value: at least %d",
                        nbytes, (int)BUS_ID_BYTES);
    if (sim_check_device(device) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (!on_pci())
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    write_bus_id(&sim.dev[device], bus_id);
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetByPCIBusId(const char *bus_id, int32_t *device)
{
    SIM_CALL(aclrtDeviceGetByPCIBusId);
    char id[BUS_ID_BYTES];

    if (bus_id == NULL || device == NULL)
        return sim_fail_null("bus_id or device");
    if (!on_pci())
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    for (uint32_t d = 0; d < sim.n_devices; d++) {
        write_bus_id(&sim.dev[d], id);
        if (strcmp(bus_id, id) == 0) {
            *device = (int32_t)d;
            return ACL_SUCCESS;
        }
    }
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "no visible device has bus id %.32s", bus_id);
}

static uint64_t topo(int32_t a, int32_t b) /* ids before renumbering */
{
    switch (sim_profile.chip) {
    case SIM_CHIP_A3: /* a switch of its own to itself reads as HCCS (open runtime) */
        if (a == b)
            return TOPO_HCCS;
        return a / DIES_PER_CHIP == b / DIES_PER_CHIP ? TOPO_SIO : TOPO_HCCS_SW;
    case SIM_CHIP_910:
        return a / HCCS_GROUP == b / HCCS_GROUP ? TOPO_HCCS : TOPO_SYS;
    case SIM_CHIP_310P:
    case SIM_CHIP_310B:
        return TOPO_PHB; /* single cards: assumed */
    default:
        return TOPO_HCCS; /* of the 950 assumed */
    }
}

aclError aclrtGetDevicesTopo(uint32_t device, uint32_t other, uint64_t *value)
{
    SIM_CALL(aclrtGetDevicesTopo);
    if (value == NULL)
        return sim_fail_null("value");
    if (sim_check_device((int32_t)device) != 0 || sim_check_device((int32_t)other) != 0)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (sim_profile.form == SIM_FORM_RC) /* documented for the 310B */
        return no_feature("the topology in rc form");
    *value = topo(sim.dev[device].phys, sim.dev[other].phys);
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *info)
{
    SIM_CALL(aclrtGetDeviceUtilizationRate);
    bool known = device >= 0 && (uint32_t)device < sim.n_devices;

    if (info == NULL)
        return sim_fail_null("info");
    if (info->utilizationExtend != NULL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                        "utilizationExtend is reserved and has to be null");
    /* The simulator computes nothing, so 0 of each; -1 is "not told", which is also the answer for a device
     * that does not exist, with success (open runtime). */
    info->cubeUtilization = known ? 0 : -1;
    info->vectorUtilization = known && sim_profile.n_vector > 0 ? 0 : -1;
    info->aicpuUtilization = known ? 0 : -1;
    info->memoryUtilization = -1;
    return ACL_SUCCESS;
}
