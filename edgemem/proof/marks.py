"""Memory that holds marks instead of values: which tensors are intact, and what overwrote the others."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Marks", "Span", "overlaps"]

Span: TypeAlias = tuple[int, int]


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
        self._intact: set[str] = set()
        self._taken: list[Span] = []  # spans of what is intact: disjoint, ascending
        self._holders: dict[Span, dict[str, None]] = {}  # span -> the tensors in it, more than one for views
        self._wiped: dict[str, str] = {}  # tensor -> what overwrote it

    def write(self, name: str, *, view: bool = False) -> None:
        """Put a tensor's mark in its place; all marks that it meets there are gone, but for a view those beside it."""
        low, high = span = self.span[name]
        at = bisect_left(self._taken, (low, low))
        at -= at > 0 and self._taken[at - 1][1] > low
        while at < len(self._taken) and self._taken[at][0] < high:
            if view and self._taken[at] == span:
                at += 1
                continue
            for other in self._holders.pop(self._taken.pop(at)):
                self._intact.discard(other)
                self._wiped[other] = name
        self._intact.add(name)
        self._wiped.pop(name, None)
        if span not in self._holders:
            insort(self._taken, span)
        self._holders.setdefault(span, {})[name] = None

    def is_intact(self, name: str) -> bool:
        """Whether the tensor was written, and nothing was written over it since."""
        return name in self._intact

    def overwriter(self, name: str) -> str:
        """What was written over a tensor; "" if it was never written."""
        return self._wiped.get(name, "")
