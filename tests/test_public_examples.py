"""The judge of tests/public_examples.py must see what went wrong. The examples themselves are run by hand."""

from __future__ import annotations

import pytest
from public_examples import Example, _build_failure, _difference

EXAMPLE = Example("folder/0_name", ("status is 0", "status is 1"), n_errors=1)
GOOD = "[INFO]  status is 0\n[ERROR]  as shown\n[INFO]  status is 1\n"


def test_the_expected_output_passes() -> None:
    assert _difference(EXAMPLE, 0, GOOD) == ""


@pytest.mark.parametrize(
    ("status", "output", "why"),
    [
        (1, GOOD, "exit status 1"),
        (0, GOOD + "[ERROR]  one more\n", "2 error lines"),
        (0, GOOD.replace("[ERROR]", "[INFO]"), "0 error lines"),
        (0, GOOD.replace("is 1", "is 2"), "status is 1"),
        (0, "[INFO]  status is 1\n[ERROR]  x\n[INFO]  status is 0\n", "in its place"),
        (139, "", "exit status 139"),
    ],
)
def test_a_difference_is_told(status: int, output: str, why: str) -> None:
    assert why in _difference(EXAMPLE, status, output)


def test_missing_functions_are_named() -> None:
    text = "a.o: undefined reference to `aclrtB'\na.o: undefined reference to `aclrtA'\n"
    assert _build_failure(text) == "not in the library: aclrtA, aclrtB"
    assert _build_failure("/x/main.cpp:3:1: error: no such type\n") == "main.cpp:3:1: error: no such type"
