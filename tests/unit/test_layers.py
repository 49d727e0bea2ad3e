"""Imports run one way: records <- plans <- bounds, lifetime, strategies, proof <- planning, api <- cli."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "edgemem").rglob("*.py"))


def _imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _breaches(files: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in _imports(file)
        if any(name == f or name.startswith(f"{f}.") for f in forbidden)
    ]


def test_the_library_knows_no_file_format() -> None:
    assert not _breaches(LIBRARY, ("onnx", "edgemem_converters"))


def test_only_runtime_knows_runtimes() -> None:
    files = [f for f in LIBRARY if "runtime" not in f.parts]
    assert not _breaches(files, ("onnxruntime", "ai_edge_litert", "tflite_micro", "torch"))


def test_only_the_command_line_knows_the_bench_and_only_that_knows_other_planners() -> None:
    assert not _breaches([f for f in LIBRARY if not {"bench", "cli"} & set(f.parts)], ("edgemem.bench",))
    assert not _breaches([f for f in LIBRARY if f.name != "peers.py"], ("omnimalloc", "ethosu"))


@pytest.mark.parametrize(
    ("part", "forbidden"),
    [
        (
            "proof",
            (
                "edgemem.strategy",
                "edgemem._kernels",
                "edgemem.native.pure",
                "edgemem.records.lifetime",
                "edgemem.planning",
                "edgemem.bounds",
            ),
        ),
        (
            "strategy",
            ("edgemem.planning", "edgemem.api", "edgemem.model.graph", "edgemem.proof", "edgemem.records.lifetime"),
        ),
        ("records/lifetime.py", ("edgemem.strategy", "edgemem.plans", "edgemem.proof", "edgemem._kernels")),
        ("schedule", ("edgemem.strategy", "edgemem.planning", "edgemem.api", "edgemem.proof", "edgemem.passes")),
        ("model", ("edgemem.records", "edgemem.targets", "edgemem.strategy", "edgemem.proof", "edgemem.planning")),
        ("planfile", ("edgemem.strategy", "edgemem.planning", "edgemem.api", "edgemem.proof")),
        ("report", ("edgemem.strategy", "edgemem.planning", "edgemem.api", "edgemem.cli")),
        ("bench", ("edgemem.cli", "edgemem.runtime.onnxruntime", "edgemem.runtime.litert", "edgemem.runtime.tflm")),
    ],
)
def test_nothing_flows_backwards(part: str, forbidden: tuple[str, ...]) -> None:
    home = ROOT / "edgemem" / part
    files = [home] if home.suffix else [f for f in LIBRARY if home in f.parents]
    assert files
    assert not _breaches(files, forbidden)


def test_kernels_are_reached_through_the_door_that_works_without_them() -> None:
    files = [f for f in LIBRARY if "native" not in f.parts]
    assert not _breaches(files, ("edgemem._kernels",))


def test_the_kernel_of_the_proof_shares_no_code_with_the_planner() -> None:
    files = sorted((ROOT / "kernels" / "proof").iterdir())
    includes = [
        line for f in files for line in f.read_text(encoding="utf-8").splitlines() if line.startswith("#include")
    ]
    own = {line for line in includes if '"' in line}
    assert len(own) > 5
    assert all(line.startswith('#include "proof/') for line in own)
