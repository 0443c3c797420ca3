"""docs/errors.md, made from the table of codes: `python tests/error_docs.py` writes it."""

from __future__ import annotations

from pathlib import Path

from npu_xfer._cann.codes import CODES, INNER, MESSAGES, CodeInfo

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"

_HEAD = """# Errors of CANN

Made from the table that exceptions and `npu-xfer explain` use (`npu_xfer/_cann/codes.json`) by
`python tests/error_docs.py`; a test compares. Numbers and names are those of CANN's headers up to 9.2;
meanings, causes and remedies are ours. The Chinese texts of the same table appear with `NPU_XFER_LANG=zh`.

*again*: the same call may succeed later as it is. *sticky*: later work on the device fails too until it is
repaired, reset or reopened. *lost*: the device does not answer; reset it or restart the process.
"""


def _marks(info: CodeInfo) -> str:
    marks = []
    if info.retryable:
        marks.append("again")
    if info.device_lost:
        marks.append("lost")
    elif info.sticky:
        marks.append("sticky")
    return ", ".join(marks)


def page() -> str:
    """The whole page."""
    lines = [
        _HEAD,
        "## aclError",
        "",
        "| code | name | meaning | usual causes | what to do | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {info.code} | `{info.name}` | {info.meaning} | {info.causes} | {info.remedy} | {_marks(info)} |"
        for info in CODES.values()
    ]
    lines += [
        "",
        "## Inner codes of the runtime",
        "",
        "In logs after `retCode=` and `InnerCode=`. Only those whose source is public.",
        "",
    ]
    lines += ["| inner | name | aclError | meaning | source |", "|---|---|---|---|---|"]
    lines += [
        f"| 0x{info.inner:08x} | {info.name or ''} | {info.code or ''} | {info.meaning} | {info.source} |"
        for info in INNER.values()
    ]
    lines += ["", "## Ids of messages", "", "| id | meaning |", "|---|---|"]
    lines += [f"| {info.id} | {info.meaning} |" for info in MESSAGES.values()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
