/* abi.h - the part of the ACL C ABI that this project uses: types, enums, struct layouts.
 *
 * Written from the documented numbers, not from a vendor header. Sizes and offsets are asserted below, so
 * a drift is a compile error. Functions are listed once, in symbols.def.
 *
 * Threads: none. Locks: none. Owns: nothing.
 * Invariant: every value here is what libascendcl of CANN 8.0 to 9.2 uses.
 */
#ifndef NPUX_ACL_ABI_H
#define NPUX_ACL_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int aclError;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;

/* The runtime keeps this opaque; it is read through the aclrtGet...FromExceptionInfo calls only. */
typedef struct rtExceptionInfo aclrtExceptionInfo;
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *info);

enum { /* aclError values that the engine and the simulator name; the full table is _cann/codes.py */
       ACL_SUCCESS = 0,
       ACL_ERROR_INVALID_PARAM = 100000,
       ACL_ERROR_UNINITIALIZE = 100001,
       ACL_ERROR_REPEAT_INITIALIZE = 100002,
       ACL_ERROR_INVALID_FILE = 100003,
       ACL_ERROR_PARSE_FILE = 100006,
       ACL_ERROR_REPEAT_FINALIZE = 100037,
       ACL_ERROR_BAD_ALLOC = 200000,
       ACL_ERROR_RT_PARAM_INVALID = 107000,
       ACL_ERROR_RT_INVALID_DEVICEID = 107001,
       ACL_ERROR_RT_CONTEXT_NULL = 107002,
       ACL_ERROR_RT_STREAM_CONTEXT = 107003,
       ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006,
       ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL = 107007,
       ACL_ERROR_RT_INVALID_HANDLE = 107017,
       ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
       ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
       ACL_ERROR_RT_NO_EVENT_RESOURCE = 207007,
       ACL_ERROR_RT_NO_STREAM_RESOURCE = 207008,
       ACL_ERROR_RT_INTERNAL_ERROR = 507000,
       ACL_ERROR_RT_TS_ERROR = 507001,
       ACL_ERROR_RT_CONTEXT_RELEASE_ERROR = 507007,
       ACL_ERROR_RT_LOST_HEARTBEAT = 507010,
       ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046,
       ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047,
};

typedef enum aclrtRunMode { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7
} aclrtMemMallocPolicy;

/* Two enums with opposite numbers: the deprecated aclrtQueryEvent uses the first, aclrtQueryEventStatus
 * the second. */
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;
typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF
} aclrtEventWaitStatus;
typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF
} aclrtStreamStatus;

enum { /* event creation flags */
       ACL_EVENT_SYNC = 0x1,
       ACL_EVENT_CAPTURE_STREAM_PROGRESS = 0x2,
       ACL_EVENT_TIME_LINE = 0x8,
       ACL_EVENT_DEVICE_USE_ONLY = 0x10,
       ACL_EVENT_EXTERNAL = 0x20,
       ACL_EVENT_IPC = 0x40
};
enum { /* stream creation flags */
       ACL_STREAM_FAST_LAUNCH = 0x1,
       ACL_STREAM_FAST_SYNC = 0x2,
       ACL_STREAM_PERSISTENT = 0x4,
       ACL_STREAM_HUGE = 0x8,
       ACL_STREAM_CPU_SCHEDULE = 0x10,
       ACL_STREAM_DEVICE_USE_ONLY = 0x20
};

typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,
    ACL_MEM_LOCATION_TYPE_MANAGED = 3,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;

typedef enum aclrtMemAttr {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
    ACL_MEM_NORMAL = 12,
    ACL_MEM_HUGE = 13,
    ACL_MEM_HUGE1G = 14,
    ACL_MEM_P2P_NORMAL = 15,
    ACL_MEM_P2P_HUGE = 16,
    ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;

typedef enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;
typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 0xFFFF
} aclrtDeviceStatus;

typedef struct aclrtMemLocation { /* the id comes first */
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;

_Static_assert(sizeof(aclrtMemcpyKind) == 4, "ACL enums are int sized");
_Static_assert(sizeof(aclrtMemLocation) == 8, "aclrtMemLocation");
_Static_assert(offsetof(aclrtMemLocation, type) == 4, "aclrtMemLocation.type");
_Static_assert(sizeof(aclrtPtrAttributes) == 28, "aclrtPtrAttributes");
_Static_assert(offsetof(aclrtPtrAttributes, pageSize) == 8, "aclrtPtrAttributes.pageSize");
_Static_assert(offsetof(aclrtPtrAttributes, rsv) == 12, "aclrtPtrAttributes.rsv");

#endif
