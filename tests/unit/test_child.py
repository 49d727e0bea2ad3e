"""edgemem's own processes: the parent's edgemem, and nothing from the working directory."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

import edgemem
from edgemem.system.child_process import child_command, run_child

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that must not be imported."""
    for name in ("json", "runpy", "edgemem", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working directory was run')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.full
def test_modules_of_the_working_directory_are_not_run(trap: Path) -> None:
    done = run_child("edgemem.runtime.litert.probe_child", ["no folder"])
    assert "FileNotFoundError" in done.stderr
    assert str(trap) not in done.stderr


def test_the_parents_edgemem_is_run(trap: Path) -> None:
    command = child_command("edgemem.runtime.litert.probe_child")
    script = "import edgemem; print(edgemem.__file__)"
    # The same start with another module to run at the end: what it imports is the parent's.
    start = command[3].replace('runpy.run_module(task["module"], run_name="__main__", alter_sys=True)', script)
    done = subprocess.run([*command[:3], start, command[4]], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == edgemem.__file__
    assert json.loads(command[4])["folders"] == list(edgemem.__path__)
    assert trap.is_dir()
