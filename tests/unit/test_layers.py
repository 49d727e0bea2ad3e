"""What each package of edgemem may import. Rows stand in the order of the flow; a row imports only rows above it."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.skips import needs_checkout

pytestmark = needs_checkout

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "edgemem").rglob("*.py"))

# Package or module -> what it may import of the other rows. Imports under TYPE_CHECKING count, too.
MAY_IMPORT = {
    "system": "",
    "notebook": "",
    "errors": "system",
    "model": "errors",
    "targets": "errors model system",
    "records": "errors model system targets",
    "native": "errors records",
    "trace": "notebook errors native records system",
    "plans": "errors notebook model records targets trace",
    "formats": "errors model plans records system targets trace",
    "planfile": "errors model plans records system targets trace",
    "strategy": "errors native plans records system",
    "proof": "errors model native plans records targets trace",
    "schedule": "notebook errors model native plans records strategy targets",
    "remat": "errors model native schedule strategy targets",
    "planning": "errors formats model planfile plans proof records strategy system targets trace",
    "passes": "errors formats model native records remat schedule strategy targets",
    "report": "errors model native planfile plans proof records targets trace",
    "difference": "errors report system",
    "api": "errors formats model planfile planning plans proof records report schedule system targets",
    "replay": "errors native planfile plans proof system trace",
    "torch": "errors model planfile planning plans remat replay system targets trace",
    "runtime": "notebook errors formats model passes planfile planning plans proof records replay report "
    "system targets trace",
    "shrinking": "api errors formats model notebook passes planfile planning plans records report runtime schedule "
    "system targets",
    "commands": "difference errors formats model passes planfile planning plans proof records report runtime shrinking "
    "system targets trace",
    "model_explorer": "commands errors report",
    "guard": "commands errors formats report system targets",
    "android": "commands errors model planfile planning plans proof report runtime system",
    "fleet": "commands errors formats report system",
    "cli": "android api commands difference errors fleet formats guard model planning plans proof report runtime "
    "schedule shrinking strategy system targets",
}
RUNTIMES = ("onnxruntime", "ai_edge_litert", "tflite_runtime", "tflite_micro", "torch", "wgpu")
FORMATS = ("onnx", "edgemem_converters")


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _imports(file: Path) -> frozenset[str]:
    """Dotted names of everything that a file imports, wherever the import stands."""
    names = set()
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "edgemem":
            names |= {f"edgemem.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return frozenset(names)


def _rows_imported(file: Path) -> set[str]:
    return {name.split(".")[1] for name in _imports(file) if name.startswith("edgemem.")}


@cache
def _files_by_row() -> dict[str, list[Path]]:
    found = defaultdict[str, list[Path]](list)
    for file in LIBRARY:
        found[file.relative_to(ROOT / "edgemem").parts[0].removesuffix(".py")].append(file)
    return found


def _files(row: str) -> list[Path]:
    return _files_by_row()[row]


def _breaches(files: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in _imports(file)
        if any(name == f or name.startswith(f"{f}.") for f in forbidden)
    ]


def test_every_package_has_a_row() -> None:
    assert _files_by_row().keys() - {"__init__", "__main__"} == set(MAY_IMPORT)


def test_rows_import_only_rows_above_them() -> None:
    rows = list(MAY_IMPORT)
    for number, row in enumerate(rows):
        below = set(MAY_IMPORT[row].split()) - set(rows[:number])
        assert not below, f"{row} may not import {below}, which stand below it"


@pytest.mark.parametrize("row", MAY_IMPORT)
def test_a_package_imports_only_what_its_row_allows(row: str) -> None:
    allowed = {row, "_kernels", *MAY_IMPORT[row].split()}
    breaches = {
        str(file.relative_to(ROOT)): sorted(extra) for file in _files(row) if (extra := _rows_imported(file) - allowed)
    }
    assert not breaches


def test_no_row_allows_what_nothing_imports() -> None:
    for row, allowed in MAY_IMPORT.items():
        used = set().union(*(_rows_imported(f) for f in _files(row)))
        assert not set(allowed.split()) - used, f"{row} does not import {set(allowed.split()) - used}"


def _modules() -> dict[str, Path]:
    """Every module of the library and the converters, by its dotted name."""
    found = {}
    for root in (ROOT / "edgemem", ROOT / "converters" / "edgemem_converters"):
        for file in root.rglob("*.py"):
            parts = (root.name, *file.relative_to(root).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


def _module_imports(file: Path) -> set[str]:
    """What a file imports, wherever the import stands, and whatever `from` takes out of a package."""
    taken = (n for n in ast.walk(_tree(file)) if isinstance(n, ast.ImportFrom) and n.module)
    return set(_imports(file)) | {f"{node.module}.{alias.name}" for node in taken for alias in node.names}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither for types alone nor inside functions."""
    modules = _modules()
    # `from package import submodule` needs the submodule alone: a package is not a part of what stands in it.
    packages = {name for name, file in modules.items() if file.name == "__init__.py"}
    left = {name: (_module_imports(file) & modules.keys()) - packages - {name} for name, file in modules.items()}
    while free := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in free}
    assert not left


def test_a_public_class_name_exists_once_in_the_project() -> None:
    places: dict[str, list[str]] = {}
    for file in [*_modules().values(), *(ROOT / "models").rglob("*.py")]:
        for node in _tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_the_library_knows_no_file_format() -> None:
    assert not _breaches(LIBRARY, FORMATS)


def test_only_runtime_packages_know_runtimes() -> None:
    for_torch = _files("torch")
    assert not _breaches([f for f in LIBRARY if "runtime" not in f.parts and f not in for_torch], RUNTIMES)
    assert not _breaches(for_torch, tuple(r for r in RUNTIMES if r != "torch"))


def test_the_proof_shares_nothing_with_the_planner() -> None:
    planners = ("edgemem.records.lifetime", "edgemem.strategy.bounds", "edgemem.strategy", "edgemem.planning")
    assert not _breaches(_files("proof"), planners)


def test_the_library_knows_no_other_planner() -> None:
    assert not _breaches(LIBRARY, ("omnimalloc", "ethosu"))


def test_kernels_are_reached_through_the_package_that_says_when_they_are_missing() -> None:
    assert not _breaches([f for f in LIBRARY if "native" not in f.parts], ("edgemem._kernels",))


def test_no_converter_imports_a_runtime_of_edgemem_or_the_planner() -> None:
    files = sorted((ROOT / "converters").rglob("*.py"))
    own = {name for f in files for name in _imports(f) if name.startswith("edgemem.")}
    allowed = (
        "edgemem.errors",
        "edgemem.system",
        "edgemem.formats",
        "edgemem.model",
        "edgemem.plans",
        "edgemem.planfile.protobuf",
        "edgemem.records",
        "edgemem.trace",
    )
    assert not [name for name in own if not name.startswith(allowed)]


def test_files_stay_short_enough_to_answer_one_question() -> None:
    sources = [
        *LIBRARY,
        *(ROOT / "converters").rglob("*.py"),
        *(f for f in (ROOT / "kernels").rglob("*") if f.suffix in (".cpp", ".h", ".c")),
    ]
    long = {str(f.relative_to(ROOT)): n for f in sources if (n := len(f.read_text().splitlines())) > 400}
    assert not long


def test_the_kernel_of_the_proof_shares_no_code_with_the_planner() -> None:
    files = sorted((ROOT / "kernels" / "proof").iterdir())
    includes = [
        line for f in files for line in f.read_text(encoding="utf-8").splitlines() if line.startswith("#include")
    ]
    own = {line for line in includes if '"' in line}
    assert len(own) > 5
    assert all(line.startswith('#include "proof/') for line in own)
