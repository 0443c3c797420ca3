/* fuzz_info.h - the random calls of sim_fuzz.c that only ask, and those of aclsim.h.
 *
 * Threads: the caller's; see fuzz_world.h. Locks: none. Owns: nothing.
 * Invariant: as fuzz_ops.h.
 */
#ifndef NPUX_TESTS_FUZZ_INFO_H
#define NPUX_TESTS_FUZZ_INFO_H

#include "tests/fuzz_world.h"

static void op_errors(struct fuzz *f)
{
    static _Thread_local aclrtErrorInfo info;
    static _Thread_local aclrtMemUceInfo uce[4];
    int32_t device = a_device(f), a, b, c;
    uint64_t number;
    uint32_t id;
    size_t n;
    char text[128];

    switch (below(f, 16)) {
    case 0:
        T(aclInit, NULL);
        break;
    case 1:
        T(aclFinalize);
        break;
    case 2:
        T(aclFinalizeReference, &number);
        break;
    case 3:
        V(aclrtPeekAtLastError, (aclrtLastErrLevel)below(f, 2));
        break;
    case 4:
        V(aclrtGetLastError, (aclrtLastErrLevel)below(f, 2));
        break;
    case 5:
        T(aclrtGetVersion, &a, &b, &c);
        break;
    case 6:
        V(aclsysGetVersionStr, one_in(f, 3) ? "none" : "runtime", text);
        break;
    case 7:
        V(aclsysGetVersionNum, "runtime", &a);
        break;
    case 8:
        V(aclrtGetSocName);
        break;
    case 9:
        T(aclrtGetErrorVerbose, device, &info);
        break;
    case 10:
        T(aclrtRepairError, device, &info);
        break;
    case 11:
        T(aclrtGetMemUceInfo, device, uce, below(f, 5), &n);
        break;
    case 12:
        T(aclrtMemUceRepair, device, uce, below(f, 3));
        break;
    case 13:
        T(aclrtGetThreadLastTaskId, &id);
        break;
    default:
        V(aclGetRecentErrMsg);
    }
}

static void op_device_info(struct fuzz *f)
{
    int32_t device = a_device(f), a, b;
    aclrtUtilizationInfo rate = {0};
    aclrtDeviceStatus status;
    aclrtRunMode mode;
    aclrtUuid uuid;
    aclrtStream stream;
    aclrtContext ctx;
    uint32_t n;
    uint64_t number;
    int64_t value;
    size_t limit;
    char text[64] = "0000:01:00.0";

    switch (below(f, 24)) {
    case 0:
        T(aclrtGetDeviceCount, &n);
        break;
    case 1:
        T(aclrtGetRunMode, &mode);
        break;
    case 2:
        T(aclrtQueryDeviceStatus, device, &status);
        break;
    case 3:
        T(aclrtGetDeviceInfo, (uint32_t)device, (aclrtDevAttr)below(f, 602), &value);
        break;
    case 4:
        T(aclrtGetDeviceCapability, device, (aclrtDevFeatureType)below(f, 23), &a);
        break;
    case 5:
        T(aclrtDeviceGetUuid, device, &uuid);
        break;
    case 6:
        T(aclrtDeviceGetStreamPriorityRange, &a, one_in(f, 3) ? NULL : &b);
        break;
    case 7:
        T(aclrtDeviceSetLimit, (aclrtDeviceLimit)below(f, 6), below(f, 1u << 20));
        break;
    case 8:
        T(aclrtDeviceGetLimit, (aclrtDeviceLimit)below(f, 6), &limit);
        break;
    case 9:
        T(aclrtDeviceGetPCIBusId, device, text, (int32_t)below(f, 64));
        break;
    case 10:
        T(aclrtDeviceGetByPCIBusId, text, &a);
        break;
    case 11:
        T(aclrtGetDevicesTopo, (uint32_t)device, below(f, 3), &number);
        break;
    case 12:
        T(aclrtDeviceCanAccessPeer, &a, device, (int32_t)below(f, 3));
        break;
    case 13:
        T(aclrtDevicePeerAccessStatus, device, (int32_t)below(f, 3), &a);
        break;
    case 14:
        T(aclrtRegDeviceStateCallback, "a", one_in(f, 2) ? NULL : on_device, NULL);
        break;
    case 15:
        T(aclrtGetDeviceResLimit, device, (aclrtDevResLimitType)below(f, 3), &n);
        break;
    case 16:
        T(aclrtSetDeviceResLimit, device, (aclrtDevResLimitType)below(f, 3), below(f, 40));
        break;
    case 17:
        T(aclrtResetDeviceResLimit, device);
        break;
    case 18:
        T(aclrtGetResInCurrentThread, (aclrtDevResLimitType)below(f, 3), &n);
        break;
    case 19:
        T(aclrtGetDeviceUtilizationRate, device, &rate);
        break;
    case 20:
        T(aclrtCtxGetCurrentDefaultStream, &stream);
        break;
    case 21:
        T(aclrtGetPrimaryCtxState, device, one_in(f, 9) ? &n : NULL, &a);
        break;
    case 22:
        T(aclrtGetCurrentContext, &ctx);
        break;
    default:
        T(aclrtSetCurrentContext, f->own);
    }
}

static void op_time_limits(struct fuzz *f)
{
    uint64_t actual;

    switch (below(f, 5)) {
    case 0:
        T(aclrtSetOpWaitTimeout, below(f, 3));
        break;
    case 1:
        T(aclrtSetOpExecuteTimeOut, below(f, 3));
        break;
    case 2:
        T(aclrtSetOpExecuteTimeOutWithMs, below(f, 3000));
        break;
    case 3:
        T(aclrtSetOpExecuteTimeOutV2, below(f, 3000), &actual);
        break;
    default:
        T(aclrtGetOpTimeOutInterval, &actual);
    }
}

/* --- the controls --- */

static void op_fault(struct fuzz *f)
{
    static const char *const rules[] = {
        "copy nth=2",
        "copy nth=1 times=3 probability=0.5 seed=3",
        "event nth=2",
        "free nth=1",
        "alloc kind=device nth=1",
        "alloc kind=pinned total=64KiB times=3",
        "streams limit=3 times=2",
        "events limit=3 times=2",
        "register nth=1",
        "slow factor=2 delay_us=20 times=3",
        "stall nth=1",
        "lose nth=2",
        "lose device=1",
        "sick nth=1",
        "sick device=0 code=507054",
        "random rate=0.2 seed=9 times=20",
        "call name=aclrtMemcpyAsync code=507899 nth=3",
        "nonsense key=1",
    };

    if (!one_in(f, 3))
        return;
    (void)aclsim_add_fault(rules[below(f, sizeof(rules) / sizeof(rules[0]))]);
    (void)aclsim_fault_error();
    if (one_in(f, 3))
        (void)aclsim_clear_faults();
}

static void op_control(struct fuzz *f)
{
    struct aclsim_counters counters;
    struct aclsim_link link = {0};
    char text[256];
    int32_t device = (int32_t)below(f, 3) - 1;

    switch (below(f, 14)) {
    case 0:
        (void)aclsim_hold_engine(device, (int)below(f, 4));
        break;
    case 1:
    case 2:
        (void)aclsim_release_engine(device, (int)below(f, 4));
        break;
    case 3:
        (void)aclsim_hold_stream(some(f, world.stream, STREAMS));
        break;
    case 4:
    case 5:
        (void)aclsim_release_stream(some(f, world.stream, STREAMS));
        break;
    case 6:
        (void)aclsim_pending_tasks(device);
        break;
    case 7:
        (void)aclsim_fail_copy(device, (int)below(f, 4) - 1, 1 + below(f, 3), ACL_ERROR_RT_TS_ERROR);
        break;
    case 8:
        aclsim_counters(&counters);
        (void)aclsim_now_ns();
        break;
    case 9:
        (void)aclsim_finding_count(NULL);
        (void)aclsim_finding_text("unordered", below(f, 3), text, sizeof(text));
        if (one_in(f, 20))
            aclsim_clear_findings();
        break;
    case 10:
        (void)aclsim_peek(device_address(f), text, sizeof(text));
        (void)aclsim_poke(device_address(f), text, 16);
        break;
    case 11:
        link.h2d_bytes_per_s = one_in(f, 2) ? 0 : 20000000000u;
        link.latency_ns = one_in(f, 2) ? 0 : 500;
        link.submit_ns = one_in(f, 4) ? 100 : 0;
        link.move_bytes = !one_in(f, 8);
        (void)aclsim_set_link(device, &link);
        break;
    case 12:
        (void)aclsim_set_guards((int)below(f, 4) - 2);
        aclsim_set_strict(one_in(f, 10));
        break;
    default:
        (void)aclsim_call_count("aclrtMemcpyAsync", 0);
        if (one_in(f, 50))
            (void)aclsim_set_mode((int)below(f, 3), 1); /* refused while a device is set */
    }
}

#endif
