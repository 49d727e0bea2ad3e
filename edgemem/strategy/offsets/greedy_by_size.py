"""Greedy by Size for Offset Calculation (Pisarchyk & Lee 2020, §5.2, Algorithm 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy(
    "greedy_by_size",
    paper="Pisarchyk & Lee 2020, §5.2",
    complexity="O(n log n (log n + g)), g gaps that hold a record",
    auto={},
    honours=("pinned", "reserved"),
)
def greedy_by_size(problem: Problem) -> NDArray[np.int64]:
    """The largest record first (of equals the lower index), each in the smallest gap that holds it.

    Pinned records and reserved ranges, which the paper does not have, are placed before all others.
    """
    order = np.argsort(-problem.size, kind="stable")
    columns = (problem.first_op, problem.last_op, problem.size)
    return kernels.place_in_smallest_gap(*columns, problem.alignment, order, **problem.constraints)
