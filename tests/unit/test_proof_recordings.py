"""Forged plans of recorded streams: a record is a whole request, for as long as it is alive, and has one place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import edgemem
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import OffsetPlan, Settings
from edgemem.proof import Cause
from edgemem.records.problem import Problem
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature

if TYPE_CHECKING:
    from edgemem.plans import PlanSet
    from edgemem.records.problem import UsageRecord

# Requests of 64 (events 0 to 2), 128 (1 to 6), 256 (3 to 5) and 192 bytes (4, never freed); `-k - 1` frees request k.
STREAM = (64, 128, -1, 256, 192, -3, -2)


@pytest.fixture(scope="module")
def honest() -> PlanSet:
    fingerprint = Fingerprint("runtime", "1", "model", {}, Signature("run", (("x", "float", (1, 4)),)))
    return plan_recording(Recording(fingerprint, Trace.from_stream(STREAM)), Settings())


def forged(honest: PlanSet, records: list[UsageRecord]) -> set[Cause]:
    """What is wrong with records end to end, whose claims about themselves are right."""
    problem = Problem(records, alignment=honest.problem.alignment)
    size = -(-problem.size // problem.alignment) * problem.alignment
    offsets = np.cumsum(size) - size
    bounds = lower_bounds(problem)
    end = int((offsets + problem.size).max())
    plan = OffsetPlan("hand", {}, offsets, end, optimal=end == bounds.offsets)
    planset = replace(honest, problem=problem, naive=naive_size(problem), bounds=bounds, offsets=(plan,))
    return {v.cause for v in edgemem.verify(planset)}


def test_records_are_the_requests_of_the_stream(honest: PlanSet) -> None:
    records = list(honest.problem.records)
    assert (records[0].first_op, records[0].size) == (0, 64)
    assert edgemem.verify(honest) == ()
    assert forged(honest, records) == set()
    for k, one in enumerate(records):
        rest = [*records[:k], *records[k + 1 :]]
        assert forged(honest, rest) == set()  # from the heap
        assert forged(honest, [*records, one]) == {Cause.TWO_PLACES}
        assert isinstance(one.size, int)
        assert forged(honest, [*rest, replace(one, size=one.size + 64)]) == set()
        assert forged(honest, [*rest, replace(one, size=one.size - 1)]) == {Cause.RECORD_TOO_SMALL}
        assert forged(honest, [*rest, replace(one, last_op=one.last_op + 1)]) == set()
        assert forged(honest, [*rest, replace(one, last_op=one.last_op - 1)]) == {Cause.WRONG_STEPS}


@pytest.mark.parametrize("event", [2, 5, 6, len(STREAM), 10**6])
def test_a_record_begins_with_a_request(honest: PlanSet, event: int) -> None:
    one = replace(honest.problem.records[0], first_op=event, last_op=event)
    assert forged(honest, [*honest.problem.records[1:], one]) == {Cause.UNKNOWN_TENSOR}


def test_records_of_texels_are_no_requests(honest: PlanSet) -> None:
    problem = Problem([replace(r, size=(8, 8)) for r in honest.problem.records])
    assert Cause.RECORD_TOO_SMALL in {
        v.cause for v in edgemem.verify(replace(honest, problem=problem, offsets=(), bounds=lower_bounds(problem)))
    }


def test_requests_of_a_program_share_no_bytes(honest: PlanSet) -> None:
    """Whatever rows of the problem say: no one knows what the program's kernels read and write."""
    first, second, third = honest.problem.records[:3]
    rest = [replace(second, first_op=first.last_op, last_op=first.last_op), third]
    for rows in ({"overlap": [(0, 1, 0)]}, {"within": [(0, 1, 0)]}):
        problem = Problem([first, *rest], **rows)  # type: ignore[arg-type]
        found = {v.message for v in edgemem.verify(replace(honest, problem=problem)) if v.cause is Cause.NOT_PERMITTED}
        words = (
            f"the plan lets {second.name!r} and {first.name!r} share bytes, and they are requests of a running program"
        )
        assert found == {words}, rows
