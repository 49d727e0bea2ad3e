"""What is wrong with a plan, from the definitions: every pair, every operator, every byte range, one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Case", "Sharing", "bounds", "naive", "object_faults", "offset_faults"]


@dataclass
class Case:
    """Records (first_op, last_op, bytes), where a plan puts them, and what it must keep to."""

    records: list[tuple[int, int, int]]
    offsets: list[int]
    alignment: int = 1
    arenas: list[int] = field(default_factory=lambda: [0])
    pins: dict[int, int] = field(default_factory=dict)
    reserved: list[tuple[int, int, int]] = field(default_factory=list)  # region, begin, end
    overlap: list[tuple[int, int, int]] = field(default_factory=list)
    within: list[tuple[int, int, int]] = field(default_factory=list)
    regions: list[int] = field(default_factory=list)  # of each record; empty: all in region 0

    def region(self, i: int) -> int:
        return self.regions[i] if self.regions else 0

    def padded(self, i: int) -> int:
        return -(-self.records[i][2] // self.alignment) * self.alignment

    def meet(self, i: int, j: int) -> bool:
        return max(self.records[i][0], self.records[j][0]) <= min(self.records[i][1], self.records[j][1])

    def share_bytes(self, i: int, j: int) -> bool:
        low = max(self.offsets[i], self.offsets[j])
        return low < min(self.offsets[i] + self.records[i][2], self.offsets[j] + self.records[j][2])

    def holds(self, i: int, j: int, delta: int) -> bool:
        """Whether i lies inside j, as a row of `within` demands."""
        return (
            self.offsets[i] == self.offsets[j] + delta
            and delta >= 0
            and delta + self.records[i][2] <= self.records[j][2]
            and self.region(i) == self.region(j)
        )


def _closure(rows: Sequence[tuple[int, int, int]]) -> set[tuple[int, int]]:
    """(inner, outer) of all chains."""
    pairs = {(i, j) for i, j, _ in rows}
    while True:
        longer = pairs | {(i, k) for i, j in pairs for other, k in pairs if other == j}
        if longer == pairs:
            return pairs
        pairs = longer


def _nests(count: int, rows: Sequence[tuple[int, int, int]]) -> list[dict[int, int]]:
    """All records in sets of those that rows lead between, with their places counted from any one of them."""
    nests: list[dict[int, int]] = []
    for start in range(count):
        if any(start in nest for nest in nests):
            continue
        nest = {start: 0}
        while more := [(i, nest[j] + delta) for i, j, delta in rows if j in nest and i not in nest] + [
            (j, nest[i] - delta) for i, j, delta in rows if i in nest and j not in nest
        ]:
            nest.update(more)
        nests.append(nest)
    return nests


def offset_faults(case: Case) -> tuple[set[tuple[str, int, int]], set[tuple[int, int]]]:
    """All faults but overlaps, as (what, record or region, number); and all pairs (lower, higher index) in conflict."""
    faults: set[tuple[str, int, int]] = set()
    tops = [0] * len(case.arenas)
    for i, ((_, _, size), at) in enumerate(zip(case.records, case.offsets, strict=True)):
        region = case.region(i)
        if at < 0:
            faults.add(("negative offset", i, 0))
        if at % case.alignment:
            faults.add(("misaligned", i, 0))
        if not 0 <= region < len(case.arenas):
            faults.add(("no such region", i, region))
        else:
            if at + size > case.arenas[region]:
                faults.add(("outside arena", i, 0))
            if size:
                tops[region] = max(tops[region], at + size)
        if size and case.pins.get(i, at) != at:
            faults.add(("not where pinned", i, 0))
        hit = [
            k for k, (r, low, high) in enumerate(case.reserved) if r == region and max(low, at) < min(high, at + size)
        ]
        if size and hit:
            faults.add(("in reserved", i, max(hit)))
    faults |= {
        ("arena too large", r, top) for r, (top, size) in enumerate(zip(tops, case.arenas, strict=True)) if top < size
    }
    faults |= {
        ("not within", i, j) for i, j, delta in case.within if case.records[i][2] and not case.holds(i, j, delta)
    }
    nests = _nests(len(case.records), [row for row in case.within if case.holds(*row)])
    conflicts = set()
    for i, j in combinations(range(len(case.records)), 2):
        if case.region(i) != case.region(j) or not 0 <= case.region(i) < len(case.arenas):
            continue
        if not case.meet(i, j) or not case.share_bytes(i, j) or any({i, j} <= nest.keys() for nest in nests):
            continue
        if any({a, b} == {i, j} and case.offsets[a] - case.offsets[b] >= distance for a, b, distance in case.overlap):
            continue
        conflicts.add((i, j))
    return faults, conflicts


def _own_bytes(case: Case, i: int, op: int) -> list[int]:
    """Bytes of i, counted from its begin, that are not in what lies inside it, is alive, and may overlap nothing."""
    fitting = [(a, b, d) for a, b, d in case.within if 0 <= d <= case.records[b][2] - case.records[a][2]]
    places = {i: 0}
    for _ in case.records:
        places |= {a: places[b] + d for a, b, d in fitting if b in places}
    held = set()
    rows = [row for row in case.overlap if case.records[row[1]][0] == op]
    rows = [row for row in rows if case.records[row[0]][2] and case.records[row[1]][2]]
    for k, at in places.items():
        first, last, _ = case.records[k]
        if k != i and first <= op <= last and not any(k in row[:2] for row in rows):
            held |= set(range(at, at + case.padded(k)))
    return [byte for byte in range(case.padded(i)) if byte not in held]


def _most_common(case: Case, op: int, pairs: dict[tuple[int, int], int]) -> int:
    """The most bytes that inputs and results can share: each byte of the one with a byte of the other, as allowed."""
    step = case.alignment
    own = {x: _own_bytes(case, x, op) for pair in pairs for x in pair}
    low = {pair: -(-d // step) * step for pair, d in pairs.items()}
    room = {x: len(found) for x, found in own.items()}

    def by_results(j: int) -> int:
        """Byte b of result j may be in an input from the distance on."""
        return _matching({b: [i for i, other in pairs if other == j and b >= low[i, j]] for b in own[j]}, room)

    def by_inputs(i: int) -> int:
        """Byte b of input i may be in a result below where that ends at the highest."""
        reached = {j: case.padded(j) - low[i, j] for other, j in pairs if other == i}
        return _matching({b: [j for j, end in reached.items() if b < end] for b in own[i]}, room)

    return min(sum(map(by_results, {j for _, j in pairs})), sum(map(by_inputs, {i for i, _ in pairs})))


def _matching(options: dict[int, list[int]], room: dict[int, int]) -> int:
    """How many bytes can be given to one of their options each, of which each takes so many."""
    given: dict[int, list[int]] = {x: [] for x in room}

    def give(byte: int, tried: set[int]) -> bool:
        for x in options[byte]:
            if x in tried:
                continue
            tried.add(x)
            if len(given[x]) < room[x]:
                given[x].append(byte)
                return True
            for k, other in enumerate(given[x]):
                if give(other, tried):
                    given[x][k] = byte
                    return True
        return False

    return sum(give(byte, set()) for byte in options)


def bounds(case: Case) -> tuple[int, int]:
    """The lower bounds of offsets and of shared objects, operator by operator and address by address."""
    offsets = max((pin + case.records[i][2] for i, pin in case.pins.items() if case.records[i][2]), default=0)
    inside = _closure(case.within)
    bad = {i for i, j, delta in case.within if not 0 <= delta <= case.records[j][2] - case.records[i][2]}
    apart = bad | case.pins.keys()
    nests = [n for n in _nests(len(case.records), case.within) if len(n) > 1 and not n.keys() & apart]
    nested = {i for nest in nests for i in nest}
    profiles = []
    for op in range(max((last for _, last, _ in case.records), default=-1) + 1):
        alive = [i for i, (first, last, size) in enumerate(case.records) if first <= op <= last and size]
        profiles.append(sorted((case.records[i][2] for i in alive), reverse=True))
        counted = [i for i in alive if not any((i, j) in inside for j in alive)]
        free = [i for i in counted if i not in case.pins]
        need = sum(case.padded(i) for i in free if i not in nested)
        for nest in nests:
            need += len({at + b for i, at in nest.items() if i in alive for b in range(case.padded(i))})
        pairs = {(i, j): d for i, j, d in sorted(case.overlap, key=lambda row: -row[2]) if case.records[j][0] == op}
        pairs = {(i, j): d for (i, j), d in pairs.items() if {i, j} <= {*counted} and (i in free or j in free)}
        pairs = {pair: d for pair, d in pairs.items() if not any({*pair} <= nest.keys() for nest in nests)}
        need -= _most_common(case, op, pairs)
        taken = [(low, high) for _, low, high in case.reserved]
        pinned = [(case.pins[i], case.pins[i] + case.padded(i)) for i in counted if i in case.pins]
        top = 0
        while need > 0:
            need -= not any(low <= top < high for low, high in taken + pinned)
            top += 1
        if top > max((high for _, high in pinned), default=0):
            offsets = max(offsets, top - max(case.padded(i) - case.records[i][2] for i in free))
    depth = max(map(len, profiles), default=0)
    return offsets, sum(max(p[k] for p in profiles if k < len(p)) for k in range(depth))


def naive(case: Case) -> int:
    end = 0
    for _, _, size in case.records:
        if size:
            end = -(-end // case.alignment) * case.alignment + size
    return end


@dataclass
class Sharing:
    """Records (first_op, last_op, sides), the object of each, and the objects' sides."""

    records: list[tuple[int, int, tuple[int, ...]]]
    assignment: list[int]
    objects: list[tuple[int, ...]]

    @property
    def size(self) -> int:
        return sum(prod(sides) for sides in self.objects)


def object_faults(case: Sharing) -> tuple[set[tuple[str, int]], set[tuple[int, int]]]:
    """All faults but conflicts, as (what, record or object); and all pairs in one object that are alive together."""
    faults = {("no such object", i) for i, k in enumerate(case.assignment) if not 0 <= k < len(case.objects)}
    for k, sides in enumerate(case.objects):
        inside = [r[2] for r, number in zip(case.records, case.assignment, strict=True) if number == k]
        needed = tuple(max(column) for column in zip(*inside, strict=True))
        if not inside:
            faults.add(("empty object", k))
        elif len(sides) != len(needed) or any(has < needs for has, needs in zip(sides, needed, strict=True)):
            faults.add(("object too small", k))
        elif sides != needed:
            faults.add(("object too large", k))
    return faults, set(_shared(case))


def _shared(case: Sharing) -> Iterator[tuple[int, int]]:
    for i, j in combinations(range(len(case.records)), 2):
        a, b = case.records[i], case.records[j]
        exists = 0 <= case.assignment[i] < len(case.objects)
        if exists and case.assignment[i] == case.assignment[j] and max(a[0], b[0]) <= min(a[1], b[1]):
            yield i, j
