"""Lower bounds of both problems, and what they are made of (Pisarchyk & Lee 2020, §3, §4.1, §5.1)."""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanError
from edgemem.native import kernels
from edgemem.plans import LowerBounds
from edgemem.records.relations import outside_in
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem

__all__ = ["lower_bounds", "naive_size", "operator_breadths", "positional_maxima"]

# Operator indices beyond this are timestamps, for which per-operator arrays make no sense.
_MOST_OPERATORS = 1 << 26


def lower_bounds(problem: Problem) -> LowerBounds:
    """What no plan can go below.

    Offsets: the greatest operator breadth. Every size but one is padded to the alignment, because the record that
    lies highest needs no padding after it: at an operator, the padded sizes less the largest single padding. Where
    records are pinned or ranges reserved: the end of every pinned record, and at each operator the lowest address below
    which the free records find room beside them (less the largest padding, if that is above all pinned ones).
    Relations: a record does not count while one that it lies within is alive, and each overlap at an operator takes
    the most off the sum by which the two may overlap there. Where records are tied to regions, sizes count without
    padding, and reserved ranges not at all, because each region has a record that lies highest.
    Shared objects: the sum of the positional maxima, in bytes, or in texels for extents.
    """
    if problem.features & {"overlap", "within", "regions"}:
        offsets = _related_bound(problem)
    else:
        columns = (problem.first_op, problem.last_op, problem.size)
        offsets = kernels.offset_lower_bound(*columns, problem.alignment, **problem.constraints)
    return LowerBounds(offsets, sum(positional_maxima(problem)))


def positional_maxima(problem: Problem) -> tuple[int, ...]:
    """The greatest k-th largest size over all operator profiles, for every k, in bytes or texels."""
    return tuple(kernels.positional_maxima(problem.first_op, problem.last_op, problem.size).tolist())


def operator_breadths(problem: Problem) -> NDArray[np.int64]:
    """The sum of the sizes in each operator's profile, for operators 0 to the last one used.

    Raises PlanError above 2**26 operators, where the indices are timestamps rather than operators.
    """
    count = _operator_count(problem)
    starts, breadths = kernels.section_breadths(problem.first_op, problem.last_op, problem.size)
    return np.repeat(breadths, np.diff(starts, append=count)) if count else np.zeros(0, np.int64)


def naive_size(problem: Problem) -> int:
    """Bytes (or texels) without any sharing: all records end to end, each at the next aligned offset.

    What is pinned or reserved makes no difference to it, so that a plan around that may be larger.
    """
    sizes = problem.size[problem.size > 0]
    if not len(sizes):
        return 0
    return int(padded(sizes[:-1], problem.alignment).sum()) + int(sizes[-1])


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Operators at which a record counts: alive, and nothing is alive that it lies within."""

    record: int
    first: int
    last: int


def _stretches(problem: Problem) -> list[_Stretch]:
    """At most two a record.

    What it lies within, and what that lies within, is alive in one interval without gaps:

        outer            [--------]
        container   [------]
        record          [------------------]
        counts                     [-------]

    because a record and its container are alive together at some operator.
    """
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    around: dict[int, tuple[int, int]] = {}  # record -> operators at which something that it lies within is alive
    for i, j, _ in outside_in(problem):
        low, high = around.get(j, (first[j], last[j]))
        around[i] = min(low, first[j]), max(high, last[j])
    found = []
    for i, size in enumerate(problem.size.tolist()):
        if not size:
            continue
        low, high = around.get(i, (last[i] + 1, last[i]))
        found += [_Stretch(i, a, b) for a, b in ((first[i], low - 1), (high + 1, last[i])) if a <= b]
    return found


def _related_bound(problem: Problem) -> int:
    """What `lower_bounds` says of offsets, by a sweep over the operators at which the sum may be at its greatest."""
    apart = problem.regions is not None
    unit = 1 if apart else problem.alignment
    takes = padded(problem.size, unit).tolist()
    spare = (padded(problem.size, unit) - problem.size).tolist()
    pins = [-1] * len(problem) if problem.pinned is None else problem.pinned.tolist()
    sizes = problem.size.tolist()
    best = max((pin + size for pin, size in zip(pins, sizes, strict=True) if pin >= 0 and size), default=0)
    if apart:
        pins = [-1] * len(problem)
    taken = [] if apart else [(low, high) for low, high in problem.reserved]  # and what pinned records take
    stretches = sorted(_stretches(problem), key=lambda s: s.first)
    saved = _savings(problem, stretches, takes, pins)
    ends: list[tuple[int, int]] = []  # last operator and record, of what counts
    paddings: list[tuple[int, int]] = []  # of free records, the greatest first, with the last operator
    free, k = 0, 0
    for op in sorted({s.first for s in stretches} | {s.last + 1 for s in stretches}):
        while ends and ends[0][0] < op:
            i = heapq.heappop(ends)[1]
            if pins[i] >= 0:
                taken.remove((pins[i], pins[i] + takes[i]))
            else:
                free -= takes[i]
        while k < len(stretches) and stretches[k].first == op:
            i, last = stretches[k].record, stretches[k].last
            heapq.heappush(ends, (last, i))
            if pins[i] >= 0:
                insort(taken, (pins[i], pins[i] + takes[i]))
            else:
                free += takes[i]
                heapq.heappush(paddings, (-spare[i], last))
            k += 1
        while paddings and paddings[0][1] < op:
            heapq.heappop(paddings)
        need = max(0, free - saved.get(op, 0))
        top = _room_for(need, taken)
        highest = (
            max((pins[i] + takes[i] for _, i in ends if pins[i] >= 0), default=0) if problem.pinned is not None else 0
        )
        if need and top > highest:
            best = max(best, top + paddings[0][0])
    return best


def _savings(problem: Problem, stretches: list[_Stretch], takes: list[int], pins: list[int]) -> dict[int, int]:
    """Operator -> the most bytes that the overlaps at it save. What two pinned records share is not among them."""
    if problem.overlap is None:
        return {}
    starts: dict[int, list[_Stretch]] = {}
    for stretch in stretches:
        starts.setdefault(stretch.record, []).append(stretch)
    saved: dict[int, int] = {}
    for i, j, distance in problem.overlap.tolist():
        op = int(problem.first_op[j])
        counts = all(any(s.first <= op <= s.last for s in starts.get(x, ())) for x in (i, j))
        if counts and (pins[i] < 0 or pins[j] < 0):
            # The input begins at this distance above the result or more, and overlaps most at the least of them.
            least = max(0, padded(distance, problem.alignment))
            saved[op] = saved.get(op, 0) + max(0, min(takes[i], takes[j] - least))
    return saved


def _room_for(need: int, taken: list[tuple[int, int]]) -> int:
    """The lowest address below which so many bytes are free of what is taken; the ranges ascend, and may overlap."""
    reached = 0
    for low, high in taken:
        if low - reached >= need:
            break
        need -= max(0, low - reached)
        reached = max(reached, high)
    return reached + need


def _operator_count(problem: Problem) -> int:
    count = int(problem.last_op.max()) + 1 if len(problem) else 0
    if count > _MOST_OPERATORS:
        raise PlanError(f"operator indices up to {count - 1} are timestamps; renumber them to list them one by one")
    return count
