"""Forged plans in several regions: where records may lie, what they are pinned to, and how large the regions are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import edgemem
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof import Cause, prove
from edgemem.proof.sweep import sweep_plan
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import Region, Target

BOARD = Target("board", alignment=16, regions=(Region("sram", None), Region("psram", None, alignment=32)))
A = UsageRecord("a", 0, 1, 32)
B = UsageRecord("b", 1, 2, 64)


def causes(
    records: list[UsageRecord], offsets: list[int], regions: list[int] | None, sizes: tuple[int, ...], **more: Any
) -> set[Cause]:
    of = None if regions is None else np.array(regions)
    plan = OffsetPlan("hand", {}, np.array(offsets), sum(sizes), optimal=False, regions=of, region_sizes=sizes)
    return {v.cause for v in sweep_plan(Problem(records, alignment=16, **more), plan, BOARD)}


def test_what_lies_in_no_region_of_its_own_lies_in_the_first() -> None:
    assert causes([A, B], [0, 32], None, (96, 0)) == set()
    assert Cause.OUTSIDE_ARENA in causes([A, B], [0, 32], None, (32, 64))
    assert causes([replace(A, regions=(0,)), B], [0, 32], None, (96, 0)) == set()
    assert causes([replace(A, regions=(1,)), B], [0, 32], None, (96, 0)) == {Cause.WRONG_REGION}


def test_each_region_has_an_alignment() -> None:
    assert causes([A, B], [16, 0], [0, 1], (48, 64)) == set()
    assert causes([A, B], [0, 16], [0, 1], (32, 80)) == {Cause.MISALIGNED}
    assert causes([A, replace(B, size=1)], [0, 16], [0, 1], (32, 17)) == {Cause.MISALIGNED}
    # What has no bytes is nowhere.
    empty = UsageRecord("e", 0, 0, 0, regions=(0,))
    assert causes([A, B, empty], [0, 0, 16], [0, 1, 1], (32, 64)) == set()


def test_a_pinned_record_is_in_its_first_region() -> None:
    pinned = [replace(A, offset=0, regions=(0, 1)), B]
    assert causes(pinned, [0, 0], [0, 1], (32, 64)) == set()
    assert causes(pinned, [0, 0], [1, 0], (64, 32)) == {Cause.WRONG_REGION}
    anywhere = [replace(A, offset=0), B]
    assert causes(anywhere, [0, 0], [0, 1], (32, 64)) == set()
    assert causes(anywhere, [0, 0], [1, 0], (64, 32)) == {Cause.WRONG_REGION}
    second = [replace(A, offset=32, regions=(1,)), B]
    assert causes(second, [32, 0], [1, 0], (64, 64)) == set()


def test_as_many_regions_as_records() -> None:
    for regions in ([0], [0, 0, 0]):
        assert causes([A, B], [0, 32], regions, (96,)) == {Cause.WRONG_LENGTH}


def test_a_record_within_another_is_in_its_region() -> None:
    outer, inner = replace(B, first_op=0), A
    problem = Problem([outer, inner], alignment=16, within=[(1, 0, 16)])

    def messages(offset: int, region: int) -> str:
        of = np.array([0, region])
        plan = OffsetPlan("hand", {}, np.array([0, offset]), 96, optimal=False, regions=of, region_sizes=(64, 32))
        return " ".join(v.message for v in sweep_plan(problem, plan) if v.cause is Cause.NOT_WITHIN)

    assert messages(16, 0) == ""
    assert "is not 16 bytes into 'b'" in messages(32, 0)
    assert "'a' is in region 1, but 'b' in 0" in messages(16, 1)


def planned(target: Target, regions: list[int], sizes: tuple[int, ...]) -> PlanSet:
    problem = Problem([A, B], alignment=16)
    plan = OffsetPlan("hand", {}, np.array([0, 0]), sum(sizes), True, regions=np.array(regions), region_sizes=sizes)
    return PlanSet(problem, naive_size(problem), lower_bounds(problem), (plan,), (), target=target)


def test_a_plan_has_no_more_regions_than_its_target() -> None:
    assert edgemem.verify(planned(BOARD, [0, 1], (32, 64))) == ()
    found = edgemem.verify(planned(replace(BOARD, regions=BOARD.regions[:1]), [0, 1], (32, 64)))
    assert {v.cause for v in found} == {Cause.WRONG_REGION}


def test_the_arena_is_all_of_its_regions() -> None:
    right = planned(BOARD, [0, 1], (32, 64))
    (plan,) = right.offsets
    found = edgemem.verify(replace(right, offsets=(replace(plan, size=128, optimal=False),)))
    assert "the regions' arenas add up to 96, not 128" in {v.message for v in found}


def test_what_has_no_bytes_is_in_no_bound_wherever_it_is_pinned() -> None:
    problem = Problem([replace(A, regions=(0,)), B, UsageRecord("e", 0, 0, 0, offset=1024)], alignment=16)
    plan = OffsetPlan("hand", {}, np.array([0, 32, 0]), 96, optimal=True)
    assert edgemem.verify(PlanSet(problem, naive_size(problem), lower_bounds(problem), (plan,), ())) == ()


def test_ranges_that_problem_and_target_reserve_are_joined() -> None:
    problem = Problem([replace(A, size=16)], alignment=16, reserved=[(0, 16)])
    target = Target("board", alignment=16, regions=(Region("sram", None, ((8, 32),)),))
    plan = OffsetPlan("hand", {}, np.array([0]), 16, optimal=False)
    found = edgemem.verify(PlanSet(problem, 16, lower_bounds(problem), (plan,), (), target=target))
    assert "'a' at 0..16 is in the reserved range 0..32" in {v.message for v in found}


def test_what_was_proved_cannot_be_changed() -> None:
    proved = prove(planned(BOARD, [0, 1], (32, 64)))
    plan = proved.planset.offsets[0]
    for column in (plan.offsets, plan.regions):
        assert column is not None
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_the_bound_counts_what_is_pinned_to_its_end_and_no_padding() -> None:
    for records, offsets, sizes in (
        ([replace(A, offset=256, regions=(0,)), replace(B, regions=(0, 1))], [256, 0], (288, 64)),
        ([replace(A, size=33, regions=(0, 1)), replace(B, regions=(0, 1))], [0, 0], (33, 64)),
    ):
        problem = Problem(records, alignment=16)
        bounds = lower_bounds(problem)
        of = np.array([0, 1])
        plan = OffsetPlan("hand", {}, np.array(offsets), sum(sizes), optimal=False, regions=of, region_sizes=sizes)
        plan = replace(plan, optimal=plan.size == bounds.offsets)
        assert edgemem.verify(PlanSet(problem, naive_size(problem), bounds, (plan,), (), target=BOARD)) == ()
