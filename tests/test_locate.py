"""Which library is chosen, and what is said when none can be.

The stand-ins are tiny shared objects that export the names of the ACL functions; no function is ever called.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from npu_xfer import _library
from npu_xfer._cann import library as library_module
from npu_xfer._cann import locate
from npu_xfer._cann.abi import PROTOTYPES
from npu_xfer._cann.library import Library, open_library
from npu_xfer._cann.locate import CANN_NAMES, find_library
from npu_xfer._settings import Settings
from npu_xfer.errors import LibraryError

if TYPE_CHECKING:
    from pathlib import Path

MUST = tuple(name for name, row in PROTOTYPES.items() if row.must)


class Builder:
    """Makes shared objects that export the given names."""

    def __init__(self, compiler: str, folder: Path) -> None:
        self._compiler = compiler
        self._folder = folder

    def build(self, path: Path, names: tuple[str, ...] = MUST, *extra: str) -> Path:
        """Compiles `path`; `extra` goes to the compiler."""
        path.parent.mkdir(parents=True, exist_ok=True)
        source = self._folder / "stand_in.c"
        source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in names))
        command = [self._compiler, "-shared", "-fPIC", "-o", str(path), str(source), *extra]
        subprocess.run(command, check=True)
        return path

    def build_with_missing_dependency(self, path: Path) -> Path:
        """Compiles `path` against libnpux_gone.so, which is deleted afterwards."""
        gone = self.build(self._folder / "libnpux_gone.so", ("npux_gone",), "-Wl,-soname,libnpux_gone.so")
        self.build(path, MUST, "-Wl,--no-as-needed", str(gone))
        gone.unlink()
        return path


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to make stand-in libraries with")
    return Builder(compiler, tmp_path)


@pytest.fixture(autouse=True)
def _no_installed_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loader's own search would find a real CANN; these names exist nowhere."""
    monkeypatch.setattr(locate, "CANN_NAMES", ("libnpux_none_rt.so", "libnpux_none_cl.so"))
    monkeypatch.setattr(locate, "simulator_path", lambda: str(tmp_path / "sim" / locate.SIMULATOR_NAME))


def _home(tmp_path: Path, name: str = "cann") -> Path:
    return tmp_path / name


def _settings(library: str = "auto", *homes: Path) -> Settings:
    variables = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
    return Settings(library=library, cann_homes=tuple(zip(variables, map(str, homes), strict=False)))


def _rt(home: Path, folder: str = "lib64") -> Path:
    return home / folder / "libnpux_none_rt.so"


def _cl(home: Path, folder: str = "lib64") -> Path:
    return home / folder / "libnpux_none_cl.so"


def _simulator(builder: Builder, tmp_path: Path) -> Path:
    return builder.build(tmp_path / "sim" / locate.SIMULATOR_NAME, (*MUST, "aclsim_abi"))


def _corrupt(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF this is not a library")
    return path


def test_the_thin_runtime_library_comes_first() -> None:
    assert CANN_NAMES == ("libacl_rt.so", "libascendcl.so")


def test_auto_takes_the_simulator_when_no_cann_is_present(builder: Builder, tmp_path: Path) -> None:
    simulator = _simulator(builder, tmp_path)
    found = find_library(_settings("auto", _home(tmp_path)))
    assert found.info.simulated
    assert found.info.path == str(simulator)
    assert found.info.requested == "auto"
    assert "no CANN library is present" in found.info.reason
    assert [candidate.present for candidate in found.tried] == [False] * 6 + [True]


def test_auto_prefers_cann_over_the_simulator(builder: Builder, tmp_path: Path) -> None:
    _simulator(builder, tmp_path)
    home = _home(tmp_path)
    builder.build(_rt(home))
    builder.build(_cl(home))
    found = find_library(_settings("auto", home))
    assert not found.info.simulated
    assert found.info.path == str(_rt(home))
    assert "ASCEND_HOME_PATH" in found.info.reason


@pytest.mark.parametrize("folder", ["lib64", "runtime/lib64"])
def test_both_library_folders_are_searched(builder: Builder, tmp_path: Path, folder: str) -> None:
    home = _home(tmp_path)
    builder.build(_cl(home, folder))
    assert find_library(_settings("cann", home)).info.path == str(_cl(home, folder))


def test_the_first_home_wins(builder: Builder, tmp_path: Path) -> None:
    first, second = _home(tmp_path, "first"), _home(tmp_path, "second")
    builder.build(_cl(first))
    builder.build(_rt(second))
    assert find_library(_settings("auto", first, second)).info.path == str(_cl(first))
    missing = _home(tmp_path, "missing")
    found = find_library(_settings("auto", missing, second))
    assert found.info.path == str(_rt(second))
    assert "ASCEND_TOOLKIT_HOME" in found.info.reason


def test_auto_refuses_to_hide_a_corrupt_cann(builder: Builder, tmp_path: Path) -> None:
    _simulator(builder, tmp_path)
    broken = _corrupt(_rt(_home(tmp_path)))
    with pytest.raises(LibraryError, match="present but none can be used") as caught:
        find_library(_settings("auto", _home(tmp_path)))
    reasons = dict(caught.value.candidates)
    assert "cannot be loaded" in reasons[str(broken)]
    assert reasons["libnpux_none_cl.so"] == "not found"
    assert "NPU_XFER_LIBRARY=sim" in str(caught.value)


def test_auto_refuses_a_dangling_link(tmp_path: Path) -> None:
    link = _rt(_home(tmp_path))
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(LibraryError, match="present but none can be used"):
        find_library(_settings("auto", _home(tmp_path)))


def test_auto_refuses_a_cann_whose_dependency_is_missing(builder: Builder, tmp_path: Path) -> None:
    _simulator(builder, tmp_path)
    home = _home(tmp_path)
    builder.build_with_missing_dependency(_cl(home))
    with pytest.raises(LibraryError, match="libnpux_gone") as caught:
        find_library(_settings("auto", home))
    assert str(_cl(home)) in dict(caught.value.candidates)


def test_a_library_without_the_functions_is_passed_over_by_name(builder: Builder, tmp_path: Path) -> None:
    home = _home(tmp_path)
    builder.build(_rt(home), tuple(name for name in MUST if name != "aclrtMemcpyAsync"))
    with pytest.raises(LibraryError, match="aclrtMemcpyAsync"):
        find_library(_settings("cann", home))
    builder.build(_cl(home))
    found = find_library(_settings("cann", home))
    assert found.info.path == str(_cl(home))
    assert "passed over" in found.info.reason
    assert "aclrtMemcpyAsync" in found.info.reason


def test_cann_never_falls_back(builder: Builder, tmp_path: Path) -> None:
    _simulator(builder, tmp_path)
    with pytest.raises(LibraryError, match="no CANN library was found") as caught:
        find_library(_settings("cann", _home(tmp_path)))
    assert len(caught.value.candidates) == 6


def test_sim_ignores_cann(builder: Builder, tmp_path: Path) -> None:
    _simulator(builder, tmp_path)
    builder.build(_rt(_home(tmp_path)))
    found = find_library(_settings("sim", _home(tmp_path)))
    assert found.info.simulated
    assert len(found.tried) == 1


def test_a_missing_simulator_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LibraryError, match="the simulator cannot be used"):
        find_library(_settings("sim"))
    monkeypatch.setattr(locate, "simulator_path", lambda: None)
    with pytest.raises(LibraryError, match="not built"):
        find_library(_settings("auto", _home(tmp_path)))


def test_a_path_is_taken_as_it_is(builder: Builder, tmp_path: Path) -> None:
    mine = builder.build(tmp_path / "mine.so")
    found = find_library(_settings(str(mine), _home(tmp_path)))
    assert (found.info.path, found.info.requested, found.info.simulated) == (str(mine), str(mine), False)
    simulator = _simulator(builder, tmp_path)
    assert find_library(_settings(str(simulator))).info.simulated


@pytest.mark.parametrize("kind", ["missing", "corrupt"])
def test_a_bad_path_says_why(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.so"
    if kind == "corrupt":
        _corrupt(path)
    with pytest.raises(LibraryError, match="asked for cannot be used") as caught:
        find_library(_settings(str(path)))
    assert dict(caught.value.candidates).keys() == {str(path)}


def test_simulator_lies_beside_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    class Spec:
        origin = "/build/npu_xfer/_native.abi3.so"

    monkeypatch.setattr(locate.importlib.util, "find_spec", lambda name: Spec)  # type: ignore[attr-defined]  # not re-exported
    assert locate.simulator_path() == "/build/npu_xfer/libascendcl_sim.so"
    monkeypatch.setattr(locate.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]  # not re-exported
    assert locate.simulator_path() is None


SEARCH = """
import json
from npu_xfer._cann.locate import find_library
from npu_xfer._settings import Settings
from npu_xfer.errors import LibraryError
try:
    found = find_library(Settings(library="cann"))
    print(json.dumps({"path": found.info.path, "reason": found.info.reason}))
except LibraryError as error:
    print(json.dumps({"summary": error.summary, "candidates": dict(error.candidates)}))
"""


def _search(folder: Path) -> dict[str, object]:
    """Runs the loader's own search in a new process, since LD_LIBRARY_PATH is read at its start."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    environ["LD_LIBRARY_PATH"] = str(folder)
    ran = subprocess.run(
        [sys.executable, "-c", SEARCH], env=environ, cwd=folder, check=True, capture_output=True, text=True
    )
    answer: dict[str, object] = json.loads(ran.stdout)
    return answer


def test_loader_search_finds_and_reports_the_file(builder: Builder, tmp_path: Path) -> None:
    path = builder.build(tmp_path / "ld" / "libacl_rt.so")
    answer = _search(path.parent)
    assert answer["path"] == str(path)
    assert "loader search" in str(answer["reason"])


@pytest.mark.parametrize("broken", ["corrupt", "dependency"])
def test_loader_search_tells_broken_from_absent(builder: Builder, tmp_path: Path, broken: str) -> None:
    path = tmp_path / "ld" / "libacl_rt.so"
    if broken == "corrupt":
        _corrupt(path)
    else:
        builder.build_with_missing_dependency(path)
    answer = _search(path.parent)
    assert answer["summary"] == "a CANN library is present but none can be used"
    candidates = answer["candidates"]
    assert isinstance(candidates, dict)
    assert "cannot be loaded" in candidates["libacl_rt.so"]


def test_library_asks_before_it_binds(builder: Builder, tmp_path: Path) -> None:
    opened = open_library(str(builder.build(tmp_path / "partial.so")))
    assert opened.has("aclInit")
    assert not opened.has("aclrtPointerGetAttributes")
    assert opened.missing() == ()
    assert "aclrtPointerGetAttributes" in opened.missing(must=False)
    assert opened.function("aclrtMalloc") is opened.function("aclrtMalloc")
    assert list(opened.function("aclrtMalloc").argtypes) == list(PROTOTYPES["aclrtMalloc"].argtypes)
    with pytest.raises(LibraryError, match=r"no aclrtPointerGetAttributes.*8\.5\.0"):
        opened.function("aclrtPointerGetAttributes")
    with pytest.raises(KeyError):
        opened.function("aclrtNoSuchThing")
    assert opened.file() == opened.path
    assert isinstance(opened, Library)


def test_open_library_names_what_is_missing(builder: Builder, tmp_path: Path) -> None:
    path = builder.build(tmp_path / "empty.so", ("npux_nothing",))
    with pytest.raises(LibraryError, match=rf"lacks {len(MUST)} required functions \(aclInit, .*\.\.\.\)"):
        open_library(str(path))


def test_one_choice_per_process(builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = builder.build(tmp_path / "mine.so")
    monkeypatch.setenv("NPU_XFER_LIBRARY", str(mine))
    _library.forget_library()
    try:
        info = _library.choose_library()
        assert info.path == str(mine)
        monkeypatch.setattr(library_module, "open_library", None)
        assert _library.choose_library() is info
        assert _library.open_runtime().library is _library.located_library().library
    finally:
        _library.forget_library()


def test_importing_loads_no_library() -> None:
    script = (
        "import ctypes, sys\n"
        "def refuse(*a, **k): raise SystemExit('a library was opened at import')\n"
        "class NoLibrary(ctypes.CDLL):\n"
        "    __init__ = refuse\n"
        "ctypes.CDLL = NoLibrary\n"
        "import npu_xfer.errors, npu_xfer._settings, npu_xfer._types, npu_xfer._library, npu_xfer.sim\n"
        "import npu_xfer._cann.runtime\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
