"""Strip packing by best fit with offset lines (Sekiyama et al. 2018, §3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy(
    "strip_packing",
    paper="Sekiyama et al. 2018, §3.2",
    complexity="O(n log n) typical, O(n sqrt n) worst, of k-d tree searches",
    options={"ties": ("index", "size")},
)
def strip_packing(problem: Problem, ties: str = "index") -> NDArray[np.int64]:
    """Place the record with the longest lifetime that fits between the walls of the skyline's lowest gap, repeatedly.

    The paper does not define ties between lifetimes: the earlier record comes first, or the larger (`ties="size"`).
    """
    lifetime = problem.last_op - problem.first_op
    size = problem.size if ties == "size" else np.zeros_like(problem.size)
    preference = np.lexsort((-size, -lifetime))
    return kernels.place_on_offset_lines(problem.first_op, problem.last_op, problem.size, problem.alignment, preference)
