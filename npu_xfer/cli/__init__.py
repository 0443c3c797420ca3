"""The `npu-xfer` command: `info`, `doctor`, `bench`, `load`, `sim` and others.

Importing this package imports neither typer nor rich; `main` does, and says what to install without them.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = frozenset({"typer", "rich", "click"})


def main() -> None:
    """Runs the command with the arguments of this process. Always ends in SystemExit."""
    try:
        from npu_xfer.cli._app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        print(
            f"npu-xfer needs {package}: pip install typer rich safetensors "
            "(the packages of the extra npu-xfer[cli])",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    app(prog_name="npu-xfer")
