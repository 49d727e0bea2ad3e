"""Greedy by Breadth for Offset Calculation (Pisarchyk & Lee 2020, §5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy(
    "greedy_by_breadth",
    paper="Pisarchyk & Lee 2020, §5.3",
    complexity="O(n log n (log n + g)), g gaps that hold a record",
    options={"op_ties": ("low_first", "high_first")},
)
def greedy_by_breadth(problem: Problem, op_ties: str = "low_first") -> NDArray[np.int64]:
    """The broadest operator first; its records by size, each in the smallest gap that holds it.

    Of operators with equal breadth the lower index comes first, as in TFLite GPU, or the higher
    (`op_ties="high_first"`), which reproduces the paper's PoseNet figure.
    """
    first, last, size = problem.first_op, problem.last_op, problem.size
    if len(problem) == 0:
        return np.zeros(0, dtype=np.int64)
    # The operators of a section have the same profile, so each section is handled once.
    starts, breadths = kernels.section_breadths(first, last, size)
    sections = np.arange(len(starts))
    by_breadth = np.lexsort((sections if op_ties == "low_first" else -sections, -breadths))
    turn = np.empty_like(sections)
    turn[by_breadth] = sections
    # A record is placed when the first operator that uses it has its turn.
    low = np.searchsorted(starts, first, side="right") - 1
    high = np.searchsorted(starts, last, side="right") - 1
    order = np.lexsort((-size, kernels.range_minimum(turn, low, high)))
    return kernels.place_in_smallest_gap(first, last, size, problem.alignment, order)
