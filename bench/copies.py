"""Large copies against a bare C loop over the same ABI, which is the limit.

    python bench/copies.py [--nbytes 64MiB] [--copies 8] [--samples 5] [--link-gb-s 0] [--json FILE]

With ``--link-gb-s 25`` the simulator's link takes time and moves no bytes (a real DMA costs the host's cores
nothing); without it, copies are instant and move bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from _bare import ASYNC_PINNED, SYNC_PAGEABLE, bare_copies
from _report import Row, describe_link, header, show, write_json

import npu_xfer
from npu_xfer import sim
from npu_xfer._settings import format_nbytes, parse_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence


async def _ours(
    nbytes: int, n: int, depth: int, samples: int, pinned: bool
) -> tuple[list[float], list[float]]:
    """Seconds of each sample to the device and to the host, `depth` transfers at a time."""
    async with npu_xfer.Scheduler() as xfer:
        host = xfer.empty_pinned(nbytes, np.uint8) if pinned else np.empty(nbytes, np.uint8)
        back = xfer.empty_pinned(nbytes, np.uint8) if pinned else np.empty(nbytes, np.uint8)
        host[:] = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
        back[:] = 0
        device = await xfer.to_device(host)
        targets = [await xfer.to_device(host) for _ in range(depth)]

        async def up(target: Any) -> None:
            for _ in range(n // depth):
                await xfer.to_device(host, out=target)

        async def down() -> None:
            for _ in range(n // depth):
                await xfer.to_host(device, out=back)

        async def timed(work: Sequence[Any]) -> float:
            start = time.perf_counter()
            await asyncio.gather(*work)
            return time.perf_counter() - start

        await timed([up(target) for target in targets])
        ups = [await timed([up(target) for target in targets]) for _ in range(samples)]
        downs = [await timed([down() for _ in range(depth)]) for _ in range(samples)]
        if not sim.is_active() or sim.get_link(0).move_bytes:
            assert np.array_equal(host, back), "the bytes differ"
    return ups, downs


def _measure(
    nbytes: int, n: int, depth: int, samples: int, pinned: bool, library: str
) -> dict[str, list[Row]]:
    ups, downs = asyncio.run(_ours(nbytes, n, depth, samples, pinned))
    mode = ASYNC_PINNED if pinned else SYNC_PAGEABLE
    kind = "pinned" if pinned else "pageable"
    limit = "aclrtMemcpyAsync + synchronise" if pinned else "aclrtMemcpy"
    groups = {}
    for name, to_device, ours in (("H2D", True, ups), ("D2H", False, downs)):
        bare = [
            bare_copies(library, to_device=to_device, mode=mode, nbytes=nbytes, n_copies=n, depth=depth)
            for _ in range(samples)
        ]
        title = f"{name} {kind}, {n} x {format_nbytes(nbytes)}, {depth} at a time, link: {describe_link()}"
        groups[title] = [Row(f"bare C: {limit}", bare, n, nbytes), Row("npu_xfer", ours, n, nbytes)]
    return groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nbytes", type=parse_nbytes, default=64 << 20)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--depth", type=int, default=1, help="transfers at a time; divides --copies")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--link-gb-s", type=float, default=0.0)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.copies % args.depth:
        parser.error("--depth must divide --copies")
    with npu_xfer.BlockingScheduler() as probe:
        library = probe.library
    header(library)
    if args.link_gb_s:
        rate = int(args.link_gb_s * 1e9)
        sim.set_link(h2d_bytes_per_s=rate, d2h_bytes_per_s=rate, move_bytes=False)
    groups: dict[str, list[Row]] = {}
    for pinned in (True, False):
        groups |= _measure(args.nbytes, args.copies, args.depth, args.samples, pinned, library.path)
    for title, rows in groups.items():
        show(title, rows)
    write_json(args.json, "copies", dict(groups))


if __name__ == "__main__":
    main()
