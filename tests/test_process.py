"""What happens around a process: import, exit, fork, signals. Each in an interpreter of its own."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from support import run_python

import npu_xfer


def test_import_loads_no_acl_library_and_makes_no_call() -> None:
    done = run_python(
        "import npu_xfer, sys\n"
        "maps = open('/proc/self/maps').read()\n"
        "print('ascendcl' in maps, 'libacl_rt' in maps, 'trio' in sys.modules, 'typer' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False"] * 4


def test_import_time_is_reported(record_property: object) -> None:
    """Beside numpy and anyio, in one process; reported, and only checked to be a number at all."""
    done = run_python(
        "import time\n"
        "start = time.perf_counter(); import numpy, anyio, anyio.to_thread\n"
        "middle = time.perf_counter(); import npu_xfer\n"
        "print(f'{(middle - start) * 1e3:.1f} {(time.perf_counter() - middle) * 1e3:.1f}')"
    )
    assert done.returncode == 0, done.stderr
    base_ms, more_ms = map(float, done.stdout.split())
    print(f"import numpy, anyio: {base_ms} ms; npu_xfer on top: {more_ms} ms")
    assert more_ms > 0


def test_host_access_to_a_device_address_is_a_segmentation_fault() -> None:
    done = run_python(
        "import ctypes, numpy as np, npu_xfer\n"
        "xfer = npu_xfer.BlockingScheduler()\n"
        "xfer.open()\n"
        "array = xfer.to_device(np.arange(100))\n"
        "print('address', array.address > 0, flush=True)\n"
        "print(ctypes.string_at(array.address, 8))\n"
    )
    assert done.stdout == "address True\n"
    assert done.returncode == -signal.SIGSEGV


def test_fork_is_refused_with_advice() -> None:
    done = run_python(
        "import os, warnings, numpy as np, npu_xfer\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "with npu_xfer.BlockingScheduler() as xfer:\n"
        "    array = xfer.to_device(np.arange(100))\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        status = 1\n"
        "        try:\n"
        "            xfer.to_host(array)\n"
        "        except npu_xfer.ForkedProcessError as error:\n"
        "            status = 0 if 'fork' in str(error) and 'spawn' in str(error) else 2\n"
        "        del array, xfer\n"
        "        os._exit(status)\n"
        "    _, status = os.waitpid(pid, 0)\n"
        "    assert (xfer.to_host(array) == np.arange(100)).all()\n"
        "print(os.waitstatus_to_exitcode(status))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n"


def test_a_new_scheduler_in_a_forked_child_is_refused() -> None:
    """Also when the parent has closed its own: CANN's threads are not in the child."""
    done = run_python(
        "import os, warnings, numpy as np, npu_xfer\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "with npu_xfer.BlockingScheduler() as xfer:\n"
        "    xfer.to_device(np.arange(100))\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        npu_xfer.BlockingScheduler().open()\n"
        "    except npu_xfer.ForkedProcessError as error:\n"
        "        os._exit(0 if 'spawn' in str(error) else 2)\n"
        "    os._exit(1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n"


def test_fork_before_the_first_use_is_fine() -> None:
    done = run_python(
        "import multiprocessing, warnings, numpy as np, npu_xfer\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "def work(n):\n"
        "    with npu_xfer.BlockingScheduler() as xfer:\n"
        "        return int(xfer.to_host(xfer.to_device(np.arange(n))).sum())\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(work, [3, 4]))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[3, 6]\n"


def test_forked_child_exits_cleanly_without_touching_the_scheduler() -> None:
    done = run_python(
        "import os, sys, warnings, numpy as np, npu_xfer\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "with npu_xfer.BlockingScheduler() as xfer:\n"
        "    array = xfer.to_device(np.arange(100))\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        sys.exit(7)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "7\n", done.stderr


def test_never_closed_exits_with_status_and_warning() -> None:
    for code, status in [("", 0), ("import sys; sys.exit(3)", 3), ("raise ValueError('mine')", 1)]:
        done = run_python(
            "import warnings; warnings.simplefilter('default')\n"
            "import numpy as np, npu_xfer\n"
            "xfer = npu_xfer.BlockingScheduler()\n"
            "xfer.open()\n"
            "array = xfer.to_device(np.arange(1000))\n"
            "pin = xfer.empty_pinned(1000)\n" + code
        )
        assert done.returncode == status, done.stderr
        assert "TransferWarning" in done.stderr
        assert "never closed" in done.stderr


def test_never_closed_with_work_under_way() -> None:
    done = run_python(
        "import warnings; warnings.simplefilter('default')\n"
        "import asyncio, numpy as np, npu_xfer\n"
        "async def main():\n"
        "    xfer = npu_xfer.Scheduler()\n"
        "    await xfer.open()\n"
        "    for _ in range(20):\n"
        "        await xfer.submit_to_device(np.zeros(1 << 20))\n"
        "asyncio.run(main())\n"
        "print('end')"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "end\n"
    assert "never closed" in done.stderr


def test_keyboard_interrupt_ends_a_blocking_wait() -> None:
    done = run_python(
        "import os, signal, threading, numpy as np, npu_xfer\n"
        "from npu_xfer import sim\n"
        "with npu_xfer.BlockingScheduler() as xfer:\n"
        "    sim.hold_engine(0, 'h2d')\n"
        "    transfer = xfer.submit_to_device(np.zeros(100))\n"
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n"
        "        transfer.result()\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
        "    sim.release_engine(0, 'h2d')\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "interrupted\n"


def test_keyboard_interrupt_in_asyncio() -> None:
    done = run_python(
        "import asyncio, os, signal, threading, numpy as np, npu_xfer\n"
        "from npu_xfer import sim\n"
        "async def main():\n"
        "    async with npu_xfer.Scheduler() as xfer:\n"
        "        sim.hold_engine(0, 'h2d')\n"
        "        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "        try:\n"
        "            await xfer.to_device(np.zeros(100))\n"
        "        finally:\n"
        "            sim.release_engine(0, 'h2d')\n"
        "            print('released')\n"
        "asyncio.run(main())\n"
    )
    assert done.stdout == "released\n"
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 0


def test_asyncio_run_twice() -> None:
    done = run_python(
        "import asyncio, numpy as np, npu_xfer\n"
        "async def main():\n"
        "    async with npu_xfer.Scheduler() as xfer:\n"
        "        print((await xfer.to_host(await xfer.to_device(np.arange(5)))).tolist())\n"
        "asyncio.run(main()); asyncio.run(main())\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 1, 2, 3, 4]\n" * 2


def test_loop_closed_before_the_copy_ended() -> None:
    """A program that leaves its loop early: the completion finds nobody, and nothing breaks."""
    done = run_python(
        "import asyncio, gc, numpy as np, npu_xfer\n"
        "from npu_xfer import sim\n"
        "async def main():\n"
        "    xfer = npu_xfer.Scheduler()\n"
        "    await xfer.open()\n"
        "    sim.hold_engine(0, 'h2d')\n"
        "    transfer = await xfer.submit_to_device(np.ones(1000))\n"
        "    return xfer\n"
        "xfer = asyncio.run(main())\n"
        "sim.release_engine(0, 'h2d')\n"
        "asyncio.run(xfer.close())\n"
        "del xfer; gc.collect()\n"
        "counters = sim.counters()\n"
        "print(counters.live_streams, counters.live_device_blocks, counters.live_pinned_blocks)\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 0 0\n"


def test_which_library_is_said_once() -> None:
    done = run_python(
        "import numpy as np, npu_xfer\n"
        "for _ in range(2):\n"
        "    with npu_xfer.BlockingScheduler() as xfer:\n"
        "        print(xfer.library.simulated)\n",
        env={"NPU_XFER_LIBRARY": "auto", "ASCEND_HOME_PATH": "", "ASCEND_TOOLKIT_HOME": ""},
    )
    assert done.returncode == 0, done.stderr
    if "True" in done.stdout:  # a machine with CANN says nothing
        assert len(re.findall("simulator, not on an NPU", done.stderr)) == 1


def test_acl_is_initialised_again_after_a_failed_initialisation() -> None:
    done = run_python(
        "import numpy as np, npu_xfer\n"
        "from npu_xfer import sim\n"
        "sim.fail_call('aclInit', 507899)\n"
        "try:\n"
        "    npu_xfer.BlockingScheduler().open()\n"
        "except npu_xfer.AclError as error:\n"
        "    print(error.call, error.code)\n"
        "before = sim.call_count('aclInit'), sim.call_count('aclFinalize')\n"
        "with npu_xfer.BlockingScheduler() as xfer:\n"
        "    print(xfer.to_host(xfer.to_device(np.arange(3))).tolist(), xfer._core.native.faults_known)\n"
        "print(sim.call_count('aclInit') - before[0], sim.call_count('aclFinalize') - before[1])\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "aclInit 507899\n[0, 1, 2] True\n1 1\n"


def test_the_source_folder_says_what_it_is(tmp_path: Path) -> None:
    package = tmp_path / "npu_xfer"
    package.mkdir()
    here = Path(npu_xfer.__file__).parent
    for name in ("__init__.py", "_built.py"):
        shutil.copy(here / name, package / name)
    ran = subprocess.run(
        [sys.executable, "-S", "-c", "import npu_xfer"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "run from another folder, or install the checkout with `pip install -e .`" in ran.stderr
