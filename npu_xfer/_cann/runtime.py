"""The control plane: typed calls of one ACL library. Also the floor under the low-level face.

Threads: every method may be called from any thread, but CANN keeps the current device per thread, so a method
that needs one works on the calling thread's. ctypes releases the GIL during each call.
Locks: none, except the leaf of `calls.callbacks`.
Owns: the Python functions that the runtime may call (`calls.callbacks`), and nothing else. Whoever creates a
stream, an event or memory destroys it.
Errors: each method raises AclError (ResourceError when something ran out) with the runtime's own text, which
is read right after the call on the same thread, because reading later or elsewhere loses it. A method whose
function this library lacks raises LibraryError.

Handles and addresses are ints; 0 as a stream is the default stream of the current context.
"""

from __future__ import annotations

from npu_xfer._cann.calls.callbacks import CallbackCalls, ExceptionInfo
from npu_xfer._cann.calls.copies import BatchCopy, CopyCalls, Pitched
from npu_xfer._cann.calls.devices import DeviceCalls, Utilization
from npu_xfer._cann.calls.events import EventCalls
from npu_xfer._cann.calls.life import LifeCalls
from npu_xfer._cann.calls.memory import MemInfo, MemoryCalls, MemUsage, PointerInfo
from npu_xfer._cann.calls.notifies import NotifyCalls
from npu_xfer._cann.calls.repair import BadRange, RepairCalls
from npu_xfer._cann.calls.streams import StreamCalls

__all__ = [
    "BadRange",
    "BatchCopy",
    "ExceptionInfo",
    "MemInfo",
    "MemUsage",
    "Pitched",
    "PointerInfo",
    "Runtime",
    "Utilization",
]


class Runtime(
    LifeCalls,
    DeviceCalls,
    StreamCalls,
    EventCalls,
    NotifyCalls,
    MemoryCalls,
    CopyCalls,
    CallbackCalls,
    RepairCalls,
):
    """Typed calls of one library."""
