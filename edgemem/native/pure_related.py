"""The lower bound of related records, in Python: `related_lower_bound` of the kernels.

Why it holds is said in kernels/planner/offsets/related/bound.h and shares.h.
"""

from __future__ import annotations

import heapq
from bisect import insort
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from edgemem.native.nest_cover import NestCover
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["related_lower_bound"]

Column: TypeAlias = "NDArray[np.int64]"
Row: TypeAlias = tuple[int, int, int]
Stretch: TypeAlias = tuple[int, int, int]  # first operator, record, last operator


def related_lower_bound(
    first_op: Column,
    last_op: Column,
    size: Column,
    alignment: int,
    pinned: Column | None = None,
    reserved: Column | None = None,
    overlap: Column | None = None,
    within: Column | None = None,
) -> int:
    """What no offset plan of records with relations can go below, in bytes.

    At each operator the lowest address below which the free records find room beside the pinned ones and the reserved
    ranges, less the largest padding if that is above all pinned ones; and the end of every pinned record.
    """
    first, last, sizes = first_op.tolist(), last_op.tolist(), size.tolist()
    takes: list[int] = padded(size, alignment).tolist()
    pins = [-1] * len(sizes) if pinned is None else pinned.tolist()
    best = max((pin + size for pin, size in zip(pins, sizes, strict=True) if pin >= 0 and size), default=0)
    nests = NestCover(_rows(within), takes, pins)
    shares = _Shares(first, last, takes, _rows(within))
    pairs: dict[int, list[Row]] = {}
    for i, j, distance in _rows(overlap):
        if sizes[i] and sizes[j]:
            pairs.setdefault(first[j], []).append((i, j, padded(distance, alignment)))
    stretches = sorted(_stretches(first, last, sizes, _rows(within)))
    flat = [] if reserved is None else reserved.tolist()
    taken = sorted(zip(flat[::2], flat[1::2], strict=True))  # and what pinned records take
    counting: set[int] = set()
    ends: list[tuple[int, int]] = []  # last operator and record, of what counts
    paddings: list[tuple[int, int]] = []  # of free records, the greatest first, with the last operator
    free = k = 0
    for op in sorted({begin for begin, _, _ in stretches} | {end + 1 for _, _, end in stretches}):
        while ends and ends[0][0] < op:
            i = heapq.heappop(ends)[1]
            counting.discard(i)
            if pins[i] >= 0:
                taken.remove((pins[i], pins[i] + takes[i]))
            elif i in nests:
                nests.leave(i)
            else:
                free -= takes[i]
        while k < len(stretches) and stretches[k][0] == op:
            _, i, end = stretches[k]
            counting.add(i)
            heapq.heappush(ends, (end, i))
            if pins[i] >= 0:
                insort(taken, (pins[i], pins[i] + takes[i]))
            else:
                if i in nests:
                    nests.enter(i)
                else:
                    free += takes[i]
                heapq.heappush(paddings, (sizes[i] - takes[i], end))
            k += 1
        while paddings and paddings[0][1] < op:
            heapq.heappop(paddings)
        here = [(i, j, d) for i, j, d in pairs.get(op, ()) if {i, j} <= counting and min(pins[i], pins[j]) < 0]
        here = [(i, j, d) for i, j, d in here if not nests.are_one(i, j)]
        need = max(0, free + nests.bytes - shares.most(op, here, {x for i, j, _ in pairs.get(op, ()) for x in (i, j)}))
        top = _room_for(need, taken)
        highest = max((pins[i] + takes[i] for i in counting if pins[i] >= 0), default=0)
        if need and top > highest:
            best = max(best, top + paddings[0][0])
    return best


def _rows(column: Column | None) -> list[Row]:
    return [] if column is None else [(i, j, number) for i, j, number in column.reshape(-1, 3).tolist()]


def _stretches(first: list[int], last: list[int], sizes: list[int], within: Iterable[Row]) -> Iterable[Stretch]:
    """Operators at which a record counts: alive, and nothing is alive that it lies within. At most two a record.

    What it lies within, and what that lies within, is alive in one interval without gaps:

        outer            [--------]
        container   [------]
        record          [------------------]
        counts                     [-------]

    because a record and its container are alive together at some operator.
    """
    outer = {i: j for i, j, _ in within}
    for i, size in enumerate(sizes):
        around = []
        at = i
        while at in outer:
            at = outer[at]
            around.append(at)
        low = min((first[at] for at in around), default=last[i] + 1)
        high = max((last[at] for at in around), default=last[i])
        for begin, end in ((first[i], min(last[i], low - 1)), (max(first[i], high + 1), last[i])):
            if size and begin <= end:
                yield begin, i, end


def _room_for(need: int, taken: list[tuple[int, int]]) -> int:
    """The lowest address below which so many bytes are free of what is taken; the ranges ascend, and may overlap."""
    reached = 0
    for low, high in taken:
        if low - reached >= need:
            break
        need -= max(0, low - reached)
        reached = max(reached, high)
    return reached + need


class _Shares:
    """How many bytes the results of an operator can have in common with the inputs that die in it."""

    def __init__(self, first: list[int], last: list[int], takes: list[int], within: Iterable[Row]) -> None:
        self._first, self._last, self._takes = first, last, takes
        self._inside: dict[int, list[tuple[int, int]]] = {}
        for i, j, delta in within:
            self._inside.setdefault(j, []).append((i, delta))

    def most(self, op: int, rows: list[Row], mentioned: set[int]) -> int:
        """Padded bytes; `rows` are overlaps of the operator, each once, `mentioned` all records in one."""
        if not rows:
            return 0
        holes = {record: self._holes(record, op, mentioned) for i, j, _ in rows for record in (i, j)}
        of_results: dict[int, list[tuple[int, int]]] = {}
        of_inputs: dict[int, list[tuple[int, int]]] = {}
        for i, j, distance in rows:
            of_results.setdefault(j, []).append((distance, i))
            # Of an input, counted from its end.
            of_inputs.setdefault(i, []).append((self._takes[i] - self._takes[j] + distance, j))
        by_results = sum(self._share(j, others, holes, from_end=False) for j, others in of_results.items())
        by_inputs = sum(self._share(i, others, holes, from_end=True) for i, others in of_inputs.items())
        return min(by_results, by_inputs)

    def _share(
        self,
        record: int,
        others: list[tuple[int, int]],
        holes: Mapping[int, list[tuple[int, int]]],
        *,
        from_end: bool,
    ) -> int:
        """The bytes from x on, and all bytes of the others that may begin below x, for the best x."""
        size = self._takes[record]

        def beyond(x: int) -> int:
            low, high = (0, size - x) if from_end else (x, size)
            return _without(holes[record], low, high)

        reaches = [(min(size, max(0, reach)), _without(holes[i], 0, self._takes[i])) for reach, i in others]
        return min(beyond(x) + sum(bytes_ for reach, bytes_ in reaches if reach < x) for x in {0, size, *dict(reaches)})

    def _holes(self, record: int, op: int, mentioned: set[int]) -> list[tuple[int, int]]:
        """Ranges of a record that others inside it hold, which are alive and in no overlap here; disjoint."""
        found = []
        todo = list(self._inside.get(record, ()))
        for inner, depth in todo:  # grows
            if self._first[inner] <= op <= self._last[inner] and inner not in mentioned:
                found.append((depth, min(self._takes[record], depth + self._takes[inner])))
            todo += [(deeper, depth + delta) for deeper, delta in self._inside.get(inner, ())]
        cuts = sorted({end for hole in found for end in hole})
        return [(low, high) for low, high in pairwise(cuts) if any(a <= low and high <= b for a, b in found)]


def _without(holes: list[tuple[int, int]], low: int, high: int) -> int:
    """The bytes of a range that are in no hole."""
    return max(0, high - low) - sum(max(0, min(b, high) - max(a, low)) for a, b in holes)
