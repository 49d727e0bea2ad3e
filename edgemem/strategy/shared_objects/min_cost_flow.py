"""Chains of records by min-cost flow: the prior work of Lee et al. 2019 (Pisarchyk & Lee 2020, Table 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.native import kernels
from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@shared_objects_strategy("min_cost_flow", paper="Lee et al. 2019", complexity="O(n^3) at worst", limit=1000)
def min_cost_flow(problem: Problem) -> NDArray[np.int64]:
    """Every record makes an object at the cost of its size, or reuses an earlier one at the cost of the growth.

    The growth is measured from one record to the next, not from the object's size, so the cheapest flow is not always
    the smallest plan. Several flows may have equal cost; this is the one that TFLite GPU finds, because the steps of
    its search are the same.

    Deviation: DeepLab v3 needs 8.727 MiB where Table 1 says 8.364; the other networks' cells are equal.
    TFLite GPU has this strategy for bytes only. With texels, growth is that of the covering extent; a chain is cut
    where its object would grow by more than the record's own texels.
    """
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    return kernels.assign_by_min_cost_flow(problem.first_op, problem.last_op, extent)
