"""Plans of one period hold for all periods: checked by running several of them, request by request."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemem.planning.choice import choices
from edgemem.planning.plan_sets import make_plans
from edgemem.trace.cycle import Cycle
from tests.periodic import Request, periodic_programs, unrolled

if TYPE_CHECKING:
    from edgemem.trace.slots import Slots

Program = tuple[list[Request], int, int]

# What lives for longer than a period has two places; what wraps has one.
LONG: Program = ([Request(100, 1, 9), Request(50, 3, 7), Request(70, 4, -1), Request(30, 5, 6)], 7, 0)


def _alive(program: Program, at: int, periods: int) -> list[tuple[int, int]]:
    """(period, request) of what is alive during an event, counted from the first period on; not what is never freed."""
    requests, length, _ = program
    return [
        (period, k)
        for period in range(periods)
        for k, one in enumerate(requests)
        if 0 <= one.end < one.start + 2 * length and one.start <= at - period * length < one.end
    ]


def _place(slots: Slots, period: int, request: int) -> int:
    """Requests that have two places take them by turns."""
    if slots.other[request] >= 0 and period % 2:
        return int(slots.other[request])
    return int(slots.offset[request])


@pytest.mark.full
@given(periodic_programs())
@example(LONG)
def test_the_cycle_of_a_program_is_the_program(program: Program) -> None:
    requests, length, after = program
    cycle = Cycle.of(unrolled(requests, length, after, 5))
    assert cycle.length == length
    assert cycle.size.tolist() == [r.size for r in requests]
    assert cycle.start.tolist() == [r.start for r in requests]
    assert cycle.end.tolist() == [r.end for r in requests]


@given(periodic_programs(), st.integers(0, 30))
def test_what_follows_the_last_iteration_may_be_missing(program: Program, kept: int) -> None:
    requests, length, after = program
    whole = unrolled(requests, length, after, 6)
    part = whole.events[: len(whole) - min(kept, after)]
    cut = type(whole).from_columns(
        whole.size[: len(part)], whole.request[: len(part)], iteration=whole.iteration[: len(part)]
    )
    assert Cycle.of(cut).end.tolist() == [r.end for r in requests]


@pytest.mark.full
@given(periodic_programs(), st.sampled_from([1, 16, 64]))
@example(LONG, 64)
def test_no_two_requests_alive_together_overlap_in_any_of_four_periods(program: Program, alignment: int) -> None:
    requests, length, after = program
    cycle = Cycle.of(unrolled(requests, length, after, 5))
    problem, _ = cycle.problem(alignment)
    slots = cycle.slots(make_plans(problem, choices("offsets/greedy_by_size")))
    for at in range(4 * length):
        begins = sorted((_place(slots, p, k), requests[k].size) for p, k in _alive(program, at, 4))
        assert all(begin % alignment == 0 and 0 <= begin <= slots.size - size for begin, size in begins)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(begins))
    unplanned = [not 0 <= r.end < r.start + 2 * length for r in requests]
    assert (slots.offset == -1).tolist() == unplanned


@pytest.mark.full
@given(periodic_programs(), st.sampled_from([1, 16, 64]))
@example(LONG, 64)
def test_the_bound_is_the_most_that_is_alive_when_it_runs(program: Program, alignment: int) -> None:
    requests, length, after = program
    cycle = Cycle.of(unrolled(requests, length, after, 5))
    most = 0
    for at in range(2 * length, 3 * length):
        sizes = [requests[k].size for _, k in _alive(program, at, 3)]
        padding = [-size % alignment for size in sizes]
        most = max(most, sum(sizes) + sum(padding) - max(padding, default=0))
    assert cycle.lower_bound(alignment) == most


@given(periodic_programs())
@example(LONG)
def test_the_circle_is_cut_where_the_fewest_bytes_are_alive(program: Program) -> None:
    requests, length, after = program
    cycle = Cycle.of(unrolled(requests, length, after, 5))
    problem, _ = cycle.problem(alignment=1)
    crossing = [
        sum(requests[k].size for p, k in set(_alive(program, at - 1, 4)) & set(_alive(program, at, 4)))
        for at in range(2 * length, 3 * length)
    ]
    whole = [k for k, r in enumerate(requests) if length < r.end - r.start < 2 * length]
    pins = [] if problem.pinned is None else zip(problem.pinned.tolist(), problem.size.tolist(), strict=True)
    places = {place: size for place, size in pins if place >= 0}
    # Requests that live longer than a period have a second place all the time.
    room = sum(places.values())
    assert min(crossing) <= room <= min(crossing) + sum(requests[k].size for k in whole)
    assert whole or room == min(crossing)


@pytest.mark.parametrize("alignment", [1, 64])
def test_places_of_a_request_that_lives_longer_than_a_period(alignment: int) -> None:
    requests, length, after = LONG
    cycle = Cycle.of(unrolled(requests, length, after, 4))
    problem, of = cycle.problem(alignment)
    slots = cycle.slots(make_plans(problem, choices("offsets/greedy_by_size")))
    assert of.tolist().count(0) == 2
    assert abs(int(slots.offset[0]) - int(slots.other[0])) >= 100
    assert slots.other.tolist()[1:] == [-1, -1, -1]
