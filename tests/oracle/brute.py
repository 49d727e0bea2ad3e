"""What is wrong with a plan, pair by pair, and the exact optimum of both problems by trying everything."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from tests.oracle.bounds import Extent, Record, TexelRecord, align_up, elements, offsets_bound, shared_objects_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "assignment_faults",
    "assignment_size",
    "offsets_faults",
    "offsets_optimum",
    "offsets_size",
    "shared_objects_optimum",
]


def _conflict(a: Record | TexelRecord, b: Record | TexelRecord) -> bool:
    return max(a[0], b[0]) <= min(a[1], b[1])


def offsets_faults(records: Sequence[Record], alignment: int, offsets: Sequence[int]) -> list[str]:
    """Everything wrong with a placement, in words; empty when it is sound."""
    if len(offsets) != len(records):
        return [f"{len(offsets)} offsets for {len(records)} records"]
    faults = [f"record {i} lies at {at}" for i, at in enumerate(offsets) if at < 0 or at % alignment]
    for i, j in combinations(range(len(records)), 2):
        lower, upper = max(offsets[i], offsets[j]), min(offsets[i] + records[i][2], offsets[j] + records[j][2])
        if lower < upper and _conflict(records[i], records[j]):
            faults.append(f"records {i} and {j} share bytes {lower} to {upper}")
    return faults


def offsets_size(records: Sequence[Record], offsets: Sequence[int]) -> int:
    return max((at + size for (_, _, size), at in zip(records, offsets, strict=True) if size), default=0)


def assignment_faults(records: Sequence[Record | TexelRecord], assignment: Sequence[int]) -> list[str]:
    """Everything wrong with an assignment to shared objects, in words; empty when it is sound."""
    if len(assignment) != len(records):
        return [f"{len(assignment)} objects for {len(records)} records"]
    faults = []
    if sorted(set(assignment)) != list(range(len(set(assignment)))):
        faults.append(f"objects are numbered {sorted(set(assignment))}")
    for i, j in combinations(range(len(records)), 2):
        if assignment[i] == assignment[j] and _conflict(records[i], records[j]):
            faults.append(f"records {i} and {j} hold object {assignment[i]} at once")
    return faults


def assignment_size(records: Sequence[Record | TexelRecord], assignment: Sequence[int]) -> int:
    """Total of the objects: the largest member each, dimension by dimension for extents."""
    objects: dict[int, int | Extent] = {}
    for (_, _, size), obj in zip(records, assignment, strict=True):
        objects[obj] = _cover(objects[obj], size) if obj in objects else size
    return sum(elements(size) for size in objects.values())


def _cover(a: int | Extent, b: int | Extent) -> int | Extent:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    assert isinstance(a, tuple)
    assert isinstance(b, tuple)
    return tuple(map(max, a, b))


def offsets_optimum(records: Sequence[Record], alignment: int = 1) -> int:
    """The smallest arena there is, for up to about 7 records.

    Placing records one by one, each as low as it goes, reaches an optimum for some order: the order of an optimum's
    own offsets, in which no record ends up higher than it lies there.
    """
    bound = offsets_bound(records, alignment)
    best = sum(align_up(size, alignment) for _, _, size in records)

    def place(left: list[int], placed: list[tuple[int, int]], top: int) -> None:
        nonlocal best
        if top >= best:
            return
        if not left:
            best = top
            return
        for t in left:
            spans = sorted(
                (at, align_up(at + records[x][2], alignment)) for x, at in placed if _conflict(records[x], records[t])
            )
            offset = 0
            for start, end in spans:
                if start - offset >= records[t][2]:
                    break
                offset = max(offset, end)
            place([x for x in left if x != t], [*placed, (t, offset)], max(top, offset + records[t][2]))
            if best == bound:
                return

    place([t for t, (_, _, size) in enumerate(records) if size], [], 0)
    return best


def shared_objects_optimum(records: Sequence[Record | TexelRecord]) -> int:
    """The smallest total of shared objects there is, over all partitions, for up to about 8 records."""
    bound = shared_objects_bound([(first, last, elements(size)) for first, last, size in records])
    best = sum(elements(size) for _, _, size in records)

    def put(t: int, objects: list[tuple[list[int], int | Extent]]) -> None:
        nonlocal best
        total = sum(elements(size) for _, size in objects)
        if total >= best or best == bound:
            return
        if t == len(records):
            best = total
            return
        size = records[t][2]
        for k, (members, held) in enumerate(objects):
            if not any(_conflict(records[x], records[t]) for x in members):
                put(t + 1, [*objects[:k], ([*members, t], _cover(held, size)), *objects[k + 1 :]])
        put(t + 1, [*objects, ([t], size)])

    put(0, [])
    return best
