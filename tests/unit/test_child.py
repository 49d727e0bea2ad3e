"""edgemem's own processes: the parent's edgemem, and nothing from the working directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import edgemem
from edgemem.bench.measurement import PeerLimits, solvers
from edgemem.bench.peak_memory import peak_rss
from edgemem.system.child_process import child_command, run_child

ROOT = Path(__file__).parents[2]


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that must not be imported."""
    for name in ("json", "runpy", "edgemem", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working directory was run')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.full
def test_modules_of_the_working_directory_are_not_run(trap: Path) -> None:
    done = run_child("edgemem.bench.peak_memory", ["no folder"])
    assert "FileNotFoundError" in done.stderr
    assert str(trap) not in done.stderr


def test_the_parents_edgemem_is_run(trap: Path) -> None:
    command = child_command("edgemem.bench.peak_memory")
    script = "import edgemem; print(edgemem.__file__)"
    # The same start with another module to run at the end: what it imports is the parent's.
    start = command[3].replace('runpy.run_module(task["module"], run_name="__main__", alter_sys=True)', script)
    done = subprocess.run([*command[:3], start, command[4]], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == edgemem.__file__
    assert json.loads(command[4])["folders"] == list(edgemem.__path__)
    assert trap.is_dir()


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
@pytest.mark.parametrize("where", ["trap", "checkout"])
def test_the_bench_measures_the_compiled_kernels_wherever_it_is_started(
    where: str, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trap if where == "trap" else ROOT)
    (solver,) = solvers(["offsets/greedy_by_size"], [], "offsets", None)
    peak = peak_rss("guillotine:50", {}, solver, PeerLimits(1.0))
    assert peak is not None
    assert peak > 1 << 20
