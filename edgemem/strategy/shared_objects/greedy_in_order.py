"""Greedy in execution order: prior work of Lee et al. 2019 (Pisarchyk & Lee 2020, Table 1), as in TFLite GPU."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import numpy as np

from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@shared_objects_strategy("greedy_in_order", paper="Lee et al. 2019", complexity="O(n log n + n k)")
def greedy_in_order(problem: Problem) -> NDArray[np.int64]:
    """Records in stable order of `first_op`; each takes the free object closest in size, or a new one if none is free.

    Bytes: the smallest free object that is large enough; the largest of the others when it differs by less, or when
    there is no other. It grows.
    Texels: the smallest free object that covers the record, of equals the one that is free for longest. None grows.
    """
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    free = _FreeBytes(problem) if problem.extents is None else _FreeTexels(problem)
    assignment = np.empty(len(problem), np.int64)
    objects = 0
    in_use: list[tuple[int, int]] = []  # (last_op, object)
    for i in np.argsort(problem.first_op, kind="stable").tolist():
        while in_use and in_use[0][0] < first[i]:
            free.release(heapq.heappop(in_use)[1])
        chosen = free.take(i)
        if chosen is None:
            chosen = objects
            objects += 1
            free.create(i)
        assignment[i] = chosen
        heapq.heappush(in_use, (last[i], chosen))
    return assignment


class _FreeBytes:
    def __init__(self, problem: Problem) -> None:
        self._sizes: list[int] = problem.size.tolist()
        self._objects: list[int] = []  # the size of each
        self._free: list[tuple[int, int]] = []  # (size, object), ascending

    def create(self, record: int) -> None:
        self._objects.append(self._sizes[record])

    def release(self, released: int) -> None:
        insort(self._free, (self._objects[released], released))

    def take(self, record: int) -> int | None:
        if not self._free:
            return None
        size = self._sizes[record]
        at = bisect_left(self._free, (size, 0))
        if at == len(self._free) or (at > 0 and size - self._free[at - 1][0] < self._free[at][0] - size):
            at -= 1
        chosen = self._free.pop(at)[1]
        self._objects[chosen] = max(self._objects[chosen], size)
        return chosen


class _FreeTexels:
    def __init__(self, problem: Problem) -> None:
        assert problem.extents is not None
        self._texels: list[int] = problem.size.tolist()
        self._extents: list[list[int]] = problem.extents.tolist()
        self._objects: list[int] = []  # the record that made each
        self._free: list[int] = []  # in order of release

    def create(self, record: int) -> None:
        self._objects.append(record)

    def release(self, released: int) -> None:
        self._free.append(released)

    def take(self, record: int) -> int | None:
        covering = [at for at, candidate in enumerate(self._free) if self._covers(candidate, record)]
        if not covering:
            return None
        return self._free.pop(min(covering, key=lambda at: self._texels[self._objects[self._free[at]]]))

    def _covers(self, candidate: int, record: int) -> bool:
        extent = self._extents[self._objects[candidate]]
        return all(has >= needs for has, needs in zip(extent, self._extents[record], strict=True))
