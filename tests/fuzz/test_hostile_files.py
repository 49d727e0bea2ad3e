"""Small hostile files of every kind, read by the commands themselves under limits: `tests/fuzz/hostile_runs.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.hostile_files import KINDS, make_case

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("cases", "first"),
    [(len(KINDS), 45), pytest.param(1000, 1000, marks=pytest.mark.exhaustive)],
    ids=["some", "many"],
)
def test_commands_answer_hostile_files_with_one_line(cases: int, first: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.hostile_runs", f"--cases={cases}", f"--first={first}"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.startswith(f"{cases:,} cases, 0 faults")


def test_cases_are_the_same_every_time() -> None:
    for kind in KINDS:
        assert make_case(kind, 7) == make_case(kind, 7)
    assert len({str(make_case(kind, seed)) for kind in KINDS for seed in range(10)}) > 40
