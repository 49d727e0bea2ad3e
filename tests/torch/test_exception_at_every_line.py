"""An exception at each line of a budget and of a captured step: `tests/torch/interrupted_programs.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import extent

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["budget", "in_place", "step"])
def test_what_runs_after_an_exception_anywhere_is_right(program: str) -> None:
    stride = 1 if extent.exhaustive else 97 if extent.full else 331
    command = [sys.executable, "-m", "tests.torch.interrupted_programs", program, str(stride)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
