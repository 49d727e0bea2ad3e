"""The oracle of repeated runs, against the peaks of orders, worked examples and an enumeration of all sequences."""

from __future__ import annotations

from random import Random

import pytest

from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import OrderProblem, order_problem
from tests.extent import run_for_seeds
from tests.oracle.orders.cases import small_case
from tests.oracle.orders.search import all_orders, keeps_its_order
from tests.oracle.orders.simulation import simulate
from tests.oracle.recompute import all_runs, front, front_of, repeated, runs_peak
from tests.order_problems import random_problem

# 0 makes a large class from the input, 1 a small one from it, 2 and 3 a large one each, 4 reads the first and the last.
SKIP = OrderProblem(
    before=((), (0,), (1,), (2,), (0, 3)),
    size=(1, 8, 1, 8, 1, 1),
    reads=((0,), (1,), (2,), (3,), (1, 4)),
    writes=((1,), (2,), (3,), (4,), (5,)),
    over=((),) * 5,
    start=(0,),
    kept=frozenset((5,)),
)


def test_a_long_skip_is_cheaper_to_make_twice() -> None:
    # As given: 0, 1, 3 (8 + 1 + 8 of classes 1, 2, 3, and the input is gone). Again: the input stays, 1 + 1 + 8.
    assert runs_peak(SKIP, (0, 1, 2, 3, 4)) == 17
    assert runs_peak(SKIP, (0, 1, 2, 3, 0, 4)) == 10
    assert front(SKIP, (10, 1, 1, 1, 1)) == [(10, 24), (17, 14)]
    assert front(SKIP, (10, 1, 1, 1, 1), once=(0,)) == [(17, 14)]


def test_runs_of_an_operator_that_must_run_once_are_not_repeated() -> None:
    assert all(runs.count(0) == 1 for runs in all_runs(SKIP, 2, 7, once=(0,)))
    assert any(runs.count(1) == 2 for runs in all_runs(SKIP, 2, 7, once=(0,)))


@run_for_seeds(range(60), quick=12)
def test_without_repeats_it_is_the_peak_of_the_order(seed: int) -> None:
    problem = random_problem(Random(seed), 6)
    orders = list(all_runs(problem, 1, 6))
    assert orders
    for order in orders:
        assert runs_peak(problem, order) == order_peak(problem, order)


@pytest.mark.full
def test_without_repeats_it_is_the_peak_of_a_graph() -> None:
    compared = 0
    for seed in range(200):
        case = small_case(seed)
        if keeps_its_order(case.graph):
            continue
        problem = order_problem(case.graph, case.target)
        for order in list(all_orders(case.graph, case.target))[:20]:
            assert runs_peak(problem, order) == simulate(case.graph, case.target, order, padded=True)
            compared += 1
    assert compared > 500


@run_for_seeds(range(40), quick=8)
def test_the_search_finds_what_all_sequences_have(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng, rng.randint(2, 4))
    costs = [rng.randint(0, 4) for _ in range(problem.count)]
    once = [k for k in range(problem.count) if rng.random() < 0.2]
    listed = [
        (runs_peak(problem, runs), sum(costs[k] for k in runs))
        for runs in all_runs(problem, 3, 7 if problem.count == 4 else 8, once)
    ]
    assert front(problem, costs, once) == front_of(listed)
    order = tuple(range(problem.count))
    of_order = [
        (runs_peak(problem, runs), sum(costs[k] for k in runs))
        for runs in all_runs(problem, 3, 7 if problem.count == 4 else 8, once)
        if tuple(dict.fromkeys(runs)) == order
    ]
    assert front(problem, costs, once, order) == front_of(of_order)


def test_a_graph_of_repeated_runs_has_the_same_outputs_and_one_writer_each() -> None:
    repeats = 0
    for seed in range(60):
        case = small_case(seed)
        graph = case.graph
        if keeps_its_order(graph) or any(op.bodies for op in graph.ops) or not graph.ops:
            continue
        first = 0
        runs = (first, *range(len(graph.ops)), first)
        twice = repeated(graph, runs)
        assert twice.outputs == graph.outputs
        assert [op.type for op in twice.ops] == [graph.ops[k].type for k in runs]
        written = [i for op in twice.ops for i in op.outputs if i >= 0]
        assert len(written) == len(set(written))
        repeats += 1
    assert repeats > 20
