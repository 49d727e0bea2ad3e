"""The offset strategies, written as their papers put them.

Pisarchyk & Lee 2020 §5 (alignment as TFLite GPU applies it: what follows a record starts at its padded end), Sekiyama
et al. 2018 §3.2, and Steiner et al. 2022 (OLLA) §4.5. A record of size 0 stays at offset 0 and occupies nothing.
"""

from __future__ import annotations

from bisect import insort_right
from math import inf
from typing import TYPE_CHECKING

from tests.oracle.bounds import Record, align_up, change_points, profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["greedy_by_breadth", "greedy_by_size", "greedy_in_order", "naive", "pyramid", "strip_packing"]


def naive(records: Sequence[Record], alignment: int = 1) -> list[int]:
    """Every record after the one before it."""
    offsets = []
    end = 0
    for _, _, size in records:
        if size == 0:
            offsets.append(0)
            continue
        offsets.append(align_up(end, alignment))
        end = offsets[-1] + size
    return offsets


def greedy_by_size(records: Sequence[Record], alignment: int = 1) -> list[int]:
    """§5.2, Algorithm 3. Ties: the earlier record."""
    return _smallest_gap(records, alignment, sorted(range(len(records)), key=lambda t: (-records[t][2], t)))


def greedy_by_breadth(records: Sequence[Record], alignment: int = 1, *, op_ties: str = "low_first") -> list[int]:
    """§5.3. Operators by breadth, then by index as `op_ties` says; in a profile the larger, then the earlier record."""
    return _smallest_gap(records, alignment, by_breadth(records, op_ties, "low_first"))


def greedy_in_order(records: Sequence[Record], alignment: int = 1) -> list[int]:
    """Lee et al. 2019: in order of execution, into the smallest gap. Ties: the earlier record."""
    return _smallest_gap(records, alignment, sorted(range(len(records)), key=lambda t: (records[t][0], t)))


def by_breadth(records: Sequence[Record], op_ties: str, tensor_ties: str) -> list[int]:
    """The records in the order in which Greedy by Breadth meets them first."""
    op_sign = {"low_first": 1, "high_first": -1}[op_ties]
    tensor_sign = {"low_first": 1, "high_first": -1}[tensor_ties]
    alive = {op: profile(records, op) for op in change_points(records)}
    breadth = {op: sum(records[t][2] for t in alive[op]) for op in alive}
    order: list[int] = []
    assigned: set[int] = set()
    for op in sorted(alive, key=lambda op: (-breadth[op], op_sign * op)):
        for t in sorted(alive[op], key=lambda t: (-records[t][2], tensor_sign * t)):
            if t not in assigned:
                assigned.add(t)
                order.append(t)
    return order


def pyramid(records: Sequence[Record], alignment: int = 1) -> list[int]:
    """§4.5, Function 5, and Algorithm 3 of Pisarchyk & Lee for the other records, by size."""
    return _smallest_gap(
        records,
        alignment,
        sorted(range(len(records)), key=lambda t: (-records[t][2], t)),
        pre_allocate_addresses(records, alignment),
    )


def pre_allocate_addresses(records: Sequence[Record], alignment: int) -> dict[int, int]:
    """Function 5, with the interval of the chosen tensor for the next step's. An empty tensor has no address."""
    addresses: dict[int, int] = {}
    min_start, max_end, base_address = 0.0, inf, 0
    processed = set()
    while max_end > min_start:
        max_duration, next_step = 0, None
        for e, (first_use, last_use, size) in enumerate(records):
            if first_use < min_start or last_use > max_end or e in processed or size == 0:
                continue
            duration = last_use - first_use
            if duration > max_duration:
                max_duration, next_step = duration, e
        if next_step is None:
            break
        addresses[next_step] = base_address
        base_address = align_up(base_address + records[next_step][2], alignment)
        min_start, max_end, _ = records[next_step]
        processed.add(next_step)
    return addresses


def _smallest_gap(
    records: Sequence[Record], alignment: int, order: Iterable[int], addresses: Mapping[int, int] | None = None
) -> list[int]:
    """Algorithm 3, lines 4-23, for records in the given order, after those that have an address."""
    placed = addresses or {}
    offsets = [placed.get(t, 0) for t in range(len(records))]
    ordered_allocated_ids = sorted(placed, key=lambda t: offsets[t])
    for t in order:
        first_t, last_t, size_t = records[t]
        if size_t == 0 or t in placed:
            continue
        prev_offset = 0
        best_offset: int | None = None
        smallest_gap: int | None = None
        for x in ordered_allocated_ids:
            first_x, last_x, size_x = records[x]
            if max(first_t, first_x) <= min(last_t, last_x):
                gap = offsets[x] - prev_offset
                if gap >= size_t and (smallest_gap is None or gap < smallest_gap):
                    smallest_gap = gap
                    best_offset = prev_offset
                prev_offset = max(prev_offset, align_up(offsets[x] + size_x, alignment))
        offsets[t] = prev_offset if best_offset is None else best_offset
        insort_right(ordered_allocated_ids, t, key=lambda x: offsets[x])
    return offsets


def strip_packing(records: Sequence[Record], alignment: int = 1, *, ties: str = "index") -> list[int]:
    """Best-fit on offset lines: the lowest line, leftmost first; into it the record that lives longest.

    Of equally long ones the earliest, or with `ties="size"` the largest, then the earliest. A line into which
    nothing fits is lifted to its lowest neighbour, to both when they are level.
    """
    if ties not in ("index", "size"):
        raise ValueError(ties)
    offsets = [0] * len(records)
    unplaced = [t for t, (_, _, size) in enumerate(records) if size > 0]
    if not unplaced:
        return offsets
    # (left, right, height), ends inclusive, from left to right; neighbours differ in height.
    lines = [(min(records[t][0] for t in unplaced), max(records[t][1] for t in unplaced), 0)]
    while unplaced:
        j = min(range(len(lines)), key=lambda j: (lines[j][2], lines[j][0]))
        left, right, height = lines[j]
        fitting = [t for t in unplaced if left <= records[t][0] and records[t][1] <= right]
        if fitting:
            t = min(fitting, key=lambda t: (records[t][0] - records[t][1], -records[t][2] * (ties == "size"), t))
            first, last, size = records[t]
            offsets[t] = height
            unplaced.remove(t)
            parts = [(left, first - 1, height), (first, last, align_up(height + size, alignment))]
            parts.append((last + 1, right, height))
            lines[j : j + 1] = [line for line in parts if line[0] <= line[1]]
        else:
            level = min(line[2] for line in (*lines[max(j - 1, 0) : j], *lines[j + 1 : j + 2]))
            lines[j] = (left, right, level)
        lines = _merged(lines)
    return offsets


def _merged(lines: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Adjacent lines of one height as one line."""
    merged = lines[:1]
    for left, right, height in lines[1:]:
        if merged[-1][2] == height:
            merged[-1] = (merged[-1][0], right, height)
        else:
            merged.append((left, right, height))
    return merged
