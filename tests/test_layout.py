"""The shape of the code is a test: floors go down only, Python.h in one folder, one list of symbols."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import npu_xfer
from npu_xfer import _native
from npu_xfer._cann.abi import PROTOTYPES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "npu_xfer"
NATIVE = ROOT / "native"

# A module may import modules of a lower floor, and of its own package.
FLOORS = {
    "errors": 0,
    "_built": 0,
    "_types": 0,
    "_settings": 0,
    "_cann": 1,
    "_native": 1,
    "_library": 2,
    "explain": 2,
    "sim": 3,
    "_tuning": 3,
    "doctor": 4,
    "acl": 4,
    "_foreign": 2,
    "_lent": 3,
    "_buffers": 3,
    "_why": 2,
    "_dump": 5,
    "transfer": 3,
    "device_array": 3,
    "_batch": 3,
    "_after": 4,
    "_engine": 4,
    "_bridge": 5,
    "_face": 5,
    "blocking": 6,
    "scheduler": 6,
    "__init__": 7,
    "tune": 7,
    "cli": 8,
    "__main__": 9,
}

# An include of a lower or the same folder; sim shares only the ABI headers.
INCLUDES = {
    "base": {"base"},
    "acl": {"base", "acl"},
    "core": {"base", "acl", "core"},
    "py": {"base", "acl", "core", "py"},
    "sim": {"sim", "acl/abi.h", "acl/symbols.def", "acl/prototypes.h"},
}


def floor_name(path: Path, package: Path) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py").removesuffix(".pyi")


def imported_modules(tree: ast.AST) -> set[str]:
    """First name below npu_xfer of every import, also of those inside functions and type checks."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "npu_xfer"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the floor"
            if node.module == "npu_xfer":
                found |= {f"npu_xfer.{alias.name}" for alias in node.names}
            elif node.module is not None and node.module.startswith("npu_xfer."):
                found.add(node.module)
    return {name.split(".")[1] if "." in name else "__init__" for name in found}


def floor_faults(package: Path) -> list[str]:
    """Imports that go up or sideways. `import npu_xfer` from inside counts as the top floor."""
    faults = []
    for path in sorted(package.rglob("*.py")):
        own = floor_name(path, package)
        if own not in FLOORS:
            faults.append(f"{path.name}: {own} has no floor")
            continue
        for other in imported_modules(ast.parse(path.read_text())):
            if other not in FLOORS:  # a name of the package itself, such as __version__
                other = "__init__"
            if other != own and FLOORS[other] >= FLOORS[own]:
                faults.append(
                    f"{path.relative_to(package)}: floor {FLOORS[own]} imports {other}, {FLOORS[other]}"
                )
    return faults


def test_imports_go_down() -> None:
    assert len(list(PACKAGE.rglob("*.py"))) > 15
    assert floor_faults(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("_buffers.py", "from npu_xfer._engine import Core"),
        ("errors.py", "def late():\n    from npu_xfer import scheduler"),
        ("_cann/codes.py", "import npu_xfer.sim"),
        ("_engine.py", "from npu_xfer import __version__"),
        ("stray.py", ""),
    ],
)
def test_an_import_that_goes_up_is_found(tmp_path: Path, file: str, line: str) -> None:
    copied = tmp_path / "npu_xfer"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    target = copied / file
    target.write_text((target.read_text() if target.exists() else "") + f"\n{line}\n")
    assert len(floor_faults(copied)) == 1


def include_faults(native: Path) -> list[str]:
    faults = []
    for path in sorted([*native.rglob("*.c"), *native.rglob("*.h")]):
        folder = path.relative_to(native).parts[0]
        if folder == "tests":
            continue
        text = path.read_text()
        if re.search(r'#\s*include\s*[<"]Python\.h[>"]', text) and folder != "py":
            faults.append(f"{folder}/{path.name}: Python.h outside native/py")
        for name in re.findall(r'#\s*include\s*"([^"]+)"', text):
            inside = name if "/" in name else f"{folder}/{name}"
            if inside not in INCLUDES[folder] and inside.split("/")[0] not in INCLUDES[folder]:
                faults.append(f"{folder}/{path.name}: includes {name}")
    return faults


def test_includes_go_down() -> None:
    assert len(list(NATIVE.rglob("*.c"))) > 20
    assert include_faults(NATIVE) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("core/lane.c", "#include <Python.h>"),
        ("base/err.h", '#include "core/engine.h"'),
        ("sim/copy.c", '#include "core/arena.h"'),
        ("sim/copy.c", '#include "acl/loader.h"'),
        ("acl/loader.c", '#include "core/op.h"'),
    ],
)
def test_an_include_that_goes_up_is_found(tmp_path: Path, file: str, line: str) -> None:
    copied = tmp_path / "native"
    shutil.copytree(NATIVE, copied)
    target = copied / file
    target.write_text(target.read_text() + f"\n{line}\n")
    assert len(include_faults(copied)) == 1


def listed_symbols() -> list[str]:
    return re.findall(r"(?m)^ACL_FN\([^,]+,\s*(\w+),", (NATIVE / "acl" / "symbols.def").read_text())


def exported_symbols(library: Path) -> set[str]:
    nm = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, timeout=30, check=True
    )
    return {line.split()[-1].split("@")[0] for line in nm.stdout.splitlines()}


def symbol_faults(listed: list[str], loader: list[str], table: list[str], exported: set[str]) -> list[str]:
    faults = [f"{name}: twice in symbols.def" for name in set(listed) if listed.count(name) > 1]
    for other, names in (("loader", loader), ("ctypes table", table), ("simulator", sorted(exported))):
        faults += [f"{name}: not in the {other}" for name in listed if name not in names]
        faults += [f"{name}: only in the {other}" for name in names if name not in listed]
    return faults


def simulator_acl_exports() -> set[str]:
    library = Path(_native.__file__).parent / "libascendcl_sim.so"
    return {name for name in exported_symbols(library) if not name.startswith("aclsim_")}


def test_one_list_of_symbols() -> None:
    listed = listed_symbols()
    assert len(listed) > 50
    loader = [name for name, *_ in _native.symbols()]
    assert symbol_faults(listed, loader, list(PROTOTYPES), simulator_acl_exports()) == []


def test_lists_that_differ_are_found() -> None:
    listed = listed_symbols()
    exported = simulator_acl_exports()
    whole = (listed, list(listed), list(listed), exported)
    assert symbol_faults(*whole) == []
    assert symbol_faults(listed[1:], *whole[1:])
    assert symbol_faults(listed, listed[1:], listed, exported)
    assert symbol_faults(listed, listed, listed[1:], exported)
    assert symbol_faults(listed, listed, listed, exported - {listed[0]})
    assert symbol_faults(listed, listed, listed, exported | {"aclrtNew"})


def test_simulator_exports_nothing_else() -> None:
    library = Path(_native.__file__).parent / "libascendcl_sim.so"
    others = {name for name in exported_symbols(library) if not name.startswith("acl")}
    assert others == set()


def test_public_names_exist() -> None:
    assert all(hasattr(npu_xfer, name) for name in npu_xfer.__all__)
    assert (PACKAGE / "py.typed").exists()


def test_files_are_of_a_readable_size() -> None:
    long = {
        str(path.relative_to(ROOT)): n
        for folder in (PACKAGE, NATIVE, ROOT / "tests", ROOT / "bench")
        for path in folder.rglob("*")
        if path.suffix in {".py", ".c", ".h"}
        if (n := len(path.read_text().splitlines())) > 600
    }
    assert long == {}
