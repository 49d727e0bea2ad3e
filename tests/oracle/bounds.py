"""Profiles, breadths, positional maxima and both lower bounds, straight from their definitions (Pisarchyk & Lee §3)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Extent",
    "Record",
    "TexelRecord",
    "align_up",
    "breadths",
    "change_points",
    "elements",
    "naive_size",
    "offsets_bound",
    "positional_maxima",
    "profile",
    "profiles",
    "shared_objects_bound",
]

Extent: TypeAlias = tuple[int, ...]
Record: TypeAlias = tuple[int, int, int]
TexelRecord: TypeAlias = tuple[int, int, Extent]


def align_up(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment


def elements(size: int | Extent) -> int:
    """Bytes, or the texels of an extent."""
    return size if isinstance(size, int) else prod(size)


def profile(records: Sequence[Record], op: int) -> list[int]:
    """Indices of the records alive at `op`, in order."""
    return [i for i, (first, last, _) in enumerate(records) if first <= op <= last]


def profiles(records: Sequence[Record]) -> list[list[int]]:
    """The profile of every operator from 0 to the last one that any record names."""
    return [profile(records, op) for op in range(max((last for _, last, _ in records), default=-1) + 1)]


def breadths(records: Sequence[Record]) -> list[int]:
    return [sum(records[i][2] for i in alive) for alive in profiles(records)]


def change_points(records: Sequence[Record]) -> list[int]:
    """The operators at which the profile changes, ascending; operator 0 and the first one after the end are among them.

    Between two of them all profiles are equal, so whoever walks the operators by breadth need visit only these:
    that is what makes operator indices of a thousand million affordable here.
    """
    return sorted({0} | {first for first, _, _ in records} | {last + 1 for _, last, _ in records})


def positional_maxima(records: Sequence[Record]) -> list[int]:
    """The i-th entry is the largest i-th largest size over all operators."""
    maxima: list[int] = []
    for op in change_points(records):
        for position, size in enumerate(sorted((records[i][2] for i in profile(records, op)), reverse=True)):
            if position == len(maxima):
                maxima.append(size)
            else:
                maxima[position] = max(maxima[position], size)
    return maxima


def shared_objects_bound(records: Sequence[Record]) -> int:
    return sum(positional_maxima(records))


def offsets_bound(records: Sequence[Record], alignment: int = 1) -> int:
    """What lives at one operator lies end to end; all but the topmost record pay for their padding."""
    bound = 0
    for op in change_points(records):
        sizes = [records[i][2] for i in profile(records, op)]
        padded = [align_up(size, alignment) for size in sizes]
        largest_padding = max((p - s for p, s in zip(padded, sizes, strict=True)), default=0)
        bound = max(bound, sum(padded) - largest_padding)
    return bound


def naive_size(records: Sequence[Record], alignment: int = 1) -> int:
    """The end of all records laid end to end, each start aligned."""
    end = 0
    for _, _, size in records:
        if size:
            end = align_up(end, alignment) + size
    return end
