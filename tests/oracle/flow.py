"""The optimum of the min-cost flow formulation (Lee et al. 2019), by another algorithm than a flow's.

Every record either opens an object, which costs its size, or follows one record that ended before it begins, which
costs what it is larger by; a record has at most one follower. That is an assignment problem. Its cost is unique,
its solution is not, so plans are compared by cost alone. Needs scipy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracle.bounds import Record

__all__ = ["flow_cost", "optimal_flow_cost"]


def flow_cost(records: Sequence[Record], assignment: Sequence[int]) -> int:
    """The cost of the flow that an assignment is: each object's records follow each other in time."""
    cost = 0
    held: dict[int, int] = {}
    for t in sorted(range(len(records)), key=lambda t: records[t][0]):
        size = records[t][2]
        cost += max(0, size - held.get(assignment[t], 0))
        held[assignment[t]] = size
    return cost


def optimal_flow_cost(records: Sequence[Record]) -> int:
    from scipy.optimize import linear_sum_assignment

    n = len(records)
    if n == 0:
        return 0
    forbidden = float(1 + sum(size for _, _, size in records))
    # Row: a record. Column j < n: it follows record j; column n + i: record i opens an object.
    costs = np.full((n, 2 * n), forbidden)
    for i, (first, _, size) in enumerate(records):
        costs[i, n + i] = size
        for j, (_, last, held) in enumerate(records):
            if last < first:
                costs[i, j] = max(0, size - held)
    rows, columns = linear_sum_assignment(costs)
    return int(costs[rows, columns].sum())
