"""Where memory lives against the kind of the copy: the whole table of the asynchronous copy."""

from __future__ import annotations

import pytest

from conformance.support.cites import cites, forms, since, until
from conformance.support.codes import OK, PARAM, UNSUPPORTED
from conformance.support.kit import D2D, D2H, DEFAULT, H2D, H2H, Kit, content

N = 4096
NAMES = {H2H: "h2h", H2D: "h2d", D2H: "d2h", D2D: "d2d", DEFAULT: "default"}
ALL = tuple(NAMES)

# (source, destination) -> kind -> code; a kind that is not named is 107000. Once the kind is H2H, given or
# found, the answer is 207000. Pageable memory with another kind is copied at once.
TABLE: dict[tuple[str, str], dict[int, int]] = {
    ("host", "device"): dict.fromkeys(ALL, OK),
    ("device", "host"): dict.fromkeys(ALL, OK),
    ("device", "device"): dict.fromkeys(ALL, OK),
    ("host", "host"): dict.fromkeys(ALL, UNSUPPORTED),
    ("pageable", "device"): {H2D: OK, D2D: OK, DEFAULT: OK},
    ("device", "pageable"): {D2H: OK, D2D: OK, DEFAULT: OK},
    ("host", "pageable"): {H2H: UNSUPPORTED, H2D: OK, DEFAULT: UNSUPPORTED},
    ("pageable", "host"): {H2H: UNSUPPORTED, D2H: OK, DEFAULT: UNSUPPORTED},
    ("pageable", "pageable"): {H2H: UNSUPPORTED, H2D: OK, D2H: OK, D2D: OK, DEFAULT: UNSUPPORTED},
}
ROWS = [
    pytest.param(src, dst, kind, row.get(kind, PARAM), id=f"{src}-{dst}-{NAMES[kind]}")
    for (src, dst), row in TABLE.items()
    for kind in ALL
]


@cites("The kind is corrected where it can be, and refused elsewhere", "the open runtime, CANN 8.5 to 9.2")
@since("8.5")
@forms("ep")
@pytest.mark.parametrize(("src", "dst", "kind", "code"), ROWS)
def test_the_table(kit: Kit, src: str, dst: str, kind: int, code: int) -> None:
    if kind == D2D and "pageable" in (src, dst) and not kit.acl.simulated:
        pytest.skip("the device would use an address that it may not know")
    source, target, stream = kit.place(src, N, seed=1), kit.place(dst, N), kit.stream()
    assert kit.copy(target, source, kind, stream) == code
    assert kit.sync(stream) == OK
    assert kit.read(target) == (content(N, 1) if code == OK else bytes(N))


@cites("Up to 8.3 a kind that does not fit pinned or device memory is refused", "reports of CANN up to 8.3")
@until("8.3")
@forms("ep")
@pytest.mark.parametrize(
    ("src", "dst", "kind", "code"),
    [
        ("host", "device", H2D, OK),
        ("host", "device", D2H, PARAM),
        ("host", "device", D2D, PARAM),
        ("device", "host", D2H, OK),
        ("device", "host", H2D, PARAM),
        ("device", "device", D2D, OK),
        ("device", "device", H2D, PARAM),
        ("device", "device", D2H, PARAM),
    ],
)
def test_no_correction_before(kit: Kit, src: str, dst: str, kind: int, code: int) -> None:
    source, target, stream = kit.place(src, N, seed=1), kit.place(dst, N), kit.stream()
    assert kit.copy(target, source, kind, stream) == code
    assert kit.sync(stream) == OK
    assert kit.read(target) == (content(N, 1) if code == OK else bytes(N))
