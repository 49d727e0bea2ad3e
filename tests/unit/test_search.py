"""The strategy `search`: what it must reach, what it proves, and that only work limits decide."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from edgemem import _kernels
from edgemem.bench.puzzles import PUZZLES, random_dense, random_sparse
from edgemem.planning import choices, make_plans, run
from edgemem.records import Problem
from edgemem.strategy.registry import find
from tests.data import shared_data

# Its smallest arena is 5, its lower bound 4.
GAP = Problem.from_arrays([0, 0, 1, 1, 2, 2, 3, 4], [0, 1, 2, 3, 2, 3, 5, 5], [2, 2, 1, 1, 1, 1, 2, 2])


def bound(problem: Problem) -> int:
    return _kernels.offset_lower_bound(problem.first_op, problem.last_op, problem.size, problem.alignment)


def arena(problem: Problem, work: int, seed: int = 1) -> int:
    p = problem
    offsets, *_ = _kernels.search_offsets(p.first_op, p.last_op, p.size, p.alignment, work, seed)
    assert overlaps(p, offsets) == 0
    return int((offsets + p.size).max())


def overlaps(problem: Problem, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Pairs of records that share an operator and a byte, counted by sorting each record's neighbours in time."""
    first, last, low = problem.first_op, problem.last_op, offsets
    high = offsets + problem.size
    wrong = 0
    for i in range(len(problem)):
        both = (first <= last[i]) & (last >= first[i]) & (low < high[i]) & (high > low[i])
        wrong += int(both.sum()) - 1
    return wrong


def instance(name: str) -> Problem:
    path = shared_data() / "instances" / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"no {path.name} among the data sets")
    with path.open(newline="") as rows:
        table = np.array([[int(r[c]) for c in ("lower", "upper", "size")] for r in csv.DictReader(rows)])
    return Problem.from_arrays(table[:, 0], table[:, 1] - 1, table[:, 2])


def test_it_says_what_it_proved() -> None:
    found = find("offsets", "search").solve(GAP)
    assert int((found.values + GAP.size).max()) == found.bound == bound(GAP) + 1
    assert found.stopped == "proof"
    assert found.work > 0


def test_a_proof_makes_the_plan_optimal() -> None:
    plans = {p.strategy: p for p in make_plans(GAP).offsets}
    assert plans["search"].optimal
    assert not plans["greedy_by_size"].optimal


def test_the_solver_s_proof_counts_too() -> None:
    pytest.importorskip("scipy")
    (choice,) = choices("mip")
    plan = make_plans(GAP, [choice]).offsets[0]
    assert plan.size == 5
    assert plan.optimal


@pytest.mark.parametrize("name", PUZZLES)
@pytest.mark.parametrize(("count", "work"), [(100, 2_000), (300, 5_000), (1_000, 20_000), (10_000, 300_000)])
@pytest.mark.parametrize("seed", [1, 2])
def test_puzzles_are_solved(name: str, count: int, work: int, seed: int) -> None:
    problem = PUZZLES[name](count, seed)
    assert arena(problem, work) == bound(problem)


@pytest.mark.parametrize("name", PUZZLES)
@pytest.mark.parametrize("removed", [0.02, 0.05])
@pytest.mark.parametrize("count", [100, 300])
def test_puzzles_with_holes_stay_close_to_the_bound(name: str, count: int, removed: float) -> None:
    problem = PUZZLES[name](count, 1, removed=removed)
    assert arena(problem, 1_000_000) <= 1.02 * bound(problem)


def test_random_problems_stay_close_to_the_bound() -> None:
    for make, count, ratio in ((random_sparse, 250, 1.0), (random_dense, 250, 1.0), (random_dense, 1000, 1.0)):
        problem = make(count, 1)
        assert arena(problem, 1_000_000) <= ratio * bound(problem)


# Every one has a placement at its bound. `work` leaves room, so that a change of order does not fail the test.
@pytest.mark.parametrize(("letter", "work"), [(x, 300_000) for x in "ABCEFGHI"] + [("K", 1_000_000)])
def test_published_puzzles_are_solved_at_the_bound(letter: str, work: int) -> None:
    problem = instance(f"mm_{letter}")
    assert arena(problem, work) == bound(problem)


@pytest.mark.parametrize(("letter", "ratio"), [("D", 1.025), ("J", 1.035)])
def test_the_two_hard_ones_come_close(letter: str, ratio: float) -> None:
    problem = instance(f"mm_{letter}")
    assert arena(problem, 3_000_000) <= ratio * bound(problem)


@pytest.mark.parametrize("name", ["iopddl_G_1", "somas_resnet50"])
def test_real_networks_are_planned_at_the_bound(name: str) -> None:
    problem = instance(name)
    assert arena(problem, 100_000) == bound(problem)


def test_same_work_same_plan() -> None:
    problem = random_dense(400, 3)
    plans = [_kernels.search_offsets(problem.first_op, problem.last_op, problem.size, 64, 20_000) for _ in range(2)]
    assert (plans[0][0] == plans[1][0]).all()
    assert plans[0][1:] == plans[1][1:]
    assert (plans[0][0] % 64 == 0).all()


def test_more_effort_is_never_worse() -> None:
    problem = random_sparse(1000, 5)
    (fast,), (default,) = choices("offsets/search:effort=fast"), choices("offsets/search")
    bounds = make_plans(GAP).bounds
    assert run(problem, default, bounds).size <= run(problem, fast, bounds).size


def test_a_time_limit_of_nothing_still_gives_a_plan() -> None:
    problem = random_sparse(3000, 5)
    columns = (problem.first_op, problem.last_op, problem.size, 1)
    offsets, proved, stopped, _ = _kernels.search_offsets(*columns, 10**9, seconds=0.0)
    assert stopped == "time"
    assert overlaps(problem, offsets) == 0
    assert proved == bound(problem)
