"""Both lower bounds and the naive size, by sweeps over time; for the proof in Python."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from edgemem.proof.pure_relations import Nesting, check_records, triples

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["recompute_claims"]


def recompute_claims(
    first_op: Column,
    last_op: Column,
    size: Column,
    alignment: int,
    pinned: Column | None = None,
    reserved: Column | None = None,
    overlap: Column | None = None,
    within: Column | None = None,
) -> tuple[int, int, int]:
    """The lower bounds of offsets (see kernels/proof/bounds.h) and of shared objects, and the naive size."""
    check_records(first_op, last_op, size, alignment, overlap, within)
    first, last, sizes = first_op.tolist(), last_op.tolist(), size.tolist()
    events = list(_events(first, last, sizes))
    profile = _Profile(sizes, alignment, pinned, reserved, Nesting(len(sizes), triples(within)))
    pairs: dict[int, dict[tuple[int, int], int]] = {}  # at an operator: the closest distance of an input and a result
    for i, j, distance in triples(overlap):
        close = pairs.setdefault(first[j], {})
        close[i, j] = min(distance, close.get((i, j), distance))
    best = profile.highest_end()
    for op, gone, born in events:
        for index in gone:
            profile.remove(index)
        for index in born:
            profile.add(index)
        best = max(best, profile.bound(pairs.get(op, {})))
    used = [s for s in sizes if s]
    naive = sum(_pad(s, alignment) for s in used[:-1]) + used[-1] if used else 0
    return best, _objects_bound(sizes, events), naive


def _events(first: list[int], last: list[int], sizes: list[int]) -> Iterator[tuple[int, list[int], list[int]]]:
    """(operator, records gone before it, records that begin at it) wherever there are any; of records with a size."""
    births = sorted((i for i, s in enumerate(sizes) if s), key=first.__getitem__)
    deaths = sorted(births, key=last.__getitem__)
    born = dead = 0
    while dead < len(deaths):
        op = last[deaths[dead]] + 1
        if born < len(births):
            op = min(op, first[births[born]])
        was_dead, was_born = dead, born
        while dead < len(deaths) and last[deaths[dead]] < op:
            dead += 1
        while born < len(births) and first[births[born]] == op:
            born += 1
        yield op, deaths[was_dead:dead], births[was_born:born]


class _Profile:
    """What is alive, and of it what counts: records inside no other that is alive."""

    def __init__(
        self, sizes: list[int], alignment: int, pinned: Column | None, reserved: Column | None, nesting: Nesting
    ) -> None:
        count = len(sizes)
        self.sizes = sizes
        self.padded = [_pad(s, alignment) for s in sizes]
        self.alignment = alignment
        self.pins = [-1] * count if pinned is None else pinned.tolist()
        self.inside = nesting.inside
        self.alive = [False] * count
        self.covers = [0] * count  # by records alive that hold it
        ends = [] if reserved is None else reserved.tolist()
        self.taken = sorted(zip(ends[::2], ends[1::2], strict=True))  # and the padded bytes of pinned records
        self.ends: list[int] = []  # of pinned records, padded, ascending
        self.free = 0
        self.paddings: list[tuple[int, int]] = []  # negated, and the record; a heap, with some that count no longer

    def highest_end(self) -> int:
        """Of all pinned records."""
        return max(
            (pin + size for pin, size in zip(self.pins, self.sizes, strict=True) if pin >= 0 and size), default=0
        )

    def add(self, index: int) -> None:
        self.alive[index] = True
        if self._counts(index):
            self._enter(index)
        for inner in self._held(index):
            if self._counts(inner):
                self._leave(inner)
            self.covers[inner] += 1

    def remove(self, index: int) -> None:
        if self._counts(index):
            self._leave(index)
        self.alive[index] = False
        for inner in self._held(index):
            self.covers[inner] -= 1
            if self._counts(inner):
                self._enter(inner)

    def bound(self, pairs: dict[tuple[int, int], int]) -> int:
        """What the arena needs now; `pairs` are those that may overlap at this operator, with their distance."""
        # By Bonferroni's inequality: what the padded sizes cover is no less than their sum less what pairs share.
        need = self.free
        for (i, j), distance in pairs.items():
            if self._counts(i) and self._counts(j) and min(self.pins[i], self.pins[j]) < 0:
                need -= self._most_shared(i, j, distance)
        if need <= 0:
            return 0
        reached = 0
        for low, high in self.taken:
            if low - reached >= need:
                break
            need -= max(0, low - reached)
            reached = max(reached, high)
        if reached + need <= (self.ends[-1] if self.ends else 0):
            return 0
        while not self._counts(self.paddings[0][1]):
            heapq.heappop(self.paddings)
        return reached + need + self.paddings[0][0]

    def _counts(self, index: int) -> bool:
        return self.alive[index] and not self.covers[index]

    def _held(self, index: int) -> Iterator[int]:
        todo = list(self.inside.get(index, ()))
        while todo:
            inner = todo.pop()
            yield inner
            todo += self.inside.get(inner, ())

    def _most_shared(self, i: int, j: int, distance: int) -> int:
        """The most that the padded i and j share where i is a multiple of the alignment >= distance above j."""
        return max(0, min(self.padded[i], self.padded[j] - max(0, _pad(distance, self.alignment))))

    def _enter(self, index: int) -> None:
        pin, padded = self.pins[index], self.padded[index]
        if pin >= 0:
            insort(self.taken, (pin, pin + padded))
            insort(self.ends, pin + padded)
        else:
            self.free += padded
            heapq.heappush(self.paddings, (self.sizes[index] - padded, index))

    def _leave(self, index: int) -> None:
        pin, padded = self.pins[index], self.padded[index]
        if pin >= 0:
            del self.taken[bisect_left(self.taken, (pin, pin + padded))]
            del self.ends[bisect_left(self.ends, pin + padded)]
        else:
            self.free -= padded


def _objects_bound(sizes: list[int], events: list[tuple[int, list[int], list[int]]]) -> int:
    """The sum of the positional maxima."""
    alive: list[int] = []  # sizes, ascending
    maxima: list[int] = []
    for position, (_, gone, born) in enumerate(events):
        for index in gone:
            del alive[bisect_left(alive, sizes[index])]
        for index in born:
            insort(alive, sizes[index])
        if position + 1 == len(events) or events[position + 1][1]:
            # Something ends before anything else begins: only here can a profile be greater than all others.
            maxima += [0] * (len(alive) - len(maxima))
            maxima[: len(alive)] = map(max, maxima, reversed(alive))
    return sum(maxima)


def _pad(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
