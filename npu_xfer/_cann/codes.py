"""Every aclError of CANN up to 9.2: number, name, what it means for a copy, what to do.

Pure data and lookups, no runtime call. Numbers and names are CANN's; the meanings and the remedies are ours.
`acl_error` and `transfer_error` build the exceptions that carry them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from npu_xfer.errors import AclError, ResourceError, TransferError, TransferResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ACL_SUCCESS", "CODES", "CodeInfo", "acl_error", "code_info", "code_name", "transfer_error"]

ACL_SUCCESS = 0


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """One aclError."""

    code: int
    """The number that the call returned."""

    name: str
    """CANN's constant, for example ACL_ERROR_RT_PARAM_INVALID."""

    meaning: str
    """What happened, as a phrase."""

    remedy: str
    """What to do, as a phrase in the imperative."""

    sticky: bool = False
    """True when later work on the same device fails too until it is repaired, reset or reopened."""

    device_lost: bool = False
    """True when the device does not answer any more: reset it or restart the process. Implies `sticky`."""

    resource: bool = False
    """True when something ran out and the same call may succeed later."""


# Remedies by group; a row of the table below names its group.
_REMEDIES = {
    "ok": "nothing",
    "argument": "check the call's addresses, sizes, kind and timeout; the runtime's text names the bad one",
    "config": "correct the configuration file given to aclInit, or pass none",
    "init": "call aclInit once before other calls, and let its owner finalise it",
    "device": "check the device number against npu-smi info and ASCEND_RT_VISIBLE_DEVICES",
    "context": "set the device on the calling thread, and use streams and events of that device only",
    "handle": "do not use a stream, event or buffer after it was destroyed",
    "event": "record both events with timing enabled, in order, and synchronise the later one first",
    "subscribe": "subscribe each callback thread and stream once, and before the first callback",
    "graph": "keep copies by this package off streams that capture or belong to a graph",
    "model": "correct the model or operator call; copies do not cause this",
    "stub": "remove the stub or devlib folder of the toolkit from LD_LIBRARY_PATH",
    "profiling": "stop the other profiling or dump session first; copies do not cause this",
    "unsupported": "check that this chip and CANN release offer the function, or update CANN and the driver",
    "memory": "free device or page-locked memory, lower NPU_XFER_STAGING, or use a smaller batch",
    "ids": "destroy unused streams or events, also in other libraries of this process",
    "permission": "run as a user of the driver's group (HwHiAiUser), and pass the device into the container",
    "busy": "try again later; something else holds the resource",
    "wait": "wait longer, or look for the task that holds the stream up; the object stays usable",
    "abort": "wait for the task abort to end, then reopen the scheduler",
    "dma": "repeat the transfer once; if it fails again, check the device with npu-smi and the driver's log",
    "kernel": "look for the failing kernel on the same stream; the copy is not its cause",
    "repair": "let the framework abort and repair the device's tasks, or reset it; see the driver's log",
    "lost": "reset the device or restart the process, and check it with npu-smi info",
    "internal": "look at the CANN log (ASCEND_PROCESS_LOG_PATH) for the first error line, and report that",
    "register": "register a host range once and unregister it once",
    "snapshot": "finish or cancel the process snapshot before other device work",
}

_ROWS = (
    (0, "ACL_SUCCESS", "ok", "success"),
    # Answers of the ACL layer itself
    (
        100000,
        "ACL_ERROR_INVALID_PARAM",
        "argument",
        "the ACL layer refused an argument: null, zero or unknown",
    ),
    (100001, "ACL_ERROR_UNINITIALIZE", "init", "ACL was not initialised"),
    (100002, "ACL_ERROR_REPEAT_INITIALIZE", "init", "ACL was initialised before, maybe by another library"),
    (100003, "ACL_ERROR_INVALID_FILE", "config", "the file cannot be read"),
    (100004, "ACL_ERROR_WRITE_FILE", "config", "writing the file failed"),
    (100005, "ACL_ERROR_INVALID_FILE_SIZE", "config", "the file has an impossible size"),
    (100006, "ACL_ERROR_PARSE_FILE", "config", "the file is not valid JSON for aclInit"),
    (100007, "ACL_ERROR_FILE_MISSING_ATTR", "config", "the file lacks a required entry"),
    (100008, "ACL_ERROR_FILE_ATTR_INVALID", "config", "an entry of the file has a bad value"),
    (100009, "ACL_ERROR_INVALID_DUMP_CONFIG", "config", "the dump settings are wrong"),
    (100010, "ACL_ERROR_INVALID_PROFILING_CONFIG", "config", "the profiling settings are wrong"),
    (100011, "ACL_ERROR_INVALID_MODEL_ID", "model", "no model has this id"),
    (100012, "ACL_ERROR_DESERIALIZE_MODEL", "model", "the model data cannot be unpacked"),
    (100013, "ACL_ERROR_PARSE_MODEL", "model", "the model data cannot be understood"),
    (100014, "ACL_ERROR_READ_MODEL_FAILURE", "model", "the model cannot be read"),
    (100015, "ACL_ERROR_MODEL_SIZE_INVALID", "model", "the model has an impossible size"),
    (100016, "ACL_ERROR_MODEL_MISSING_ATTR", "model", "the model lacks an attribute"),
    (100017, "ACL_ERROR_MODEL_INPUT_NOT_MATCH", "model", "inputs do not fit the model"),
    (100018, "ACL_ERROR_MODEL_OUTPUT_NOT_MATCH", "model", "outputs do not fit the model"),
    (100019, "ACL_ERROR_MODEL_NOT_DYNAMIC", "model", "the model has fixed shapes"),
    (100020, "ACL_ERROR_OP_TYPE_NOT_MATCH", "model", "the operator has another type"),
    (100021, "ACL_ERROR_OP_INPUT_NOT_MATCH", "model", "inputs do not fit the operator"),
    (100022, "ACL_ERROR_OP_OUTPUT_NOT_MATCH", "model", "outputs do not fit the operator"),
    (100023, "ACL_ERROR_OP_ATTR_NOT_MATCH", "model", "attributes do not fit the operator"),
    (100024, "ACL_ERROR_OP_NOT_FOUND", "model", "no such operator"),
    (100025, "ACL_ERROR_OP_LOAD_FAILED", "model", "the operator cannot be loaded"),
    (100026, "ACL_ERROR_UNSUPPORTED_DATA_TYPE", "model", "the data type is not supported"),
    (100027, "ACL_ERROR_FORMAT_NOT_MATCH", "model", "the data format does not fit"),
    (100028, "ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED", "model", "no selector for operator binaries is set"),
    (100029, "ACL_ERROR_KERNEL_NOT_FOUND", "model", "no such kernel"),
    (100030, "ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED", "model", "a selector for operator binaries is set"),
    (100031, "ACL_ERROR_KERNEL_ALREADY_REGISTERED", "model", "the kernel is known already"),
    (100032, "ACL_ERROR_INVALID_QUEUE_ID", "argument", "no queue has this id"),
    (100033, "ACL_ERROR_REPEAT_SUBSCRIBE", "subscribe", "the stream has a callback thread already"),
    (100034, "ACL_ERROR_STREAM_NOT_SUBSCRIBE", "subscribe", "the stream has no callback thread"),
    (100035, "ACL_ERROR_THREAD_NOT_SUBSCRIBE", "subscribe", "the thread serves no stream"),
    (100036, "ACL_ERROR_WAIT_CALLBACK_TIMEOUT", "wait", "no callback came in time"),
    (100037, "ACL_ERROR_REPEAT_FINALIZE", "init", "ACL was finalised before"),
    (100038, "ACL_ERROR_NOT_STATIC_AIPP", "model", "the model's image preprocessing is not static"),
    (
        100039,
        "ACL_ERROR_COMPILING_STUB_MODE",
        "stub",
        "a link-time stub was loaded in place of the real library",
    ),
    (100040, "ACL_ERROR_GROUP_NOT_SET", "device", "no resource group is set"),
    (100041, "ACL_ERROR_GROUP_NOT_CREATE", "device", "the resource group does not exist"),
    (100042, "ACL_ERROR_PROF_ALREADY_RUN", "profiling", "profiling runs already"),
    (100043, "ACL_ERROR_PROF_NOT_RUN", "profiling", "profiling does not run"),
    (100044, "ACL_ERROR_DUMP_ALREADY_RUN", "profiling", "a dump runs already"),
    (100045, "ACL_ERROR_DUMP_NOT_RUN", "profiling", "no dump runs"),
    (148046, "ACL_ERROR_PROF_REPEAT_SUBSCRIBE", "profiling", "the model is profiled already"),
    (148047, "ACL_ERROR_PROF_API_CONFLICT", "profiling", "two profiling interfaces are mixed"),
    (148048, "ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG", "config", "the operator queue length is wrong"),
    (148049, "ACL_ERROR_INVALID_OPP_PATH", "config", "ASCEND_OPP_PATH leads nowhere"),
    (148050, "ACL_ERROR_OP_UNSUPPORTED_DYNAMIC", "model", "the operator has fixed shapes"),
    (
        148051,
        "ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED",
        "handle",
        "something that depends on it still exists",
    ),
    (148052, "ACL_ERROR_UNSUPPORTED_JPEG", "model", "the JPEG variant is not supported"),
    (148053, "ACL_ERROR_INVALID_BUNDLE_MODEL_ID", "model", "no bundled model has this id"),
    (200000, "ACL_ERROR_BAD_ALLOC", "memory", "the host process has no memory left"),
    (200001, "ACL_ERROR_API_NOT_SUPPORT", "unsupported", "the function is not offered here"),
    (200002, "ACL_ERROR_INVALID_DEVICE", "device", "no such device"),
    (200003, "ACL_ERROR_MEMORY_ADDRESS_UNALIGNED", "argument", "an address lacks the needed alignment"),
    (200004, "ACL_ERROR_RESOURCE_NOT_MATCH", "context", "two resources do not belong together"),
    (200005, "ACL_ERROR_INVALID_RESOURCE_HANDLE", "handle", "the handle is not valid"),
    (200006, "ACL_ERROR_FEATURE_UNSUPPORTED", "unsupported", "the feature or a flag is not supported"),
    (200007, "ACL_ERROR_PROF_MODULES_UNSUPPORTED", "profiling", "the profiling module is not supported"),
    (300000, "ACL_ERROR_STORAGE_OVER_LIMIT", "memory", "a storage limit is passed"),
    (500000, "ACL_ERROR_INTERNAL_ERROR", "internal", "the ACL layer failed inside"),
    (500001, "ACL_ERROR_FAILURE", "internal", "unspecified failure"),
    (500002, "ACL_ERROR_GE_FAILURE", "internal", "the graph engine failed"),
    (500003, "ACL_ERROR_RT_FAILURE", "internal", "the runtime failed"),
    (500004, "ACL_ERROR_DRV_FAILURE", "internal", "the driver failed"),
    (500005, "ACL_ERROR_PROFILING_FAILURE", "profiling", "profiling failed"),
    # Answers of the runtime: the caller's side
    (
        107000,
        "ACL_ERROR_RT_PARAM_INVALID",
        "argument",
        "the runtime refused an argument, or kind and memory differ",
    ),
    (107001, "ACL_ERROR_RT_INVALID_DEVICEID", "device", "no device has this number"),
    (107002, "ACL_ERROR_RT_CONTEXT_NULL", "context", "the calling thread has no current device"),
    (107003, "ACL_ERROR_RT_STREAM_CONTEXT", "context", "the stream or event belongs to another context"),
    (107004, "ACL_ERROR_RT_MODEL_CONTEXT", "context", "the model belongs to another context"),
    (107005, "ACL_ERROR_RT_STREAM_MODEL", "graph", "the stream is not part of the model"),
    (107006, "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID", "event", "an event has no usable time stamp"),
    (107007, "ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL", "event", "the end event is older than the start event"),
    (107008, "ACL_ERROR_RT_ADDR_UNALIGNED", "argument", "an address lacks the needed alignment"),
    (107009, "ACL_ERROR_RT_FILE_OPEN", "config", "a file cannot be opened"),
    (107010, "ACL_ERROR_RT_FILE_WRITE", "config", "a file cannot be written"),
    (107011, "ACL_ERROR_RT_STREAM_SUBSCRIBE", "subscribe", "the stream has a callback thread already"),
    (
        107012,
        "ACL_ERROR_RT_THREAD_SUBSCRIBE",
        "subscribe",
        "the thread serves no stream, or streams of two devices",
    ),
    (107013, "ACL_ERROR_RT_GROUP_NOT_SET", "device", "no resource group is set"),
    (107014, "ACL_ERROR_RT_GROUP_NOT_CREATE", "device", "the resource group does not exist"),
    (107015, "ACL_ERROR_RT_STREAM_NO_CB_REG", "subscribe", "the stream has no callback thread"),
    (
        107016,
        "ACL_ERROR_RT_INVALID_MEMORY_TYPE",
        "argument",
        "the memory has a type that the call cannot use",
    ),
    (107017, "ACL_ERROR_RT_INVALID_HANDLE", "handle", "the handle is of another type or was destroyed"),
    (107018, "ACL_ERROR_RT_INVALID_MALLOC_TYPE", "argument", "the allocation policy is not valid"),
    (107019, "ACL_ERROR_RT_WAIT_TIMEOUT", "wait", "a wait passed its time limit"),
    (107020, "ACL_ERROR_RT_TASK_TIMEOUT", "dma", "a device task, such as a copy, ran out of time"),
    (107021, "ACL_ERROR_RT_SYSPARAMOPT_NOT_SET", "argument", "the system parameter was not set"),
    (107022, "ACL_ERROR_RT_DEVICE_TASK_ABORT", "abort", "the device's tasks are being aborted"),
    (107023, "ACL_ERROR_RT_STREAM_ABORT", "abort", "the stream is being aborted"),
    (107024, "ACL_ERROR_RT_CAPTURE_DEPENDENCY", "graph", "a capture depends on work outside of it"),
    (107025, "ACL_ERROR_RT_STREAM_UNJOINED", "graph", "a captured stream was not joined"),
    (107026, "ACL_ERROR_RT_MODEL_CAPTURED", "graph", "the model is being captured"),
    (107027, "ACL_ERROR_RT_STREAM_CAPTURED", "graph", "the stream is being captured"),
    (107028, "ACL_ERROR_RT_EVENT_CAPTURED", "graph", "the event is part of a capture"),
    (107029, "ACL_ERROR_RT_STREAM_NOT_CAPTURED", "graph", "the stream is not being captured"),
    (107030, "ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT", "graph", "the capture mode forbids this call"),
    (107031, "ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT", "graph", "the default stream would join a capture"),
    (107032, "ACL_ERROR_STREAM_CAPTURE_CONFLICT", "graph", "dependent streams cannot start one capture"),
    (107033, "ACL_ERROR_STREAM_TASK_GROUP_STATUS", "graph", "the task group is in the wrong state"),
    (107034, "ACL_ERROR_STREAM_TASK_GROUP_INTR", "graph", "the task group was interrupted"),
    (107035, "ACL_ERROR_RT_TASK_ABORT_STOP", "abort", "a task abort stopped half way"),
    (107036, "ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED", "graph", "the capture began on another stream"),
    (107037, "ACL_ERROR_RT_MODEL_RUNNING", "graph", "the model still runs"),
    (107038, "ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD", "graph", "the capture began on another thread"),
    (107039, "ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY", "argument", "an array given to the call is too short"),
    (107040, "ACL_ERROR_RT_MODEL_UPDATE_FAILED", "graph", "the graph cannot be updated"),
    (
        107041,
        "ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC",
        "graph",
        "a copy of ordinary memory met a captured stream",
    ),
    (107042, "ACL_ERROR_RT_SYMBOL_NOT_FOUND", "model", "no such device symbol"),
    (107043, "ACL_ERROR_RT_INVALID_SYMBOL", "model", "the device symbol is not valid"),
    (107044, "ACL_ERROR_RT_INVALID_DEVICE_FUNCTION", "model", "the device function is not valid"),
    (107045, "ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING", "graph", "a nested graph is being captured"),
    # Answers of the runtime: resources
    (
        207000,
        "ACL_ERROR_RT_FEATURE_NOT_SUPPORT",
        "unsupported",
        "chip, release or object does not offer this",
    ),
    (207001, "ACL_ERROR_RT_MEMORY_ALLOCATION", "memory", "device memory or page-locked memory ran out"),
    (207002, "ACL_ERROR_RT_MEMORY_FREE", "handle", "the memory could not be freed"),
    (207003, "ACL_ERROR_RT_AICORE_OVER_FLOW", "kernel", "an AI Core computation overflowed"),
    (207004, "ACL_ERROR_RT_NO_DEVICE", "device", "no device is visible"),
    (207005, "ACL_ERROR_RT_RESOURCE_ALLOC_FAIL", "ids", "a runtime resource ran out"),
    (207006, "ACL_ERROR_RT_NO_PERMISSION", "permission", "the process may not use the device"),
    (207007, "ACL_ERROR_RT_NO_EVENT_RESOURCE", "ids", "the device has no event left"),
    (207008, "ACL_ERROR_RT_NO_STREAM_RESOURCE", "ids", "the device has no stream left"),
    (207009, "ACL_ERROR_RT_NO_NOTIFY_RESOURCE", "ids", "the device has no notify left"),
    (207010, "ACL_ERROR_RT_NO_MODEL_RESOURCE", "ids", "the device has no model slot left"),
    (207011, "ACL_ERROR_RT_NO_CDQ_RESOURCE", "ids", "the device has no descriptor queue left"),
    (207012, "ACL_ERROR_RT_OVER_LIMIT", "ids", "a limit of the device is passed"),
    (207013, "ACL_ERROR_RT_QUEUE_EMPTY", "busy", "the queue is empty"),
    (207014, "ACL_ERROR_RT_QUEUE_FULL", "busy", "the queue is full"),
    (207015, "ACL_ERROR_RT_REPEATED_INIT", "init", "it was initialised before"),
    (207016, "ACL_ERROR_RT_AIVEC_OVER_FLOW", "kernel", "a vector computation overflowed"),
    (207017, "ACL_ERROR_RT_OVER_FLOW", "kernel", "a computation overflowed"),
    (207018, "ACL_ERROR_RT_DEVICE_OOM", "memory", "the device itself ran out of memory"),
    (
        207019,
        "ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP",
        "unsupported",
        "the operator cannot be updated in place",
    ),
    (207020, "ACL_ERROR_RT_TIMEOUT", "wait", "the driver did not answer in time"),
    (
        207021,
        "ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED",
        "unsupported",
        "the link between the devices is unsuited",
    ),
    # Answers of the runtime: inside, and from the device
    (507000, "ACL_ERROR_RT_INTERNAL_ERROR", "internal", "the runtime failed inside"),
    (
        507001,
        "ACL_ERROR_RT_TS_ERROR",
        "dma",
        "the device's task scheduler reported a failure, often a failed copy",
    ),
    (507002, "ACL_ERROR_RT_STREAM_TASK_FULL", "graph", "the stream of a graph is full"),
    (507003, "ACL_ERROR_RT_STREAM_TASK_EMPTY", "internal", "the stream has no task"),
    (507004, "ACL_ERROR_RT_STREAM_NOT_COMPLETE", "wait", "the stream is not done"),
    (507005, "ACL_ERROR_RT_END_OF_SEQUENCE", "ok", "the sequence ended; not a failure"),
    (507006, "ACL_ERROR_RT_EVENT_NOT_COMPLETE", "wait", "the event is not done"),
    (
        507007,
        "ACL_ERROR_RT_CONTEXT_RELEASE_ERROR",
        "context",
        "the context is gone, or a device reset had no set",
    ),
    (507008, "ACL_ERROR_RT_SOC_VERSION", "unsupported", "the chip does not fit the installed CANN"),
    (507009, "ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT", "unsupported", "the device does not know this task type"),
    (507010, "ACL_ERROR_RT_LOST_HEARTBEAT", "lost", "the device does not answer any more"),
    (507011, "ACL_ERROR_RT_MODEL_EXECUTE", "model", "running a model failed"),
    (507012, "ACL_ERROR_RT_REPORT_TIMEOUT", "wait", "no report came in time"),
    (507013, "ACL_ERROR_RT_SYS_DMA", "dma", "the DMA engine failed"),
    (507014, "ACL_ERROR_RT_AICORE_TIMEOUT", "kernel", "an AI Core kernel ran out of time"),
    (507015, "ACL_ERROR_RT_AICORE_EXCEPTION", "kernel", "an AI Core kernel failed"),
    (507016, "ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", "kernel", "an AI Core kernel trapped"),
    (507017, "ACL_ERROR_RT_AICPU_TIMEOUT", "kernel", "an AI CPU kernel ran out of time"),
    (507018, "ACL_ERROR_RT_AICPU_EXCEPTION", "kernel", "an AI CPU kernel failed"),
    (507019, "ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR", "kernel", "the AI CPU answered a dump request wrongly"),
    (507020, "ACL_ERROR_RT_AICPU_MODEL_RSP_ERR", "kernel", "the AI CPU answered a model request wrongly"),
    (507021, "ACL_ERROR_RT_PROFILING_ERROR", "profiling", "profiling failed"),
    (507022, "ACL_ERROR_RT_IPC_ERROR", "internal", "sharing between processes failed"),
    (507023, "ACL_ERROR_RT_MODEL_ABORT_NORMAL", "model", "the model was stopped on request"),
    (507024, "ACL_ERROR_RT_KERNEL_UNREGISTERING", "model", "the kernel is being removed"),
    (507025, "ACL_ERROR_RT_RINGBUFFER_NOT_INIT", "internal", "the device's log ring is not set up"),
    (507026, "ACL_ERROR_RT_RINGBUFFER_NO_DATA", "internal", "the device's log ring is empty"),
    (507027, "ACL_ERROR_RT_KERNEL_LOOKUP", "model", "the kernel cannot be looked up"),
    (507028, "ACL_ERROR_RT_KERNEL_DUPLICATE", "model", "the kernel is registered twice"),
    (507029, "ACL_ERROR_RT_DEBUG_REGISTER_FAIL", "internal", "the debugger cannot attach"),
    (507030, "ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL", "internal", "the debugger cannot detach"),
    (507031, "ACL_ERROR_RT_LABEL_CONTEXT", "context", "the label belongs to another context"),
    (507032, "ACL_ERROR_RT_PROGRAM_USE_OUT", "model", "too many programs are registered"),
    (507033, "ACL_ERROR_RT_DEV_SETUP_ERROR", "lost", "the device could not be started"),
    (507034, "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", "kernel", "a vector kernel ran out of time"),
    (507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", "kernel", "a vector kernel failed"),
    (507036, "ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION", "kernel", "a vector kernel trapped"),
    (507037, "ACL_ERROR_RT_CDQ_BATCH_ABNORMAL", "internal", "a descriptor queue gave out a bad batch"),
    (507038, "ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR", "device", "the die mode cannot change now"),
    (507039, "ACL_ERROR_RT_DIE_SET_ERROR", "device", "a die cannot be chosen in single-die mode"),
    (507040, "ACL_ERROR_RT_INVALID_DIEID", "device", "no die has this number"),
    (507041, "ACL_ERROR_RT_DIE_MODE_NOT_SET", "device", "the die mode was not chosen"),
    (507042, "ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW", "kernel", "an AI Core kernel read out of bounds"),
    (507043, "ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW", "kernel", "an AI Core kernel wrote out of bounds"),
    (507044, "ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW", "kernel", "a vector kernel read out of bounds"),
    (507045, "ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW", "kernel", "a vector kernel wrote out of bounds"),
    (507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", "wait", "the stream was not done within the time limit"),
    (507047, "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT", "wait", "the event was not done within the time limit"),
    (507048, "ACL_ERROR_RT_FFTS_PLUS_TIMEOUT", "kernel", "a fused kernel ran out of time"),
    (507049, "ACL_ERROR_RT_FFTS_PLUS_EXCEPTION", "kernel", "a fused kernel failed"),
    (507050, "ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION", "kernel", "a fused kernel trapped"),
    (507051, "ACL_ERROR_RT_SEND_MSG", "dma", "a message to the device was not sent"),
    (507052, "ACL_ERROR_RT_COPY_DATA", "dma", "copying data failed"),
    (507053, "ACL_ERROR_RT_DEVICE_MEM_ERROR", "repair", "device memory is faulty"),
    (
        507054,
        "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR",
        "repair",
        "device memory has an uncorrectable bit error",
    ),
    (507055, "ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR", "repair", "device memory may be faulty"),
    (507056, "ACL_ERROR_RT_LINK_ERROR", "repair", "a link of the device failed"),
    (507057, "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR", "repair", "a remote device may be faulty"),
    (507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR", "lost", "the driver failed"),
    (507900, "ACL_ERROR_RT_AICPU_INTERNAL_ERROR", "kernel", "the AI CPU failed inside"),
    (507901, "ACL_ERROR_RT_SOCKET_CLOSE", "lost", "the process on the device is gone"),
    (507902, "ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR", "kernel", "the AI CPU answered a load request wrongly"),
    (507903, "ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED", "graph", "the capture became invalid"),
    (
        507904,
        "ACL_ERROR_RT_COMM_OP_RETRY_FAIL",
        "repair",
        "a collective operation failed again after retries",
    ),
    (507905, "ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT", "snapshot", "locking for a snapshot took too long"),
    (507906, "ACL_ERROR_SNAPSHOT_LOCK_FAILED", "snapshot", "locking for a snapshot failed"),
    (507907, "ACL_ERROR_SNAPSHOT_UNLOCK_FAILED", "snapshot", "unlocking after a snapshot failed"),
    (507908, "ACL_ERROR_SNAPSHOT_BACKUP_FAILED", "snapshot", "taking a snapshot failed"),
    (507909, "ACL_ERROR_SNAPSHOT_RESTORE_FAILED", "snapshot", "restoring a snapshot failed"),
    (507910, "ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "register", "the host range is registered already"),
    (507911, "ACL_ERROR_HOST_MEMORY_NOT_REGISTERED", "register", "the host range is not registered"),
    (507912, "ACL_ERROR_SNAPSHOT_CALLBACK_FAILED", "snapshot", "a snapshot callback failed"),
    (
        507913,
        "ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED",
        "snapshot",
        "a snapshot callback was not accepted",
    ),
    (507914, "ACL_ERROR_RT_L3_PORT_ERROR", "repair", "a network port of the device failed"),
    (507915, "ACL_ERROR_RT_CCU_TIMEOUT", "kernel", "a collective unit ran out of time"),
    (507916, "ACL_ERROR_RT_CCU_EXCEPTION", "kernel", "a collective unit failed"),
)

# The driver reports a device that is gone with these three (bus down, socket closed, anything else).
_DEVICE_LOST = frozenset({507010, 507899, 507901})
# These last until a task abort and repair, or a reset.
_STICKY = frozenset({107022, 507053, 507054, 507055, 507056, 507057}) | _DEVICE_LOST
_RESOURCE = frozenset({200000, 207001, 207007, 207008, 207018})


def _row_info(code: int, name: str, group: str, meaning: str) -> CodeInfo:
    return CodeInfo(
        code=code,
        name=name,
        meaning=meaning,
        remedy=_REMEDIES[group],
        sticky=code in _STICKY,
        device_lost=code in _DEVICE_LOST,
        resource=code in _RESOURCE,
    )


CODES: Mapping[int, CodeInfo] = MappingProxyType({row[0]: _row_info(*row) for row in _ROWS})

_CLASSES = {
    1: ("a caller error that this package does not know", "argument"),
    2: ("a resource error that this package does not know", "busy"),
    3: ("a limit that this package does not know", "busy"),
    5: ("an internal or device error that this package does not know", "internal"),
}


def code_info(code: int) -> CodeInfo:
    """What is known about an aclError. An unknown number gets the name UNKNOWN and the meaning of its class
    (1xxxxx caller, 2xxxxx resource, 3xxxxx limit, 5xxxxx internal or device)."""
    known = CODES.get(code)
    if known is not None:
        return known
    meaning, group = _CLASSES.get(code // 100000, ("a code that this package does not know", "internal"))
    return CodeInfo(code, "UNKNOWN", meaning, _REMEDIES[group])


def code_name(code: int) -> str:
    """CANN's constant for an aclError, or UNKNOWN."""
    return code_info(code).name


_ARRAYS_REMEDY = "drop device arrays that are no longer needed; see stats().device_used_nbytes"


def acl_error(call: str, code: int, message: str | None = None) -> AclError:
    """The exception for a control call that returned `code`: `ResourceError` when something ran out.

    `message` is the runtime's text, read right after the call on the same thread, or None.
    """
    info = code_info(code)
    kind = ResourceError if info.resource else AclError
    return kind(call, code, info.name, meaning=info.meaning, message=message, remedy=info.remedy)


def transfer_error(
    call: str,
    code: int,
    message: str | None = None,
    *,
    direction: str,
    nbytes: int,
    device: int,
    stream: int | None = None,
) -> TransferError:
    """The exception for a transfer that was accepted and then failed with `code`."""
    info = code_info(code)
    kind = TransferResourceError if info.resource else TransferError
    return kind(
        call,
        code,
        info.name,
        direction=direction,
        nbytes=nbytes,
        device=device,
        stream=stream,
        meaning=info.meaning,
        message=message,
        remedy=_ARRAYS_REMEDY if call == "aclrtMalloc" and info.resource else info.remedy,
    )
