"""Devices and contexts of acl.rt. A function without a word on its result returns ret, the code."""

from __future__ import annotations

import ctypes
from typing import Any

from npu_xfer._cann.enums import LastErrLevel
from npu_xfer._cann.structs import MemUceInfo, UtilizationInfo, Uuid
from npu_xfer.acl._call import handle, number, out, ret

__all__ = [
    "create_context",
    "ctx_get_current_default_stream",
    "destroy_context",
    "device_can_access_peer",
    "device_disable_peer_access",
    "device_enable_peer_access",
    "device_get_stream_priority_range",
    "device_get_uuid",
    "device_peer_access_status",
    "device_task_abort",
    "get_context",
    "get_device",
    "get_device_capability",
    "get_device_count",
    "get_device_info",
    "get_device_res_limit",
    "get_device_utilization_rate",
    "get_devices_topo",
    "get_last_error",
    "get_mem_uce_info",
    "get_primary_ctx_state",
    "get_res_in_current_thread",
    "get_run_mode",
    "mem_uce_repair",
    "peek_at_last_error",
    "query_device_status",
    "reset_device",
    "reset_device_force",
    "reset_device_res_limit",
    "set_context",
    "set_device",
    "set_device_res_limit",
    "synchronize_device",
    "synchronize_device_with_timeout",
]

_i32, _u32 = ctypes.c_int32, ctypes.c_uint32


def set_device(device_id: int) -> int:
    """Makes the device current on this thread; pair with reset_device."""
    return ret("aclrtSetDevice", device_id)


def reset_device(device_id: int) -> int:
    """Gives back one set_device."""
    return ret("aclrtResetDevice", device_id)


def reset_device_force(device_id: int) -> int:
    """Gives back every set_device of the process."""
    return ret("aclrtResetDeviceForce", device_id)


def get_device() -> tuple[int, int]:
    """The current device: (device_id, ret)."""
    return number(_i32, "aclrtGetDevice")


def get_device_count() -> tuple[int, int]:
    """(count, ret)."""
    return number(_u32, "aclrtGetDeviceCount")


def get_run_mode() -> tuple[int, int]:
    """Where the process runs: (0 on the device or 1 on a host, ret)."""
    return number(_i32, "aclrtGetRunMode")


def query_device_status(device_id: int) -> tuple[int, int]:
    """(0 for normal, ret)."""
    return number(_i32, "aclrtQueryDeviceStatus", device_id, start=0xFFFF)


def synchronize_device() -> int:
    """Waits for everything on the current device."""
    return ret("aclrtSynchronizeDevice")


def synchronize_device_with_timeout(timeout: int) -> int:
    """The same for at most `timeout` milliseconds (-1: for ever); code 507046 when it ran out."""
    return ret("aclrtSynchronizeDeviceWithTimeout", timeout)


def create_context(device_id: int) -> tuple[int, int]:
    """A new context, current on this thread: (context, ret)."""
    return handle("aclrtCreateContext", device_id)


def destroy_context(context: int) -> int:
    """Destroys what create_context made."""
    return ret("aclrtDestroyContext", context)


def set_context(context: int) -> int:
    """Makes the context current on this thread."""
    return ret("aclrtSetCurrentContext", context)


def get_context() -> tuple[int, int]:
    """The current context: (context, ret)."""
    return handle("aclrtGetCurrentContext")


def ctx_get_current_default_stream() -> tuple[int, int]:
    """(stream, ret)."""
    return handle("aclrtCtxGetCurrentDefaultStream")


def get_primary_ctx_state(device_id: int) -> tuple[int, int, int]:
    """The device's default context: (active, flags, ret)."""
    flags, active = _u32(), _i32()
    code = out("aclrtGetPrimaryCtxState", device_id, ctypes.byref(flags), ctypes.byref(active))
    return active.value, flags.value, code


def get_device_info(device_id: int, attr: int) -> tuple[int, int]:
    """(value, ret)."""
    return number(ctypes.c_int64, "aclrtGetDeviceInfo", device_id, attr)


def get_device_capability(device_id: int, feature_type: int) -> tuple[int, int]:
    """(value, ret)."""
    return number(_i32, "aclrtGetDeviceCapability", device_id, feature_type)


def device_get_uuid(device_id: int) -> tuple[dict[str, list[int]], int]:
    """({"bytes": 16 numbers}, ret)."""
    uuid = Uuid()
    code = out("aclrtDeviceGetUuid", device_id, ctypes.byref(uuid))
    return {"bytes": list(bytes(uuid))}, code


def device_get_stream_priority_range() -> tuple[int, int, int]:
    """(least, greatest, ret); a smaller number goes first."""
    least, greatest = _i32(), _i32()
    code = out("aclrtDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    return least.value, greatest.value, code


def get_devices_topo(device_id: int, other_device_id: int) -> tuple[int, int]:
    """How two devices are connected: (bits, ret)."""
    return number(ctypes.c_uint64, "aclrtGetDevicesTopo", device_id, other_device_id)


def get_device_utilization_rate(device_id: int) -> tuple[dict[str, int], int]:
    """(percentages by name, ret)."""
    info = UtilizationInfo()
    code = out("aclrtGetDeviceUtilizationRate", device_id, ctypes.byref(info))
    rates = {
        "cube_utilization": info.cubeUtilization,
        "vector_utilization": info.vectorUtilization,
        "aicpu_utilization": info.aicpuUtilization,
        "memory_utilization": info.memoryUtilization,
        "utilization_extend": info.utilizationExtend or 0,
    }
    return rates, code


def get_device_res_limit(device_id: int, res_type: int) -> tuple[int, int]:
    """(cores, ret)."""
    return number(_u32, "aclrtGetDeviceResLimit", device_id, res_type)


def set_device_res_limit(device_id: int, res_type: int, value: int) -> int:
    """Limits the compute cores of this process."""
    return ret("aclrtSetDeviceResLimit", device_id, res_type, value)


def reset_device_res_limit(device_id: int) -> int:
    """Takes such limits back."""
    return ret("aclrtResetDeviceResLimit", device_id)


def get_res_in_current_thread(res_type: int) -> tuple[int, int]:
    """(cores, ret)."""
    return number(_u32, "aclrtGetResInCurrentThread", res_type)


def device_can_access_peer(device_id: int, peer_device_id: int) -> tuple[int, int]:
    """(1 or 0, ret)."""
    return number(_i32, "aclrtDeviceCanAccessPeer", device_id, peer_device_id, first=True)


def device_enable_peer_access(peer_device_id: int, flags: int) -> int:
    """Gives the current device access to the peer; `flags` must be 0."""
    return ret("aclrtDeviceEnablePeerAccess", peer_device_id, flags)


def device_disable_peer_access(peer_device_id: int) -> int:
    """Ends such access."""
    return ret("aclrtDeviceDisablePeerAccess", peer_device_id)


def device_peer_access_status(device_id: int, peer_device_id: int) -> tuple[int, int]:
    """(1 or 0, ret)."""
    return number(_i32, "aclrtDevicePeerAccessStatus", device_id, peer_device_id)


def device_task_abort(device_id: int, timeout: int) -> int:
    """Stops the device's tasks; `timeout` in milliseconds, 0 for ever."""
    return ret("aclrtDeviceTaskAbort", device_id, timeout)


def peek_at_last_error(level: int = LastErrLevel.THREAD) -> int:
    """The last code of this thread."""
    return ret("aclrtPeekAtLastError", level)


def get_last_error(level: int = LastErrLevel.THREAD) -> int:
    """The same, and sets it to 0."""
    return ret("aclrtGetLastError", level)


def get_mem_uce_info(device_id: int, array_size: int) -> tuple[list[dict[str, Any]], int]:
    """Memory with uncorrectable errors: (list of {"addr", "len", "reserved"}, ret)."""
    rows, found = (MemUceInfo * array_size)(), ctypes.c_size_t()
    code = out("aclrtGetMemUceInfo", device_id, rows, array_size, ctypes.byref(found))
    ranges = [
        {"addr": row.addr or 0, "len": row.len, "reserved": list(row.reserved)}
        for row in rows[: min(found.value, array_size)]
    ]
    return ranges, code


def mem_uce_repair(device_id: int, mem_uce_info_array: list[dict[str, Any]]) -> int:
    """Repairs what get_mem_uce_info listed."""
    rows = (MemUceInfo * len(mem_uce_info_array))(
        *(MemUceInfo(one["addr"], one["len"]) for one in mem_uce_info_array)
    )
    return out("aclrtMemUceRepair", device_id, rows, len(mem_uce_info_array))
