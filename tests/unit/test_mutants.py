"""Tests notice small changes of what decides whether a plan is run: a net of what `tests/mutants.py` makes."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests import ROOT
from tests.skips import needs_checkout

pytestmark = [needs_checkout, pytest.mark.skipif(sys.platform != "linux", reason="the processes are forked")]

# Of a package: how many changes, and the files of tests, those first that are fast and notice much.
NETS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "edgemem/proof": (
        30,
        (
            *(f"tests/unit/test_{name}.py" for name in ("proof_forgeries", "rehearsal", "sharing_proof", "proof")),
            *(f"tests/unit/test_proof_{name}.py" for name in ("periods", "recordings", "regions")),
            *(f"tests/unit/test_{name}.py" for name in ("verify", "relations", "pins", "states", "bodies", "ranges")),
            *(f"tests/unit/test_{name}.py" for name in ("gpu_plans", "gpu_targets", "micro_workspace", "regions")),
            *(f"tests/property/test_{name}.py" for name in ("proof", "verify", "relations", "mutations")),
            "tests/fuzz/test_planfile_forged_recordings.py",
        ),
    ),
    "edgemem/planfile": (
        20,
        (
            *(f"tests/unit/test_planfile{name}.py" for name in ("", "_old", "_cycles", "_recordings")),
            *(f"tests/unit/test_{name}.py" for name in ("onnx_wire", "plan_schema", "onnx_files")),
            *(f"tests/fuzz/test_planfile_{name}.py" for name in ("forged", "forged_recordings", "fuzz")),
        ),
    ),
    "edgemem/formats/claims.py": (10, ("tests/unit/test_honoured.py",)),
}


@pytest.mark.full
def test_small_changes_are_noticed() -> None:
    for package, (count, files) in NETS.items():
        command = ["-m", "tests.mutants", package, f"--count={count}", "--seed=2", "--least=95", "--jobs=1"]
        done = subprocess.run([sys.executable, *command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
