"""Where a run happens: machine, library, chip, commit, settings."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

from bench._model import Run
from npu_xfer import sim
from npu_xfer._library import choose_library, open_runtime
from npu_xfer.cli._common import provenance
from npu_xfer.errors import XferError


def numa_nodes() -> int:
    """Number of NUMA nodes of this machine, 1 where the system does not tell."""
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1


def chip() -> dict[str, Any]:
    """Chip and release, asked once; the simulator's profile instead of a chip."""
    if sim.is_active():
        return {"profile": sim.profile(), "mode": sim.mode()}
    try:
        runtime = open_runtime()
        runtime.init()
        return {"soc": runtime.soc_name(), "versions": runtime.versions()}
    except XferError as error:
        return {"unknown": str(error)}


def describe(scale: str) -> Run:
    """An empty run that says where it is."""
    library = choose_library()
    known = provenance(library)
    return Run(
        machine={**known["machine"], "numa_nodes": numa_nodes()},
        library={**dataclasses.asdict(library), **chip()},
        simulated=library.simulated,
        commit=known["npu_xfer"]["commit"],
        version=known["npu_xfer"]["version"],
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        settings={
            "scale": scale,
            "python": known["python"],
            "numpy": known["numpy"],
            "engine": known["engine_settings"],
            "seconds": {},
        },
    )
