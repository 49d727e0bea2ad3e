"""Both lower bounds and the naive size, by sweeps over time; for the proof in Python."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from itertools import pairwise
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
    nesting = Nesting(len(sizes), triples(within))
    profile = _Profile(sizes, alignment, pinned, reserved, nesting, _CommonBytes(first, last, sizes, alignment, within))
    pairs: dict[int, dict[tuple[int, int], int]] = {}  # at an operator: the closest distance of an input and a result
    for i, j, distance in triples(overlap):
        if not sizes[i] or not sizes[j]:
            continue
        close = pairs.setdefault(first[j], {})
        close[i, j] = min(distance, close.get((i, j), distance))
    best = profile.highest_end()
    for op, gone, born in events:
        for index in gone:
            profile.remove(index)
        for index in born:
            profile.add(index)
        best = max(best, profile.bound(op, pairs.get(op, {})))
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
    """What is alive, and of it what counts: records inside no other that is alive, and nests for what they take."""

    def __init__(
        self,
        sizes: list[int],
        alignment: int,
        pinned: Column | None,
        reserved: Column | None,
        nesting: Nesting,
        common: _CommonBytes,
    ) -> None:
        count = len(sizes)
        self.sizes = sizes
        self.padded = [_pad(s, alignment) for s in sizes]
        self.common = common
        self.pins = [-1] * count if pinned is None else pinned.tolist()
        self.inside = nesting.inside
        self.alive = [False] * count
        self.covers = [0] * count  # by records alive that hold it
        ends = [] if reserved is None else reserved.tolist()
        self.taken = sorted(zip(ends[::2], ends[1::2], strict=True))  # and the padded bytes of pinned records
        self.ends: list[int] = []  # of pinned records, padded, ascending
        self.nests = _Nests(nesting, sizes, self.padded, self.pins)
        self.free = 0
        self.paddings: list[tuple[int, int]] = []  # negated, and the record; a heap, with some that count no longer

    def highest_end(self) -> int:
        """Of all pinned records."""
        return max(
            (pin + size for pin, size in zip(self.pins, self.sizes, strict=True) if pin >= 0 and size), default=0
        )

    def add(self, index: int) -> None:
        self.alive[index] = True
        self.nests.change(index, 1)
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
        self.nests.change(index, -1)
        for inner in self._held(index):
            self.covers[inner] -= 1
            if self._counts(inner):
                self._enter(inner)

    def bound(self, op: int, pairs: dict[tuple[int, int], int]) -> int:
        """What the arena needs now; `pairs` are those that may overlap at this operator, with their distance."""
        # No byte is in three nests, so that all cover the sum of what each does less what pairs have in common.
        counting = {
            (i, j): distance
            for (i, j), distance in pairs.items()
            if self._counts(i)
            and self._counts(j)
            and min(self.pins[i], self.pins[j]) < 0
            and not self.nests.are_one(i, j)
        }
        need = (
            self.free
            + self.nests.bytes()
            - self.common.most(op, counting, {record for pair in pairs for record in pair})
        )
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

    def _enter(self, index: int) -> None:
        pin, padded = self.pins[index], self.padded[index]
        if pin >= 0:
            insort(self.taken, (pin, pin + padded))
            insort(self.ends, pin + padded)
        else:
            self.free += 0 if index in self.nests.spans else padded
            heapq.heappush(self.paddings, (self.sizes[index] - padded, index))

    def _leave(self, index: int) -> None:
        pin, padded = self.pins[index], self.padded[index]
        if pin >= 0:
            del self.taken[bisect_left(self.taken, (pin, pin + padded))]
            del self.ends[bisect_left(self.ends, pin + padded)]
        else:
            self.free -= 0 if index in self.nests.spans else padded


class _Nests:
    """The bytes that what is alive of each nest takes together, as kernels/proof/nests.h says.

    A tree over the pieces into which the ends of all records cut their nests, one nest after the other.

    Attributes:
        spans: of each record that is in a nest of several without a pin: its pieces, [begin, end).
    """

    def __init__(self, nesting: Nesting, sizes: list[int], padded: list[int], pins: list[int]) -> None:
        place = nesting.places(sizes)
        self.root = nesting.root
        pinned = {self.root[record] for record in place if pins[record] >= 0}
        ends = {
            record: (self.root[record], low, low + padded[record])
            for record, low in place.items()
            if self.root[record] not in pinned
        }
        cuts = sorted({(root, end) for root, *both in ends.values() for end in both})
        piece = {cut: number for number, cut in enumerate(cuts)}
        self.spans = {record: (piece[root, low], piece[root, high]) for record, (root, low, high) in ends.items()}
        self.leaves = 1 << max(0, len(cuts) - 1).bit_length()
        self.width = [0] * (2 * self.leaves)
        for number, ((root, low), (other, high)) in enumerate(pairwise(cuts)):
            self.width[self.leaves + number] = high - low if root == other else 0
        for node in reversed(range(1, self.leaves)):
            self.width[node] = self.width[2 * node] + self.width[2 * node + 1]
        self.covers = [0] * (2 * self.leaves)  # of each node: by records over all of it
        self.taken = [0] * (2 * self.leaves)  # below each node

    def bytes(self) -> int:
        return self.taken[1]

    def are_one(self, a: int, b: int) -> bool:
        return a in self.spans and b in self.spans and self.root[a] == self.root[b]

    def change(self, record: int, times: int) -> None:
        """A record begins (1) or ends (-1)."""
        low, high = self.spans.get(record, (0, 0))
        if low == high:
            return
        low, high = low + self.leaves, high + self.leaves
        above = {low >> k for k in range(1, low.bit_length())} | {high - 1 >> k for k in range(1, high.bit_length())}
        while low < high:
            for node in ([low] if low % 2 else []) + ([high - 1] if high % 2 else []):
                self.covers[node] += times
                self._count(node)
            low, high = (low + 1) // 2, high // 2
        for node in sorted(above - {0}, reverse=True):
            self._count(node)

    def _count(self, node: int) -> None:
        below = self.taken[2 * node] + self.taken[2 * node + 1] if node < self.leaves else 0
        self.taken[node] = self.width[node] if self.covers[node] else below


class _CommonBytes:
    """The most bytes that inputs and results of one operator can have in common (kernels/proof/common_bytes.h)."""

    def __init__(
        self, first: list[int], last: list[int], sizes: list[int], alignment: int, within: Column | None
    ) -> None:
        self.first, self.last = first, last
        self.padded = [_pad(s, alignment) for s in sizes]
        self.alignment = alignment
        self.pieces: dict[int, list[tuple[int, int]]] = {}  # of a container: record and distance
        for inner, outer, delta in triples(within):
            if 0 <= delta <= sizes[outer] - sizes[inner]:
                self.pieces.setdefault(outer, []).append((inner, delta))

    def most(self, op: int, pairs: dict[tuple[int, int], int], mentioned: set[int]) -> int:
        """Padded bytes; `pairs` (input, result) with their distances count, `mentioned` are all that may overlap."""
        if not pairs:
            return 0
        own = {record: self._ranges(record, op, mentioned) for pair in pairs for record in pair}
        upward: dict[int, list[tuple[int, int]]] = {}  # of a result: inputs, and from where on they may take its bytes
        downward: dict[int, list[tuple[int, int]]] = {}  # of an input: results, and how far they reach up in it
        for (i, j), distance in pairs.items():
            step = _pad(distance, self.alignment)
            upward.setdefault(j, []).append((step, i))
            downward.setdefault(i, []).append((self.padded[j] - step, j))
        size = {record: sum(high - low for low, high in ranges) for record, ranges in own.items()}

        def taken(claims: dict[int, list[tuple[int, int]]], *, is_upward: bool) -> int:
            total = 0
            for record, takers in claims.items():
                given = 0
                for limit, taker in sorted(takers, reverse=is_upward):  # the least room first
                    low, high = (limit, self.padded[record]) if is_upward else (0, limit)
                    room = sum(max(0, min(end, high) - max(begin, low)) for begin, end in own[record])
                    given += max(0, min(size[taker], room - given))
                total += given
            return total

        return min(taken(upward, is_upward=True), taken(downward, is_upward=False))

    def _ranges(self, record: int, op: int, mentioned: set[int]) -> list[tuple[int, int]]:
        """The bytes of a record that are in no record alive inside it, unless that may overlap something itself."""
        apart = []
        todo = [(inner, delta) for inner, delta in self.pieces.get(record, ())]
        for inner, begin in todo:  # grows
            if self.first[inner] <= op <= self.last[inner] and inner not in mentioned:
                apart.append((begin, begin + self.padded[inner]))
            todo += [(deeper, begin + delta) for deeper, delta in self.pieces.get(inner, ())]
        ranges, reached = [], 0
        for begin, end in sorted(apart):
            ranges.append((reached, begin))
            reached = max(reached, end)
        ranges.append((reached, self.padded[record]))
        return [(low, high) for low, high in ranges if low < high]


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
