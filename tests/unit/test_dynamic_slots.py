"""Slots of dynamic requests: their spaces in the plan, and the room above it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgemem.errors import ModelError
from edgemem.planning import make_plans
from edgemem.planning.choice import choices
from edgemem.trace.cycle import Cycle
from edgemem.trace.dynamic_slots import dynamic_slots
from edgemem.trace.reusable_spaces import reusable_spaces
from edgemem.trace.trace import Section

NO_SECTION = -1


def cycle_of(*rows: tuple[int, int, int, int, int, bool]) -> Cycle:
    """A cycle of rows: bytes, start, end, section, section of the free, whether it is dynamic."""
    columns = [np.array([row[k] for row in rows], np.int64) for k in range(5)]
    size, start, end, section, free_section = columns
    is_dynamic = np.array([row[5] for row in rows], bool)
    names = tuple(Section(f"layer {k}", 0, is_dynamic=True) for k in range(2))
    length = int(max(start.max(), end.max())) + 1
    return Cycle(length, size, start, end, np.zeros(len(rows), np.int64), section, free_section, is_dynamic, names)


# Static requests: 100 bytes from 0 to 10, 50 from 10 to 20, and 50 from 2 to 4. Dynamic ones: in section 0 from 5 to 7
# and in section 1 from 12 to 14.
STATIC = [
    (100, 0, 10, NO_SECTION, NO_SECTION, False),
    (50, 2, 4, NO_SECTION, NO_SECTION, False),
    (50, 11, 20, NO_SECTION, NO_SECTION, False),
]


def test_spaces_are_what_no_static_request_uses_meanwhile() -> None:
    cycle = cycle_of(*STATIC, (30, 5, 7, 0, 0, True), (90, 12, 14, 1, 1, True))
    planset = make_plans(cycle.problem(1)[0], choices("offsets/greedy_by_size"))
    space, spaces = reusable_spaces(cycle, planset)
    assert space.tolist() == [-1, -1, -1, 0, 1]
    assert [one.tolist() for one in spaces] == [[[100, 150]], [[50, 150]]]
    slots = dynamic_slots(cycle, planset)
    assert slots.size == 150  # both fit
    assert slots.space.tolist() == space.tolist()


def test_there_is_room_for_what_does_not_fit() -> None:
    cycle = cycle_of(*STATIC, (70, 5, 7, 0, 0, True), (90, 12, 14, 1, 1, True))
    planset = make_plans(cycle.problem(1)[0], choices("offsets/greedy_by_size"))
    exact = dynamic_slots(cycle, planset, headroom=0)
    assert exact.size == 170
    assert [one.tolist() for one in exact.spaces] == [[[100, 170]], [[50, 170]]]
    assert dynamic_slots(cycle, planset, headroom=0.5).size == 180
    assert dynamic_slots(cycle, planset, headroom=-1).size == 150


def test_dynamic_requests_that_are_alive_together_have_room_beside_each_other() -> None:
    cycle = cycle_of(*STATIC, *((20, 5 + k, 8, 0, 0, True) for k in range(3)))
    planset = make_plans(cycle.problem(1)[0], choices("offsets/greedy_by_size"))
    assert dynamic_slots(cycle, planset, headroom=0).size == 160


def test_without_dynamic_requests_there_is_nothing_to_do() -> None:
    cycle = cycle_of(*STATIC)
    planset = make_plans(cycle.problem(64)[0], choices("offsets/greedy_by_size"))
    assert reusable_spaces(cycle, planset)[1] == ()
    assert dynamic_slots(cycle, planset).size == cycle.slots(planset).size


def test_a_plan_of_another_cycle_is_refused() -> None:
    cycle = cycle_of(*STATIC, (30, 5, 7, 0, 0, True))
    planset = make_plans(replace(cycle, size=cycle.size * 2).problem(1)[0], choices("offsets/greedy_by_size"))
    with pytest.raises(ModelError, match="plan it again"):
        dynamic_slots(cycle, planset)
