"""Memory that holds marks instead of values: which tensors are intact, and what overwrote the others.

Each byte is marked with the tensors whose bytes it holds. Most of the time that is one tensor; a view, a slice inside
its parent and a piece inside its concatenation have bytes in common, because they have the same values there:

    tensors     P------------------)         P was written, and s is a slice of it in its place
                      s------)
    segments    [ P  )[ P,s  )[ P  )         what is written over any byte of `s` overwrites both
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Marks", "Span", "overlaps"]

Span: TypeAlias = tuple[int, int]

# Marks in all segments together. Tensors that lie in each other thousands of times over reach it, and then count as
# overwritten, so that a plan is refused rather than the memory filled.
_MOST_MARKS = 1 << 22


def overlaps(a: Span, b: Span) -> bool:
    """Whether two ranges [low, high) have a byte in common."""
    return a[0] < b[1] and b[0] < a[1]


class Marks:
    """The memory of a plan.

    Attributes:
        span: where each tensor and each workspace lies, [low, high). What is not in it has no memory here.
    """

    def __init__(self, span: Mapping[str, Span]) -> None:
        self.span = span
        self._writes: list[str] = []  # what each write wrote, by its number
        self._intact: dict[str, int] = {}  # tensor -> the number of the write that made it
        self._lows: list[int] = []  # where segments begin; they are disjoint, ascending
        self._segments: dict[int, tuple[int, list[int]]] = {}  # begin -> end, and the numbers of writes that it holds
        self._marks = 0  # in all segments
        self._wiped: dict[str, str] = {}  # tensor -> what overwrote it

    def write(self, name: str, kept: Iterable[Span] = ()) -> None:
        """Put a tensor's mark in its place, and overwrite every tensor that has a byte there.

        Args:
            name: the tensor.
            kept: ranges that already hold the bytes that are written there: what else they hold stays intact.
        """
        low, high = self.span[name]
        if self._marks > _MOST_MARKS:
            kept = ()
        self._intact.pop(name, None)
        at = low
        for begin, end in sorted(kept):
            self._overwrite(at, min(begin, high), name)
            at = max(at, min(end, high))
        self._overwrite(at, high, name)
        self._wiped.pop(name, None)
        number = len(self._writes)
        self._writes.append(name)
        self._intact[name] = number
        self._mark(low, high, number)

    def is_intact(self, name: str) -> bool:
        """Whether the tensor was written, and nothing was written over a byte of it since."""
        return name in self._intact

    def overwriter(self, name: str) -> str:
        """What was written over a tensor; "" if it was never written."""
        return self._wiped.get(name, "")

    def _overwrite(self, low: int, high: int, by: str) -> None:
        """Empty the bytes [low, high), and the rest of the last segment: all that it holds has lost a byte."""
        self._cut(low)
        first, last = bisect_left(self._lows, low), bisect_left(self._lows, high)
        for begin in self._lows[first:last]:
            _, holders = self._segments.pop(begin)
            self._marks -= len(holders)
            for number in holders:
                name = self._writes[number]
                if self._intact.get(name) == number:
                    del self._intact[name]
                    self._wiped[name] = by
        del self._lows[first:last]

    def _mark(self, low: int, high: int, number: int) -> None:
        """Add a write to the bytes [low, high), at whose ends `_overwrite` let segments begin."""
        first, last = bisect_left(self._lows, low), bisect_left(self._lows, high)
        begins: list[int] = []
        at = low
        for begin in self._lows[first:last]:
            if at < begin:
                begins.append(at)
                self._segments[at] = (begin, [number])
            begins.append(begin)
            at, holders = self._segments[begin]
            holders.append(number)
        if at < high:
            begins.append(at)
            self._segments[at] = (high, [number])
        self._marks += len(begins)
        self._lows[first:last] = begins

    def _cut(self, at: int) -> None:
        """Let a segment begin at this byte where one reaches over it."""
        k = bisect_right(self._lows, at) - 1
        if k < 0 or self._lows[k] == at:
            return
        begin = self._lows[k]
        end, holders = self._segments[begin]
        if end <= at:
            return
        holders = self._still(holders)
        self._segments[begin] = (at, holders)
        self._segments[at] = (end, list(holders))
        self._marks += len(holders)
        self._lows.insert(k + 1, at)

    def _still(self, holders: Sequence[int]) -> list[int]:
        """The writes whose tensors are intact."""
        still = [number for number in holders if self._intact.get(self._writes[number]) == number]
        self._marks -= len(holders) - len(still)
        return still
