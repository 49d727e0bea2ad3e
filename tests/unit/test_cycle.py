"""The steady iteration of a trace: which one is taken, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.errors import ModelError
from edgemem.planning.choice import choices
from edgemem.planning.plan_sets import make_plans
from edgemem.strategy.bounds import lower_bounds
from edgemem.trace import Section, Trace
from edgemem.trace.cycle import Cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.plans import PlanSet

SECTIONS = (Section("layers.0 forward", 0), Section("layers.0 backward", 1), Section("layers.0.experts forward", 0))

# (bytes, or -k - 1 for the free of request k; iteration; section)
Event = tuple[int, int, int]


def _trace(events: Sequence[Event], **columns: list[int]) -> Trace:
    plain = Trace.from_stream([event for event, _, _ in events])
    return Trace.from_columns(
        plain.size,
        plain.request,
        iteration=[iteration for _, iteration, _ in events],
        section=[section for _, _, section in events],
        sections=SECTIONS,
        **columns,
    )


def _iterations(*sizes: tuple[int, ...]) -> list[Event]:
    """One iteration for each tuple: requests in section 0, all freed in section 1 in order."""
    events, made = [], 0
    for number, row in enumerate(sizes):
        events += [(size, number, 0) for size in row]
        events += [(-made - k - 1, number, 1) for k in range(len(row))]
        made += len(row)
    return events


def _planned(cycle: Cycle, alignment: int = 64) -> PlanSet:
    return make_plans(cycle.problem(alignment)[0], choices("offsets/greedy_by_size"))


def test_the_columns_of_a_cycle() -> None:
    cycle = Cycle.of(_trace(_iterations((8, 4), (8, 4), (8, 4))))
    assert cycle.length == 4
    assert (cycle.size.tolist(), cycle.start.tolist(), cycle.end.tolist()) == ([8, 4], [0, 1], [2, 3])
    assert cycle.section.tolist() == [0, 0]
    assert cycle.free_section.tolist() == [1, 1]
    assert cycle.first_phase.tolist() == [0, 0]
    assert cycle.last_phase.tolist() == [1, 1]
    assert len(cycle) == 2
    assert not cycle.is_dynamic.any()


def test_the_last_iterations_that_agree_are_taken() -> None:
    cycle = Cycle.of(_trace(_iterations((1, 2, 3), (8, 4), (8, 4), (8,))))
    assert cycle.size.tolist() == [8, 4]


def test_what_is_freed_after_an_iteration_is_freed_in_the_cycle() -> None:
    events = [(8, 0, -1), (-1, -1, -1), (8, 1, -1), (-2, -1, -1), (8, 2, -1)]
    cycle = Cycle.of(_trace(events))
    assert (cycle.length, cycle.end.tolist()) == (2, [1])


def test_what_is_made_outside_of_iterations_is_left_out() -> None:
    events = [
        *[(100, -1, -1), (8, 0, -1), (-1, 0, -1), (-2, 0, -1), (9, -1, -1)],
        *[(8, 1, -1), (-4, 1, -1), (-3, -1, -1)],
    ]
    cycle = Cycle.of(_trace(events))
    assert (cycle.size.tolist(), cycle.start.tolist(), cycle.end.tolist()) == ([8], [0], [1])


def test_a_pause_within_an_iteration_is_part_of_it() -> None:
    # Each iteration makes a request, pauses, in which another one is made and both are freed, and makes a third.
    events = [
        *[(8, 0, -1), (50, -1, -1), (-1, -1, -1), (-2, -1, -1), (4, 0, -1), (-3, 0, -1)],
        *[(8, 1, -1), (60, -1, -1), (-4, -1, -1), (-5, -1, -1), (4, 1, -1), (-6, 1, -1)],
    ]
    cycle = Cycle.of(_trace(events))
    assert (cycle.size.tolist(), cycle.start.tolist(), cycle.end.tolist()) == ([8, 4], [0, 2], [1, 3])


def test_lanes_are_threads_or_streams() -> None:
    trace = _trace(_iterations((8, 4), (8, 4)), thread=[1, 2, 1, 1] * 2, stream=[0, 7, 0, 0] * 2)
    assert Cycle.of(trace).lane.tolist() == [1, 2]
    assert Cycle.of(trace, by_stream=True).lane.tolist() == [0, 7]
    assert Cycle.of(_trace(_iterations((8,), (8,)), thread=[-1] * 4)).lane.tolist() == [0]


DYNAMIC = [
    *[(8, 0, 0), (100, 0, 2), (-2, 0, 2), (-1, 0, 1)],
    *[(8, 1, 0), (300, 1, 2), (20, 1, 2), (-4, 1, 2), (-5, 1, 2), (-3, 1, 1)],
]


def test_requests_in_dynamic_sections_may_differ() -> None:
    cycle = Cycle.of(_trace(DYNAMIC), dynamic=["*.experts *"])
    assert cycle.size.tolist() == [8, 300, 20]
    assert cycle.is_dynamic.tolist() == [False, True, True]
    assert (cycle.start.tolist(), cycle.end.tolist()) == ([0, 1, 2], [5, 3, 4])
    assert cycle.planned.tolist() == [0]
    assert len(cycle.problem()[0]) == 1
    marked = tuple(replace(s, is_dynamic="experts" in s.name) for s in SECTIONS)
    assert Cycle.of(replace(_trace(DYNAMIC), sections=marked)).is_dynamic.tolist() == [False, True, True]


def test_a_dynamic_request_that_is_freed_in_the_next_iteration() -> None:
    events = [
        *[(8, 0, 0), (100, 0, 2), (-1, 0, 1)],
        *[(-2, 1, 1), (8, 1, 0), (300, 1, 2), (-3, 1, 1)],
        *[(-4, 2, 1), (8, 2, 0), (40, 2, 2), (-5, 2, 1)],
    ]
    cycle = Cycle.of(_trace(events), dynamic=["*.experts *"])
    # The last one is not freed in the trace: it ends as the one of the iteration before.
    assert cycle.size.tolist() == [8, 40]
    assert cycle.end.tolist() == [3, 4]
    assert cycle.free_section.tolist() == [1, 1]
    assert Cycle.of(_trace(events[:7]), dynamic=["*.experts *"]).end.tolist() == [3, 4]
    another = [*events[:6], (20, 1, 2), events[6]]  # the iteration before has no second request in that section
    assert Cycle.of(_trace(another), dynamic=["*.experts *"]).end.tolist() == [4, 5, -1]


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], "needs two iterations that agree, and the trace has 0"),
        (_iterations((8,)), "and the trace has 1; record more"),
        (_iterations((8, 4), (8, 5)), "iteration 0 asks for 4 bytes in 'layers.0 forward' on lane 0 where iteration 1"),
        (_iterations((8,), (8, 5)), "iteration 0 frees its request 0 where iteration 1 asks for 5 bytes in"),
        (DYNAMIC, "asks for 100 bytes in 'layers.0.experts forward' on lane 0 where iteration 1 asks for 300 bytes"),
        ([(8, 0, 0), (8, 1, 0), (-1, 1, 0)], "iteration 0 is over where iteration 1 frees its request 0 of 1 itera"),
    ],
)
def test_iterations_that_differ_are_refused_with_the_place(events: list[Event], says: str) -> None:
    with pytest.raises(ModelError, match=says.replace(".", r"\.")):
        Cycle.of(_trace(events))


def test_frees_of_an_iteration_that_was_another_are_no_cycle() -> None:
    # Two iterations that make nothing and free one request each of the first: they agree, and will not go on.
    events = [(8, 0, -1), (8, 0, -1), (-1, 1, -1), (-2, 2, -1)]
    with pytest.raises(ModelError, match="where iteration"):
        Cycle.of(_trace(events))
    # The request of three iterations before, where now none is made.
    events = [*[(8 + k, k, -1) for k in range(3)], *[(-k, k + 2, -1) for k in range(1, 4)]]
    with pytest.raises(ModelError, match="iteration 5 frees requests of iterations that were others"):
        Cycle.of(_trace(events))


def test_phases_reach_the_problem_unless_the_record_is_pinned() -> None:
    # Request 0 lives into the next iteration, request 1 does not.
    events = [
        *[(8, 0, 0), (4, 0, 0), (-2, 0, 1)],
        *[(-1, 1, 0), (8, 1, 0), (4, 1, 0), (-4, 1, 1)],
        *[(-3, 2, 0), (8, 2, 0), (4, 2, 0), (-6, 2, 1)],
    ]
    cycle = Cycle.of(_trace(events))
    problem, requests = cycle.problem()
    assert problem.phases is not None
    rows = dict(zip(problem.names, problem.phases.tolist(), strict=True))
    assert rows["request 1"] == [0, 1]
    assert requests.tolist()[:2] == [0, 1]


def test_a_plan_without_phases_has_none() -> None:
    assert Cycle.of(_trace([(8, 0, -1), (-1, 0, -1), (8, 1, -1), (-2, 1, -1)])).problem()[0].phases is None


def test_the_bound_of_a_cycle_in_which_nothing_wraps_is_that_of_its_problem() -> None:
    cycle = Cycle.of(_trace(_iterations((8, 70, 100), (8, 70, 100))))
    for alignment in (1, 64, 512):
        assert cycle.lower_bound(alignment) == lower_bounds(cycle.problem(alignment)[0]).offsets


def test_slots_hold_the_offsets_of_the_plan() -> None:
    cycle = Cycle.of(_trace(DYNAMIC), dynamic=["*.experts *"])
    slots = cycle.slots(_planned(cycle))
    assert (slots.size, slots.alignment) == (8, 64)
    assert slots.bytes.tolist() == [8, 300, 20]
    assert slots.offset.tolist() == [0, -1, -1]
    assert slots.section.tolist() == [0, 2, 2]
    assert slots.space.tolist() == [-1, -1, -1]


def test_a_plan_of_another_cycle_is_refused() -> None:
    one, other = (Cycle.of(_trace(_iterations(sizes, sizes))) for sizes in ((8, 4), (8, 5)))
    with pytest.raises(ModelError, match="not of this cycle"):
        one.slots(_planned(other))
    with pytest.raises(ModelError, match="needs an offset plan"):
        one.slots(replace(_planned(one), offsets=()))


def test_a_cycle_without_requests_has_an_empty_plan() -> None:
    events = [(8, 0, 2), (-1, 0, 2), (9, 1, 2), (-2, 1, 2)]
    cycle = Cycle.of(_trace(events), dynamic=["*.experts *"])
    assert len(cycle.problem()[0]) == 0
    assert cycle.lower_bound() == 0
    assert cycle.slots(_planned(cycle)).size == 0


@pytest.mark.full
def test_many_requests_are_a_matter_of_moments() -> None:
    # All live into the next period. Work that grew with the square of the number would not end.
    count = 100_000
    sizes = np.arange(1, count + 1, dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    size = np.concatenate([sizes, zeros, sizes, zeros, sizes])
    request = np.concatenate([np.arange(k * count, (k + 1) * count) for k in (0, 0, 1, 1, 2)])
    iteration = np.repeat([0, 1, 2], [count, 2 * count, 2 * count])
    cycle = Cycle.of(Trace.from_columns(size, request, iteration=iteration))
    assert cycle.length == 2 * count
    assert cycle.lower_bound(1) == count * (count + 1) // 2
