"""An exception at each line of a budget and of a captured step: `tests/torch/interrupted_programs.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.exhaustive import EXHAUSTIVE

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["budget", "step"])
def test_what_runs_after_an_exception_anywhere_is_right(program: str, request: pytest.FixtureRequest) -> None:
    stride = 1 if EXHAUSTIVE else 997 if request.config.getoption("--full") else 2503
    command = [sys.executable, "-m", "tests.torch.interrupted_programs", program, str(stride)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
