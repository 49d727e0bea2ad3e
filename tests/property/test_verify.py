"""The sweep agrees with a pairwise check by brute force, on right plans and on arbitrary ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.planning import Choice, make_plans
from edgemem.plans import OffsetPlan, SharedObjectsPlan
from edgemem.proof import sweep_plan, verify_planset
from edgemem.strategy.catalogue import registered
from tests import strategies as draw
from tests.oracle import brute


@pytest.mark.full
@given(draw.rows(max_records=12), draw.alignments(), st.data())
def test_any_placement(rows: list[tuple[int, int, int]], alignment: int, data: st.DataObject) -> None:
    offsets = data.draw(st.lists(st.integers(-1, 40), min_size=len(rows), max_size=len(rows)))
    at = [o * data.draw(st.sampled_from((1, alignment))) for o in offsets]
    plan = OffsetPlan("any", {}, np.array(at, np.int64), brute.offsets_size(rows, at), optimal=False)
    violations = sweep_plan(draw.problem_of(rows, alignment), plan)
    # A record of no size may hang over the end of the arena: nothing is there.
    faults = brute.offsets_faults(rows, alignment, at)
    hanging = any(not r[2] and o > plan.size for r, o in zip(rows, at, strict=True))
    assert bool(violations) == (bool(faults) or hanging)


@given(draw.rows(max_records=12), st.data())
def test_any_assignment(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    raw = data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    number = {old: new for new, old in enumerate(dict.fromkeys(raw))}
    assignment = [number[old] for old in raw]
    objects = [0] * len(number)
    for (_, _, size), obj in zip(rows, assignment, strict=True):
        objects[obj] = max(objects[obj], size)
    plan = SharedObjectsPlan("any", {}, np.array(assignment, np.int64), tuple(objects), sum(objects), optimal=False)
    assert bool(sweep_plan(draw.problem_of(rows, 1), plan)) == bool(brute.assignment_faults(rows, assignment))


@pytest.mark.full
@given(draw.rows(max_records=25), draw.alignments())
def test_every_strategy_is_accepted(rows: list[tuple[int, int, int]], alignment: int) -> None:
    wanted = [Choice(s, options) for s in registered() if s.extra is None for options in s.variants()]
    planset = make_plans(draw.problem_of(rows, alignment), wanted)
    assert verify_planset(planset) == ()


@pytest.mark.full
@given(draw.rows(max_records=12).filter(lambda rows: any(r[2] for r in rows)), draw.alignments(), st.data())
def test_every_single_corruption_is_judged_as_brute_force_does(
    rows: list[tuple[int, int, int]], alignment: int, data: st.DataObject
) -> None:
    problem = draw.problem_of(rows, alignment)
    planset = make_plans(problem)
    index = data.draw(st.integers(0, len(rows) - 1))
    plan = data.draw(st.sampled_from(planset.offsets))
    offsets = plan.offsets.copy()
    offsets[index] = data.draw(st.integers(-alignment, plan.size + alignment))
    wrong = replace(planset, offsets=(replace(plan, offsets=offsets),))
    moved = offsets.tolist()
    right = (
        not brute.offsets_faults(rows, alignment, moved)
        and brute.offsets_size(rows, moved) == plan.size
        and all(o <= plan.size for o in moved)
    )
    assert (verify_planset(wrong) == ()) == right
    # What carries a single number of the claims is refused outright.
    for corrupt in (
        replace(planset, naive=planset.naive + 1),
        replace(planset, bounds=replace(planset.bounds, offsets=planset.bounds.offsets + 1)),
        replace(planset, bounds=replace(planset.bounds, shared_objects=planset.bounds.shared_objects - 1)),
        replace(planset, offsets=(replace(plan, size=plan.size + 1),)),
        replace(planset, offsets=(replace(plan, size=plan.size - 1),)),
        replace(planset, offsets=(replace(plan, offsets=offsets[:-1]),)),
    ):
        assert verify_planset(corrupt) != ()
