"""Same records, same objects, same offsets as TFLite GPU's memory manager."""

from __future__ import annotations

import pytest

from edgemem.planning import Choice, run
from edgemem.plans import OffsetPlan, SharedObjectsPlan
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds, positional_maxima
from tests.strategies import find
from tests.unit.tflite_gpu_cases import OBJECTS, OFFSETS, POSITIONAL_MAXIMA, ObjectsCase, OffsetsCase, Record


def problem_of(records: tuple[Record, ...], alignment: int = 1) -> Problem:
    return Problem([UsageRecord(str(i), *record) for i, record in enumerate(records)], alignment=alignment)


def test_no_published_assignment_is_missing() -> None:
    assert len(OBJECTS) + len(OFFSETS) == 37


@pytest.mark.parametrize("case", OBJECTS, ids=lambda case: f"{case.name}-{case.strategy}")
def test_objects(case: ObjectsCase) -> None:
    problem = problem_of(case.records)
    plan = run(problem, Choice(find("shared_objects", case.strategy)), lower_bounds(problem))
    assert isinstance(plan, SharedObjectsPlan)
    assert tuple(plan.assignment.tolist()) == case.object_ids
    assert plan.objects == case.object_sizes


@pytest.mark.parametrize("case", OFFSETS, ids=lambda case: case.name)
def test_offsets(case: OffsetsCase) -> None:
    problem = problem_of(case.records, case.alignment)
    plan = run(problem, Choice(find("offsets", "greedy_by_size")), lower_bounds(problem))
    assert isinstance(plan, OffsetPlan)
    assert tuple(plan.offsets.tolist()) == case.offsets
    assert plan.size == case.total


@pytest.mark.parametrize(("records", "maxima"), POSITIONAL_MAXIMA)
def test_positional_maxima(records: tuple[Record, ...], maxima: tuple[int, ...]) -> None:
    assert positional_maxima(problem_of(records)) == maxima
