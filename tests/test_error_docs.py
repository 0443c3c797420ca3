"""docs/errors.md is what the table of codes says."""

from __future__ import annotations

from error_docs import PAGE, page

from npu_xfer._cann.codes import CODES


def test_the_page_of_errors_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python tests/error_docs.py"


def test_it_names_every_code() -> None:
    assert len(CODES) > 200
    assert all(f"| {code} |" in page() for code in CODES)
