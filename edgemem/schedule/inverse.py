"""Lists of numbers turned around: from the operators that read each tensor to the tensors that each operator reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["inverse"]


def inverse(lists: Iterable[Iterable[int]], count: int) -> tuple[tuple[int, ...], ...]:
    """For each number from 0 to `count` - 1 the positions of the lists that it is in, ascending."""
    found: list[list[int]] = [[] for _ in range(count)]
    for position, numbers in enumerate(lists):
        for n in numbers:
            found[n].append(position)
    return tuple(map(tuple, found))
