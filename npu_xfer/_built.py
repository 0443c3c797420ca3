"""Refuses the source folder: Python finds it first when it runs in a checkout, without the compiled part."""

from __future__ import annotations

import importlib.util
import os.path

if importlib.util.find_spec("npu_xfer._native") is None:
    raise ImportError(
        f"{os.path.dirname(os.path.abspath(__file__))} is the source of npu_xfer, without its compiled part "
        "(npu_xfer._native): run from another folder, or install the checkout with `pip install -e .`",
        name="npu_xfer._native",
    )
