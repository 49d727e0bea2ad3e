"""Proof that a plan keeps to what is pinned and reserved, and the lower bound that follows from it."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from edgemem.proof.violations import Cause, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.plans import OffsetPlan
    from edgemem.proof.violations import Violation
    from edgemem.records.problem import Problem

__all__ = ["sweep_pinned_bound", "sweep_pins"]


def sweep_pins(problem: Problem, plan: OffsetPlan, reserved: Sequence[tuple[int, int]]) -> Iterator[Violation]:
    """Records that are not where they are pinned, or in one of the reserved ranges (ascending, disjoint)."""
    pins = [-1] * len(problem) if problem.pinned is None else problem.pinned.tolist()
    begins = [begin for begin, _ in reserved]
    rows = zip(problem.names, plan.offsets.tolist(), problem.size.tolist(), pins, strict=True)
    for name, offset, size, pin in rows:
        if not size:
            continue
        if pin not in (-1, offset):
            yield violation(plan, Cause.NOT_WHERE_PINNED, f"{name!r} is at {offset}, but is pinned at {pin}", name)
        # The range that begins last before the record's end; those before it end below that range.
        at = bisect_right(begins, offset + size - 1)
        if at and reserved[at - 1][1] > offset:
            low, high = reserved[at - 1]
            message = f"{name!r} at {offset}..{offset + size} is in the reserved range {low}..{high}"
            yield violation(plan, Cause.IN_RESERVED, message, name)


def sweep_pinned_bound(problem: Problem) -> int:
    """What no arena can go below, by a sweep over time with the free bytes and the pinned ranges that are alive."""
    alignment = problem.alignment
    first, last, sizes = problem.first_op.tolist(), problem.last_op.tolist(), problem.size.tolist()
    pins = [-1] * len(problem) if problem.pinned is None else problem.pinned.tolist()
    ends: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = sorted(problem.reserved)  # and the padded bytes of pinned records alive
    highest: list[int] = []  # ends of pinned records alive, padded, ascending
    paddings: list[int] = []  # of free records alive, ascending
    free = best = 0
    for index in sorted(range(len(problem)), key=first.__getitem__):
        size, pin = sizes[index], pins[index]
        if not size:
            continue
        while ends and ends[0][0] < first[index]:
            gone = heapq.heappop(ends)[1]
            padded = -(-sizes[gone] // alignment) * alignment
            if pins[gone] >= 0:
                taken.remove((pins[gone], pins[gone] + padded))
                highest.remove(pins[gone] + padded)
            else:
                free -= padded
                paddings.remove(padded - sizes[gone])
        heapq.heappush(ends, (last[index], index))
        padded = -(-size // alignment) * alignment
        if pin >= 0:
            insort(taken, (pin, pin + padded))
            insort(highest, pin + padded)
            best = max(best, pin + size)
        else:
            free += padded
            insort(paddings, padded - size)
        reached, need = 0, free
        for low, high in taken:
            if low - reached >= need:
                break
            need -= low - reached
            reached = high
        if free and reached + need > (highest[-1] if highest else 0):
            best = max(best, reached + need - paddings[-1])
    return best
