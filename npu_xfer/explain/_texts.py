"""What explain says beside the rules, in English and Chinese: texts.json."""

from __future__ import annotations

import functools
import json
from importlib import resources

__all__ = ["say"]


@functools.cache
def _texts() -> dict[str, dict[str, str]]:
    file = resources.files("npu_xfer.explain") / "texts.json"
    found: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def say(lang: str, key: str, **values: object) -> str:
    """The text called `key` in a language ("en" or "zh"), with its holes filled."""
    return _texts()[key][lang].format(**values)
