"""Pyramid preplacement (Steiner et al. 2022, OLLA, §4.5, Function 5), made for training.

An activation that is made later is needed for a gradient earlier, so that each record of the stack is in use within the
time of the one below it. What is free on both sides of the stack is for all other records.

    bytes
      │       ┌─┐
      │     ┌─┘ └─┐
      │   ┌─┘     └──┐
      └───┴──────────┴─ time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.native import kernels
from edgemem.records.sizes import padded
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy(
    "pyramid",
    paper="Steiner et al. 2022 (OLLA), §4.5",
    complexity="O(n log n (log n + g)), g gaps that hold a record",
    honours=("pinned", "reserved"),
)
def pyramid(problem: Problem) -> NDArray[np.int64]:
    """The longest lived record at the bottom, on it the longest lived one within its time, and so on; then the others.

    Of records that live equally long the lower index comes first. One that lives for a single operator is never in the
    stack. Deviation: an ILP solver places the other records in the paper; here it is `greedy_by_size`, which does so
    for 20,000 records in 0.1 s. Pinned records and reserved ranges, which the paper does not have, stay free: the stack
    goes on above them.
    """
    order = np.argsort(-problem.size, kind="stable")
    columns = (problem.first_op, problem.last_op, problem.size)
    given = problem.constraints
    given["pinned"] = _with_stack(problem)
    return kernels.place_in_smallest_gap(*columns, problem.alignment, order, **given)


def _with_stack(problem: Problem) -> NDArray[np.int64]:
    """The pinned offsets with those of the stack, -1 for all other records."""
    placed = np.full(len(problem), -1, np.int64) if problem.pinned is None else problem.pinned.copy()
    lows, highs, firsts, lasts = _taken(problem)
    duration = problem.last_op - problem.first_op
    order = np.argsort(-duration, kind="stable")
    order = order[((duration > 0) & (problem.size > 0) & (placed < 0))[order]]
    columns = (column[order].tolist() for column in (problem.first_op, problem.last_op, problem.size))
    earliest, latest, base = 0, int(problem.last_op.max(initial=0)), 0
    # What is not within the time of one record is not within the shorter times of those above it, either.
    for index, first, last, size in zip(order.tolist(), *columns, strict=True):
        if first < earliest or last > latest:
            continue
        meets = (firsts <= last) & (lasts >= first) & (highs > base)
        for low, high in zip(lows[meets].tolist(), highs[meets].tolist(), strict=True):
            if low >= base + size:
                break
            base = max(base, high)
        placed[index] = base
        earliest, latest, base = first, last, base + padded(size, problem.alignment)
    return placed


def _taken(problem: Problem) -> tuple[NDArray[np.int64], ...]:
    """What is pinned or reserved, from low to high: begin and padded end, first and last operator."""
    ranges = np.array(problem.reserved, np.int64).reshape(-1, 2)
    lows, highs = ranges.T
    firsts, lasts = np.zeros_like(lows), np.full_like(lows, problem.last_op.max(initial=0))
    if problem.pinned is not None:
        pins = np.flatnonzero((problem.pinned >= 0) & (problem.size > 0))
        offsets = problem.pinned[pins]
        lows = np.concatenate([lows, offsets])
        highs = np.concatenate([highs, offsets + padded(problem.size[pins], problem.alignment)])
        firsts = np.concatenate([firsts, problem.first_op[pins]])
        lasts = np.concatenate([lasts, problem.last_op[pins]])
    order = np.argsort(lows, kind="stable")
    return tuple(column[order] for column in (lows, highs, firsts, lasts))
