"""Greedy by Breadth (Pisarchyk & Lee 2020, §4.2, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem

_TIES = ("low_first", "high_first")


@shared_objects_strategy(
    "greedy_by_breadth",
    paper="Pisarchyk & Lee 2020, §4.2",
    complexity="O(k n log n)",
    options={"op_ties": _TIES, "tensor_ties": _TIES},
    auto={},
)
def greedy_by_breadth(
    problem: Problem,
    *,
    op_ties: Literal["low_first", "high_first"] = "low_first",
    tensor_ties: Literal["low_first", "high_first"] = "low_first",
) -> NDArray[np.int64]:
    """Operators in decreasing breadth, of each the records without object in decreasing size.

    A record takes the smallest free object that is large enough; else the largest free one, which grows; else a new
    one. Equal breadths go by operator index and equal sizes by record index, the low or the high ones first.

    Deviation: the paper names no rule for ties, and none of these gives its whole row of Table 1 (6.125, 6.699, 6.437,
    8.390 MiB). The default is TFLite GPU's: 4.594, 6.891, 6.437, 6.347.
    With texels, the object that grows least is taken, of equals the smallest; one that would grow by more than the
    record's own texels is not taken.
    """
    if len(problem) == 0:
        return np.empty(0, np.int64)
    # The operators of a section have one profile, so the section stands for them.
    starts, breadths = kernels.section_breadths(problem.first_op, problem.last_op, problem.size)
    section = np.arange(len(starts))
    turn = np.empty_like(section)
    turn[np.lexsort((section if op_ties == "low_first" else -section, -breadths))] = section
    # A record is placed by the first of its sections to have its turn.
    begin = np.searchsorted(starts, problem.first_op, side="right") - 1
    end = np.searchsorted(starts, problem.last_op, side="right") - 1
    placed_in = kernels.range_minimum(turn, begin, end)
    index = np.arange(len(problem))
    order = np.lexsort((index if tensor_ties == "low_first" else -index, -problem.size, placed_in))
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    return kernels.assign_in_order(problem.first_op, problem.last_op, extent, order, "closest")
