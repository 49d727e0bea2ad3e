"""Records share an object only if they have exactly the same size, as in TFLite GPU's EQUALITY."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@shared_objects_strategy("equality", paper="TFLite GPU, EQUALITY", complexity="O(n log n)")
def equality(problem: Problem) -> NDArray[np.int64]:
    """In execution order: for bytes the free object of that size released last, for texels the oldest free one."""
    rows = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    sizes = [tuple(row) for row in rows.tolist()]
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    assignment = np.empty(len(problem), np.int64)
    sizes_of_objects: list[tuple[int, ...]] = []
    in_use: list[tuple[int, int]] = []  # (last_op, object)
    free: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for i in np.argsort(problem.first_op, kind="stable").tolist():
        while in_use and in_use[0][0] < first[i]:
            released = heapq.heappop(in_use)[1]
            pool = free[sizes_of_objects[released]]
            if problem.extents is None:
                pool.append(released)
            else:
                heapq.heappush(pool, released)
        pool = free[sizes[i]]
        if not pool:
            chosen = len(sizes_of_objects)
            sizes_of_objects.append(sizes[i])
        else:
            chosen = pool.pop() if problem.extents is None else heapq.heappop(pool)
        assignment[i] = chosen
        heapq.heappush(in_use, (last[i], chosen))
    return assignment
