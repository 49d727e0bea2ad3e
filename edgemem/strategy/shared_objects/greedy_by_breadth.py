"""Greedy by Breadth (Pisarchyk & Lee 2020, §4.2, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from edgemem import _kernels
from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records import Problem

_TIES = ("low_first", "high_first")


@shared_objects_strategy(
    "greedy_by_breadth",
    paper="Pisarchyk & Lee 2020, §4.2",
    complexity="O(k n log n)",
    options={"op_ties": _TIES, "tensor_ties": _TIES},
)
def greedy_by_breadth(
    problem: Problem,
    *,
    op_ties: Literal["low_first", "high_first"] = "low_first",
    tensor_ties: Literal["low_first", "high_first"] = "low_first",
) -> NDArray[np.int64]:
    """Operators in decreasing breadth, of each the records without object in decreasing size.

    A record takes the smallest free object that is large enough; else the largest free one, which grows; else a new
    one. Equal breadths go by operator index and equal sizes by record index, the low or the high ones first; the
    default is TFLite GPU's. The paper names no rule, and none of these gives its whole row of Table 1.

    With texels, the object that grows least is taken, of equals the smallest; one that would grow by more than the
    record's own texels is not taken.
    """
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    index = np.arange(len(problem))
    order = np.lexsort(
        (
            index if tensor_ties == "low_first" else -index,
            -problem.size,
            _turns(problem, high_first=op_ties == "high_first"),
        )
    )
    return _kernels.assign_in_order(problem.first_op, problem.last_op, extent, order, "closest")


def _turns(problem: Problem, *, high_first: bool) -> NDArray[np.intp]:
    """For each record, the turn of the operator that places it: of all that use it, the one of greatest breadth."""
    # Between two starts the profile is the same, and so is what it places.
    starts = np.unique(np.concatenate((problem.first_op, problem.last_op + 1)))
    born = np.searchsorted(starts, problem.first_op)
    gone = np.searchsorted(starts, problem.last_op + 1)
    change = np.zeros(len(starts), np.int64)
    np.add.at(change, born, problem.size)
    np.subtract.at(change, gone, problem.size)
    section = np.arange(len(starts))
    ranked = np.lexsort((-section if high_first else section, -change.cumsum()))
    turn = np.empty_like(ranked)
    turn[ranked] = section
    return _range_minimum(turn, born, gone)


def _range_minimum(values: NDArray[np.intp], begin: NDArray[np.intp], end: NDArray[np.intp]) -> NDArray[np.intp]:
    """min(values[begin[i]:end[i]]) for each i, from the minima of all ranges of 2^j values."""
    result = np.empty(len(begin), np.intp)
    exponent = np.frexp(end - begin)[1] - 1
    for j in range(int(exponent.max(initial=-1)) + 1):
        at = exponent == j
        result[at] = np.minimum(values[begin[at]], values[end[at] - (1 << j)])
        values = np.minimum(values[: -(1 << j)], values[1 << j :])
    return result
