"""The examples of docs/arrays.md run as they stand."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import npu_xfer

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "arrays.md"


@pytest.mark.anyio
async def test_examples_run_in_order() -> None:
    examples = re.findall(r"(?ms)^```python\n(.*?)^```$", DOCUMENT.read_text())
    assert len(examples) >= 6
    async with npu_xfer.Scheduler() as xfer:
        names: dict[str, Any] = {"xfer": xfer}
        for example in examples:
            code = compile(example, str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            pending = eval(code, names)
            if inspect.isawaitable(pending):
                await pending
        assert names["window"].shape == (4, 3)
