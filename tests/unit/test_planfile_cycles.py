"""Plan files of training programs: a cycle comes back with its plan, and one that fits nothing is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from edgemem.errors import PlanFileError
from edgemem.planfile import decode, decode_all, encode, encode_all
from edgemem.planning.cycle_plan import plan_cycles, restored
from edgemem.trace import Section
from edgemem.trace.cycle import Cycle
from tests.periodic import Request, unrolled
from tests.plansets import cycle_columns, cycle_plansets, plain, small

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

# One request wraps around, one is dynamic, one is never freed.
REQUESTS = [Request(100, 0, 5, 0), Request(300, 2, 4, 1), Request(70, 3, -1, 0), Request(50, 6, 8, -1)]
SECTIONS = (Section("layers.0 vorwärts", 2), Section("experts", is_dynamic=True))


def _cycle() -> Cycle:
    return Cycle.of(unrolled(REQUESTS, 7, 0, 5, sections=SECTIONS))


def _planned() -> PlanSet:
    (planset,) = plan_cycles([_cycle()]).plansets
    return planset


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(cycle_plansets())
def test_a_cycle_comes_back_with_its_plan(planset: PlanSet) -> None:
    data = encode(planset)
    back = decode(data)
    assert plain(back) == plain(planset)
    assert encode(back) == data


def test_the_slots_of_a_file_are_those_that_were_planned() -> None:
    made = plan_cycles([_cycle()])
    back = restored(decode_all(encode_all(made.plansets)))
    assert [cycle_columns(c) for c in back.cycles] == [cycle_columns(c) for c in made.cycles]
    assert (back.size, back.lower_bound, back.slots.alignment) == (made.size, made.lower_bound, made.slots.alignment)
    for name in ("bytes", "offset", "other", "lane", "section", "space"):
        assert getattr(back.slots, name).tolist() == getattr(made.slots, name).tolist()
    assert [space.tolist() for space in back.slots.spaces] == [space.tolist() for space in made.slots.spaces]


def test_cycles_of_several_threads_are_in_one_file_beside_a_graphs_plan() -> None:
    cycles = [_cycle(), replace(_cycle(), lane=np.ones(4, np.int64))]
    made = plan_cycles(cycles)
    back = decode_all(encode_all([small(), *made.plansets]))
    assert [p.cycle is None for p in back] == [True, False, False]
    assert plain(decode(encode_all([*made.plansets, small()]))) == plain(small())
    slots = restored(back).slots
    assert slots.lane.tolist() == made.slots.lane.tolist() == [0] * 4 + [1] * 4
    assert slots.offset.tolist() == made.slots.offset.tolist()


def test_a_file_without_cycles_has_no_training_plan() -> None:
    with pytest.raises(PlanFileError, match="no plan of a training program"):
        restored((small(),))


def _column(name: str, index: int, value: int) -> dict[str, Any]:
    column = getattr(_cycle(), name).copy()
    column[index] = value
    return {name: column}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"length": 6}, "not in the order of their events"),
        ({"length": 8}, "the records are not those of the cycle"),
        ({"length": 2**50}, "a period of 1125899906842624 events has 4 requests"),
        ({"length": -1}, "a period of -1 events"),
        (_column("size", 0, 101), "the records are not those of the cycle"),
        (_column("size", 0, 0), "asks for no bytes"),
        (_column("start", 1, 0), "not in the order of their events"),
        (_column("start", 0, -1), "not in the order of their events"),
        (_column("end", 0, 0), "ends before it begins"),
        (_column("end", 0, -2), "ends before it begins"),
        (_column("end", 1, 2**62 + 1), "beyond all time"),
        (_column("end", 0, 3), "the records are not those of the cycle"),
        (_column("lane", 0, -1), "has no lane"),
        (_column("section", 0, 2), "in a section that is none of the 2"),
        (_column("free_section", 0, -2), "in a section that is none of the 2"),
        (_column("is_dynamic", 1, 0), "the records are not those of the cycle"),
        ({"sections": (Section("a", -2), SECTIONS[1])}, "a phase below -1"),
        ({"lane": np.zeros(3, np.int64)}, "columns of the cycle differ in length"),
    ],
)
def test_a_cycle_that_is_none_is_refused_by_reader_and_writer(
    change: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle = _cycle()
    planset = replace(_planned(), cycle=replace(cycle, **change))
    with pytest.raises(PlanFileError, match=says):
        encode(planset)
    with monkeypatch.context() as unchecked:
        unchecked.setattr("edgemem.planfile.encoding.check_plansets", lambda _: None)
        data = encode(planset)
    with pytest.raises(PlanFileError, match=says):
        decode(data)


def test_a_cycle_has_one_offset_plan_and_no_recording() -> None:
    planset = _planned()
    with pytest.raises(PlanFileError, match="the plan of a cycle is not one offset plan"):
        encode(replace(planset, offsets=()))
