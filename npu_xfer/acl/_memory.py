"""Memory and copies of acl.rt. A function without a word on its result returns ret, the code. Sizes in
bytes."""

from __future__ import annotations

import ctypes
from typing import Any

from npu_xfer._cann.structs import MallocAttribute, MallocConfig, PtrAttributes
from npu_xfer.acl._call import handle, number, out, ret

__all__ = [
    "free",
    "free_host",
    "get_mem_info",
    "get_memcpy_desc_size",
    "host_get_device_pointer",
    "host_register",
    "host_register_v2",
    "host_unregister",
    "malloc",
    "malloc_align32",
    "malloc_cached",
    "malloc_host",
    "malloc_host_with_cfg",
    "malloc_with_cfg",
    "mem_flush",
    "mem_invalidate",
    "memcpy",
    "memcpy2d",
    "memcpy2d_async",
    "memcpy_async",
    "memcpy_async_with_condition",
    "memcpy_async_with_desc",
    "memset",
    "memset_async",
    "pointer_get_attributes",
    "set_memcpy_desc",
    "value_wait",
    "value_write",
]


def malloc(size: int, policy: int) -> tuple[int, int]:
    """Device memory: (dev_ptr, ret)."""
    return handle("aclrtMalloc", size, policy)


def malloc_align32(size: int, policy: int) -> tuple[int, int]:
    """The same without extra bytes behind it: (dev_ptr, ret)."""
    return handle("aclrtMallocAlign32", size, policy)


def malloc_cached(size: int, policy: int) -> tuple[int, int]:
    """The same with a cache: (dev_ptr, ret)."""
    return handle("aclrtMallocCached", size, policy)


def malloc_host(size: int) -> tuple[int, int]:
    """Page-locked host memory: (host_ptr, ret)."""
    return handle("aclrtMallocHost", size)


def _config(cfg: dict[str, Any]) -> Any:
    """pyACL's {"attrs": [{"attr": number, "value": {member: number}}], "numAttrs": n}; empty for none."""
    if not cfg:
        return None
    attrs = cfg["attrs"]
    if len(attrs) != cfg["numAttrs"]:
        raise KeyError(f"numAttrs is {cfg['numAttrs']}, but attrs has {len(attrs)}: make them agree")
    rows = (MallocAttribute * len(attrs))()
    for row, one in zip(rows, attrs, strict=True):
        row.attr = one["attr"]
        for member, value in one["value"].items():
            if member == "rsv":
                row.value.rsv[: len(value)] = value
            else:
                setattr(row.value, member, value)
    return MallocConfig(attrs=ctypes.cast(rows, ctypes.POINTER(MallocAttribute)), numAttrs=len(attrs))


def _made_with(name: str, cfg: dict[str, Any], *args: int) -> tuple[int, int]:
    made, config = ctypes.c_void_p(), _config(cfg)
    pointer = None if config is None else ctypes.byref(config)
    code = out(name, ctypes.byref(made), *args, pointer)
    return made.value or 0, code


def malloc_with_cfg(size: int, policy: int, cfg: dict[str, Any]) -> tuple[int, int]:
    """Device memory with attributes: (dev_ptr, ret)."""
    return _made_with("aclrtMallocWithCfg", cfg, size, policy)


def malloc_host_with_cfg(size: int, cfg: dict[str, Any]) -> tuple[int, int]:
    """Page-locked host memory with attributes: (host_ptr, ret)."""
    return _made_with("aclrtMallocHostWithCfg", cfg, size)


def free(dev_ptr: int) -> int:
    """Frees device memory."""
    return ret("aclrtFree", dev_ptr)


def free_host(host_ptr: int) -> int:
    """Frees page-locked host memory."""
    return ret("aclrtFreeHost", host_ptr)


def mem_flush(dev_ptr: int, size: int) -> int:
    """Writes the cache of malloc_cached back."""
    return ret("aclrtMemFlush", dev_ptr, size)


def mem_invalidate(dev_ptr: int, size: int) -> int:
    """Drops the cache of malloc_cached."""
    return ret("aclrtMemInvalidate", dev_ptr, size)


def get_mem_info(attr: int) -> tuple[int, int, int]:
    """(free, total, ret)."""
    free_nbytes, total_nbytes = ctypes.c_size_t(), ctypes.c_size_t()
    code = out("aclrtGetMemInfo", attr, ctypes.byref(free_nbytes), ctypes.byref(total_nbytes))
    return free_nbytes.value, total_nbytes.value, code


def pointer_get_attributes(ptr: int) -> tuple[dict[str, Any], int]:
    """({"location": {"id", "type"}, "page_size", "rsv"}, ret)."""
    found = PtrAttributes()
    code = out("aclrtPointerGetAttributes", ptr, ctypes.byref(found))
    location = {"id": found.location.id, "type": found.location.type}
    return {"location": location, "page_size": found.pageSize, "rsv": list(found.rsv)}, code


def host_register(ptr: int, size: int, register_type: int) -> tuple[int, int]:
    """Registers host memory: (its device address, ret)."""
    made = ctypes.c_void_p()
    code = out("aclrtHostRegister", ptr, size, register_type, ctypes.byref(made))
    return made.value or 0, code


def host_register_v2(ptr: int, size: int, flag: int) -> int:
    """Registers host memory."""
    return ret("aclrtHostRegisterV2", ptr, size, flag)


def host_unregister(ptr: int) -> int:
    """Ends a registration."""
    return ret("aclrtHostUnregister", ptr)


def host_get_device_pointer(host_ptr: int, flag: int) -> tuple[int, int]:
    """Device address of registered host memory: (dev_ptr, ret)."""
    made = ctypes.c_void_p()
    code = out("aclrtHostGetDevicePointer", host_ptr, ctypes.byref(made), flag)
    return made.value or 0, code


def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> int:
    """Copies and waits."""
    return ret("aclrtMemcpy", dst, dest_max, src, count, kind)


def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int) -> int:
    """Queues a copy on the stream."""
    return ret("aclrtMemcpyAsync", dst, dest_max, src, count, kind, stream)


def memcpy_async_with_condition(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int) -> int:
    """The same, with a check of the host side."""
    return ret("aclrtMemcpyAsyncWithCondition", dst, dest_max, src, count, kind, stream)


def memcpy2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> int:
    """Copies `height` rows of `width` bytes and waits."""
    return ret("aclrtMemcpy2d", dst, dpitch, src, spitch, width, height, kind)


def memcpy2d_async(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int
) -> int:
    """Queues such a copy on the stream."""
    return ret("aclrtMemcpy2dAsync", dst, dpitch, src, spitch, width, height, kind, stream)


def memset(dev_ptr: int, max_count: int, value: int, count: int) -> int:
    """Fills memory with one byte value and waits."""
    return ret("aclrtMemset", dev_ptr, max_count, value, count)


def memset_async(dev_ptr: int, max_count: int, value: int, count: int, stream: int) -> int:
    """Queues such a fill on the stream."""
    return ret("aclrtMemsetAsync", dev_ptr, max_count, value, count, stream)


def get_memcpy_desc_size(kind: int) -> tuple[int, int]:
    """(bytes of a copy descriptor, ret)."""
    return number(ctypes.c_size_t, "aclrtGetMemcpyDescSize", kind)


def set_memcpy_desc(
    desc: int, kind: int, src_addr: int, dst_addr: int, count: int, config: int
) -> tuple[int, int]:
    """Writes a copy into the descriptor: (desc, ret)."""
    return desc, ret("aclrtSetMemcpyDesc", desc, kind, src_addr, dst_addr, count, config)


def memcpy_async_with_desc(desc: int, kind: int, stream: int) -> int:
    """Queues the descriptor's copy on the stream."""
    return ret("aclrtMemcpyAsyncWithDesc", desc, kind, stream)


def value_write(dev_addr: int, value: int, flag: int, stream: int) -> int:
    """Queues the write of a 64-bit value."""
    return ret("aclrtValueWrite", dev_addr, value, flag, stream)


def value_wait(dev_addr: int, value: int, flag: int, stream: int) -> int:
    """Makes the stream's later work wait for a 64-bit value."""
    return ret("aclrtValueWait", dev_addr, value, flag, stream)
