"""Damage to logs that changes nothing: wrapping, prefixes, dropped fields, mixed processes, order; and text
that is no CANN log."""

from __future__ import annotations

import re
import string

import pytest
from explain_samples import LOGS, SAMPLES
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npu_xfer.explain import explain_bytes

RECORDS = [sample.name for sample in SAMPLES if sample.name in {"01", "04", "06", "16", "17", "29", "32"}]
"""Samples made of CANN's own records, whose threads and times are known."""

WANTED = {sample.name: sample.cls for sample in SAMPLES}
PREFIXES = ("", "> ", "plog-7_1.log:", "dir/plog-7_1.log:12:", "[rank3]: ", "(Worker TP1 pid=7) ", "\x1b[31m")


def text_of(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text("utf-8")


def classes(text: str | bytes) -> list[str]:
    return [one.cls for one in explain_bytes(text.encode() if isinstance(text, str) else text)]


def wrapped(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), width)] or [""]


names = st.sampled_from(sorted(WANTED))
records = st.sampled_from(sorted(RECORDS))


@settings(deadline=None, max_examples=150)
@given(name=names, width=st.integers(24, 200), end=st.sampled_from(["\n", "\r\n"]), bom=st.booleans())
def test_wrapping_keeps_the_class(name: str, width: int, end: str, bom: bool) -> None:
    lines = [piece for line in text_of(name).splitlines() for piece in wrapped(line, width)]
    assert classes("\ufeff" * bom + end.join(lines)) == [WANTED[name]]


@settings(deadline=None, max_examples=100)
@given(name=records, prefix=st.sampled_from(PREFIXES), tail=st.sampled_from(["", "\x1b[0m", "  "]))
def test_prefixes_keep_the_class(name: str, prefix: str, tail: str) -> None:
    lines = [prefix + line + tail for line in text_of(name).splitlines()]
    assert classes("\n".join(lines)) == [WANTED[name]]


FIELDS = (
    (r"\[[\w.]+:\d+\]", "[]"),  # file and line
    (r"\[(EXEC|DUMP|INIT)\] ?\[\w+\]", ""),
    (r",(python3?|4)?\)", ",)"),  # process name
    (r"Inner?t?Code=0x[0-9a-f]+", ""),
    (r"desc=\[[^]]*\]", ""),
    (r"\.\d{3}\.\d{3} ", " "),  # milliseconds and microseconds
    (r"report error module_\w+=\w+(, module_name=\w+)?", ""),
    (r"ErrCode", "ErrCdoe"),
    (r"runtime result", "runtme result"),
)


@settings(deadline=None, max_examples=150)
@given(name=records, chosen=st.sets(st.sampled_from(range(len(FIELDS))), min_size=1, max_size=4))
def test_dropped_and_misspelt_fields_keep_the_class(name: str, chosen: set[int]) -> None:
    text = text_of(name)
    for at in sorted(chosen):
        text = re.sub(FIELDS[at][0], FIELDS[at][1], text)
    assert classes(text) == [WANTED[name]]


@settings(deadline=None, max_examples=100)
@given(picked=st.lists(records, min_size=2, max_size=4, unique=True), draw=st.randoms(use_true_random=False))
def test_mixed_processes_are_told_apart(picked: list[str], draw: object) -> None:
    queues = [[line for line in text_of(name).splitlines() if line] for name in picked]
    merged = []
    while any(queues):
        queue = draw.choice([one for one in queues if one])  # type: ignore[attr-defined]  # a random.Random
        merged.append(queue.pop(0))
    found = explain_bytes("\n".join(merged).encode())
    assert sorted(one.cls for one in found) == sorted(WANTED[name] for name in picked)
    assert len({one.pid for one in found}) == len(picked)


@settings(deadline=None, max_examples=100)
@given(name=records, data=st.data())
def test_order_within_a_second_keeps_the_class(name: str, data: st.DataObject) -> None:
    lines = data.draw(st.permutations([line for line in text_of(name).splitlines() if line]))
    assert classes("\n".join(lines)) == [WANTED[name]]


PYTHON = """Traceback (most recent call last):
  File "/srv/app/train.py", line 107002, in <module>
    main()
  File "/srv/app/loader.py", line 507013, in load
    raise ValueError(f"size=207001 error code is 507013")
ValueError: code: 507013 failed, timeout after 107020 ms
"""
CUDA = """torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB (507033 MiB total)
RuntimeError: CUDA error: device-side assert triggered, error 107000
CUDA kernel errors might be asynchronously reported; NCCL error: unhandled system error, result = 507001
terminate called after throwing an instance of 'c10::Error' what(): NCCL timeout
"""
OTHER = """Jan 02 03:04:05 host kernel: [107002.507013] nvme nvme0: I/O 500 QID 7 timeout, aborting
ERROR 2026-01-01 00:00:00 [db.py:507] connection failed: errno=207001, retry=100000
E0101 00:00:00.000000 507899 server.cc:500] stream_id=5 failed, code=500000
"""


# Without letters: a word of CANN's beside such a number would rightly count.
noises = st.binary(max_size=300).map(lambda data: data.translate(None, string.ascii_letters.encode()))


@settings(deadline=None)
@given(text=st.sampled_from([PYTHON, CUDA, OTHER, ""]), noise=noises, first=st.booleans())
@example(text=PYTHON, noise=b"NPU, oracle, descending order", first=True)
@example(text=PYTHON, noise=b"", first=True)
@example(text=CUDA, noise=b"", first=True)
@example(text=OTHER, noise=b"", first=True)
def test_text_of_others_is_nothing(text: str, noise: bytes, first: bool) -> None:
    parts = [text.encode(), noise]
    assert explain_bytes(b"\n".join(parts if first else parts[::-1])) == []


@settings(deadline=None)
@given(st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=0x2FFF), max_size=600))
def test_random_text_is_nothing(text: str) -> None:
    assert explain_bytes(text.encode("utf-8", "surrogatepass")) == []


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_cut_log_never_raises(name: str) -> None:
    data = (LOGS / f"{name}.txt").read_bytes()
    for end in range(0, len(data), 37):
        explain_bytes(data[:end])
