"""Tests notice nearly all small changes of what proves plans and reads their files (`tests/mutants.py`)."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests import ROOT
from tests.skips import needs_checkout

pytestmark = [needs_checkout, pytest.mark.skipif(sys.platform != "linux", reason="the processes are forked")]

PROOF: Final = (
    "tests/unit/test_proof*.py",
    *(f"tests/unit/test_{name}.py" for name in ("rehearsal", "verify", "relations", "sharing_proof", "pins", "states")),
    *(f"tests/unit/test_{name}.py" for name in ("gpu_plans", "gpu_targets", "micro_workspace", "bodies", "ranges")),
    "tests/unit/test_regions.py",
    *(f"tests/property/test_{name}.py" for name in ("proof", "verify", "relations", "mutations")),
    "tests/fuzz/test_planfile_forged_recordings.py",
)
PLANFILE: Final = ("tests/unit/test_planfile*.py", "tests/fuzz/test_planfile*.py")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("package", "count", "tests"), [("edgemem/proof", 40, PROOF), ("edgemem/planfile", 20, PLANFILE)]
)
def test_nearly_all_changes_are_noticed(package: str, count: int, tests: tuple[str, ...]) -> None:
    check(package, count, 95, tests)


@pytest.mark.full
def test_a_few_changes_are_noticed() -> None:
    check("edgemem/proof", 5, 80, PROOF)


def check(package: str, count: int, least: int, tests: tuple[str, ...]) -> None:
    files = sorted(str(file) for pattern in tests for file in ROOT.glob(pattern))
    command = ["-m", "tests.mutants", package, f"--count={count}", "--seed=2", f"--least={least}", "--jobs=1"]
    done = subprocess.run([sys.executable, *command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
