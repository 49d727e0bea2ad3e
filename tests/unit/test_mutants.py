"""Tests notice small changes of the proof: a sample of what `tests/mutants.py` makes."""

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


@pytest.mark.full
def test_a_few_changes_are_noticed() -> None:
    files = sorted(str(file) for pattern in PROOF for file in ROOT.glob(pattern))
    command = ["-m", "tests.mutants", "edgemem/proof", "--count=5", "--seed=2", "--least=80", "--jobs=1"]
    done = subprocess.run([sys.executable, *command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
