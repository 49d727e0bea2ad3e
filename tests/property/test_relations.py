"""Relations between records: every rule against trying everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgemem.bounds import lower_bounds, naive_size
from edgemem.errors import ModelError, PlanError
from edgemem.planning import choices, make_plans
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof import sweep_plan, verify_planset
from edgemem.records.problem import Problem
from tests.oracle.relations import Related, optimum, placement_faults

if TYPE_CHECKING:
    from collections.abc import Sequence


@st.composite
def related_records(draw: st.DrawFn, *, most: int = 4, pins: bool = True) -> Related:
    """A few small records with rows that say something about them, whether or not all can hold at once."""
    count = draw(st.integers(1, most))
    alignment = draw(st.sampled_from((1, 1, 2)))
    records = []
    for _ in range(count):
        a, b = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        records.append((min(a, b), max(a, b), draw(st.integers(1, 5))))
    meeting = [(i, j) for i in range(count) for j in range(count) if i != j and records[i][1] == records[j][0]]
    overlap: list[tuple[int, int, int]] = []
    for i, j in meeting:
        own = [x for x in (i, j) if records[x][0] == records[x][1]]
        if any(x in (a, b) for x in own for a, b, _ in overlap):
            continue  # an operator's own input
        if draw(st.booleans()):
            overlap.append((i, j, draw(st.integers(-3, 5))))
    within: list[tuple[int, int, int]] = []
    for i in range(count):
        outer = [
            j
            for j in range(count)
            if (records[j][2], j) > (records[i][2], i)
            and max(records[i][0], records[j][0]) <= min(records[i][1], records[j][1])
        ]
        wanted = draw(st.booleans())
        if outer and wanted:
            j = draw(st.sampled_from(outer))
            steps = (records[j][2] - records[i][2]) // alignment
            within.append((i, j, draw(st.integers(0, steps)) * alignment))
    pinned = {}
    reserved: list[tuple[int, int]] = []
    if pins:
        pinned = {i: draw(st.integers(0, 5)) * alignment for i in range(count) if draw(st.integers(0, 3)) == 0}
        if draw(st.integers(0, 3)) == 0:
            begin = draw(st.integers(0, 6))
            reserved.append((begin * alignment, (begin + draw(st.integers(1, 3))) * alignment))
    return Related(records, alignment, overlap, within, pinned, reserved)


def problem_of(related: Related) -> Problem:
    columns: Sequence[Sequence[int]] = list(zip(*related.records, strict=True))
    return Problem.from_arrays(
        *columns,
        alignment=related.alignment,
        pinned=[related.pinned.get(i, -1) for i in range(len(related.records))],
        reserved=related.reserved,
        overlap=related.overlap,
        within=related.within,
    )


@given(related_records())
def test_a_problem_is_refused_exactly_when_there_is_no_placement(related: Related) -> None:
    try:
        problem_of(related)
    except ModelError:
        assert optimum(related) is None
    else:
        assert optimum(related) is not None


@given(related_records())
def test_no_placement_goes_below_the_bound(related: Related) -> None:
    try:
        problem = problem_of(related)
    except ModelError:
        assume(False)
    least = optimum(related)
    assert least is not None
    assert lower_bounds(problem).offsets <= least


@given(related_records(most=8), st.data())
def test_the_proof_judges_placements_as_pair_by_pair(related: Related, data: st.DataObject) -> None:
    try:
        problem = problem_of(related)
    except ModelError:
        assume(False)
    offsets = [data.draw(st.integers(0, 8)) * related.alignment for _ in related.records]
    for i, pin in related.pinned.items():
        if data.draw(st.integers(0, 5)):
            offsets[i] = pin
    for _ in related.within:
        for i, j, delta in related.within:
            if data.draw(st.integers(0, 5)):
                offsets[i] = offsets[j] + delta
    size = int((np.array(offsets) + problem.size).max())
    plan = OffsetPlan("any", {}, np.array(offsets), size, optimal=False)
    assert bool(sweep_plan(problem, plan)) == bool(placement_faults(related, dict(enumerate(offsets))))


@given(related_records(most=12))
def test_both_bounds_are_the_same_and_plans_are_proved(related: Related) -> None:
    without = Related(related.records, related.alignment, related.overlap, (), related.pinned, related.reserved)
    for variant in (related, without):
        try:
            problem = problem_of(variant)
        except ModelError:
            continue
        if problem.within is None and not problem.needs_overlap:
            planset = make_plans(problem, (*choices("offsets/greedy_by_size"), *choices("offsets/search")))
            assert verify_planset(planset) == ()
        else:
            assert verify_planset(PlanSet(problem, naive_size(problem), lower_bounds(problem), (), ())) == ()
        assert naive_size(problem) > 0


@given(related_records(pins=False))
def test_a_relation_never_raises_the_bound_of_overlaps(related: Related) -> None:
    problem = problem_of(Related(related.records, related.alignment, related.overlap))
    plain = problem_of(Related(related.records, related.alignment))
    assert lower_bounds(problem).offsets <= lower_bounds(plain).offsets


def test_the_bound_counts_what_overlaps_once() -> None:
    # 8 bytes in, 6 out, which may begin up to 2 bytes before the input: they take 8 together.
    related = Related([(0, 1, 8), (1, 2, 6)], overlap=[(0, 1, 0)])
    assert lower_bounds(problem_of(related)).offsets == 8 == optimum(related)
    further = Related([(0, 1, 8), (1, 2, 6)], overlap=[(0, 1, 4)])
    assert lower_bounds(problem_of(further)).offsets == 12 == optimum(further)
    apart = Related([(0, 1, 8), (1, 2, 6)], overlap=[(0, 1, 7)])
    assert lower_bounds(problem_of(apart)).offsets == 14 == optimum(apart)


def test_the_bound_counts_a_slice_only_without_what_it_lies_in() -> None:
    # The slice outlives the container by two operators, where 5 and 4 are alive.
    related = Related([(0, 1, 8), (1, 3, 5), (3, 3, 4)], within=[(1, 0, 3)])
    assert lower_bounds(problem_of(related)).offsets == 9 == optimum(related)


def test_pins_onto_each_other_need_a_strategy_that_honours_overlaps() -> None:
    related = Related([(0, 1, 8), (1, 2, 8)], overlap=[(0, 1, 0)], pinned={0: 0, 1: 0})
    problem = problem_of(related)
    assert lower_bounds(problem).offsets == 8 == optimum(related)
    with pytest.raises(PlanError, match="greedy_by_size cannot honour overlaps of inputs and results"):
        make_plans(problem, choices("offsets/greedy_by_size"))
    with pytest.raises(PlanError, match="no strategy for offsets honours pinned offsets or overlaps"):
        make_plans(problem)


def test_a_proof_without_overlaps_does_not_count_with_them() -> None:
    # Without the overlap nothing is below 16, as a search proves; with it there is a plan of 8.
    records = [(0, 1, 8), (1, 2, 8)]
    problem = problem_of(Related(records, overlap=[(0, 1, 0)]))
    planset = make_plans(problem, choices("offsets/search"))
    assert [(p.size, p.optimal, p.search) for p in planset.offsets] == [(16, False, None)]
    assert planset.proved.offsets == 8
    assert verify_planset(planset) == ()
