"""The strategy `search` for shared objects: the optimum and its proof, on networks and against other exact solvers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import _kernels, load
from edgemem.planning import choices, make_plans, run
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem
from edgemem.strategy.bounds import lower_bounds
from edgemem.strategy.catalogue import registered
from edgemem.targets import BUILT_IN
from models import build
from tests.data import paper_records
from tests.oracle import brute
from tests.strategies import find, problem_of

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import SharedObjectsPlan
    from tests.oracle.bounds import Record, TexelRecord

# (optimum, lower bound) in bytes; where they differ, Pisarchyk & Lee 2020 could not say that their plans are optimal.
PAPER = {
    "mobilenet_v1": (4_816_896, 4_816_896),
    "mobilenet_v2": (7_024_640, 6_924_288),
    "deeplab_v3": (6_749_568, 6_401_088),
    "posenet": (6_655_424, 6_655_424),
}


def solved(problem: Problem, effort: str = "fast") -> SharedObjectsPlan:
    """The plan of `search`, which must be sound."""
    (choice,) = choices(f"shared_objects/search:effort={effort}")
    plan = make_plans(problem, [choice]).shared_objects[0]
    rows = [(a, b, 1) for a, b in zip(problem.first_op.tolist(), problem.last_op.tolist(), strict=True)]
    assert not brute.assignment_faults(rows, plan.assignment.tolist())
    return plan


def random_rows(generator: random.Random, count: int, rank: int) -> list[Record | TexelRecord]:
    sizes, least = generator.randint(1, 40 if rank == 1 else 7), generator.choice((0, 1))
    rows: list[Record | TexelRecord] = []
    for _ in range(generator.randint(0, count)):
        first = generator.randint(0, count)
        last = first + generator.randint(0, generator.choice((1, 3, count)))
        sides = tuple(generator.randint(least, sizes) for _ in range(rank))
        rows.append((first, last, sides[0]) if rank == 1 else (first, last, sides))
    return rows


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_s_networks_are_solved_and_proved(name: str) -> None:
    first, last, size = zip(*paper_records(name), strict=True)
    problem = Problem.from_arrays(first, last, size)
    plan = solved(problem)
    assert (plan.size, lower_bounds(problem).shared_objects) == PAPER[name]
    assert plan.optimal


@pytest.mark.parametrize("name", [n for n in build.names() if n != "dynamic"])
@pytest.mark.parametrize("target", ["generic", "gpu-texture"])
def test_networks_are_solved_and_proved(name: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(build.build(name, size="small").SerializeToString())
    problem = lifetimes(load(path).graph(), BUILT_IN[target]).problem  # type: ignore[union-attr]
    plan = solved(problem)
    assert plan.optimal
    bounds = lower_bounds(problem)
    for strategy in registered("shared_objects"):
        for options in strategy.variants():
            (other,) = choices(f"shared_objects/{strategy.name}:{','.join(f'{k}={v}' for k, v in options.items())}")
            assert run(problem, other, bounds).size >= plan.size


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_it_finds_what_trying_everything_finds(rank: int) -> None:
    generator = random.Random(rank)
    for _ in range(150):
        rows = random_rows(generator, 7, rank)
        plan = solved(problem_of(rows))
        assert plan.optimal
        assert plan.size == brute.shared_objects_optimum(rows)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_time_and_sides_may_be_turned_round(rank: int) -> None:
    generator = np.random.default_rng(rank)
    proved = 0
    for _ in range(60):
        count = int(generator.integers(10, 32))
        first = np.arange(count) * 2 // 3
        last = first + generator.integers(0, 5, count) + (generator.random(count) < 0.1) * 9
        extent = generator.integers(1, 30 if rank == 1 else 6, (count, rank))
        order = generator.permutation(count)
        turned = np.ascontiguousarray((last.max() - last)[order]), np.ascontiguousarray((last.max() - first)[order])
        mirrored = np.ascontiguousarray(extent[order][:, ::-1])
        _, bound, stopped, _ = _kernels.search_shared_objects(first, last, extent, 300_000)
        _, other, other_stopped, _ = _kernels.search_shared_objects(*turned, mirrored, 300_000)
        if "work" not in (stopped, other_stopped):
            assert bound == other
            proved += 1
    assert proved > 40


@pytest.mark.parametrize("seed", range(6))
def test_it_finds_what_an_integer_program_finds(seed: int) -> None:
    pytest.importorskip("ortools")
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 30, 36)
    problem = Problem.from_arrays(first, first + generator.integers(0, 6, 36), generator.integers(1, 9, 36) ** 2)
    plan = solved(problem, "default")
    assert plan.optimal
    assert plan.size == integer_program(problem)


def integer_program(problem: Problem) -> int:
    """Objects come in the records' sizes; so many of a size as its records are alive at once, at most."""
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    sizes = sorted(set(problem.size.tolist()))
    counts = {s: model.new_int_var(0, len(problem), f"count_{s}") for s in sizes}
    chosen = [
        {s: model.new_bool_var(f"{i}_{s}") for s in sizes if s >= own} for i, own in enumerate(problem.size.tolist())
    ]
    for options in chosen:
        model.add_exactly_one(options.values())
    for op in sorted(set(problem.first_op.tolist())):
        alive = np.flatnonzero((problem.first_op <= op) & (op <= problem.last_op)).tolist()
        for s in sizes:
            model.add(sum(chosen[i][s] for i in alive if s in chosen[i]) <= counts[s])
    model.minimize(sum(s * count for s, count in counts.items()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


def test_auto_says_optimal_above_the_lower_bound() -> None:
    # Two objects at every operator, of 9 and 1; but the 1s between the two 9s need one each.
    problem = Problem.from_arrays([0, 1, 2, 3], [1, 2, 3, 4], [9, 1, 1, 9])
    planset = make_plans(problem)
    plans = {p.strategy: p for p in planset.shared_objects}
    assert planset.bounds.shared_objects == 10
    assert plans["search"].size == 11
    assert plans["search"].optimal
    assert plans["greedy_by_breadth"].size == 11
    assert plans["greedy_by_breadth"].optimal
    found = find("shared_objects", "search").solve(problem)
    assert (found.bound, found.stopped) == (11, "proof")
    assert found.work > 0


def columns(count: int, alive: int, seed: int) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    first = generator.integers(0, count, count)
    return first, first + generator.integers(0, 2 * alive, count), generator.integers(1, 10**6, (count, 1))


def test_same_work_same_plan() -> None:
    one, other = (_kernels.search_shared_objects(*columns(300, 12, 1), 20_000) for _ in range(2))
    assert (one[0] == other[0]).all()
    assert one[1:] == other[1:]


def test_more_work_is_never_worse() -> None:
    results = [_kernels.search_shared_objects(*columns(200, 12, 2), work) for work in (0, 1_000, 30_000, 1_000_000)]
    problem = Problem.from_arrays(*columns(200, 12, 2)[:2], columns(200, 12, 2)[2].reshape(-1))
    totals = [
        brute.assignment_size(
            list(zip(*map(np.ndarray.tolist, (problem.first_op, problem.last_op, problem.size)), strict=True)),
            a.tolist(),
        )
        for a, *_ in results
    ]
    bounds = [bound for _, bound, *_ in results]
    assert totals == sorted(totals, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= totals[-1]


def test_many_records_stop_at_the_work_asked_for() -> None:
    first, last, size = columns(100_000, 20, 3)
    assignment, bound, stopped, work = _kernels.search_shared_objects(first, last, size, 200_000)
    assert stopped == "work"
    assert 200_000 <= work < 210_000
    # No two records of an object overlap: in order of time each begins after the one before has ended.
    order = np.lexsort((first, assignment))
    same = assignment[order][1:] == assignment[order][:-1]
    assert (first[order][1:][same] > last[order][:-1][same]).all()
    largest = np.zeros(int(assignment.max()) + 1, np.int64)
    np.maximum.at(largest, assignment, size[:, 0])
    assert bound <= largest.sum() <= 1.2 * bound


def test_a_time_limit_of_nothing_still_gives_a_plan() -> None:
    first, last, size = columns(3_000, 40, 4)
    assignment, bound, stopped, _ = _kernels.search_shared_objects(first, last, size, 10**9, seconds=0.0)
    assert stopped == "time"
    rows = [(a, b, 1) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    assert not brute.assignment_faults(rows, assignment.tolist())
    assert bound == int(_kernels.positional_maxima(first, last, size[:, 0].copy()).sum())
