"""The shared-objects strategies: the paper's figures, textures, and what records may look like."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import _kernels
from edgemem.planning import make_plans
from edgemem.records.problem import Problem
from edgemem.strategy.catalogue import registered
from tests.data import PAPER_NETS, paper_records
from tests.strategies import find, solved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.plans import OptionValue
    from edgemem.strategy.registry import Strategy

# Pisarchyk & Lee 2020, Table 1, in MiB; where a cell differs from the paper's, the strategy's docstring says so.
TABLE_1: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float, float, float]] = {
    ("naive", ()): (19.248, 26.313, 48.642, 28.556),
    ("equality", ()): (8.912, 17.544, 25.547, 17.904),
    ("greedy_in_order", ()): (4.594, 8.039, 7.168, 6.347),
    ("min_cost_flow", ()): (5.359, 7.513, 8.727, 7.359),
    ("greedy_by_size", ()): (4.594, 7.178, 6.437, 6.347),
    ("greedy_by_size", (("fit", "smallest"),)): (5.359, 6.986, 6.636, 8.390),
    ("greedy_by_size_improved", ()): (4.594, 6.699, 6.437, 6.347),
    ("greedy_by_size_improved", (("new_objects", "first"),)): (4.594, 6.891, 6.437, 6.347),
    ("greedy_by_breadth", ()): (4.594, 6.891, 6.437, 6.347),
}
BEST_CELLS = (4.594, 6.699, 6.437, 6.347)
LOWER_BOUNDS = (4.594, 6.604, 6.105, 6.347)

VARIANTS = [
    pytest.param(strategy, options, id="-".join([strategy.name, *map(str, options.values())]))
    for strategy in registered("shared_objects")
    for options in strategy.variants()
]
every_variant = pytest.mark.parametrize(("strategy", "options"), VARIANTS)


def paper_net(name: str) -> Problem:
    return problem_of(paper_records(name))


def problem_of(records: Sequence[tuple[int, int, Any]]) -> Problem:
    first, last, size = zip(*records, strict=True) if records else ((), (), ())
    return Problem.from_arrays(first, last, size)


def total(problem: Problem, assignment: NDArray[np.int64]) -> int:
    """Bytes or texels of all objects, each the maximum of its records, per dimension."""
    sizes = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    return sum(int(sizes[assignment == x].max(axis=0).prod()) for x in set(assignment.tolist()))


def assert_sound(problem: Problem, assignment: NDArray[np.int64]) -> None:
    assert assignment.dtype == np.int64
    assert assignment.shape == (len(problem),)
    assert sorted(set(assignment.tolist())) == list(range(int(assignment.max(initial=-1)) + 1))
    first, last = problem.first_op, problem.last_op
    conflict = (first[:, None] <= last) & (first <= last[:, None])
    shared = assignment[:, None] == assignment
    assert not (conflict & shared & ~np.eye(len(problem), dtype=bool)).any()


@pytest.mark.parametrize(("row", "net"), [(row, net) for row in TABLE_1 for net in range(len(PAPER_NETS))], ids=str)
def test_table_1(row: tuple[str, tuple[tuple[str, str], ...]], net: int) -> None:
    problem = paper_net(PAPER_NETS[net])
    assignment = solved(find("shared_objects", row[0]), problem, **dict(row[1]))
    assert_sound(problem, assignment)
    assert round(total(problem, assignment) / 2**20, 3) == TABLE_1[row][net]


@pytest.mark.parametrize("net", range(len(PAPER_NETS)))
def test_auto_is_never_above_the_best_cell(net: int) -> None:
    plans = make_plans(paper_net(PAPER_NETS[net]), families=("shared_objects",))
    assert round(min(plan.size for plan in plans.shared_objects) / 2**20, 3) <= BEST_CELLS[net]
    assert round(plans.bounds.shared_objects / 2**20, 3) == LOWER_BOUNDS[net]


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"tensor_ties": "high_first"}, (4.594, 6.699, 6.437, 8.390)),
        ({"op_ties": "high_first"}, (4.594, 6.891, 6.437, 8.418)),
    ],
)
def test_ties_of_greedy_by_breadth_change_its_row(
    options: dict[str, str], needed: tuple[float, float, float, float]
) -> None:
    problems = [paper_net(net) for net in PAPER_NETS]
    run = partial(solved, find("shared_objects", "greedy_by_breadth"))
    assert tuple(round(total(p, run(p, **options)) / 2**20, 3) for p in problems) == needed


def test_ties_of_operators_decide_who_is_placed_first() -> None:
    # Both operators have breadth 8, and the record in the middle belongs to both.
    problem = problem_of([(0, 0, 4), (0, 1, 4), (1, 1, 4)])
    run = partial(solved, find("shared_objects", "greedy_by_breadth"))
    assert run(problem).tolist() == [0, 1, 0]
    assert run(problem, op_ties="high_first").tolist() == [1, 0, 1]
    assert run(problem, tensor_ties="high_first").tolist() == [1, 0, 1]


def test_first_and_smallest_fit_differ_where_an_older_object_is_larger() -> None:
    # The 10 and the 6 are alive together; both are free for the 5.
    problem = problem_of([(0, 1, 10), (0, 1, 6), (2, 2, 5)])
    run = partial(solved, find("shared_objects", "greedy_by_size"))
    assert run(problem).tolist() == [0, 1, 0]
    assert run(problem, fit="smallest").tolist() == [0, 1, 1]


@every_variant
def test_no_records(strategy: Strategy, options: dict[str, OptionValue]) -> None:
    assert solved(strategy, problem_of([]), **options).tolist() == []


@every_variant
def test_records_without_size_have_an_object(strategy: Strategy, options: dict[str, OptionValue]) -> None:
    for records in (
        [(0, 0, 0)],
        [(0, 2, 0), (0, 2, 0), (1, 3, 7), (3, 4, 0)],
        [(0, 2, (0, 5)), (1, 3, (4, 0)), (3, 4, (2, 2))],
    ):
        problem = problem_of(records)
        assignment = solved(strategy, problem, **options)
        assert_sound(problem, assignment)
        if problem.extents is None:
            assert total(problem, assignment) == problem.size.sum()


@every_variant
def test_records_may_come_in_any_order(strategy: Strategy, options: dict[str, OptionValue]) -> None:
    # Were objects released in list order, the second record of operator 0 would get one that the first still holds.
    problem = problem_of([(0, 1, 8), (0, 1, 8), (5, 6, 4), (0, 1, 8), (3, 5, 8)])
    assert_sound(problem, solved(strategy, problem, **options))


@pytest.mark.full
@every_variant
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("longest", [1, 8, 400])
def test_large_records_are_sound(strategy: Strategy, options: dict[str, OptionValue], rank: int, longest: int) -> None:
    random = np.random.default_rng(rank)
    first = random.integers(0, 400, 500)
    size = random.integers(0, 9, (500, rank))
    problem = Problem.from_arrays(first, first + random.integers(0, longest, 500), size[:, 0] if rank == 1 else size)
    assignment = solved(strategy, problem, **options)
    assert_sound(problem, assignment)
    assert total(problem, assignment) <= problem.size.sum()
    assert solved(strategy, problem, **options).tolist() == assignment.tolist()


@pytest.mark.parametrize("name", ["greedy_by_size", "greedy_by_size_improved", "greedy_by_breadth", "min_cost_flow"])
def test_textures_share_where_that_costs_less(name: str) -> None:
    run = partial(solved, find("shared_objects", name))
    # One 8x3 texture holds both; one 8x8 texture would be larger than the two apart.
    assert run(problem_of([(0, 0, (8, 2)), (1, 1, (4, 3))])).tolist() == [0, 0]
    assert sorted(run(problem_of([(0, 0, (8, 1)), (1, 1, (1, 8))])).tolist()) == [0, 1]


@every_variant
def test_textures_whose_cover_is_beyond_int64_stay_apart(strategy: Strategy, options: dict[str, OptionValue]) -> None:
    problem = problem_of([(0, 0, (2**40, 1)), (1, 1, (1, 2**40)), (2, 2, (2**20, 2**20))])
    assert sorted(solved(strategy, problem, **options).tolist()) == [0, 1, 2]


def test_objects_of_a_greedy_order_are_numbered_as_they_are_made() -> None:
    problem = problem_of([(0, 3, 1), (0, 3, 2), (0, 3, 3)])
    assert solved(find("shared_objects", "greedy_by_size"), problem).tolist() == [2, 1, 0]
    assert solved(find("shared_objects", "greedy_in_order"), problem).tolist() == [0, 1, 2]


@pytest.mark.full
def test_a_hundred_thousand_records() -> None:
    n = 100_000
    random = np.random.default_rng(5)
    first = np.sort(random.integers(0, n, n))
    problem = Problem.from_arrays(first, first + random.geometric(0.2, n), random.integers(1, 1 << 20, n))
    bound = int(_kernels.positional_maxima(problem.first_op, problem.last_op, problem.size).sum())
    for name in ("greedy_by_size", "greedy_by_breadth", "greedy_in_order"):
        assignment = solved(find("shared_objects", name), problem)
        objects = np.zeros(int(assignment.max()) + 1, np.int64)
        np.maximum.at(objects, assignment, problem.size)
        assert bound <= objects.sum() < 2 * bound
        # Within an object, sorted by time, each record begins after the last one ended.
        order = np.lexsort((problem.first_op, assignment))
        same = assignment[order][1:] == assignment[order][:-1]
        assert (problem.first_op[order][1:] > problem.last_op[order][:-1])[same].all()


def test_kernels_refuse_what_they_cannot_use() -> None:
    one = np.zeros(1, np.int64)
    two = np.zeros(2, np.int64)
    extent = np.ones((1, 1), np.int64)
    with pytest.raises(ValueError, match="differ in length"):
        _kernels.assign_in_order(one, two, extent, one, "first")
    with pytest.raises(ValueError, match="every record once"):
        _kernels.assign_in_order(one, one, extent, one + 1, "first")
    with pytest.raises(ValueError, match="first or closest"):
        _kernels.assign_in_order(one, one, extent, one, "best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stages differ in length"):
        _kernels.assign_nearest(one, one, extent, two, new_first=False)
    with pytest.raises(ValueError, match="last_op before first_op"):
        _kernels.assign_by_min_cost_flow(one + 1, one, extent)
    with pytest.raises(ValueError, match="texels"):
        _kernels.assign_by_min_cost_flow(one, one, np.ones((1, 4), np.int64))
    with pytest.raises(ValueError, match="negative"):
        _kernels.positional_maxima(one, one, one - 1)
    with pytest.raises(TypeError):
        _kernels.positional_maxima(one, one, one.astype(np.float64))
