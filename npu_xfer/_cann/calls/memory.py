"""Memory: allocating, freeing, registering, asking."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npu_xfer._cann.calls.base import Calls
from npu_xfer._cann.enums import (
    HostRegFlag,
    HostRegisterType,
    MallocAttrType,
    MallocPolicy,
    MemAttr,
    MemLocationType,
)
from npu_xfer._cann.structs import MallocAttribute, MallocConfig, MemUsageInfo, PtrAttributes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MemInfo", "MemUsage", "MemoryCalls", "PointerInfo", "malloc_config"]

_MEMBER = {
    MallocAttrType.MODULE_ID: "moduleId",
    MallocAttrType.DEVICE_ID: "deviceId",
    MallocAttrType.VA_FLAG: "vaFlag",
}
_N_COMPONENTS = 64  # components of CANN that mem_usage asks for


@dataclass(frozen=True, slots=True)
class MemInfo:
    """Memory of the current device."""

    free_nbytes: int
    total_nbytes: int


@dataclass(frozen=True, slots=True)
class PointerInfo:
    """Where an address lives."""

    location: MemLocationType
    device: int
    """Device number; meaningful for DEVICE memory only."""

    page_nbytes: int


@dataclass(frozen=True, slots=True)
class MemUsage:
    """Device memory that one component of CANN uses."""

    component: str
    used_nbytes: int
    peak_nbytes: int


def malloc_config(attributes: Mapping[MallocAttrType, int]) -> Any:
    """The struct for allocation attributes; it keeps its parts alive. None for no attribute."""
    if not attributes:
        return None
    rows = (MallocAttribute * len(attributes))()
    for row, (attr, value) in zip(rows, attributes.items(), strict=True):
        row.attr = int(attr)
        setattr(row.value, _MEMBER[MallocAttrType(attr)], value)
    config = MallocConfig(attrs=ctypes.cast(rows, ctypes.POINTER(MallocAttribute)), numAttrs=len(attributes))
    return config


class MemoryCalls(Calls):
    """Memory of the current device, and page-locked host memory."""

    def mem_info(self, attr: MemAttr = MemAttr.HBM_MEM) -> MemInfo:
        """Free and total memory of the current device, in bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("aclrtGetMemInfo", int(attr), ctypes.byref(free), ctypes.byref(total))
        return MemInfo(free.value, total.value)

    def malloc(self, nbytes: int, policy: MallocPolicy = MallocPolicy.HUGE_FIRST) -> int:
        """Device memory on the current device: its address. The caller frees it with `free`."""
        return self._out_handle("aclrtMalloc", nbytes, int(policy))

    def free(self, address: int) -> None:
        """Frees device memory."""
        self._call("aclrtFree", address)

    def malloc_host(self, nbytes: int) -> int:
        """Page-locked host memory: its address. The caller frees it with `free_host`."""
        return self._out_handle("aclrtMallocHost", nbytes)

    def free_host(self, address: int) -> None:
        """Frees page-locked host memory."""
        self._call("aclrtFreeHost", address)

    def pointer_attributes(self, address: int) -> PointerInfo:
        """Where an address lives. Ordinary host memory is UNREGISTERED."""
        found = PtrAttributes()
        self._call("aclrtPointerGetAttributes", address, ctypes.byref(found))
        return PointerInfo(MemLocationType(found.location.type), found.location.id, found.pageSize)

    def malloc_align32(self, nbytes: int, policy: MallocPolicy = MallocPolicy.HUGE_FIRST) -> int:
        """As `malloc`, without the extra bytes that malloc adds behind the block."""
        return self._out_handle("aclrtMallocAlign32", nbytes, int(policy))

    def malloc_cached(self, nbytes: int, policy: MallocPolicy = MallocPolicy.HUGE_FIRST) -> int:
        """As `malloc`, with a cache that `flush` and `invalidate` keep in step."""
        return self._out_handle("aclrtMallocCached", nbytes, int(policy))

    def malloc_with(
        self,
        nbytes: int,
        policy: MallocPolicy = MallocPolicy.HUGE_FIRST,
        *,
        attributes: Mapping[MallocAttrType, int],
    ) -> int:
        """As `malloc`, with attributes such as the component that the memory is booked on."""
        config = malloc_config(attributes)
        pointer = None if config is None else ctypes.byref(config)
        return self._out_handle("aclrtMallocWithCfg", nbytes, int(policy), pointer)

    def malloc_host_with(self, nbytes: int, *, attributes: Mapping[MallocAttrType, int]) -> int:
        """As `malloc_host`, with attributes."""
        config = malloc_config(attributes)
        pointer = None if config is None else ctypes.byref(config)
        return self._out_handle("aclrtMallocHostWithCfg", nbytes, pointer)

    def free_after_device(self, address: int) -> None:
        """Waits for the device, then frees device memory. `free` does not wait."""
        self._call("aclrtFreeWithDevSync", address)

    def free_host_after_device(self, address: int) -> None:
        """Waits for the device, then frees page-locked host memory. `free_host` does not wait."""
        self._call("aclrtFreeHostWithDevSync", address)

    def flush(self, address: int, nbytes: int) -> None:
        """Writes the cache over memory of `malloc_cached` back."""
        self._call("aclrtMemFlush", address, nbytes)

    def invalidate(self, address: int, nbytes: int) -> None:
        """Drops the cache over memory of `malloc_cached`."""
        self._call("aclrtMemInvalidate", address, nbytes)

    # ---- host memory of other owners ----

    def register_mapped(
        self, address: int, nbytes: int, kind: HostRegisterType = HostRegisterType.MAPPED
    ) -> int:
        """Registers host memory and returns its device address, which kernels may use and copies may not
        (aclrtHostRegister, CANN 9.1 docs). The address starts on a page. Pair with `unregister_host`."""
        device_address = ctypes.c_void_p()
        self._call("aclrtHostRegister", address, nbytes, int(kind), ctypes.byref(device_address))
        return device_address.value or 0

    def register_host(self, address: int, nbytes: int, flags: HostRegFlag) -> None:
        """Registers host memory, which may then count as page-locked. The address starts on a page. A range
        that is registered already fails with code 507910. Pair with `unregister_host`."""
        self._call("aclrtHostRegisterV2", address, nbytes, int(flags))

    def unregister_host(self, address: int) -> None:
        """Ends a registration. Code 507911 when there is none."""
        self._call("aclrtHostUnregister", address)

    def host_device_pointer(self, address: int) -> int:
        """Device address of host memory registered as MAPPED."""
        device_address = ctypes.c_void_p()
        self._call("aclrtHostGetDevicePointer", address, ctypes.byref(device_address), 0)
        return device_address.value or 0

    # ---- asking ----

    def address_range(self, address: int) -> tuple[int, int]:
        """The allocation that an address is in: where it starts, and its size in bytes."""
        base, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        self._call("aclrtMemGetAddressRange", address, ctypes.byref(base), ctypes.byref(nbytes))
        return base.value or 0, nbytes.value

    def mem_usage(self, device: int) -> list[MemUsage]:
        """Device memory by component of CANN."""
        rows, found = (MemUsageInfo * _N_COMPONENTS)(), ctypes.c_size_t()
        self._call("aclrtGetMemUsageInfo", device, rows, _N_COMPONENTS, ctypes.byref(found))
        return [
            MemUsage(row.name.decode("utf-8", "replace"), row.curMemSize, row.memPeakSize)
            for row in rows[: min(found.value, _N_COMPONENTS)]
        ]
