"""Greedy in order: records as the network produces them (Lee et al. 2019, the arena of the TFLite CPU runtime)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy(
    "greedy_in_order",
    paper="Lee et al. 2019, the Greedy row of Pisarchyk & Lee 2020, Table 2",
    complexity="O(n log n (log n + g)), g gaps that hold a record",
)
def greedy_in_order(problem: Problem) -> NDArray[np.int64]:
    """By first operator (of equals the lower index), each record in the smallest gap that holds it."""
    order = np.argsort(problem.first_op, kind="stable")
    return kernels.place_in_smallest_gap(problem.first_op, problem.last_op, problem.size, problem.alignment, order)
