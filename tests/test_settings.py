"""The environment: what is read, what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_xfer._settings import GIB, KIB, MIB, Settings, format_nbytes, parse_nbytes, settings


def test_defaults() -> None:
    found = Settings.from_environ({})
    assert found == Settings()
    assert found.library == "auto"
    assert found.staging_bytes == 256 * MIB
    assert found.chunk_bytes == 4 * MIB
    assert found.n_lanes == 3
    assert found.inline_bytes == 64 * KIB
    assert found.result_cache == 256 * MIB
    assert found.cann_homes == ()


def test_every_variable_is_read() -> None:
    found = Settings.from_environ(
        {
            "NPU_XFER_LIBRARY": "SIM",
            "NPU_XFER_STAGING": "1GiB",
            "NPU_XFER_CHUNK": "8 MiB",
            "NPU_XFER_LANES": "5",
            "NPU_XFER_INLINE": "0",
            "NPU_XFER_RESULTS": "1000000",
            "ASCEND_TOOLKIT_HOME": "/opt/b",
            "ASCEND_HOME_PATH": "/opt/a",
        }
    )
    assert found == Settings(
        library="sim",
        staging_bytes=GIB,
        chunk_bytes=8 * MIB,
        n_lanes=5,
        inline_bytes=0,
        result_cache=1_000_000,
        cann_homes=(("ASCEND_HOME_PATH", "/opt/a"), ("ASCEND_TOOLKIT_HOME", "/opt/b")),
    )


def test_empty_variables_mean_unset() -> None:
    names = ("LIBRARY", "STAGING", "CHUNK", "LANES", "INLINE", "RESULTS")
    environ = {f"NPU_XFER_{name}": " " for name in names} | {"ASCEND_HOME_PATH": ""}
    assert Settings.from_environ(environ) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "accepted"),
    [
        ("NPU_XFER_LIBRARY", "cuda", "auto, cann, sim"),
        ("NPU_XFER_STAGING", "lots", "KiB"),
        ("NPU_XFER_STAGING", "1", "64 KiB or more"),
        ("NPU_XFER_STAGING", "-1", "KiB"),
        ("NPU_XFER_CHUNK", "4XB", "KiB"),
        ("NPU_XFER_CHUNK", "1KiB", "4 KiB or more"),
        ("NPU_XFER_LANES", "0", "from 1 to 32"),
        ("NPU_XFER_LANES", "2.5", "from 1 to 32"),
        ("NPU_XFER_INLINE", "0.3", "whole number of bytes"),
        ("NPU_XFER_RESULTS", "MiB", "KiB"),
    ],
)
def test_bad_values_name_variable_value_and_what_is_accepted(
    variable: str, value: str, accepted: str
) -> None:
    with pytest.raises(ValueError, match=variable) as caught:
        Settings.from_environ({variable: value})
    assert repr(value) in str(caught.value)
    assert accepted in str(caught.value)


def test_a_chunk_does_not_exceed_the_staging_memory() -> None:
    assert Settings.from_environ({"NPU_XFER_STAGING": "1MiB"}).chunk_bytes == MIB
    with pytest.raises(ValueError, match="NPU_XFER_CHUNK"):
        Settings.from_environ({"NPU_XFER_STAGING": "1MiB", "NPU_XFER_CHUNK": "2MiB"})


@pytest.mark.parametrize("value", ["/opt/x/libascendcl.so", "libmine.so.1", "./local"])
def test_library_paths_are_kept(value: str) -> None:
    assert Settings.from_environ({"NPU_XFER_LIBRARY": value}).library == value


def test_settings_are_frozen_and_hashable() -> None:
    found = Settings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.n_lanes = 4  # type: ignore[misc]  # frozen, on purpose
    assert hash(found) == hash(Settings())


def test_the_process_reads_its_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.cache_clear()
    try:
        monkeypatch.setenv("NPU_XFER_LANES", "7")
        assert settings().n_lanes == 7
        monkeypatch.setenv("NPU_XFER_LANES", "8")
        assert settings().n_lanes == 7
    finally:
        settings.cache_clear()


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("64MiB", 64 * MIB),
        ("64mib", 64 * MIB),
        ("64M", 64 * MIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("10MB", 10_000_000),
        (" 7 B ", 7),
        ("2TiB", 2 << 40),
    ],
)
def test_parse_nbytes(text: str, nbytes: int) -> None:
    assert parse_nbytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "x", "1e6", "-5", "5 6", "1.MiB", "0x10", "1.5", "NaN", "\u0661MiB"])
def test_parse_nbytes_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_nbytes(text)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (64 * MIB, "64 MiB"),
        (MIB - 1, "1 MiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (5000 << 40, "5000 TiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_format_nbytes(nbytes: int, text: str) -> None:
    assert format_nbytes(nbytes) == text


@given(st.integers(min_value=0, max_value=1 << 50))
def test_format_stays_close_to_the_number(nbytes: int) -> None:
    again = parse_nbytes(format_nbytes(nbytes).replace(" ", "")) if nbytes < 1024 else None
    assert again in (None, nbytes)
    value, unit = format_nbytes(nbytes).split()
    shown = float(value) * {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1 << 40}[unit]
    assert abs(shown - nbytes) <= max(0.05 * shown, 0)


@pytest.mark.parametrize(
    ("environ", "lang"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "C", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "NPU_XFER_LANG": "EN"}, "en"),
        ({"NPU_XFER_LANG": " zh "}, "zh"),
    ],
)
def test_language_of_explanations(environ: dict[str, str], lang: str) -> None:
    assert Settings.from_environ(environ).language == lang


def test_a_language_that_is_not_offered() -> None:
    with pytest.raises(ValueError, match=r"NPU_XFER_LANG='fr' is not valid: accepted: en, zh"):
        Settings.from_environ({"NPU_XFER_LANG": "fr"})
