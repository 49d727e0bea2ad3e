"""What is to be placed in regions: records that have to stay together, what they cost in each region, and the room.

Room is counted by what is alive at each section of time, as if records could be cut into pieces, so that what has room
here may still find no offsets. What has no room here finds none there either.

    time      section 0   section 1   section 2
    region 0  a a a a a a a a a a a a
              b b b b b b             c c c c c     at each section the padded sizes are at most the room
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.pins import widened
from edgemem.records.problem import MOST_REGIONS
from edgemem.records.relations import outside_in
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.records.problem import Problem
    from edgemem.targets import Region

    Column = NDArray[np.int64]

__all__ = ["Items", "items_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Items to place in R regions; an item is a record, or a nest of records that lie within each other.

    Attributes:
        members: the records of each item.
        cost: int64 [items, R], of all that operators move in the item, where it lies in that region.
        allowed: bool [items, R].
        begin, end: int64 [items], the sections of time in which an item is alive, without the end.
        profiles: for each item int64 [R, 1 or end - begin], the bytes it takes at each of its sections.
        pieces: int64 [p, 3], rows (item, begin, end): where the bytes of an item do not change.
        weights: int64 [p, R], the bytes of each piece.
        room: int64 [R], bytes that there are at each section.
        steps: int64 [sections], the operator at which each section begins.
    """

    members: tuple[tuple[int, ...], ...]
    cost: Column
    allowed: NDArray[np.bool_]
    begin: Column
    end: Column
    profiles: tuple[Column, ...]
    pieces: Column
    weights: Column
    room: Column
    steps: Column

    def __len__(self) -> int:
        return len(self.members)


def items_of(problem: Problem, regions: Sequence[Region]) -> Items:
    """The items of a problem's records; those of size 0 are in none."""
    alignments = [max(problem.alignment, region.alignment) for region in regions]
    members, root = _nests(problem)
    starts = _sections(problem)
    begins = np.searchsorted(starts, problem.first_op, "left")
    ends = np.searchsorted(starts, problem.last_op, "right")
    sizes = np.stack([padded(problem.size, alignment) for alignment in alignments], axis=1)
    shared = _shared(problem, root, starts, sizes)
    begin = np.array([min(begins[i] for i in group) for group in members], np.int64)
    end = np.array([max(ends[i] for i in group) for group in members], np.int64)
    traffic = np.zeros(len(problem), np.int64) if problem.traffic is None else problem.traffic
    moved = np.array([sum(int(traffic[i]) for i in group) for group in members], np.int64)
    costs = np.array([region.cost for region in regions], np.int64)
    profiles, pieces, weights = [], [], []
    for k, group in enumerate(members):
        profile = sizes[group[0]].reshape(-1, 1)
        if len(group) > 1 or k in shared:
            profile = np.zeros((len(regions), int(end[k] - begin[k])), np.int64)
            for i in group:
                at = slice(begins[i] - begin[k], ends[i] - begin[k])
                profile[:, at] = np.maximum(profile[:, at], sizes[i].reshape(-1, 1))
            for section, amount in shared.get(k, ()):
                column = profile[:, section - begin[k]]
                np.maximum(column - amount, 0, out=column)
        profiles.append(profile)
        edges = [0, *(np.flatnonzero((profile[:, 1:] != profile[:, :-1]).any(axis=0)) + 1).tolist()]
        stops = [*edges[1:], int(end[k] - begin[k])]
        pieces += [(k, begin[k] + low, begin[k] + high) for low, high in zip(edges, stops, strict=True)]
        weights += [profile[:, low] for low in edges]
    return Items(
        members,
        moved.reshape(-1, 1) * costs,
        _allowed(problem, members, regions, alignments),
        begin,
        end,
        tuple(profiles),
        np.array(pieces, np.int64).reshape(-1, 3),
        np.array(weights, np.int64).reshape(-1, len(regions)),
        np.array([_room(r, a, sizes) for r, a in zip(regions, alignments, strict=True)], np.int64),
        starts,
    )


def _nests(problem: Problem) -> tuple[tuple[tuple[int, ...], ...], list[int]]:
    """The records of each item, and the item of each record (-1 for none)."""
    root = list(range(len(problem)))
    for i, j, _ in outside_in(problem):
        root[i] = root[j]
    groups: dict[int, list[int]] = {}
    for i in np.flatnonzero(problem.size > 0).tolist():
        groups.setdefault(root[i], []).append(i)
    number = {top: k for k, top in enumerate(groups)}
    return tuple(map(tuple, groups.values())), [number.get(top, -1) for top in root]


def _sections(problem: Problem) -> Column:
    """The operators at which what is alive may be more than before, and those after an overlap."""
    starts = [problem.first_op]
    if problem.overlap is not None:
        starts.append(problem.first_op[problem.overlap[:, 1]] + 1)
    return np.unique(np.concatenate(starts))


def _shared(
    problem: Problem, root: Sequence[int], starts: Column, sizes: Column
) -> dict[int, list[tuple[int, Column]]]:
    """Item -> (section, bytes by region) that it may share there with an input which dies."""
    found: dict[int, list[tuple[int, Column]]] = {}
    for i, j, _ in [] if problem.overlap is None else problem.overlap.tolist():
        if root[i] >= 0 and root[j] >= 0:
            section = int(np.searchsorted(starts, problem.first_op[j]))
            found.setdefault(root[j], []).append((section, np.minimum(sizes[i], sizes[j])))
    return found


def _allowed(
    problem: Problem, members: Sequence[Sequence[int]], regions: Sequence[Region], alignments: Sequence[int]
) -> NDArray[np.bool_]:
    """Where each item may lie by its masks, pins, distances and sizes."""
    count = len(regions)
    may = np.ones((len(problem), count), np.bool_)
    if problem.regions is not None:
        bits = (problem.regions.reshape(-1, 1) >> np.arange(min(count, MOST_REGIONS))) & 1 == 1
        may &= bits | (problem.regions == 0).reshape(-1, 1)
    if problem.pinned is not None:
        for i in np.flatnonzero(problem.pinned >= 0).tolist():
            first, at = int(may[i].argmax()), int(problem.pinned[i])
            end, taken = at + int(problem.size[i]), widened(regions[first].reserved, alignments[first])
            is_free = not at % alignments[first] and not any(at < high and low < end for low, high in taken)
            may[i] = may[i] & (np.arange(count) == first) & is_free
    if problem.within is not None:
        for i, _, delta in problem.within.tolist():
            may[i] &= [not delta % alignment for alignment in alignments]
    for r, region in enumerate(regions):
        if region.capacity is not None:
            may[:, r] &= problem.size <= region.capacity
    return np.array([may[list(group)].all(axis=0) for group in members], np.bool_).reshape(-1, count)


def _room(region: Region, alignment: int, sizes: Column) -> int:
    """Bytes of a region for padded records. The highest one needs no padding, so that the end is padded as well."""
    if region.capacity is None:
        return int(sizes.max(axis=1).sum()) + 1
    whole = padded(region.capacity, alignment)
    return whole - sum(max(min(end, whole) - begin, 0) for begin, end in widened(region.reserved, alignment))
