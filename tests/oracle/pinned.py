"""Placements and bounds around pinned records and reserved ranges, from their definitions: address by address."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["offset_lower_bound", "place_in_smallest_gap"]

Bytes = TypeVar("Bytes", int, "Column")


def padded(size: Bytes, alignment: int) -> Bytes:
    return -(-size // alignment) * alignment


def place_in_smallest_gap(
    first_op: Column,
    last_op: Column,
    size: Column,
    alignment: int,
    order: Column,
    pinned: Column | None = None,
    reserved: Column | None = None,
) -> Column:
    """Offsets of the records placed in this order, each in the smallest gap that holds it, the lowest of equals.

    Pisarchyk & Lee 2020, §5.2, Algorithm 3, lines 4-23.
    """
    first, last, sizes = first_op.tolist(), last_op.tolist(), size.tolist()
    offsets = np.zeros(len(sizes), np.int64)
    pins = [-1] * len(sizes) if pinned is None else pinned.tolist()
    # offset, padded end, first, last; by offset
    placed = [(low, high, 0, int(last_op.max(initial=0))) for low, high in _pairs(reserved)]
    for index, pin in enumerate(pins):
        if pin >= 0 and sizes[index]:
            offsets[index] = pin
            placed.append((pin, pin + padded(sizes[index], alignment), first[index], last[index]))
    placed.sort()
    for index in order.tolist():
        if not sizes[index] or pins[index] >= 0:
            continue
        end, best, smallest = 0, -1, -1
        for offset, stop, other_first, other_last in placed:
            if max(first[index], other_first) > min(last[index], other_last):
                continue
            gap = offset - end
            if gap >= sizes[index] and (best < 0 or gap < smallest):
                best, smallest = end, gap
            end = max(end, stop)
        offsets[index] = best = end if best < 0 else best
        insort(placed, (best, best + padded(sizes[index], alignment), first[index], last[index]))
    return offsets


def offset_lower_bound(
    first_op: Column,
    last_op: Column,
    size: Column,
    alignment: int,
    pinned: Column | None = None,
    reserved: Column | None = None,
) -> int:
    """The greatest sum, over all operators, of the padded sizes alive there less the largest single padding.

    Around what is pinned or reserved: the lowest address below which so much is free, and the end of every pinned
    record.
    """
    whole = padded(size, alignment)
    padding = whole - size
    fixed = (np.full(len(size), -1) if pinned is None else pinned) >= 0
    bound = 0
    for op in np.unique(first_op).tolist():  # nothing grows in between
        alive = (first_op <= op) & (op <= last_op) & (size > 0)
        free = int(whole[alive & ~fixed].sum())
        taken, highest = _pairs(reserved), 0
        if pinned is not None and (alive & fixed).any():
            held = alive & fixed
            taken += zip(pinned[held].tolist(), (pinned + whole)[held].tolist(), strict=True)
            highest = int((pinned + whole)[held].max())
            bound = max(bound, int((pinned + size)[held].max()))
        top = _room_for(free, sorted(taken))
        if free and top > highest:
            bound = max(bound, top - int(padding[alive & ~fixed].max()))
    return bound


def _room_for(need: int, taken: list[tuple[int, int]]) -> int:
    """The lowest address below which so many bytes are free."""
    reached = 0
    for low, high in taken:
        if low - reached >= need:
            break
        need -= low - reached
        reached = high
    return reached + need


def _pairs(column: Column | None) -> list[tuple[int, int]]:
    return [] if column is None else [(low, high) for low, high in column.reshape(-1, 2).tolist()]
