"""STWeaver's Dynamic Reusable Space (Huang et al. 2026, §5.2), byte by byte and position by position."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Event", "Static", "reusable_bytes", "temporal_range"]


@dataclass(frozen=True)
class Event:
    """A request or a free at a position of the period, by a lane in a section."""

    position: int
    lane: int
    section: int


@dataclass(frozen=True)
class Static:
    """An allocation decision d: bytes [a, a + s) at the positions of the period at which it is in use."""

    a: int
    s: int
    positions: frozenset[int]


def temporal_range(events: Sequence[Event], made: Event, freed: Event, lifetime: int, length: int) -> set[int]:
    """T(a, b): from the start of the visit in which a request is made to the end of the one in which it is freed.

    Args:
        events: of the whole period; no two at one position.
        made: where the request is made.
        freed: where it is freed.
        lifetime: positions from the one to the other, `length` more for each period in between.
        length: of the period.
    """
    begin = made.position - _steps_within(events, made, length, -1)
    end = made.position + lifetime + _steps_within(events, freed, length, 1)
    return {position % length for position in range(begin, end + 1)}


def _steps_within(events: Sequence[Event], event: Event, length: int, direction: int) -> int:
    """How far the visit of an event goes from it in one direction; a whole period if it never ends."""
    if event.section < 0:
        return 0 if direction < 0 else -1  # its own start or end, which is the position before its free
    at = {e.position: e for e in events if e.lane == event.lane}
    far = 0
    for steps in count(1):
        if steps == length:
            return length
        other = at.get((event.position + direction * steps) % length)
        if other is not None and other.section != event.section:
            return far
        if other is not None:
            far = steps
    raise AssertionError


def reusable_bytes(static: Sequence[Static], during: set[int]) -> set[int]:
    """Equations 3 to 5."""
    occupied = {byte for d in static if d.positions & during for byte in range(d.a, d.a + d.s)}
    everything = range(min(d.a for d in static), max(d.a + d.s for d in static))
    return set(everything) - occupied
