"""Runs within a budget: small ones counted by hand, random ones, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from edgemem.errors import PlanError, UnknownStrategyError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.remat.curve import recompute_curve
from edgemem.remat.operators import repeatable
from edgemem.remat.program import Sources, program_of, sources_of
from edgemem.remat.search import recompute
from edgemem.schedule.problem import OrderProblem, order_problem
from edgemem.targets import BUILT_IN
from models import wired_networks as wired
from tests.oracle.recompute import runs_peak
from tests.unit.test_order_bound import some_problem

# 0 writes a (10), which 1 and 3 read; 2 needs 15 of workspace while a is idle.
IDLE = OrderProblem(
    before=((), (0,), (1,), (0, 2)),
    size=(10, 1, 20, 1),
    reads=((), (0,), (1,), (0, 2)),
    writes=((0,), (1,), (2,), (3,)),
    over=((), (), (), ()),
    kept=frozenset({3}),
    own=(0, 0, 15, 0),
)


def test_an_idle_result_is_made_again_where_that_is_needed() -> None:
    roomy = recompute(IDLE, (5, 1, 1, 1), budget=46, effort="fast")
    assert (roomy.runs, roomy.peak, roomy.cost) == ((0, 1, 2, 3), 46, 8)
    narrow = recompute(IDLE, (5, 1, 1, 1), budget=36, effort="fast")
    assert (narrow.runs, narrow.peak, narrow.cost) == ((0, 1, 2, 0, 3), 36, 13)
    assert narrow.is_within_budget
    assert narrow.overhead == 5 / 8
    least = recompute(IDLE, (5, 1, 1, 1), effort="fast")
    assert least.peak == 36


def test_what_may_not_repeat_or_costs_too_much_does_not_run_again() -> None:
    for limits in ({"may_repeat": {1, 2, 3}}, {"most_cost": 1.5}):
        found = recompute(IDLE, (5, 1, 1, 1), budget=36, effort="fast", **limits)
        assert (found.runs, found.peak) == ((0, 1, 2, 3), 46)
        assert not found.is_within_budget


def test_the_kernel_counts_what_the_oracle_does() -> None:
    rng = random.Random(3)
    for _ in range(300):
        problem = some_problem(rng, rng.randint(1, 8))
        runs = list(range(problem.count))
        for _ in range(rng.randint(0, 6)):
            k = rng.randrange(problem.count)
            runs.insert(rng.randint(runs.index(k) + 1, len(runs)), k)
        program = program_of(problem, [1] * problem.count, None)
        assert program.kernel.peak(runs) == runs_peak(problem, runs)


@pytest.mark.full
@pytest.mark.parametrize("target", ["tflm", "litert", "onnxruntime", "pytorch"])
def test_runs_of_a_network_keep_to_the_budget_and_the_cost(target: str) -> None:
    problem = order_problem(wired.randwire(32, seed=1), BUILT_IN[target])
    costs = [problem.born[k] + 1 for k in range(problem.count)]
    once = recompute(problem, costs, most_cost=1, effort="fast")
    assert sorted(once.runs) == list(range(problem.count))
    found = recompute(problem, costs, budget=once.peak * 8 // 10, most_cost=1.2, effort="fast")
    assert found.is_within_budget
    assert found.peak == runs_peak(problem, found.runs)
    assert found.cost == sum(costs[k] for k in found.runs) <= 1.2 * found.base_cost
    again = recompute(problem, costs, budget=once.peak * 8 // 10, most_cost=1.2, effort="fast")
    assert found.runs == again.runs


def test_the_curve_goes_from_the_cheapest_runs_to_the_lowest_peak() -> None:
    problem = order_problem(wired.randwire(32, seed=1), BUILT_IN["tflm"])
    costs = [problem.born[k] + 1 for k in range(problem.count)]
    curve = recompute_curve(problem, costs, most_cost=1.3, points=2)
    assert curve[0].cost == curve[0].base_cost
    assert len(curve) > 2
    for cheaper, lower in pairwise(curve):
        assert cheaper.cost < lower.cost <= 1.3 * lower.base_cost
        assert cheaper.peak > lower.peak
    assert all(point.peak == runs_peak(problem, point.runs) for point in curve)


def test_it_begins_with_a_better_order_than_the_given_one() -> None:
    problem = order_problem(wired.inception(2), BUILT_IN["tflm"])
    given = runs_peak(problem, range(problem.count))
    assert recompute(problem, [1] * problem.count, most_cost=1, effort="fast").peak < given


def test_a_reader_of_a_view_reads_the_copy_that_the_view_was_made_of() -> None:
    # 1 is a view of class 0, 2 reads it through the view and 3 reads the class itself.
    problem = OrderProblem(
        before=((), (0,), (1,), (0, 2)),
        size=(8, 1, 1),
        reads=((), (0,), (0,), (0, 1)),
        writes=((0,), (), (1,), (2,)),
        over=((), (), (), ()),
    )
    assert sources_of(problem, 2) == {0: Sources(is_direct=False, views=(1,))}
    assert sources_of(problem, 3)[0] == Sources(is_direct=True, views=())
    kernel = program_of(problem, [1] * 4, None).kernel
    assert kernel.peak((0, 1, 0, 2, 3)) == 8 + 8 + 1
    assert kernel.peak((0, 1, 2, 0, 3)) == 8 + 1 + 1


def test_operators_with_effects_random_numbers_variables_or_places_do_not_repeat() -> None:
    tensors = [Tensor(name, "float32", (4,)) for name in "abcdef"] + [Tensor("v", "float32", (4,), "variable")]
    ops = (
        Op("plain", "Relu", (0,), (1,)),
        Op("effect", "Print", (1,), (2,), ordered=True),
        Op("random", "RandomNormalLike", (2,), (3,)),
        Op("state", "Add", (3, 6), (4,)),
        Op("last", "Relu", (4,), (5,)),
    )
    graph = Graph("g", tuple(tensors), ops, (0,), (5,))
    assert repeatable(graph) == {0, 4}
    assert repeatable(graph, BUILT_IN["generic"]) == {0}
    assert repeatable(graph, replace(BUILT_IN["tflm"], states={"a": "b"})) == {4}
    placed = Graph("g", tuple(tensors), ops, (0,), (5,), precedence=((0, 3),))
    assert repeatable(placed) == {4}


def test_other_arguments_are_refused() -> None:
    with pytest.raises(UnknownStrategyError, match="efforts are"):
        recompute(IDLE, (1, 1, 1, 1), effort="some")
    with pytest.raises(PlanError, match="costs are 4 numbers"):
        recompute(IDLE, (1, 1, 1))
    with pytest.raises(PlanError, match="costs are 4 numbers"):
        recompute(IDLE, (1, 1, 1, -1))
    with pytest.raises(PlanError, match="there is no operator 4"):
        recompute(IDLE, (1, 1, 1, 1), may_repeat={4})
