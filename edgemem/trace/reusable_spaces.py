"""Where dynamic requests may go in a plan of the static ones (Huang et al. 2026, STWeaver, §5.2).

The size of a dynamic request, such as an expert's of a mixture of experts, is known only when it is made. The section
in which it is made and the one in which it is freed are known before: requests with equal ones are a HomoLayer group.

    bytes  ┌────────┐           ┌──────┐
           │ static │           │static│      T: from the start of the section that makes the request to the end of
           └────────┘           └──────┘         the one that frees it
           ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░      ░: the Dynamic Reusable Space, free of static requests all the time
           ┌─────┐              ┌──────┐
           └─────┘  |--- T ---| └──────┘ ── position (circular)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.trace.cycle import Cycle, OffsetPlanned
    from edgemem.trace.slots import Slots

    Column = NDArray[np.int64]

__all__ = ["reusable_spaces"]


class _Visits(NamedTuple):
    """The visits of lanes to sections: events of one lane and one section with no other event of the lane in between.

    Attributes:
        first: for each event, the position of the first event of its visit; at most the event's own, and below 0 where
            the visit began in the period before.
        last: the position of the last event of its visit; at least the event's own, `length` or more in the next one.
    """

    first: Column
    last: Column


def reusable_spaces(cycle: Cycle, planset: OffsetPlanned) -> tuple[Column, tuple[Column, ...]]:
    """The Dynamic Reusable Space of each dynamic request (equations 2 to 5).

    A section that a lane visits more than once in a period, such as that of a layer in each microbatch, has a temporal
    range for each visit. A request that is made or freed outside of all sections has its own start or end instead.

    Deviation: intervals begin at multiples of the plan's alignment, so that a request can be placed at their beginning;
    what is left of less than that is none.

    Args:
        cycle: with dynamic requests.
        planset: a plan of `cycle.problem`.

    Returns:
        For each request of the cycle the index of its space, -1 for static ones (int64 [n]); and the spaces: ascending,
        disjoint, half-open intervals of bytes of the arena that no static request uses in the temporal range (int64
        [m, 2] each).

    Raises ModelError if the plan is of another problem, or has no offsets.
    """
    slots = cycle.slots(planset)
    dynamic = np.flatnonzero(cycle.is_dynamic)
    space = np.full(len(cycle), -1, np.int64)
    if not len(dynamic):
        return space, ()
    first, last = _ranges(cycle, dynamic)
    groups, numbers = np.unique(np.stack((first, last), axis=1), axis=0, return_inverse=True)
    space[dynamic] = numbers.reshape(-1)
    occupied = _Occupied(cycle, slots)
    return space, tuple(occupied.free_of(int(begin), int(end)) for begin, end in groups.tolist())


def _ranges(cycle: Cycle, requests: Column) -> tuple[Column, Column]:
    """The temporal range of each request, half-open: a start within the period, and an end that may be in a later one.

    At most a period long: that covers all positions.
    """
    length = cycle.length
    frees = np.flatnonzero(cycle.end >= 0)
    # A section belongs to the lane that makes requests in it; a free in a section without requests, to its own request.
    lane_of = dict(zip(cycle.section[::-1].tolist(), cycle.lane[::-1].tolist(), strict=True))
    free_lane = [
        lane_of.get(section, lane)
        for section, lane in zip(cycle.free_section[frees].tolist(), cycle.lane[frees].tolist(), strict=True)
    ]
    visits = _visits(
        np.append(cycle.start, cycle.end[frees] % max(length, 1)),
        np.append(cycle.lane, np.array(free_lane, np.int64)),
        np.append(cycle.section, cycle.free_section[frees]),
        length,
    )
    first, last = cycle.start.copy(), np.maximum(cycle.end, cycle.start)
    first[cycle.section >= 0] = visits.first[: len(cycle)][cycle.section >= 0]
    freed = visits.last[len(cycle) :] + 1 - cycle.end[frees] % max(length, 1) + cycle.end[frees]
    last[frees] = np.where(cycle.free_section[frees] >= 0, freed, cycle.end[frees])
    last[cycle.end < 0] = first[cycle.end < 0] + length
    duration = np.minimum(last - first, length)[requests]
    begin = np.where(duration < length, first[requests] % max(length, 1), 0)
    return begin, begin + duration


def _visits(position: Column, lane: Column, section: Column, length: int) -> _Visits:
    """The visits of events at these positions of the period, in any order."""
    order = np.lexsort((position, lane))
    at, lanes, sections = position[order], lane[order], section[order]
    is_new_lane = np.diff(lanes, prepend=-1) != 0
    lane_begins = np.flatnonzero(is_new_lane)
    lane_sizes = np.diff(np.append(lane_begins, len(order)))
    begins = np.flatnonzero(is_new_lane | (np.diff(sections, prepend=-2) != 0))
    visit = np.cumsum(is_new_lane | (np.diff(sections, prepend=-2) != 0)) - 1
    ends = np.append(begins[1:], len(order)) - 1
    first, last = at[begins], at[ends]
    # The last visit of a lane goes on in its first one, if they are to one section: the period is a circle. A lane with
    # one section alone never leaves it.
    opening = visit[lane_begins]
    closing = visit[lane_begins + lane_sizes - 1]
    meets = sections[lane_begins] == sections[lane_begins + lane_sizes - 1]
    opening, closing = opening[meets], closing[meets]
    first[opening], last[closing] = first[closing] - length, last[opening] + length
    found = _Visits(np.empty_like(position), np.empty_like(position))
    found.first[order], found.last[order] = first[visit], last[visit]
    return found


class _Occupied:
    """The places of static requests by address, and which of them are in use at which positions."""

    def __init__(self, cycle: Cycle, slots: Slots) -> None:
        self._length = cycle.length
        self._alignment = slots.alignment
        placed = np.flatnonzero(slots.offset >= 0)
        second = placed[slots.other[placed] >= 0]
        low = np.append(slots.offset[placed], slots.other[second])
        high = low + np.append(slots.bytes[placed], slots.bytes[second])
        # A request with two places has requests of successive periods in them by turns, all the time.
        is_always = slots.other[placed] >= 0
        start = np.append(np.where(is_always, 0, cycle.start[placed]), np.zeros(len(second), np.int64))
        end = np.append(np.where(is_always, cycle.length, cycle.end[placed]), np.full(len(second), cycle.length))
        order = np.argsort(low, kind="stable")
        self._low, self._high, self._start, self._end = (column[order] for column in (low, high, start, end))

    def free_of(self, begin: int, end: int) -> Column:
        """The bytes between the lowest and the highest place that are never in use from `begin` to `end`, half-open."""
        if not len(self._low):
            return np.zeros((0, 2), np.int64)
        length = self._length
        uses = (self._start < end) & (self._end > begin)
        uses |= (self._end > begin + length) | (self._start < end - length)
        low, high = self._low[uses], self._high[uses]
        reached = np.append(self._low[0], np.maximum.accumulate(high)) if len(high) else self._low[:1]
        starts = -(-reached // self._alignment) * self._alignment
        ends = np.append(low, self._high.max())
        free = ends > starts
        return np.stack((starts[free], ends[free]), axis=1)
