"""A plan that is saved and loaded again serves training in another process, bit for bit."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

import edgemem.torch  # noqa: E402
from edgemem import planfile  # noqa: E402
from edgemem.errors import PlanFileError  # noqa: E402
from edgemem.torch import TrainingPlan  # noqa: E402
from tests.plansets import cycle_columns, small  # noqa: E402
from tests.torch.training import Training  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("_one_thread")

_TRAIN = """
import sys, hashlib
import torch, edgemem.torch
from tests.torch.training import Training
torch.set_num_threads(1)
training = Training("gpt", "adam")
edgemem.torch.mark(training.model)
training.step()  # makes the optimizer's state
with edgemem.torch.TrainingPlan.load(sys.argv[1]).session(replans=0) as session:
    for _ in range(4):
        with session.iteration():
            training.step()
    last = session.stats.last
    print(last.misses, last.hits == last.requests, hashlib.sha256(b"".join(training.losses)).hexdigest())
"""


def _profiled(path: Path) -> TrainingPlan:
    training = Training("gpt", "adam")
    marks = edgemem.torch.mark(training.model)
    try:
        plan = edgemem.torch.profile(training.step).plan()
    finally:
        marks.remove()
    plan.save(path)
    return plan


def test_a_saved_plan_is_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "step.edgemem"
    plan = _profiled(path)
    back = TrainingPlan.load(path)
    assert (back.device, back.size, back.lower_bound) == (plan.device, plan.size, plan.lower_bound)
    assert back.made.slots.offset.tolist() == plan.made.slots.offset.tolist()
    for mine, other in zip(back.made.cycles, plan.made.cycles, strict=True):
        assert cycle_columns(mine) == {**cycle_columns(other), "device": "cpu"}
    assert planfile.load(path).versions["torch"] == str(torch.__version__)


def test_another_process_trains_inside_a_saved_plan(tmp_path: Path) -> None:
    path = tmp_path / "step.edgemem"
    _profiled(path)
    training = Training("gpt", "adam")
    for _ in range(5):
        training.step()
    done = subprocess.run([sys.executable, "-c", _TRAIN, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "True", hashlib.sha256(b"".join(training.losses)).hexdigest()], done.stderr


def test_files_that_hold_no_training_plan(tmp_path: Path) -> None:
    path = tmp_path / "graph.edgemem"
    planfile.save(small(), path)
    with pytest.raises(PlanFileError, match="no plan of a training program"):
        TrainingPlan.load(path)
    with pytest.raises(PlanFileError, match="cannot read plan file"):
        TrainingPlan.load(tmp_path / "none.edgemem")


def test_a_plan_of_another_kind_of_memory_is_refused(tmp_path: Path) -> None:
    plan = _profiled(tmp_path / "step.edgemem")
    replace(plan, device="tpu").save(tmp_path / "other.edgemem")
    with pytest.raises(PlanFileError, match=r"the plan is of \['tpu'\]"):
        TrainingPlan.load(tmp_path / "other.edgemem")
