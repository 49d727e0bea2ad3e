"""What a loop of one thread does with a plan, as simply as the header kernels/replay/edgemem_arena.h says it.

It knows bytes one by one, and searches slots from the beginning each time: no code and no data structure is shared
with the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from edgemem.trace.slots import Slots

__all__ = ["LoopModel"]

_WINDOW = 64


class LoopModel:
    """Where the requests of one lane lie, and how they count.

    Attributes:
        counts: of requests by the names of `LoopCounts`.
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.used = np.zeros(slots.size, np.bool_)
        self.counts = dict.fromkeys(
            ("hits", "dynamic_hits", "misses", "occupied", "dynamic_misses", "unplanned", "missed_bytes"), 0
        )
        self.begin()

    def begin(self) -> None:
        """An iteration begins."""
        self.cursor, self.section, self.entered = 0, -1, False
        self.passed: int | None = None

    def enter(self, section: int) -> None:
        """The thread enters a section; the cursor moves with the next request."""
        self.section, self.entered = section, True

    def request(self, size: int) -> int | None:
        """The place of a request in the arena; None: the fallback serves it."""
        slot = self._slot(size)
        if slot is None:
            self._miss("misses", size)
            return None
        slots = self.slots
        if slots.space[slot] >= 0:
            place = self._best_fit(slots.spaces[slots.space[slot]].tolist(), size)
            if place is not None:
                return self._placed("dynamic_hits", place, size)
            self._miss("dynamic_misses", size)
            return None
        if slots.offset[slot] < 0:
            self.counts["unplanned"] += 1
            return None
        for place in (int(slots.offset[slot]), int(slots.other[slot])):
            if place >= 0 and not self.used[place : place + size].any():
                return self._placed("hits", place, size)
        self._miss("occupied", size)
        return None

    def free(self, place: int, size: int) -> None:
        """A block in the arena is freed."""
        self.used[place : place + size] = False

    def _slot(self, size: int) -> int | None:
        sections, sizes, spaces = (
            column.tolist() for column in (self.slots.section, self.slots.bytes, self.slots.space)
        )
        count = len(sizes)

        def is_here(k: int) -> bool:
            return k < count and sections[k] == self.section

        if self.entered and not is_here(self.cursor):
            begins = [k for k in range(count) if is_here(k) and (k == 0 or not is_here(k - 1))]
            if begins:
                self.cursor = ([k for k in begins if k >= self.cursor] or begins)[0]
                self.passed = None
        self.entered = False
        first = self.cursor
        if is_here(first) and (spaces[first] >= 0 or sizes[first] == size):
            self.cursor += 1
            return first
        passed = self.passed
        if passed is not None and is_here(passed) and spaces[passed] < 0 and sizes[passed] == size:
            self.passed = None
            return passed
        if not is_here(first):
            before = first - 1
            return before if before >= 0 and is_here(before) and spaces[before] >= 0 else None
        self.passed = first
        self.cursor += 1
        for k in range(first + 1, first + _WINDOW + 1):
            if not is_here(k):
                break
            if sizes[k] == size and spaces[k] < 0:
                self.cursor = k + 1
                return k
        return first if size < sizes[first] else None

    def _best_fit(self, space: list[list[int]], size: int) -> int | None:
        fits = []
        for begin, end in space:
            gap = None
            for byte in range(begin, end + 1):
                if byte < end and not self.used[byte]:
                    gap = byte if gap is None else gap
                elif gap is not None:
                    place = -(-gap // self.slots.alignment) * self.slots.alignment
                    if place + size <= byte:
                        fits.append((byte - gap, place))
                    gap = None
        return min(fits)[1] if fits else None

    def _placed(self, outcome: str, place: int, size: int) -> int:
        self.counts[outcome] += 1
        self.used[place : place + size] = True
        return place

    def _miss(self, outcome: str, size: int) -> None:
        self.counts[outcome] += 1
        self.counts["missed_bytes"] += size
