"""Finding settings that suit this machine: measured in few short samples, kept only where the gain is real.

`run` is what ``npu-xfer tune`` calls; npu_xfer._tuning loads what it found.
"""

from npu_xfer.tune._search import CANDIDATES, Found, Step, run
from npu_xfer.tune._work import WORKLOADS

__all__ = ["CANDIDATES", "WORKLOADS", "Found", "Step", "run"]
