"""The enums and flag sets of the ACL C ABI, by theme. Values are those of CANN 8.0 to 9.2.

A test compiles every member against native/acl/abi.h. Arguments may also be plain ints: a newer library knows
values that are not listed here.
"""

from __future__ import annotations

import enum

__all__ = [
    "AicoreErrorType",
    "CallbackBlockType",
    "DevAttr",
    "DevFeatureType",
    "DevResLimitType",
    "DeviceLimit",
    "DeviceState",
    "DeviceStatus",
    "ErrorType",
    "EventFlag",
    "EventRecordFlag",
    "EventRecordedStatus",
    "EventStatus",
    "EventWaitFlag",
    "EventWaitStatus",
    "FailureMode",
    "HostRegFlag",
    "HostRegisterType",
    "LastErrLevel",
    "MallocAttrType",
    "MallocPolicy",
    "MemAttr",
    "MemLocationType",
    "MemType",
    "MemcpyKind",
    "NotifyFlag",
    "RunMode",
    "StreamAttr",
    "StreamFlag",
    "StreamState",
    "StreamStatus",
    "WaitValue",
]


class RunMode(enum.IntEnum):
    """Where this process runs (aclrtRunMode)."""

    DEVICE = 0
    HOST = 1


class MemcpyKind(enum.IntEnum):
    """Direction of a copy (aclrtMemcpyKind)."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    HOST_TO_BUF_TO_DEVICE = 5
    INNER_DEVICE_TO_DEVICE = 6
    INTER_DEVICE_TO_DEVICE = 7


class MallocPolicy(enum.IntEnum):
    """Page size and peer access of device memory (aclrtMemMallocPolicy)."""

    HUGE_FIRST = 0
    HUGE_ONLY = 1
    NORMAL_ONLY = 2
    HUGE_FIRST_P2P = 3
    HUGE_ONLY_P2P = 4
    NORMAL_ONLY_P2P = 5
    HUGE1G_ONLY = 6
    HUGE1G_ONLY_P2P = 7


class EventStatus(enum.IntEnum):
    """Answer of the deprecated aclrtQueryEvent. Its numbers are the reverse of `EventRecordedStatus`."""

    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 2


class EventRecordedStatus(enum.IntEnum):
    """Answer of aclrtQueryEventStatus. Its numbers are the reverse of `EventStatus`."""

    NOT_READY = 0
    COMPLETE = 1


class EventWaitStatus(enum.IntEnum):
    """Answer of aclrtQueryEventWaitStatus."""

    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 0xFFFF


class StreamStatus(enum.IntEnum):
    """Answer of aclrtStreamQuery."""

    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 0xFFFF


class EventFlag(enum.IntFlag):
    """What an event is for. Without SYNC no stream can wait for it. IPC, EXTERNAL and DEVICE_USE_ONLY each
    stand alone."""

    SYNC = 0x1
    CAPTURE_STREAM_PROGRESS = 0x2
    TIME_LINE = 0x8
    DEVICE_USE_ONLY = 0x10
    EXTERNAL = 0x20
    IPC = 0x40


class StreamFlag(enum.IntFlag):
    """Flags of aclrtCreateStreamWithConfig."""

    FAST_LAUNCH = 0x1
    FAST_SYNC = 0x2
    PERSISTENT = 0x4
    HUGE = 0x8
    CPU_SCHEDULE = 0x10
    DEVICE_USE_ONLY = 0x20


class MemLocationType(enum.IntEnum):
    """Where an address lives (aclrtMemLocationType). Ordinary host memory is UNREGISTERED."""

    HOST = 0
    DEVICE = 1
    UNREGISTERED = 2
    MANAGED = 3
    HOST_NUMA = 4


class MemAttr(enum.IntEnum):
    """Which memory aclrtGetMemInfo reports (aclrtMemAttr)."""

    DDR_MEM = 0
    HBM_MEM = 1
    DDR_MEM_HUGE = 2
    DDR_MEM_NORMAL = 3
    HBM_MEM_HUGE = 4
    HBM_MEM_NORMAL = 5
    DDR_MEM_P2P_HUGE = 6
    DDR_MEM_P2P_NORMAL = 7
    HBM_MEM_P2P_HUGE = 8
    HBM_MEM_P2P_NORMAL = 9
    HBM_MEM_HUGE1G = 10
    HBM_MEM_P2P_HUGE1G = 11
    MEM_NORMAL = 12
    MEM_HUGE = 13
    MEM_HUGE1G = 14
    MEM_P2P_NORMAL = 15
    MEM_P2P_HUGE = 16
    MEM_P2P_HUGE1G = 17


class LastErrLevel(enum.IntEnum):
    """Scope of aclrtPeekAtLastError (aclrtLastErrLevel)."""

    THREAD = 0


class DeviceStatus(enum.IntEnum):
    """Answer of aclrtQueryDeviceStatus."""

    NORMAL = 0
    ABNORMAL = 1
    END = 0xFFFF


class MemType(enum.IntFlag):
    """Bandwidth wish that may be added to a `MallocPolicy`."""

    LOW_BAND_WIDTH = 0x100
    HIGH_BAND_WIDTH = 0x1000


class EventRecordFlag(enum.IntEnum):
    """Flag of aclrtRecordEventWithFlag. EXTERNAL is for events that cross the border of a captured graph."""

    DEFAULT = 0
    EXTERNAL = 1


class EventWaitFlag(enum.IntEnum):
    """Flag of aclrtStreamWaitEventWithFlag."""

    DEFAULT = 0
    EXTERNAL = 1


class FailureMode(enum.IntEnum):
    """What a failed task does to the later work of its stream. STOP acts on the stream's whole context."""

    CONTINUE_ON_FAILURE = 0
    STOP_ON_FAILURE = 1


class NotifyFlag(enum.IntEnum):
    """Flag of aclrtCreateNotify."""

    DEFAULT = 0
    DEVICE_USE_ONLY = 1


class WaitValue(enum.IntEnum):
    """How aclrtValueWait compares the memory with the value."""

    GEQ = 0
    EQ = 1
    AND = 2
    NOR = 3


class HostRegFlag(enum.IntFlag):
    """Flags of aclrtHostRegisterV2; at least one is needed."""

    MAPPED = 0x2
    IOMEMORY = 0x4
    READONLY = 0x8
    PINNED = 0x10000000


class HostRegisterType(enum.IntEnum):
    """Kind of mapping that aclrtHostRegister makes."""

    MAPPED = 0
    IOMEMORY = 4
    READONLY = 8


class CallbackBlockType(enum.IntEnum):
    """Whether the stream's later work waits until the callback has returned (aclrtLaunchCallback)."""

    NO_BLOCK = 0
    BLOCK = 1


class StreamState(enum.IntEnum):
    """What a stream state callback is told."""

    CREATE_POST = 1
    DESTROY_PRE = 2


class DeviceState(enum.IntEnum):
    """What a device state callback is told."""

    SET_PRE = 0
    SET_POST = 1
    RESET_PRE = 2
    RESET_POST = 3


class StreamAttr(enum.IntEnum):
    """Attributes of a stream; each reads or writes one member of `StreamAttrValue`."""

    FAILURE_MODE = 1
    FLOAT_OVERFLOW_CHECK = 2
    USER_CUSTOM_TAG = 3
    CACHE_OP_INFO = 4
    PRIORITY = 5


class DevAttr(enum.IntEnum):
    """What aclrtGetDeviceInfo can tell."""

    AICPU_CORE_NUM = 1
    AICORE_CORE_NUM = 101
    CUBE_CORE_NUM = 102
    VECTOR_CORE_NUM = 201
    TOTAL_GLOBAL_MEM_SIZE = 301
    L2_CACHE_SIZE = 302
    SMP_ID = 401
    PHY_CHIP_ID = 402
    SUPER_POD_DEVICE_ID = 403
    SUPER_POD_SERVER_ID = 404
    SUPER_POD_ID = 405
    CUST_OP_PRIVILEGE = 406
    MAINBOARD_ID = 407
    HD_CONNECT_TYPE = 408
    DEVICE_FORM_FACTOR = 409
    IS_VIRTUAL = 501
    NPU_ARCH = 601


class DevFeatureType(enum.IntEnum):
    """What aclrtGetDeviceCapability can tell."""

    TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1
    SYSTEM_MEMQ_EVENT_CROSS_DEV = 21


class DevResLimitType(enum.IntEnum):
    """Compute resources that a process can limit."""

    CUBE_CORE = 0
    VECTOR_CORE = 1


class DeviceLimit(enum.IntEnum):
    """Sizes that aclrtDeviceSetLimit changes, in bytes."""

    SIMT_STACK_SIZE = 0
    SIMT_DVG_WARP_STACK_SIZE = 1
    SIMD_STACK_SIZE = 2
    SIMD_PRINTF_FIFO_SIZE_PER_CORE = 3
    SIMT_PRINTF_FIFO_SIZE = 4


class MallocAttrType(enum.IntEnum):
    """Which member of `MallocAttrValue` an allocation attribute uses."""

    RSV = 0
    MODULE_ID = 1
    DEVICE_ID = 2
    VA_FLAG = 3


class ErrorType(enum.IntEnum):
    """What aclrtGetErrorVerbose found on a device."""

    NO_ERROR = 0
    ERROR_MEMORY = 1
    ERROR_L2 = 2
    ERROR_AICORE = 3
    ERROR_LINK = 4
    ERROR_L3_PORT = 5
    ERROR_OTHERS = 0xFFFF


class AicoreErrorType(enum.IntEnum):
    """Cause of an AI Core error."""

    UNKNOWN = 0
    SW = 1
    HW_LOCAL = 2
