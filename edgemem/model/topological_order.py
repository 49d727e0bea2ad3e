"""Orders of operators in which each comes after those that it waits for."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["inverse", "ranked_order"]


def inverse(lists: Iterable[Iterable[int]], count: int) -> tuple[tuple[int, ...], ...]:
    """For each number from 0 to `count` - 1 the positions of the lists that it is in, ascending."""
    found: list[list[int]] = [[] for _ in range(count)]
    for position, numbers in enumerate(lists):
        for n in numbers:
            found[n].append(position)
    return tuple(map(tuple, found))


def ranked_order(before: Sequence[Collection[int]], rank: Sequence[int]) -> tuple[int, ...]:
    """The order of Kahn's algorithm that takes, of the operators that wait for none, the one of the lowest rank.

    Of equal ranks it takes the lowest number. Operators of a cycle, and those behind it, are left out.

    Args:
        before: for each operator those that it waits for, each once.
        rank: of each operator.
    """
    left = [len(wait) for wait in before]
    after = inverse(before, len(before))
    ready = [(rank[k], k) for k, count in enumerate(left) if not count]
    heapify(ready)
    order = []
    while ready:
        _, k = heappop(ready)
        order.append(k)
        for waiting in after[k]:
            left[waiting] -= 1
            if not left[waiting]:
                heappush(ready, (rank[waiting], waiting))
    return tuple(order)
