"""What no order of the operators can go below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.schedule.problem import OrderProblem

__all__ = ["order_bound"]

# Arcs looked at. A hundred million take about half a second.
_WORK = 300_000_000


def order_bound(problem: OrderProblem, order: Sequence[int]) -> int:
    """A lower bound of `order_peak` over all orders. The better the known `order` is, the less work is done.

    What is alive at an operator's step at least is a least cut of the graph, over all sets of operators that may have
    run before it. The bound is the most of these, or what the first or the last of several operators finds there; see
    kernels/planner/schedule/bound.h.

    Raises PlanError for an order that is not topological.
    """
    try:
        return problem.kernel.bound(tuple(order), _WORK)
    except ValueError as e:
        raise PlanError(str(e)) from None
