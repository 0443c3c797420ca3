"""npu_xfer: awaitable, high-throughput copies between host memory and Huawei Ascend NPUs.

``Scheduler`` lives in your own asyncio or trio loop, ``BlockingScheduler`` in plain threads. Importing this
package loads no ACL library and makes no runtime call.
"""

from __future__ import annotations

from npu_xfer import _built  # noqa: F401  (first: its error says what is wrong)
from npu_xfer._dump import dump, dump_on_signal
from npu_xfer._types import Direction, LaneStats, LibraryInfo, Priority, RawEvent, Stats
from npu_xfer._why import Pending
from npu_xfer.blocking import BlockingDeviceArray, BlockingScheduler, BlockingTransfer
from npu_xfer.device_array import DeviceArray
from npu_xfer.errors import (
    AclError,
    BatchError,
    ClosedError,
    EngineDead,
    ForkedProcessError,
    InvalidTransfer,
    LibraryError,
    ResourceError,
    TransferError,
    TransferResourceError,
    TransferTimeout,
    TransferWarning,
    TransferWithdrawn,
    UnsupportedDType,
    WouldBlock,
    XferError,
)
from npu_xfer.scheduler import Scheduler
from npu_xfer.transfer import Transfer

__version__ = "0.1.0"

__all__ = [
    "AclError",
    "BatchError",
    "BlockingDeviceArray",
    "BlockingScheduler",
    "BlockingTransfer",
    "ClosedError",
    "DeviceArray",
    "Direction",
    "EngineDead",
    "ForkedProcessError",
    "InvalidTransfer",
    "LaneStats",
    "LibraryError",
    "LibraryInfo",
    "Pending",
    "Priority",
    "RawEvent",
    "ResourceError",
    "Scheduler",
    "Stats",
    "Transfer",
    "TransferError",
    "TransferResourceError",
    "TransferTimeout",
    "TransferWarning",
    "TransferWithdrawn",
    "UnsupportedDType",
    "WouldBlock",
    "XferError",
    "__version__",
    "dump",
    "dump_on_signal",
]
