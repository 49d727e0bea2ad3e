"""Slots for dynamic requests: their reusable spaces in the plan of the static ones, and room above it.

    bytes  ░░░░░░░░░░░░░░░░░░░░░░░░  room for dynamic requests alone, in all spaces
           ┌────────┐     ┌────────┐
           │ static │░░░░░│ static │  Dynamic Reusable Space
           └────────┘─────└────────┘ ── position

Deviation from STWeaver (§6.2), where the fallback serves what the reusable space does not hold: peaks of static and
dynamic requests coincide in part, and a caching allocator keeps a segment of its own for nearly every size that it has
not seen before. Generated mixtures of experts reserve 2 to 21 % less with the room (tests/bench/training/ablation.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.trace.reusable_spaces import reusable_spaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from edgemem.trace.cycle import Cycle, OffsetPlanned
    from edgemem.trace.slots import Slots

__all__ = ["dynamic_slots"]

_ENDLESS = 1 << 62
_PERIODS = 2  # the second one begins with what the first one has left


def dynamic_slots(cycle: Cycle, planset: OffsetPlanned, *, headroom: float = 0.1) -> Slots:
    """`cycle.slots` of a plan, in which dynamic requests have their reusable space, and room above the static requests.

    There is as much room as best fit needs for the sizes of the cycle, which takes about 30 microseconds a dynamic
    request. The arena is larger than the plan by it: `size` of the slots.

    Args:
        cycle: without dynamic requests the slots are those of `cycle.slots`.
        planset: a plan of `cycle.problem`.
        headroom: how much more room there is than that, as a share of it. A negative number, -1 at least, gives less.

    Raises ModelError if the plan is of another problem, or has no offsets.
    """
    slots = cycle.slots(planset)
    space, spaces = reusable_spaces(cycle, planset)
    if not spaces:
        return slots
    endless = [_with_room(one, slots, _ENDLESS) for one in spaces]
    top = max(_top_of_best_fit(cycle, space, endless, slots.alignment), slots.size)
    size = slots.size + int((top - slots.size) * (1 + headroom)) // slots.alignment * slots.alignment
    return replace(slots, size=size, space=space, spaces=tuple(_with_room(one, slots, size) for one in spaces))


def _with_room(space: NDArray[np.int64], slots: Slots, size: int) -> NDArray[np.int64]:
    """A space that goes on above the static requests, up to so many bytes."""
    begin = -(-slots.size // slots.alignment) * slots.alignment
    if begin >= size:
        return space
    if len(space) and space[-1, 1] == slots.size:
        return np.append(space[:-1], [[space[-1, 0], size]], axis=0)
    return np.append(space, [[begin, size]], axis=0)


def _top_of_best_fit(cycle: Cycle, space: NDArray[np.int64], spaces: list[NDArray[np.int64]], alignment: int) -> int:
    """The end of the highest block if the dynamic requests are served as a loop does: the smallest free interval."""
    lists = [one.tolist() for one in spaces]
    padded = (-(-cycle.size // alignment) * alignment).tolist()
    lows: list[int] = []  # of living blocks, ascending
    highs: list[int] = []
    places: dict[tuple[int, int], int] = {}
    top = 0
    for is_request, request, period in _events(cycle):
        if not is_request:
            at = bisect_left(lows, places.pop((request, period)))
            del lows[at], highs[at]
            continue
        size = padded[request]
        low = min((gap, begin) for begin, gap in _gaps(lists[space[request]], lows, highs) if gap >= size)[1]
        at = bisect_left(lows, low)
        lows.insert(at, low)
        highs.insert(at, low + size)
        places[request, period] = low
        top = max(top, low + size)
    return top


def _gaps(space: list[list[int]], lows: list[int], highs: list[int]) -> Iterator[tuple[int, int]]:
    """Begin and bytes of what is free in a space beside living blocks."""
    for begin, end in space:
        at = bisect_right(lows, begin)
        at -= at > 0 and highs[at - 1] > begin
        free = begin
        while at < len(lows) and lows[at] < end:
            if lows[at] > free:
                yield free, lows[at] - free
            free = max(free, highs[at])
            at += 1
        if end > free:
            yield free, end - free


def _events(cycle: Cycle) -> Iterator[tuple[bool, int, int]]:
    """Requests and frees of dynamic requests in order: whether it is a request, which one, and in which period."""
    rows: list[tuple[int, bool, int, int]] = []
    for request in np.flatnonzero(cycle.is_dynamic).tolist():
        for period in range(_PERIODS):
            begin = period * cycle.length
            rows.append((begin + int(cycle.start[request]), True, request, period))
            if cycle.end[request] >= 0:
                rows.append((begin + int(cycle.end[request]), False, request, period))
    yield from (row[1:] for row in sorted(rows))
