"""The proof of relations and regions, of claims about them, and of plans that are no plans; compiled and in Python."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem import _kernels
from edgemem.errors import PlanError
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.proof import Cause, Proved, Regions, Relations, Violation, prove, sweep_plan, verify_planset
from edgemem.proof import proved_plan as proved
from edgemem.proof.faults import COLUMNS, Fault
from edgemem.records.problem import Problem, UsageRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.model.graph import Graph


def test_no_more_than_a_hundred() -> None:
    count = 1000
    problem = Problem.from_arrays(np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, np.int64))
    offsets = OffsetPlan("all at 0", {}, np.zeros(count, np.int64), 1, optimal=False)
    objects = SharedObjectsPlan("all in 0", {}, np.zeros(count, np.int64), (1,), 1, optimal=False)
    planset = PlanSet(problem, count, LowerBounds(count, count), (offsets,), (objects,))
    assert len(verify_planset(planset)) == 100
    for plan in (offsets, objects):
        assert len(sweep_plan(problem, plan)) == 100


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ({"overlap": [0, 1]}, "three numbers"),
        ({"overlap": [0, 3, 0]}, "does not exist"),
        ({"within": [-1, 0, 0]}, "does not exist"),
        ({"within": [1, 1, 0]}, "itself"),
        ({"overlap": [2, 0, 0]}, "do not meet"),
        ({"overlap": [0, 1, 0, 1, 2, 0]}, "input of the operator that makes it"),
        ({"within": [0, 1, 0, 0, 2, 0]}, "inside two others"),
        ({"within": [0, 1, 0, 1, 0, 0]}, "inside itself"),
    ],
)
def test_relations_that_no_records_have(relation: dict[str, list[int]], message: str) -> None:
    columns = np.array([0, 1, 1]), np.array([1, 1, 2]), np.array([4, 4, 4]), 1
    given: dict[str, Any] = {name: np.array(rows) for name, rows in relation.items()}
    with pytest.raises(ValueError, match=message):
        _kernels.recompute_claims(*columns, **given)
    with pytest.raises(ValueError, match=message):
        _kernels.find_offset_faults(*columns, np.zeros(3, np.int64), np.array([4]), **given)


def test_a_long_chain_of_records_inside_each_other() -> None:
    count = 500
    first = np.arange(count)
    size = 2 * (count - np.arange(count))
    within = np.array([(i + 1, i, 1) for i in range(count - 1)]).reshape(-1)
    columns = first, np.full(count, count), size, 1
    given: dict[str, Any] = {"within": within, "arena": np.array([2 * count])}
    assert not len(_kernels.find_offset_faults(*columns, offsets=np.arange(count), **given))
    moved = np.arange(count)
    moved[250] += 1
    rows = _kernels.find_offset_faults(*columns, offsets=moved, **given).reshape(-1, COLUMNS)
    assert {Fault(code) for code in rows[:, 0]} == {Fault.NOT_WITHIN, Fault.OVERLAP}
    assert _kernels.recompute_claims(*columns, within=within)[0] == 2 * count


# a, b and c are pieces of whole; x dies where y is made.
WHOLE = Problem.from_arrays([0, 0, 1, 2], [2, 1, 2, 3], [12, 4, 4, 6], names=["whole", "a", "b", "y"])
TIES = Relations(
    overlap=np.array([[0, 3, 2]]), within=np.array([[1, 0, 0], [2, 0, 4]]), state=np.array([False, False, False, False])
)


def _plan(*offsets: int, size: int) -> OffsetPlan:
    return OffsetPlan("hand", {}, np.array(offsets), size, optimal=False)


def test_violations_of_relations() -> None:

    def messages(*offsets: int, size: int, relations: Relations = TIES, regions: Regions | None = None) -> list[str]:
        return [str(v) for v in sweep_plan(WHOLE, _plan(*offsets, size=size), None, relations, regions)]

    # y may lie on whole, 2 bytes below it, but b is in use too, and at the first byte of y's end.
    assert messages(6, 6, 10, 0, size=18) == []
    assert messages(2, 2, 6, 0, size=14) == []
    assert messages(2, 2, 6, 1, size=14) == ["hand: overlap: 'whole' at 2..14 and 'y' at 1..7 are both in use"]
    assert messages(1, 1, 5, 0, size=13) == ["hand: overlap: 'whole' at 1..13 and 'y' at 0..6 are both in use"]
    assert messages(6, 6, 11, 0, size=18) == [
        "hand: not inside the record it belongs to: 'b' at 11..15 is not 4 bytes into 'whole' at 6..18",
        "hand: overlap: 'whole' at 6..18 and 'b' at 11..15 are both in use",
    ]
    regions = Regions(np.array([1, 1, 1, 0]), (6, 12))
    assert messages(0, 0, 4, 0, size=18, regions=regions) == []
    assert messages(0, 0, 4, 0, size=18, regions=Regions(regions.of, (6, 13))) == [
        "hand: wrong size: the arena of region 1 is 13, but the highest record ends at 12"
    ]
    assert messages(0, 0, 4, 0, size=18, regions=Regions(np.array([1, 1, 1, 2]), (0, 12))) == [
        "hand: in a region it may not lie in: 'y' is in region 2 of 2"
    ]
    assert messages(0, 0, 4, 0, size=18, regions=Regions(np.array([1, 0, 1, 0]), (6, 12)))[0] == (
        "hand: not inside the record it belongs to: 'a' is in region 0, but 'whole' in 1"
    )
    for ranges, name, places in ((((), ((11, 20),)), "whole", "0..12"), ((((5, 20),),), "y", "0..6")):
        assert messages(0, 0, 4, 0, size=18, regions=Regions(regions.of, (6, 12), ranges)) == [
            f"hand: in a reserved range: {name!r} at {places} is in the reserved range {ranges[-1][0][0]}..20"
        ]


def test_claims_with_relations() -> None:
    # At the second operator whole and y take 12 + 6 bytes, of which they share 4 at most.
    planset = PlanSet(WHOLE, 26, LowerBounds(14, 22), (_plan(2, 2, 6, 0, size=14),), ())
    assert [v.cause for v in verify_planset(planset, None, TIES)] == [Cause.FALSE_OPTIMAL]
    kept = Relations(TIES.overlap, TIES.within, np.array([False, True, False, False]))
    assert [str(v) for v in verify_planset(planset, None, kept) if v.cause is Cause.STATE_NOT_KEPT] == [
        "state not kept for the whole run: 'a' lives from 0 to 1, the run from 0 to 3"
    ]


def test_a_problem_is_not_taken_at_its_word() -> None:
    """It refuses states that do not live for the whole run when it is made; its columns may be changed later."""
    problem = Problem([UsageRecord("s", 0, 2, 8, kind="state"), UsageRecord("a", 0, 2, 8)])
    planset = PlanSet(problem, 16, LowerBounds(16, 16), (replace(_plan(0, 8, size=16), optimal=True),), ())
    assert edgemem.verify(planset) == ()
    problem.last_op = np.array([1, 2])
    assert [v.message for v in edgemem.verify(replace(planset))] == ["'s' lives from 0 to 1, the run from 0 to 2"]


def test_sizes_beyond_int64_are_judged() -> None:
    problem = Problem.from_arrays([0, 0], [0, 0], [8, 8])
    for size in (2**63, -(2**70)):
        (found,) = sweep_plan(problem, _plan(0, 8, size=size))
        assert found.message == f"no arena has {size} bytes"


@pytest.mark.parametrize(
    ("objects", "size", "causes"),
    [
        ((8, (8,)), 16, []),
        ((8, 8), 2**70, [Cause.WRONG_SIZE]),
        ((8, 2**63), 8 + 2**63, [Cause.WRONG_SIZE]),
        ((2**80, 2**80), 2**81, [Cause.WRONG_SIZE] * 2),
        ((8, -8), 0, [Cause.OBJECT_TOO_SMALL]),
        ((8, ()), 9, [Cause.OBJECT_TOO_SMALL]),
        ((8, (8, -2)), -8, [Cause.OBJECT_TOO_SMALL]),
        (((8, -2), (8, -2)), -32, [Cause.OBJECT_TOO_SMALL] * 2),  # -2 is what the kernel has for no side at all
    ],
)
def test_objects_of_any_form_are_judged(objects: Any, size: int, causes: list[Cause]) -> None:
    problem = Problem.from_arrays([0, 0], [0, 0], [8, 8])
    plan = SharedObjectsPlan("hand", {}, np.array([0, 1]), objects, size, optimal=False)
    assert [v.cause for v in sweep_plan(problem, plan)] == causes


def test_nothing_is_planned_right() -> None:
    nothing: Any = np.zeros(0)
    plans = (
        OffsetPlan("hand", {}, nothing, 0, optimal=True),
        SharedObjectsPlan("hand", {}, nothing, (), 0, optimal=True),
    )
    assert verify_planset(PlanSet(Problem([]), 0, LowerBounds(0, 0), plans[:1], plans[1:])) == ()
    for extents in (np.zeros(0, np.int64), np.zeros((0, 2), np.int64)):
        assert sweep_plan(Problem.from_arrays([], [], extents), plans[1]) == ()


@pytest.mark.parametrize("offsets", [np.zeros(2), np.full(2, 2**63, np.uint64), np.array([0, None])])
def test_offsets_that_are_no_integers_are_refused(offsets: Any) -> None:
    problem = Problem.from_arrays([0, 0], [0, 0], [8, 8])
    with pytest.raises(PlanError, match="no integers within int64; use int64"):
        sweep_plan(problem, OffsetPlan("hand", {}, offsets, 8, optimal=False))


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, replace, lambda planset: pickle.loads(pickle.dumps(planset))]
)
def test_copies_of_what_was_proved_are_not_proved(
    copied: Callable[[PlanSet], PlanSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem.from_arrays(np.array([0, 1]), np.array([1, 2]), np.array([4, 4]))
    plan = OffsetPlan("by hand", {}, np.array([0, 4]), 8, optimal=True)
    planset = PlanSet(problem, 8, LowerBounds(8, 8), (plan,), ())
    examined = []

    def counted(given: PlanSet, graph: Graph | None = None) -> tuple[Violation, ...]:
        examined.append(given)
        return verify_planset(given, graph)

    monkeypatch.setattr(proved, "verify_planset", counted)
    assert prove(planset).planset is prove(planset).planset is planset
    assert examined == [planset]
    copy_of_it = copied(planset)
    assert copy_of_it.best_offsets is not None
    assert prove(copy_of_it).planset is copy_of_it
    assert examined == [planset, copy_of_it]
    with pytest.raises(ValueError, match="read-only"):
        plan.offsets[1] = 0


def test_only_the_proof_makes_what_is_proved() -> None:
    planset = PlanSet(Problem([]), 0, LowerBounds(0, 0), (), ())
    with pytest.raises(TypeError, match=r"only edgemem.proof.prove"):
        Proved(planset, "", object())
    made = prove(planset)
    with pytest.raises(TypeError, match=r"only edgemem.proof.prove"):
        replace(made, graph="x", key=None)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied"):
            copied(made)
