"""Reads CANN logs and says what failed, why, and what to do. No runtime call.

    incidents = explain_lines(open("plog-1_2.log", "rb"))

The knowledge is in rules/*.json, one file for each class of failure; see docs/explain.md.
"""

from __future__ import annotations

from npu_xfer.explain._incidents import (
    Incident,
    explain_bytes,
    explain_lines,
    explain_paths,
    explain_stream,
)
from npu_xfer.explain._rules import Rule, rules

__all__ = ["Incident", "Rule", "explain_bytes", "explain_lines", "explain_paths", "explain_stream", "rules"]
