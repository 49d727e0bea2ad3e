"""Greedy by Size (Pisarchyk & Lee 2020, §4.3, Algorithm 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@shared_objects_strategy(
    "greedy_by_size",
    paper="Pisarchyk & Lee 2020, §4.3",
    complexity="O(k n log n)",
    options={"fit": ("first", "smallest")},
)
def greedy_by_size(problem: Problem, *, fit: Literal["first", "smallest"] = "first") -> NDArray[np.int64]:
    """Records in decreasing size, equal ones in order of index; each takes a free object, so that none ever grows.

    Deviation: `fit="first"` takes the oldest free object, which gives the paper's row of Table 1 (4.594, 7.178, 6.437,
    6.347 MiB); the smallest one of the paper's text, `fit="smallest"`, gives 5.359, 6.986, 6.636, 8.390 MiB.
    With texels no order of sizes keeps objects from growing: the one that grows least comes first, and one that would
    grow by more than the record's own texels is not taken.
    """
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    order = np.argsort(-problem.size, kind="stable")
    pick: Literal["first", "closest"] = "first" if fit == "first" else "closest"
    return kernels.assign_in_order(problem.first_op, problem.last_op, extent, order, pick)
