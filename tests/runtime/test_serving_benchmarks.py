"""The benchmarks of serving run, and what they say is no matter of time holds: equal results, plans, forks, alarms."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.serving.children import environment

pytest.importorskip("onnxruntime")

FOLDER = Path(__file__).parents[1] / "bench" / "serving"
OF_TIME = re.compile(r"time of|added to a run|first run, against|RSS|growth|two clients|rate")


@pytest.mark.full
@pytest.mark.parametrize("name", ["budget", "decode", "embeddings", "loop", "overhead", "robustness"])
def test_facts_hold_in_a_short_run(name: str) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment())
    assert done.returncode in (0, 1), done.stderr
    lines = [line for line in done.stdout.splitlines() if not OF_TIME.search(line)]
    assert any(line.startswith("met ") for line in lines), done.stdout
    assert not [line for line in lines if line.startswith("not met")], done.stdout
