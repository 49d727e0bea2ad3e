"""Pinned offsets and reserved ranges: their normal form, and whether any plan can honour them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from edgemem.records.columns import ProblemColumns

__all__ = ["check_pins", "check_reserved", "widened"]


def widened(ranges: Iterable[tuple[int, int]], alignment: int) -> tuple[tuple[int, int], ...]:
    """Ranges of bytes in whole multiples of the alignment, ascending, none touching another; empty ones left out.

    Raises ModelError for a range that is none.
    """
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if not 0 <= begin <= end:
            raise ModelError(f"{begin}..{end} is no range of bytes: it is negative, or ends before it begins")
        if begin == end:
            continue
        low, high = begin // alignment * alignment, padded(end, alignment)
        if joined and joined[-1][1] >= low:
            low, above = joined.pop()
            high = max(high, above)
        joined.append((low, high))
    return tuple(joined)


def check_pins(problem: ProblemColumns, name: Callable[[int], str]) -> None:
    """Raise ModelError for a pinned record that is not aligned, in a reserved range, or on another in use with it."""
    if problem.pinned is None:
        return
    placed: list[tuple[int, int, int]] = []  # begin, end, record: those alive, disjoint
    ends: list[tuple[int, tuple[int, int, int]]] = []
    pins = np.flatnonzero((problem.pinned >= 0) & (problem.size > 0))
    for i in pins[np.argsort(problem.first_op[pins], kind="stable")].tolist():
        begin, first = int(problem.pinned[i]), int(problem.first_op[i])
        end = begin + int(problem.size[i])
        if begin % problem.alignment:
            raise ModelError(f"record {name(i)!r} is pinned at {begin}, no multiple of {problem.alignment}")
        check_reserved(problem, i, begin, name)
        while ends and ends[0][0] < first:
            del placed[bisect_left(placed, heapq.heappop(ends)[1])]
        at = bisect_left(placed, (begin, end, i))
        for low, high, other in placed[max(at - 1, 0) : at + 1]:
            if low < end and begin < high:
                raise ModelError(
                    f"records {name(other)!r} at {low}..{high} and {name(i)!r} at {begin}..{end} are pinned onto each "
                    "other while both are in use"
                )
        insort(placed, (begin, end, i))
        heapq.heappush(ends, (int(problem.last_op[i]), (begin, end, i)))


def check_reserved(problem: ProblemColumns, index: int, begin: int, name: Callable[[int], str]) -> None:
    """Raise ModelError for a record that is in a reserved range if it begins at `begin`."""
    end = begin + int(problem.size[index])
    k = bisect_left(problem.reserved, end, key=itemgetter(0))
    if k and problem.reserved[k - 1][1] > begin:
        low, high = problem.reserved[k - 1]
        raise ModelError(f"record {name(index)!r}, pinned at {begin}..{end}, is in the reserved range {low}..{high}")
