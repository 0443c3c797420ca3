"""Devices: which one is current, what it is, what it may do."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from npu_xfer._cann.calls.base import CONTEXT_NULL, STREAM_SYNC_TIMEOUT, Calls, ms_of
from npu_xfer._cann.enums import (
    DevAttr,
    DevFeatureType,
    DeviceLimit,
    DeviceStatus,
    DevResLimitType,
    RunMode,
)
from npu_xfer._cann.structs import UtilizationInfo, Uuid

__all__ = ["DeviceCalls", "Utilization"]

_BUS_ID_NBYTES = 32  # "0000:00:00.0" with room for a longer domain


@dataclass(frozen=True, slots=True)
class Utilization:
    """How busy a device is, in percent; negative where the device does not tell."""

    cube: int
    vector: int
    aicpu: int
    memory: int


class DeviceCalls(Calls):
    """Devices and contexts. CANN keeps the current device and context per thread."""

    def device_count(self) -> int:
        """Number of devices that this process sees."""
        count = ctypes.c_uint32()
        self._call("aclrtGetDeviceCount", ctypes.byref(count))
        return count.value

    def set_device(self, device: int) -> None:
        """Makes the device current on this thread and takes one reference to it; pair with `reset_device`."""
        self._call("aclrtSetDevice", device)
        self._drop_stale_text()

    def reset_device(self, device: int) -> None:
        """Gives back one reference; the last one destroys the default context and its streams."""
        self._call("aclrtResetDevice", device)

    def reset_device_force(self, device: int) -> None:
        """Gives back all references at once, whoever took them."""
        self._call("aclrtResetDeviceForce", device)

    def get_device(self) -> int | None:
        """The device that is current on this thread, or None."""
        device = ctypes.c_int32(-1)
        code = self._code("aclrtGetDevice", ctypes.byref(device))
        return device.value if self._answer("aclrtGetDevice", code, {CONTEXT_NULL: False}) else None

    def run_mode(self) -> RunMode:
        """Whether this process runs on a host or on the device itself."""
        mode = ctypes.c_int(-1)
        self._call("aclrtGetRunMode", ctypes.byref(mode))
        return RunMode(mode.value)

    def device_is_healthy(self, device: int) -> bool:
        """Whether the device reports its normal state."""
        status = ctypes.c_int(-1)
        self._call("aclrtQueryDeviceStatus", device, ctypes.byref(status))
        return status.value == DeviceStatus.NORMAL

    def synchronize_device(self, *, timeout_s: float | None = None) -> bool:
        """Waits for everything on the current device: True, or False when `timeout_s` (None: for ever) ran
        out.

        Reports a failed copy once, as `synchronize_stream` does.
        """
        if timeout_s is None:
            self._call("aclrtSynchronizeDevice")
            return True
        name = "aclrtSynchronizeDeviceWithTimeout"
        return self._answer(name, self._code(name, ms_of(timeout_s)), {STREAM_SYNC_TIMEOUT: False})

    def create_context(self, device: int) -> int:
        """A new context, which becomes current on this thread. The caller destroys it."""
        context = self._out_handle("aclrtCreateContext", device)
        self._drop_stale_text()
        return context

    def destroy_context(self, context: int) -> None:
        """Destroys a context made by `create_context`; it must not be in use on another thread."""
        self._call("aclrtDestroyContext", context)

    def set_context(self, context: int) -> None:
        """Makes the context, and with it its device, current on this thread."""
        self._call("aclrtSetCurrentContext", context)
        self._drop_stale_text()

    def get_context(self) -> int | None:
        """The context that is current on this thread, or None."""
        context = ctypes.c_void_p()
        code = self._code("aclrtGetCurrentContext", ctypes.byref(context))
        return context.value if self._answer("aclrtGetCurrentContext", code, {CONTEXT_NULL: False}) else None

    def default_stream(self) -> int:
        """The default stream of the current context; 0 as a stream means the same one."""
        return self._out(ctypes.c_void_p, "aclrtCtxGetCurrentDefaultStream") or 0

    def primary_context_state(self, device: int) -> tuple[int, bool]:
        """Flags of the device's default context, and whether it exists."""
        flags, active = ctypes.c_uint32(), ctypes.c_int32()
        self._call("aclrtGetPrimaryCtxState", device, ctypes.byref(flags), ctypes.byref(active))
        return flags.value, bool(active.value)

    # ---- what a device is ----

    def device_info(self, device: int, attr: DevAttr) -> int:
        """One number about the device. A kind of chip that lacks the attribute refuses it."""
        return int(self._out_last(ctypes.c_int64, "aclrtGetDeviceInfo", device, int(attr)))

    def device_capability(self, device: int, feature: DevFeatureType) -> int:
        """Whether (or how much of) a feature the device has; 0 for not."""
        return int(self._out_last(ctypes.c_int32, "aclrtGetDeviceCapability", device, int(feature)))

    def device_uuid(self, device: int) -> bytes:
        """The 16 bytes that name this one device."""
        uuid = Uuid()
        self._call("aclrtDeviceGetUuid", device, ctypes.byref(uuid))
        return bytes(uuid)

    def device_pci_bus_id(self, device: int) -> str:
        """PCI address of the device, for example "0000:c1:00.0"."""
        text = ctypes.create_string_buffer(_BUS_ID_NBYTES)
        self._call("aclrtDeviceGetPCIBusId", device, ctypes.cast(text, ctypes.c_char_p), ctypes.sizeof(text))
        return text.value.decode()

    def device_at_pci_bus_id(self, bus_id: str) -> int:
        """The device at a PCI address."""
        return int(self._out_last(ctypes.c_int32, "aclrtDeviceGetByPCIBusId", bus_id.encode()))

    def devices_topology(self, device: int, other: int) -> int:
        """How two devices are connected, as a set of bits: HCCS 1, PIX 2, PIB 4, PHB 8, SYS 16, SIO 32,
        HCCS switch 64."""
        return int(self._out_last(ctypes.c_uint64, "aclrtGetDevicesTopo", device, other))

    def device_utilization(self, device: int) -> Utilization:
        """How busy the device is now."""
        info = UtilizationInfo()
        self._call("aclrtGetDeviceUtilizationRate", device, ctypes.byref(info))
        return Utilization(
            info.cubeUtilization, info.vectorUtilization, info.aicpuUtilization, info.memoryUtilization
        )

    def stream_priority_range(self) -> tuple[int, int]:
        """Priorities of streams: the lowest, then the highest. A smaller number goes first."""
        least, greatest = ctypes.c_int32(), ctypes.c_int32()
        self._call("aclrtDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        return least.value, greatest.value

    # ---- limits ----

    def set_device_limit(self, limit: DeviceLimit, nbytes: int) -> None:
        """Changes a size that kernels of the current device get, in bytes."""
        self._call("aclrtDeviceSetLimit", int(limit), nbytes)

    def device_limit(self, limit: DeviceLimit) -> int:
        """The size that kernels of the current device get, in bytes."""
        return int(self._out_last(ctypes.c_size_t, "aclrtDeviceGetLimit", int(limit)))

    def set_device_resource_limit(self, device: int, kind: DevResLimitType, n_cores: int) -> None:
        """Limits the compute cores that this process uses; copies are not affected."""
        self._call("aclrtSetDeviceResLimit", device, int(kind), n_cores)

    def device_resource_limit(self, device: int, kind: DevResLimitType) -> int:
        """Compute cores that this process may use."""
        return int(self._out_last(ctypes.c_uint32, "aclrtGetDeviceResLimit", device, int(kind)))

    def reset_device_resource_limit(self, device: int) -> None:
        """Takes such limits back."""
        self._call("aclrtResetDeviceResLimit", device)

    def thread_resource(self, kind: DevResLimitType) -> int:
        """Compute cores that tasks of the calling thread get."""
        return int(self._out_last(ctypes.c_uint32, "aclrtGetResInCurrentThread", int(kind)))

    # ---- peers ----

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether copies between the two devices are possible."""
        return bool(self._out(ctypes.c_int32, "aclrtDeviceCanAccessPeer", device, peer))

    def enable_peer_access(self, peer: int) -> None:
        """Lets the current device copy from and to `peer`. One direction; again is no error. The device
        itself as its peer is refused (aclrtDeviceEnablePeerAccess, CANN 9.1 docs; the rest observed on the
        open runtime)."""
        self._call("aclrtDeviceEnablePeerAccess", peer, 0)

    def disable_peer_access(self, peer: int) -> None:
        """Ends such access; again is no error."""
        self._call("aclrtDeviceDisablePeerAccess", peer)

    def peer_access_is_enabled(self, device: int, peer: int) -> bool:
        """Whether `device` has access to `peer`."""
        return bool(self._out_last(ctypes.c_int32, "aclrtDevicePeerAccessStatus", device, peer))

    # ---- abort ----

    def abort_device_tasks(self, device: int, *, timeout_s: float | None = None) -> None:
        """Stops what runs on the device and drops what is queued. `timeout_s` None waits for ever.

        Calls made meanwhile, and waits in progress, end with code 107022 (aclrtDeviceTaskAbort, CANN 9.1
        docs). What the dropped copies left behind is undefined.
        """
        timeout_ms = 0 if timeout_s is None else ms_of(timeout_s)
        self._call("aclrtDeviceTaskAbort", device, timeout_ms)
