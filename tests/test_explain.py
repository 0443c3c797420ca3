"""`npu_xfer.explain` and `npu-xfer explain`: rules, damage, and text that is no CANN log."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from npu_xfer import _settings
from npu_xfer._cann import codes
from npu_xfer._cann.codes import CODES
from npu_xfer.cli._app import app
from npu_xfer.explain import _groups, _incidents, _records, explain_bytes, explain_stream, rules
from npu_xfer.explain._texts import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from npu_xfer.explain import Rule

OLD = (
    "[ERROR] RUNTIME(7,python3):2024-01-29-19:28:56.519.792 [api_error.cc:1]8 Check:[EXEC][EXEC]"
    "Memory async failed, src loc type=2, dst loc type=2, kind=1 is invalid!\n"
    "[ERROR] RUNTIME(7,python3):2024-01-29-19:28:56.519.911 [api_c.cc:1]8 rtMemcpyAsync:[EXEC][EXEC]"
    "ErrCode=107000, desc=[invalid value], InnertCode=0x7110001\n"
    "[ERROR] ASCENDCL(7,python3):2024-01-29-19:28:56.519.952 [memory.cc:1]8 aclrtMemcpyAsync:"
    "asynchronized memcpy failed, kind = 1, runtime result = 107000\n"
)
NEW = (
    "[ERROR] RUNTIME(7,python3):2026-01-29-19:28:56.519.792 [api_error.cc:1]8 MemcpyAsync:"
    "Memory async check kind and loc failed, retCode=0x7110001, copyKind=1, srcLoc=1, dstLoc=1\n"
)


def classes(text: str) -> list[str]:
    return [one.cls for one in explain_bytes(text.encode())]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_explains_its_examples(rule: Rule) -> None:
    assert rule.examples
    for example in rule.examples:
        assert rule.name in classes(example)
    assert set(rule.codes) <= set(CODES)


def test_rules_name_rules_that_exist_and_speak_both_languages() -> None:
    names = {rule.name for rule in rules()}
    for rule in rules():
        assert (rule.hides | rule.consequences | rule.secondary_to) <= names
        assert rule.consequences <= rule.hides
        assert rule.source
        for lang in ("en", "zh"):
            summary, causes, remedies = rule.texts(lang)
            assert all(
                bool(re.search("[\u4e00-\u9fff]", text)) == (lang == "zh") for text in (summary, *causes)
            )
            assert remedies
        assert len(rule.causes) == len(rule.causes_zh)
        assert len(rule.remedies) == len(rule.remedies_zh)


def test_every_code_that_is_not_about_models_has_a_rule() -> None:
    covered = {code for rule in rules() for code in rule.codes}
    wanted = {
        row["code"] for row in codes._TABLE["codes"] if row["group"] not in {"model", "profiling", "ok"}
    }
    # A storage limit that no public text explains.
    assert wanted - covered == {300000}


@pytest.mark.parametrize(("text", "numbering"), [(OLD, "1 to 5"), (NEW, "0 to 4")])
def test_both_numberings_of_locations(text: str, numbering: str) -> None:
    (one,) = explain_bytes(text.encode())
    assert (one.cls, one.direction, one.count, one.role) == ("kind-location-mismatch", "h2d", 1, "cause")
    assert one.found is not None
    assert numbering in one.found
    assert "the source should be host memory but is device memory" in one.found
    assert (one.pid, one.tid) == (7, 8)
    assert any("kind" in remedy for remedy in one.remedies)


@settings(deadline=None, max_examples=60)
@given(
    width=st.integers(30, 200),
    prefix=st.sampled_from(["", "> ", "plog-7_1.log:", "[rank0]: "]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_damage_keeps_the_class(width: int, prefix: str, end: str) -> None:
    lines = []
    for line in OLD.splitlines():
        lines += [prefix + line[at : at + width] for at in range(0, len(line), width)]
    data = b"\xef\xbb\xbf" + end.join(lines).encode() + b"\xff\xfe"
    assert [one.cls for one in explain_bytes(data)] == ["kind-location-mismatch"]


def test_colours_and_misspelt_keys() -> None:
    text = OLD.replace("[ERROR]", "\x1b[31m[ERROR]\x1b[0m").replace("ErrCode", "ErrCdoe")
    assert classes(text) == ["kind-location-mismatch"]


@settings(deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes_are_nothing(data: bytes) -> None:
    assert explain_bytes(data) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        'Traceback (most recent call last):\n  File "a.py", line 107002\nValueError: code: 507013\n',
        "RuntimeError: CUDA error: an illegal memory access\nCUDA out of memory. error 207001\n",
    ],
)
def test_other_text_is_nothing(text: str) -> None:
    assert classes(text) == []


def test_equal_incidents_are_one_counted() -> None:
    later = re.sub(r"19:28:5", "20:28:5", OLD)
    (one,) = explain_bytes((OLD + later).encode())
    assert one.count == 2
    assert one.first_seen is not None
    assert one.first_seen < (one.last_seen or "")


def test_a_log_longer_than_a_group_is_one_incident() -> None:
    (one,) = explain_bytes((OLD * 1000).encode())
    assert one.count == 1000


def test_processes_are_told_apart() -> None:
    other = OLD.replace("(7,", "(9,")
    mixed = "\n".join(
        line for pair in zip(OLD.splitlines(), other.splitlines(), strict=True) for line in pair
    )
    assert sorted(one.pid or 0 for one in explain_bytes(mixed.encode())) == [7, 9]


def test_a_line_without_an_end_is_bounded() -> None:
    assert explain_stream(io.BytesIO(b"error " * 500_000)) == []


class Endless(io.RawIOBase):
    """Lines made while they are read, so that a log of any length costs no memory itself."""

    def __init__(self, nbytes: int, make: Callable[[int], bytes]) -> None:
        self.left, self.number, self.make = nbytes, 0, make

    def read(self, size: int = -1) -> bytes:
        if self.left <= 0:
            return b""
        lines = []
        got = 0
        while got < 1 << 16:
            lines.append(self.make(self.number))
            got += len(lines[-1])
            self.number += 1
        self.left -= got
        return b"".join(lines)


def one_of_many(number: int) -> bytes:
    """Every line another time, thread and numbers; every third a form of its own."""
    second = number // 50
    word = "".join(chr(ord("g") + int(digit)) for digit in str(number)) if number % 3 == 0 else "same"
    return (
        f"[ERROR] RUNTIME({number % 7},p):2026-01-01-{second // 3600 % 24:02}:{second // 60 % 60:02}"
        f":{second % 60:02}.000.000 [stream.cc:1]{number % 500} GetError:Memory async copy failed,"
        f" device_id=0, stream_id=1, task_id={number}, name={word}, length={number * 4096}\n"
    ).encode()


def peak_nbytes(nbytes: int) -> int:
    tracemalloc.start()
    try:
        # Reads are all that is asked of the stream.
        found = explain_stream(cast("BinaryIO", Endless(nbytes, one_of_many)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {one.cls for one in found} == {"sdma-execution-error"}
    assert len(found) == 100  # threads beyond these are not kept
    return peak


def test_memory_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    # Smaller limits than the real ones, so that a short log reaches them.
    monkeypatch.setattr(_incidents, "_MOST_INCIDENTS", 100)
    monkeypatch.setattr(_incidents, "_MOST_PLANS", 100)
    monkeypatch.setattr(_groups, "_MOST_GROUPS", 16)
    monkeypatch.setattr(_records, "_MOST_SHAPES", 300)
    first = peak_nbytes(200_000)
    assert peak_nbytes(700_000) < 1.3 * first


def test_repeats_are_counted_and_a_later_error_is_still_found() -> None:
    other = "[ERROR] RUNTIME(7,p):2024-01-29-19:28:57.000.000 [api_c.cc:1]8 f:ErrCode=107002, desc=[x]\n"
    found = {one.cls: one for one in explain_bytes((OLD * 500 + other).encode())}
    assert found["kind-location-mismatch"].count == 500
    assert found["no-context-on-thread"].codes[-1] == "107002"


def test_broken_codes_of_one_form_are_told_apart() -> None:
    text = "[ERROR] RUNTIME(7,p):2024-01-29-19:28:56.000.000 [api_c.cc:1]8 f:runtime result = {}\n{}\n"
    text = text.format("10", "7000") * 5 + text.format("10", "7002") * 5
    assert classes(text) == ["no-context-on-thread"]  # the later code says more than the first


def test_the_command(tmp_path: Path) -> None:
    log = tmp_path / "plog-7_1.log"
    log.write_text(OLD)
    shown = CliRunner().invoke(app, ["explain", str(tmp_path)])
    assert shown.exit_code == 1
    assert "kind-location-mismatch" in shown.stdout
    found = json.loads(CliRunner().invoke(app, ["explain", "--json", str(log)]).stdout)
    assert found[0]["class"] == "kind-location-mismatch"
    assert found[0]["evidence"][0]["line"] == 1
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert CliRunner().invoke(app, ["explain", str(empty)]).exit_code == 0
    assert CliRunner().invoke(app, ["explain", str(tmp_path / "none")]).exit_code == 2


def test_the_command_in_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "plog-7_1.log"
    log.write_text(OLD)
    monkeypatch.setenv("NPU_XFER_LANG", "zh")
    _settings.settings.cache_clear()
    try:
        shown = CliRunner().invoke(app, ["explain", str(log)]).stdout
        (found,) = json.loads(CliRunner().invoke(app, ["explain", "--json", str(log)]).stdout)
    finally:
        monkeypatch.undo()
        _settings.settings.cache_clear()
    rule = next(rule for rule in rules() if rule.name == "kind-location-mismatch")
    assert found["class"] == rule.name
    assert (found["summary"], found["remedies"]) == (rule.summary_zh, list(rule.remedies_zh))
    assert say("zh", "source") in found["found"]
    assert say("zh", "proof") in shown
    assert "Lines that prove it" not in shown
