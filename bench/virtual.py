"""Speed of the simulator's virtual mode: seconds and memory for many copies over many devices.

    python bench/virtual.py [--copies 1000000] [--devices 64] [--library PATH]

Runs each case twice and fails unless both runs give the same simulated time to the nanosecond.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _compile(folder: Path) -> Path:
    native = ROOT / "native"
    target = folder / "virtual"
    command = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", f"-I{native}"]
    subprocess.run([*command, str(ROOT / "bench" / "virtual.c"), "-o", str(target), "-ldl"], check=True)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--copies", type=int, default=1_000_000)
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--library", help="libascendcl_sim.so; default: the one of the installed package")
    options = parser.parse_args()
    library = options.library
    if library is None:
        from npu_xfer import _native

        library = str(Path(_native.__file__).parent / "libascendcl_sim.so")
    with tempfile.TemporaryDirectory(prefix="npu_xfer_bench_") as folder:
        program = _compile(Path(folder))
        codes = [
            subprocess.run(
                [str(program), library, str(options.copies), str(options.devices), move], check=False
            ).returncode
            for move in ("0", "1")
        ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
