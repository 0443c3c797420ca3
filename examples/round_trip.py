"""64 MiB to the device and back in ten lines, on the event loop you name: asyncio, uvloop or trio."""

import sys

import anyio
import numpy as np

import npu_xfer


async def main() -> None:
    array = np.random.default_rng(0).integers(0, 256, 64 << 20, dtype=np.uint8)
    async with npu_xfer.Scheduler() as xfer:
        back = await xfer.to_host(await xfer.to_device(array))
    print(f"{back.nbytes} bytes, equal: {np.array_equal(array, back)}")


loop = sys.argv[1] if len(sys.argv) > 1 else "asyncio"
backend = "trio" if loop == "trio" else "asyncio"
anyio.run(main, backend=backend, backend_options={"use_uvloop": True} if loop == "uvloop" else {})
