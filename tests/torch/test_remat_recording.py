"""Recorded operators are what the program ran, and what it held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from edgemem.remat.policies import POLICIES  # noqa: E402
from edgemem.torch import LiveBytes  # noqa: E402
from tests.bench.remat.operator_log import APPEARS  # noqa: E402
from tests.bench.remat.recorder import record_operators  # noqa: E402
from tests.bench.remat.simulation import simulate  # noqa: E402
from tests.torch.steps import make_step  # noqa: E402

if TYPE_CHECKING:
    from tests.bench.remat.operator_log import OperatorLog


def rows(log: OperatorLog) -> list[tuple[str, tuple[int, ...], tuple[int, ...], int]]:
    """Name, reads, writes and what is taken, of each call."""
    names = [log.names[k].removeprefix("aten.").partition(".")[0] for k in log.name]
    return list(zip(names, log.reads.rows(), log.writes.rows(), log.takes.tolist(), strict=True))


def events(log: OperatorLog) -> list[tuple[int, int]]:
    return list(zip(log.event_kind.tolist(), log.event_index.tolist(), strict=True))


def test_calls_read_and_write_storages_and_views_are_none() -> None:
    x = torch.ones(4, 4)

    def program() -> Any:
        y = x.view(2, 8) + 1
        z = y.t().exp()
        del y
        return z * z

    log = record_operators(program, warmup=0)
    assert rows(log) == [("add", (0,), (1,), -1), ("exp", (1,), (2,), -1), ("mul", (2,), (3,), -1)]
    assert events(log) == [(1, 0), (0, 0), (0, 1), (2, 1), (0, 2), (2, 2)]
    assert log.size.tolist() == [64] * 4
    assert (log.cost > 0).all()


def test_what_is_written_in_place_is_a_new_version() -> None:
    x = torch.ones(4)

    def program() -> Any:
        y = x + 1
        y[:2].mul_(x[:2])
        y.relu_()
        return y, x.add_(y)

    log = record_operators(program, warmup=0)
    assert rows(log) == [
        ("add", (0,), (1,), -1),
        ("mul_", (1, 0), (2,), 1),
        ("relu_", (2,), (3,), 2),
        ("add_", (0, 3), (4,), 0),
    ]
    assert events(log) == [(1, 0), (0, 0), (0, 1), (0, 2), (0, 3)]  # all that is left is held


def test_results_that_an_operator_writes_into_arguments_are_versions_too() -> None:
    x, out = torch.ones(4), torch.empty(4)
    log = record_operators(lambda: torch.add(x, x, out=out), warmup=0)
    assert rows(log) == [("add", (0, 1), (2,), 1)]
    assert log.size.tolist() == [16] * 3


def test_an_operator_of_many_storages_is_a_call_for_each() -> None:
    parameters = [torch.ones(4), torch.ones(8)]
    gradients = [torch.ones(4), torch.ones(8)]
    log = record_operators(lambda: torch._foreach_add_(parameters, gradients), warmup=0)
    assert [(writes, takes) for _, _, writes, takes in rows(log)] == [((4,), 0), ((5,), 1)]
    assert log.size.tolist() == [16, 32, 16, 32, 16, 32]
    assert log.cost[0] == log.cost[1]


def test_a_call_may_make_nothing() -> None:
    x = torch.ones(1)
    log = record_operators(x.item, warmup=0)
    assert [(reads, writes) for _, reads, writes, _ in rows(log)] == [((0,), ())]


def test_running_statistics_are_left_out() -> None:
    norm = torch.nn.BatchNorm1d(3)
    log = record_operators(norm, torch.ones(2, 3), warmup=1)
    taken = [log.size[t] for t in log.takes.tolist() if t >= 0]
    assert taken == [8]  # how many batches there were; mean and variance have 12 bytes


def _without_constants(log: OperatorLog) -> OperatorLog:
    """The log with constants of no bytes, and so with all that takes their memory."""
    size = log.size.copy()
    constants = log.event_index[log.event_kind == APPEARS]
    size[constants] = 0
    for writes, takes in zip(log.writes.rows(), log.takes.tolist(), strict=True):
        if takes >= 0 and not size[takes]:
            size[writes[0]] = 0
    return replace(log, size=size)


@pytest.mark.parametrize("name", ["resnet18", "unet", "gpt", "lstm", "bert"])
def test_what_a_step_holds_is_what_is_alive(name: str) -> None:
    step = make_step(name)
    log = record_operators(step.loss, warmup=1)
    with LiveBytes() as live:
        step.loss()
    assert _without_constants(log).peak == live.peak
    run = simulate(log, log.peak * 2, "coop")
    assert (run.ended, run.evictions) == ("done", 0)


def test_a_recorded_step_runs_in_less_memory() -> None:
    step = make_step("unet", small=False)

    def program() -> Any:
        step.model.zero_grad()
        return step.loss()

    log = record_operators(program)
    for policy in POLICIES:
        run = simulate(log, int(0.8 * log.peak), policy)
        assert (run.ended, run.peak <= run.budget, run.recomputed_calls > 0) == ("done", True, True)
