"""Plans of many ranks through an executor."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import edgemem.torch  # noqa: E402
from edgemem.errors import UnknownStrategyError  # noqa: E402
from tests.torch.training import Training  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from edgemem.torch import Profile

pytestmark = pytest.mark.usefixtures("_one_thread")


class _Here(Executor):
    """Runs what it is given at once, and counts it, as a cluster's executor would elsewhere: after pickling."""

    def __init__(self) -> None:
        self.done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.done += 1
        future: Future[Any] = Future()
        function, given = pickle.loads(pickle.dumps((fn, args)))
        future.set_result(pickle.loads(pickle.dumps(function(*given, **kwargs))))
        return future


@pytest.fixture
def profiles(_one_thread: None) -> list[Profile]:
    return [edgemem.torch.profile(Training("gpt", batch=size).step) for size in (2, 3, 4)]


def test_each_rank_gets_the_plan_of_its_own_step(profiles: list[Profile]) -> None:
    here = _Here()
    for executor in (None, here):
        plans = edgemem.torch.plan_ranks([*profiles[:2], profiles[2].trace], executor=executor)
        for profile, plan in zip(profiles, plans, strict=True):
            alone = profile.plan()
            assert plan.size == alone.size <= 1.01 * profile.lower_bound
            np.testing.assert_array_equal(plan.made.slots.offset, alone.made.slots.offset)
    assert here.done == 3


def test_processes_plan_without_pytorch(profiles: list[Profile]) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        (plan,) = edgemem.torch.plan_ranks([profiles[0].trace], executor=executor)
        assert not executor.submit(eval, "'torch' in __import__('sys').modules").result()
    assert plan.size == profiles[0].plan().size


@pytest.mark.full
def test_a_cluster_gives_the_plans_of_a_serial_run(profiles: list[Profile]) -> None:
    distributed = pytest.importorskip("distributed")
    place = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**place) as cluster, cluster.get_client() as client:
        plans = edgemem.torch.plan_ranks([p.trace for p in profiles], executor=client.get_executor())
    for profile, plan in zip(profiles, plans, strict=True):
        np.testing.assert_array_equal(plan.made.slots.offset, profile.plan().made.slots.offset)


def test_a_plan_from_elsewhere_is_replayed(profiles: list[Profile]) -> None:
    training = Training("gpt", batch=3)
    (plan,) = edgemem.torch.plan_ranks([profiles[1]], executor=_Here())
    for _ in range(3):
        training.step()
    with plan.session() as session:
        for _ in range(3):
            with session.iteration():
                training.step()
        assert session.stats.last.hits == session.stats.last.requests


def test_a_strategy_that_there_is_not_is_refused(profiles: list[Profile]) -> None:
    with pytest.raises(UnknownStrategyError):
        edgemem.torch.plan_ranks(profiles, "best_of_all")


def test_each_rank_of_torchrun_plans_for_itself(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(RANK)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*launcher, str(program)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    # The ranks write to one pipe, so their lines may stand on one line.
    assert sorted(re.findall(r"rank\d:(?:same|different)", done.stdout)) == ["rank0:same", "rank1:same"]


RANK = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import edgemem.torch

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)


def trained(is_planned):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))))
    optimizer = torch.optim.Adam(model.parameters())
    batches = torch.randn(16, 8 + 4 * rank, 64)  # another shape in each rank
    left = iter(batches)

    def step():
        optimizer.zero_grad()
        model(next(left)).square().mean().backward()
        optimizer.step()

    if is_planned:
        with edgemem.torch.profile(step).plan().session() as session:
            for _ in range(9):
                with session.iteration():
                    step()
        assert session.stats.last.hits > 0
    else:
        for _ in batches:
            step()
    return [p.detach().clone() for p in model.parameters()]


same = all(torch.equal(a, b) for a, b in zip(trained(True), trained(False), strict=True))
print(f"rank{rank}:{'same' if same else 'different'}", flush=True)
dist.barrier()  # one that ends while the other still talks to it now and then ends that one, without edgemem, too
dist.destroy_process_group()
"""
