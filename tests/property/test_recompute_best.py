"""Runs within a budget, against a full search over all sequences of runs that shares no code with the solvers."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.remat.program import program_of
from edgemem.remat.search import recompute
from edgemem.strategy.clock import Clock
from tests.bench.remat.backwards import cheapest_runs, lowest_runs, peak_bound
from tests.bench.remat.cheaper import ask_for_cheaper
from tests.bench.remat.idle_bound import idle_bound
from tests.oracle.recompute import all_runs, front
from tests.oracle.recompute import runs_peak as counted
from tests.unit.test_order_bound import some_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.schedule.problem import OrderProblem

MUCH = 10**6


def cases(seed: int, count: int, most: int = 7) -> Iterator[tuple[OrderProblem, list[int], set[int]]]:
    """Problems of up to `most` operators, their costs, and which of them run once."""
    rng = random.Random(seed)
    for _ in range(count):
        problem = some_problem(rng, rng.randint(1, most))
        if rng.random() < 0.3:  # results that nothing reads stay to the end
            unread = {c for c in range(len(problem.size)) if not problem.readers[c]} - problem.kept
            problem = replace(problem, lingers=frozenset(unread))
        costs = [rng.randint(0, 9) for _ in range(problem.count)]
        yield problem, costs, {k for k in range(problem.count) if rng.random() < 0.2}


def test_peaks_of_runs_are_those_that_are_counted_literally() -> None:
    rng = random.Random(11)
    for problem, *_ in cases(11, 200):
        runs = list(range(problem.count))
        for _ in range(rng.randint(0, 8)):
            k = rng.randrange(problem.count)
            runs.insert(rng.randint(runs.index(k) + 1, len(runs)), k)
        assert program_of(problem, [0] * problem.count, None).kernel.peak(runs) == counted(problem, runs)


@pytest.mark.full
def test_the_full_front_is_found_and_proved() -> None:
    points = 0
    for problem, costs, once in cases(12, 150):
        program = program_of(problem, costs, set(range(problem.count)) - once)
        best = front(problem, costs, once)
        for peak, cost in best:
            found = cheapest_runs(program, peak, MUCH, Clock(None))
            assert found.bound == cost
            if found.runs is None:  # a state knows less than a sequence
                continue
            assert counted(problem, found.runs) <= peak
            assert sum(costs[k] for k in found.runs) == cost
            points += 1
        lowest = lowest_runs(program, MUCH, MUCH, Clock(None))
        assert lowest.bound == best[0][0]
        assert lowest.runs is None or counted(problem, lowest.runs) == best[0][0]
        assert cheapest_runs(program, best[0][0] - 1, MUCH, Clock(None)).is_impossible
    assert points > 160


@pytest.mark.full
def test_bounds_hold_however_little_is_looked_at() -> None:
    proved = 0
    for problem, costs, once in cases(13, 80):
        program = program_of(problem, costs, set(range(problem.count)) - once)
        best = front(problem, costs, once)
        for states in (1, 5, 30):
            assert peak_bound(program, states, Clock(None)) <= best[0][0]
            assert lowest_runs(program, MUCH, states, Clock(None)).bound <= best[0][0]
            for peak, cost in best:
                assert cheapest_runs(program, peak, states, Clock(None)).bound <= cost
        proved += peak_bound(program, 1000, Clock(None)) == best[0][0]
    assert proved > 40


def test_the_search_alone_is_seldom_worse_and_never_better() -> None:
    equal = points = 0
    for problem, costs, once in cases(14, 60):
        for peak, cost in front(problem, costs, once):
            repeats = set(range(problem.count)) - once
            found = recompute(problem, costs, budget=peak, may_repeat=repeats, effort="fast")
            points += 1
            equal += found.cost == cost and found.is_within_budget
            assert found.peak > peak or found.cost >= cost
    assert equal > 0.8 * points


def is_of_the_kind(order: tuple[int, ...], runs: tuple[int, ...]) -> bool:
    """Whether first runs are in the order, and operators run again once between them at most, in the order too."""
    place = {k: at for at, k in enumerate(order)}
    seen: set[int] = set()
    last = -1
    for k in runs:
        if k not in seen:
            if place[k] != len(seen):
                return False
            seen.add(k)
            last = -1
        elif place[k] <= last:
            return False
        else:
            last = place[k]
    return True


@pytest.mark.full
def test_the_constraint_program_finds_and_proves_the_best_of_its_kind() -> None:
    pytest.importorskip("ortools")
    kept_out = proved = 0
    for problem, costs, once in cases(15, 25, most=5):
        order = tuple(range(problem.count))
        every = [
            (counted(problem, runs), sum(costs[k] for k in runs), runs)
            for runs in all_runs(problem, 2, problem.count + 3, once)
            if is_of_the_kind(order, runs)
        ]
        budget = min(peak for peak, *_ in every)
        best = min(cost for peak, cost, _ in every if peak <= budget)
        program = program_of(problem, costs, set(range(problem.count)) - once)
        start = next(runs for peak, _, runs in every if peak == budget)
        answer = ask_for_cheaper(program, program.schedule(start), budget, program.base_cost, 1.0, 1, None)
        assert counted(problem, answer.found.runs) == answer.found.peak <= budget
        if tuple(dict.fromkeys(answer.found.runs)) != order or max(Counter(answer.found.runs).values()) > 2:
            kept_out += 1  # another kind
            continue
        assert answer.found.cost <= best
        assert answer.bound <= best
        proved += answer.is_proved
    assert proved > 15 > kept_out


@pytest.mark.full
def test_what_is_idle_bounds_the_cost_of_runs_whose_first_ones_keep_an_order() -> None:
    raised = points = 0
    for problem, costs, once in cases(16, 100):
        program = program_of(problem, costs, set(range(problem.count)) - once)
        order = tuple(range(problem.count))
        for peak, cost in front(problem, costs, once, order):
            bound = idle_bound(program, order, peak)
            assert bound <= cost
            points += cost > program.base_cost
            raised += bound > program.base_cost
    assert raised > 0.3 * points > 1
