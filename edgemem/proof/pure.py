"""The proof's kernel in Python, for an edgemem that was built without a compiler.

Signatures, results and errors are those of `find_offset_faults`, `find_object_faults` and `recompute_claims` in
`edgemem._kernels`; only the time differs. The order of the faults is told in kernels/proof/offsets.h and objects.h.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from edgemem.proof.faults import Fault
from edgemem.proof.pure_bounds import recompute_claims
from edgemem.proof.pure_relations import Nesting, check_records, triples
from edgemem.proof.violations import MOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Row = tuple[int, ...]
    # Region, first byte, last byte negated, number in the nesting, record: what holds another comes before it.
    Place = tuple[int, int, int, int, int]

__all__ = ["find_object_faults", "find_offset_faults", "recompute_claims"]

_ABSENT = -2


def find_offset_faults(
    first_op: Column,
    last_op: Column,
    size: Column,
    alignment: int,
    offsets: Column,
    arena: Column,
    pinned: Column | None = None,
    reserved: Column | None = None,
    overlap: Column | None = None,
    within: Column | None = None,
    region: Column | None = None,
    reserved_region: Column | None = None,
) -> Column:
    """What is wrong with offsets: rows of 7 numbers, at most 100, flat."""
    check_records(first_op, last_op, size, alignment, overlap, within)
    count = len(size)
    at, sizes, arenas = offsets.tolist(), size.tolist(), arena.tolist()
    regions = [0] * count if region is None else region.tolist()
    pins = [-1] * count if pinned is None else pinned.tolist()
    ends = [] if reserved is None else reserved.tolist()
    numbers = [0] * (len(ends) // 2) if reserved_region is None else reserved_region.tolist()
    ranges = list(zip(numbers, ends[::2], ends[1::2], strict=True))

    def faults() -> Iterator[Row]:
        yield from _places(at, sizes, alignment, arenas, regions)
        yield from _pins(at, sizes, pins, regions, ranges)
        rows = []
        for inner, outer, delta in triples(within):
            if sizes[inner] and not (
                at[inner] == at[outer] + delta
                and 0 <= delta <= sizes[outer] - sizes[inner]
                and regions[inner] == regions[outer]
            ):
                yield Fault.NOT_WITHIN, inner, outer, -1, delta
            else:
                rows.append((inner, outer, delta))
        nesting = Nesting(count, rows)
        places = [
            (number, low, 1 - low - bytes_, nesting.enter[record], record)
            for record, (number, low, bytes_) in enumerate(zip(regions, at, sizes, strict=True))
        ]
        takes_part = [bool(s) and 0 <= r < len(arenas) for s, r in zip(sizes, regions, strict=True)]
        partners = [
            (i, j)
            for i, j, distance in triples(overlap)
            if takes_part[i] and takes_part[j] and at[i] - at[j] >= distance
        ]
        births = [i for i, part in enumerate(takes_part) if part]
        yield from _Sweep(first_op.tolist(), last_op.tolist(), places, nesting, partners).run(births)

    return _table(faults())


def find_object_faults(
    first_op: Column, last_op: Column, extent: Column, assignment: Column, objects: Column
) -> Column:
    """What is wrong with shared objects: rows of 7 numbers, at most 100, flat."""
    first, last = first_op.tolist(), last_op.tolist()

    def faults() -> Iterator[Row]:
        members: list[list[int]] = [[] for _ in range(len(objects))]
        for index, number in enumerate(assignment.tolist()):
            if 0 <= number < len(members):
                members[number].append(index)
            else:
                yield Fault.NO_SUCH_OBJECT, index, -1, -1, number
        rows = extent.tolist()
        for number, (sides, inside) in enumerate(zip(objects.tolist(), members, strict=True)):
            if not inside:
                yield Fault.EMPTY_OBJECT, number
                continue
            needed = [max(column) for column in zip(*(rows[i] for i in inside), strict=True)]
            present = sides[: len(needed)]
            other_rank = len(present) < len(needed) or any(side != _ABSENT for side in sides[len(needed) :])
            if other_rank or any(has < needs for has, needs in zip(present, needed, strict=True)):
                yield Fault.OBJECT_TOO_SMALL, number, -1, -1, *needed
            elif present != needed:
                yield Fault.OBJECT_TOO_LARGE, number, -1, -1, *needed
            inside.sort(key=lambda i: (first[i], i))
            holder = inside[0]
            for index in inside[1:]:
                if first[index] <= last[holder]:
                    yield Fault.OBJECT_SHARED, holder, index, first[index], number
                if last[index] > last[holder]:
                    holder = index

    return _table(faults())


def _table(rows: Iterable[Row]) -> Column:
    """Rows (fault, a, b, op, numbers...) filled up to their full length; -1 for no record or operator."""
    empty = (0, -1, -1, -1, 0, 0, 0)
    return np.array([row + empty[len(row) :] for row in islice(rows, MOST)], np.int64).reshape(-1)


def _places(at: list[int], sizes: list[int], alignment: int, arenas: list[int], regions: list[int]) -> Iterator[Row]:
    highest = [0] * len(arenas)
    for index, (offset, size, region) in enumerate(zip(at, sizes, regions, strict=True)):
        if offset < 0:
            yield Fault.NEGATIVE_OFFSET, index
        if offset % alignment:
            yield Fault.MISALIGNED, index
        if not 0 <= region < len(arenas):
            yield Fault.NO_SUCH_REGION, index, -1, -1, region
            continue
        if offset + size > arenas[region]:
            yield Fault.OUTSIDE_ARENA, index
        if size:
            highest[region] = max(highest[region], offset + size)
    for region, (top, arena) in enumerate(zip(highest, arenas, strict=True)):
        if top < arena:
            yield Fault.ARENA_TOO_LARGE, region, -1, -1, top


def _pins(
    at: list[int], sizes: list[int], pins: list[int], regions: list[int], ranges: list[tuple[int, int, int]]
) -> Iterator[Row]:
    """Records that are not where they are pinned, or in one of the reserved ranges (region, begin, end)."""
    begins = [(region, begin) for region, begin, _ in ranges]
    for index, (offset, size, pin, region) in enumerate(zip(at, sizes, pins, regions, strict=True)):
        if not size:
            continue
        if pin not in (-1, offset):
            yield Fault.NOT_WHERE_PINNED, index
        # The range that begins last up to the record's last byte; those before it end below that range.
        k = bisect_right(begins, (region, offset + size - 1)) - 1
        if k >= 0 and ranges[k][0] == region and ranges[k][2] > offset:
            yield Fault.IN_RESERVED, index, -1, -1, k


class _Sweep:
    """Pairs of records that share bytes while both are alive, without a relation that allows it.

    A record that is found guilty is left out of what follows. So what is alive is disjoint or one inside the other; of
    several that reach over a record's first byte, the one that begins last is the innermost.
    """

    def __init__(
        self,
        first: list[int],
        last: list[int],
        places: list[Place],
        nesting: Nesting,
        partners: list[tuple[int, int]],
    ) -> None:
        self.first, self.last, self.places, self.nesting = first, last, places, nesting
        self.partners: defaultdict[int, set[int]] = defaultdict(set)  # of what is made: inputs that may overlap it
        self.inputs: defaultdict[int, set[int]] = defaultdict(set)  # of each operator
        for i, j in partners:
            self.partners[j].add(i)
            self.inputs[first[j]].add(i)

    def run(self, records: list[int]) -> Iterator[Row]:
        alive: list[Place] = []
        read: list[Place] = []  # inputs of the operator
        ends: list[tuple[int, Place]] = []
        now, parted = -1, False
        order = sorted(records, key=lambda i: (self.first[i], i not in self.inputs.get(self.first[i], ()), i))
        for index in order:
            op, place = self.first[index], self.places[index]
            inputs = self.inputs.get(op, set())
            if op != now:
                now, parted, read = op, False, []
                while ends and ends[0][0] < op:
                    self._remove(alive, heapq.heappop(ends)[1])
            if inputs and index not in inputs and not parted:
                parted = True
                read = [p for p in alive if p[4] in inputs]
                for other in read:
                    self._remove(alive, other)
            found = self._conflict(place, alive, set())
            if found is None and read:
                found = self._conflict(place, read, self.partners.get(index, set()))
            if found is not None:
                yield Fault.OVERLAP, found, index, op
                continue
            insort(alive, place)
            heapq.heappush(ends, (self.last[index], place))

    @staticmethod
    def _remove(alive: list[Place], place: Place) -> None:
        at = bisect_left(alive, place)
        if at < len(alive) and alive[at] == place:
            del alive[at]

    def _conflict(self, place: Place, others: list[Place], allowed: set[int]) -> int | None:
        region, low, top, _, index = place
        begin = at = bisect_left(others, (region, low))
        while at and others[at - 1][0] == region:
            at -= 1
            other = others[at]
            if -other[2] >= low:
                if self.nesting.related(index, other[4]):
                    break
                if other[4] not in allowed:
                    return other[4]
            elif self.nesting.is_flat:
                break  # it would reach over that one too
        for other in islice(others, begin, None):
            if other[0] != region or other[1] > -top:
                break
            if other[4] not in allowed and not self.nesting.related(index, other[4]):
                return other[4]
        return None
