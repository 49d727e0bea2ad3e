"""A strategy for offsets: the record that lives longest first, each at the lowest place that is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy("longest_first", paper="an example of edgemem's documentation", complexity="O(n^2 log n)")
def longest_first(problem: Problem) -> NDArray[np.int64]:
    """Of records that live equally long the larger one first, then the one with the lower index."""
    first, last, size = problem.first_op, problem.last_op, problem.size
    offsets = np.zeros(len(problem), np.int64)
    placed = np.zeros(len(problem), bool)
    for i in np.lexsort((-size, first - last)):
        neighbours = np.flatnonzero(placed & (first <= last[i]) & (first[i] <= last))
        place = 0
        for j in neighbours[np.argsort(offsets[neighbours], kind="stable")]:
            if place + size[i] <= offsets[j]:
                break
            end = int(offsets[j] + size[j])
            place = max(place, -(-end // problem.alignment) * problem.alignment)
        offsets[i], placed[i] = place, True
    return offsets
