"""Arrays of other libraries: a host tensor to the device and back, and device memory through DLPack.

    python examples/interop.py

Uses torch if it is installed, and Python's own arrays in its place if not.
"""

from __future__ import annotations

import array
import asyncio
from typing import Any

import npu_xfer


def host_tensor(start: int) -> Any:
    """A tensor of 1024 float32 in host memory."""
    try:
        import torch
    except ImportError:
        return array.array("f", range(start, start + 1024))
    return torch.arange(start, start + 1024, dtype=torch.float32)


class Borrower:
    """Stands for another library on the device: it has taken memory through DLPack, and gives it on."""

    def __init__(self, owner: npu_xfer.DeviceArray) -> None:
        self.owner = owner

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.owner.__dlpack_device__()

    def __dlpack__(self, **kwargs: Any) -> object:
        return self.owner.__dlpack__(**kwargs)


async def main() -> None:
    async with npu_xfer.Scheduler() as xfer:
        on_device = await xfer.to_device(host_tensor(0))
        back = host_tensor(1)
        await xfer.to_host(on_device, out=back)  # straight into the other library's memory
        print("host tensor:", [float(value) for value in back[:3]])

        theirs = Borrower(on_device)  # no copy: the same device memory
        await xfer.to_device(host_tensor(5), out=theirs)
        print("through DLPack:", (await xfer.to_host(on_device))[:3].tolist())
        again = xfer.as_device_array(theirs)
        print("the same memory:", again.address == on_device.address)


asyncio.run(main())
