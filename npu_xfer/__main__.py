"""`python -m npu_xfer` is the `npu-xfer` command."""

from __future__ import annotations

from npu_xfer.cli import main

if __name__ == "__main__":
    main()
