"""The tables below the classical bound can be made, and what they say is no matter of time holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tflite_micro")
pytest.importorskip("ai_edge_litert")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "bench" / "below"


def lines(script: str, *names: str) -> list[str]:
    """What a script prints, without its checks of time."""
    command = [sys.executable, str(FOLDER / script), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if "search: " not in line and "time to" not in line]


@pytest.mark.full
def test_overlap_alone() -> None:
    printed = lines("overlap_only.py", "mp_iris_landmark", "mp_hand_recrop")
    assert sum(line.startswith("met ") for line in printed) == 7
    assert not [line for line in printed if line.startswith("not met")]
    assert any(line.startswith("| mp_iris_landmark | 786,432 | 524,416 | 524,416 |") for line in printed)


@pytest.mark.full
def test_streaming_takes_less_than_was_found_by_hand() -> None:
    printed = lines("tflm_heads.py", "mobilenet_v2_0.30_80_int8")
    assert sum(line.startswith("met ") for line in printed) == 9
    assert not [line for line in printed if line.startswith("not met")]
