"""The table of ACL codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from npu_xfer._cann import codes
from npu_xfer._cann.codes import (
    CODES,
    INNER,
    MESSAGES,
    InnerInfo,
    MessageInfo,
    acl_error,
    code_info,
    code_name,
    transfer_error,
)

CODES_H = Path(__file__).parent.parent / "native" / "acl" / "codes.h"


def test_every_row_is_complete_and_unique() -> None:
    rows = json.loads((Path(codes.__file__).parent / "codes.json").read_text("utf-8"))["codes"]
    assert len(CODES) == len(rows) > 200
    assert len({info.name for info in CODES.values()}) == len(CODES)
    for code, info in CODES.items():
        assert info.code == code
        assert re.fullmatch(r"ACL_(SUCCESS|ERROR_[A-Z0-9_]+)", info.name)
        assert info.meaning
        assert info.remedy
        assert info.source in {"acl_base_rt.h", "rt_error_codes.h"}
        for text in (info.meaning_zh, info.remedy_zh):
            assert re.search(r"[\u4e00-\u9fff]", text), code
        assert code == 0 or info.causes or info.remedy == "nothing"
        assert bool(info.causes) == bool(info.causes_zh)
        assert not info.device_lost or info.sticky
        assert not (info.sticky and info.retryable)
        assert info.retryable or not info.resource


def test_names_agree_with_the_c_header() -> None:
    found = {
        int(number): name
        for name, number in re.findall(r"\b(ACL_\w+) = (\d{6})\b", CODES_H.read_text("utf-8"))
    }
    assert len(found) > 200
    assert {code: code_name(code) for code in found} == found


def test_inner_codes_and_messages() -> None:
    assert {INNER[0x07110001].code, INNER[0x07070001].code, INNER[0x07020023].code} == {
        107000,
        107002,
        207005,
    }
    assert len(MESSAGES) > 40
    rows: list[InnerInfo | MessageInfo] = [*INNER.values(), *MESSAGES.values()]
    for info in rows:
        assert info.source
        assert info.meaning
        assert re.search(r"[\u4e00-\u9fff]", info.meaning_zh)
    assert all(info.code is None or info.code in CODES for info in INNER.values())


def test_chinese_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "language", lambda: "zh")
    error = acl_error("aclrtMallocHost", 207001)
    assert CODES[207001].meaning_zh in str(error)
    assert error.remedy == CODES[207001].remedy_zh
    assert str(error).endswith("\u3002")
    failed = transfer_error("aclrtMemcpyAsync", 507010, direction="h2d", nbytes=8, device=0)
    assert CODES[507010].meaning_zh in str(failed)
    assert "Do:" not in str(failed)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "ACL_SUCCESS"),
        (100002, "ACL_ERROR_REPEAT_INITIALIZE"),
        (107000, "ACL_ERROR_RT_PARAM_INVALID"),
        (107032, "ACL_ERROR_STREAM_CAPTURE_CONFLICT"),
        (107041, "ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC"),
        (207018, "ACL_ERROR_RT_DEVICE_OOM"),
        (507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT"),
        (507057, "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR"),
        (507910, "ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
        (507911, "ACL_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    ],
)
def test_known_names(code: int, name: str) -> None:
    assert code_name(code) == name


def test_groups_for_decisions() -> None:
    assert {code for code, info in CODES.items() if info.device_lost} == {507010, 507899, 507901}
    sticky = {code for code, info in CODES.items() if info.sticky and not info.device_lost}
    assert sticky == {107022, 507053, 507054, 507055, 507056, 507057}
    assert {207001, 207007, 207008} <= {code for code, info in CODES.items() if info.resource}
    for code in (107000, 207000, 507046, 507047, 507012):
        assert not CODES[code].sticky


@pytest.mark.parametrize(
    ("code", "word"), [(107999, "caller"), (208000, "resource"), (599999, "device"), (-1, "")]
)
def test_unknown_codes_keep_their_number_and_class(code: int, word: str) -> None:
    info = code_info(code)
    assert (info.code, info.name) == (code, "UNKNOWN")
    assert word in info.meaning
    assert info.remedy
