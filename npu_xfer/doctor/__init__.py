"""`npu-xfer doctor`: looks at a machine and says what keeps transfers from working or from being fast.

`diagnose` runs every check and gives a `Report`. A check that fails becomes a finding, and whatever calls the
ACL library does so in a process of its own, so that a library that crashes or hangs is a finding too.
"""

from __future__ import annotations

from npu_xfer.doctor._checks import CHECKS, diagnose
from npu_xfer.doctor._findings import Finding, Report, Severity, catalogue
from npu_xfer.doctor._host import Host
from npu_xfer.doctor._probed import Probed, Stage

__all__ = ["CHECKS", "Finding", "Host", "Probed", "Report", "Severity", "Stage", "catalogue", "diagnose"]
