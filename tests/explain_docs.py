"""The tables of docs/explain.md: `python tests/explain_docs.py` writes them."""

from __future__ import annotations

import json
from pathlib import Path

from fault_programs import PROGRAMS

import npu_xfer.explain

__all__ = ["PAGE", "SCHEMA", "page"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explain.md"
SCHEMA = json.loads((Path(npu_xfer.explain.__file__).parent / "schema.json").read_text("utf-8"))


def _type_of(field: dict[str, object]) -> str:
    kind = field.get("type", field.get("enum"))
    words = kind if isinstance(kind, list) else [kind]
    return " or ".join("null" if word is None else str(word) for word in words)


def _fields() -> list[str]:
    properties = SCHEMA["$defs"]["incident"]["properties"]
    return ["| field | type | |", "|---|---|---|"] + [
        f"| `{name}` | {_type_of(field)} | {field.get('description', '')} |"
        for name, field in properties.items()
    ]


def _faults() -> list[str]:
    return ["| what fails | fault rule | class |", "|---|---|---|"] + [
        f"| {program.what} | {f'`{program.rule}`' if program.rule else ''} "
        f"| {f'`{program.cls}`' if program.cls else 'nothing is logged'} |"
        for program in PROGRAMS.values()
    ]


def page(text: str) -> str:
    """The page with its tables made anew."""
    for name, lines in (("fields", _fields()), ("faults", _faults())):
        made = "\n".join([f"<!-- {name} -->", *lines, "<!-- end -->"])
        before, begin, rest = text.partition(f"<!-- {name} -->")
        _, end, after = rest.partition("<!-- end -->")
        assert begin, name
        assert end, name
        text = before + made + after
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
