"""Schedules that run operators several times, against an oracle that shares no code with them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from edgemem.remat.program import program_of
from edgemem.remat.search import recompute
from edgemem.schedule.problem import order_problem
from tests.extent import run_for_seeds
from tests.oracle import recompute as oracle
from tests.oracle.orders.cases import small_case
from tests.oracle.orders.search import before, keeps_its_order
from tests.oracle.orders.simulation import simulate
from tests.order_problems import random_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem import Target
    from edgemem.model.graph import Graph, Op
    from edgemem.schedule.problem import OrderProblem


def counted_peak(problem: OrderProblem, runs: Sequence[int]) -> int:
    """As the kernel counts it."""
    return program_of(problem, [0] * problem.count, None).kernel.peak(runs)


def random_runs(rng: Random, needs: Sequence[set[int]], once: set[int]) -> tuple[int, ...]:
    """A sequence in which each operator runs once or several times, after those that it waits for."""
    runs: list[int] = []
    while set(runs) != set(range(len(needs))):
        ready = [k for k, earlier in enumerate(needs) if earlier <= set(runs) and not (k in once and k in runs)]
        fresh = [k for k in ready if k not in runs]
        runs.append(rng.choice(fresh if rng.random() < 0.6 else ready))
    return tuple(runs)


@run_for_seeds(range(100), quick=20)
def test_peaks_of_runs(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng, rng.randint(1, 8))
    needs = [set(earlier) for earlier in problem.before]
    for _ in range(10):
        runs = random_runs(rng, needs, set())
        assert counted_peak(problem, runs) == oracle.runs_peak(problem, runs), runs


@pytest.mark.full
def test_peaks_of_runs_are_those_of_the_graph_with_these_runs() -> None:
    compared = repeats = equal = 0
    for seed in range(400):
        case = small_case(seed)
        graph, target = case.graph, case.target
        if keeps_its_order(graph) or not graph.ops or target.states:
            continue
        once = {k for k, op in enumerate(graph.ops) if runs_once(graph, op, target)}
        problem = order_problem(graph, target)
        rng = Random(seed)
        for _ in range(5):
            runs = random_runs(rng, before(graph, target), once)
            found, real = counted_peak(problem, runs), simulate(oracle.repeated(graph, runs), target, padded=True)
            # Above it at times: one that waits for another reader of its input is taken for a reader of a view.
            assert found >= real, (case, runs)
            equal += found == real
            compared += 1
            repeats += len(runs) > len(graph.ops)
    assert repeats > 500
    assert equal > 0.98 * compared > 980


@pytest.mark.full
@run_for_seeds(range(40), quick=8)
def test_schedules_are_what_they_say(seed: int) -> None:
    """Peaks and costs, at every budget where the best schedule changes, and below all of them."""
    rng = Random(seed)
    problem = random_problem(rng, rng.randint(3, 7), lingers=seed % 4 == 0)
    costs = [rng.randint(0, 6) for _ in range(problem.count)]
    once = {k for k in range(problem.count) if rng.random() < 0.15}
    front = oracle.front(problem, costs, once)
    lowest = front[0][0]
    for budget in (None, lowest - 1, *(peak for peak, _ in front)):
        found = recompute(problem, costs, budget=budget, may_repeat=set(range(problem.count)) - once, effort="fast")
        assert found.peak == oracle.runs_peak(problem, found.runs)
        assert found.cost == sum(costs[k] for k in found.runs)
        assert set(found.runs) == set(range(problem.count))
        assert all(found.runs.count(k) == 1 for k in once)
        assert lowest <= found.peak
        best = [cost for peak, cost in front if budget is None or peak <= budget]
        assert found.is_within_budget <= bool(best)
        if best and budget is not None and found.is_within_budget:
            assert found.cost >= best[-1]


def runs_once(graph: Graph, op: Op, target: Target) -> bool:
    """Whether an operator has state, or a result outside of the arena, whose earlier copies would be in it."""
    touched = {i for i in (*op.inputs, *op.outputs) if i >= 0}
    has_state = bool(op.bodies) or op.ordered or any(graph.tensors[i].kind in ("variable", "captured") for i in touched)
    return has_state or (target.outputs == "outside" and not set(op.outputs).isdisjoint(graph.outputs))
