"""Relations between records: every rule against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgemem.errors import ModelError, PlanError
from edgemem.planning import choices, make_plans
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof import sweep_plan, verify_planset
from edgemem.strategy.bounds import lower_bounds, naive_size
from tests.oracle.relations import Related, optimum, placement_faults
from tests.related import overlapping_siblings, problem_of, related_records


@pytest.mark.full
@given(related_records() | overlapping_siblings(pins=True))
def test_a_problem_is_refused_exactly_when_there_is_no_placement(related: Related) -> None:
    try:
        problem_of(related)
    except ModelError:
        assert optimum(related) is None
    else:
        assert optimum(related) is not None


@pytest.mark.full
@given(related_records() | overlapping_siblings(pins=True))
def test_no_placement_goes_below_the_bound(related: Related) -> None:
    try:
        problem = problem_of(related)
    except ModelError:
        assume(False)
    least = optimum(related)
    assert least is not None
    assert lower_bounds(problem).offsets <= least


@pytest.mark.full
@given(related_records(most=8) | overlapping_siblings(most=5), st.data())
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


@pytest.mark.full
@given(related_records(most=12) | overlapping_siblings(most=8))
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
    planset = make_plans(problem)
    assert {(p.strategy, p.size, tuple(p.offsets.tolist())) for p in planset.offsets} == {("search", 8, (0, 0))}
    assert verify_planset(planset) == ()


def test_a_proof_without_overlaps_does_not_count_with_them() -> None:
    # Without the overlap nothing is below 16, as a solver proves; with it there is a plan of 8.
    problem = problem_of(Related([(0, 1, 8), (1, 2, 8)], overlap=[(0, 1, 0)]))
    pytest.importorskip("scipy")
    planset = make_plans(problem, choices("offsets/mip"))
    assert [(p.size, p.optimal, p.search) for p in planset.offsets] == [(16, False, None)]
    assert planset.proved.offsets == 8
    assert verify_planset(planset) == ()
    found = make_plans(problem, choices("offsets/search"))
    assert [(p.size, p.optimal) for p in found.offsets] == [(8, True)]
    assert verify_planset(found) == ()
