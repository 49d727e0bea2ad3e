"""`search` on records with relations: against trying everything, and against an integer program."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgemem.errors import ModelError
from edgemem.plans import OffsetPlan
from edgemem.proof import sweep_plan
from edgemem.strategy.bounds import lower_bounds
from tests.extent import run_for_seeds
from tests.oracle.related_model import least_arena
from tests.oracle.relations import Related, optimum, placement_faults
from tests.related import overlapping_siblings, problem_of, related_records
from tests.strategies import find

if TYPE_CHECKING:
    from edgemem.records.problem import Problem


def searched(problem: Problem, **options: str | int) -> tuple[int, bool]:
    """The size of the plan and whether it is proved optimal; the plan is valid, and its bound is one."""
    found = find("offsets", "search").solve(problem, **options)
    size = int((found.values + problem.size).max())
    assert sweep_plan(problem, OffsetPlan("search", {}, found.values, size, optimal=False)) == ()
    if problem.overlap is None and problem.within is None:
        return size, found.bound == size
    assert found.bound is not None
    assert lower_bounds(problem).offsets <= found.bound <= size
    assert (found.bound == size) == (found.stopped in ("bound", "proof"))
    again = find("offsets", "search").solve(problem, **options)
    assert (again.values.tolist(), again.bound, again.work) == (found.values.tolist(), found.bound, found.work)
    return size, found.bound == size


@pytest.mark.full
@given(related_records(most=5) | overlapping_siblings(pins=True), st.data())
@settings(deadline=None)
def test_few_records_are_planned_as_well_as_can_be(related: Related, data: st.DataObject) -> None:
    roles = data.draw(
        st.none() | st.lists(st.integers(-1, 1), min_size=len(related.records), max_size=len(related.records))
    )
    try:
        problem = problem_of(related, roles)
    except ModelError:
        assume(False)
    size, proved = searched(problem, effort="fast")
    assert size == optimum(related)
    assert proved


@run_for_seeds(range(60), quick=12)
def test_it_finds_what_an_integer_program_finds(seed: int) -> None:
    pytest.importorskip("ortools")
    related, roles = chains(seed, 4 + seed % 12)
    try:
        problem = problem_of(related, roles)
    except ModelError:
        return
    size, proved = searched(problem, effort="fast", seed=seed)
    assert not placement_faults(
        related, dict(enumerate(find("offsets", "search").solve(problem, effort="fast").values.tolist()))
    )
    least = least_arena(related)
    assert lower_bounds(problem).offsets <= least
    assert size == least
    assert proved


def chains(seed: int, count: int) -> tuple[Related, list[int]]:
    """Records that follow each other, some of them side by side; with overlaps, slices, pins and reserved ranges."""
    draw = random.Random(seed)
    alignment = draw.choice((1, 1, 4, 16))
    records: list[tuple[int, int, int]] = []
    for i in range(count):
        first = max(0, i // 2 + draw.randint(-1, 1))
        records.append((first, first + draw.choice((0, 1, 1, 2, 3)), draw.randint(1, 12 * alignment)))
    own = {i for i, (first, last, _) in enumerate(records) if first == last}
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j and records[i][1] == records[j][0]]
    overlap = [
        (i, j, draw.randint(-8, 8) * draw.choice((1, alignment)))
        for i, j in pairs
        if not {i, j} & own and draw.random() < 0.6
    ]
    within = []
    for i in range(count):
        outer = [j for j in range(count) if records[j][2] > records[i][2] and meet(records[i], records[j])]
        if outer and draw.random() < 0.2:
            j = draw.choice(outer)
            within.append((i, j, draw.randint(0, (records[j][2] - records[i][2]) // alignment) * alignment))
    pinned = {i: draw.randint(0, 9) * alignment for i in range(count) if draw.random() < 0.05}
    reserved = [(7 * alignment, 9 * alignment)] if draw.random() < 0.2 else []
    return Related(records, alignment, overlap, within, pinned, reserved), [draw.randint(-1, 2) for _ in range(count)]


def meet(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return max(a[0], b[0]) <= min(a[1], b[1])
