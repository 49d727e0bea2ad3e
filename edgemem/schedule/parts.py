"""Divide and conquer: parts of a graph that run one after the other, or side by side, are ordered alone.

kernels/planner/schedule/series.h and hills.h have the drawings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.schedule.ordering import Solved
from edgemem.schedule.registry import order_solver
from edgemem.strategy.options import TIME_LIMIT

if TYPE_CHECKING:
    from edgemem.schedule.ordering import Start
    from edgemem.schedule.problem import OrderProblem

__all__ = ["parts_order"]

# Operators that the searches of parts look at. A million take about a third of a second.
WORK = {"fast": 100_000, "default": 1_000_000, "max": 100_000_000}


@order_solver(
    "parts",
    rank=0,
    paper="merges of series-parallel graphs as in Kayaaslan, Lambert, Marchal and Ucar 2018, section 4, and Liu 1987; "
    "division at single operators as in Ahn et al. 2020 (SERENITY), section 3.1",
    complexity="O(m log n) and one maximum flow an operator, then as much work as asked for",
    options={"effort": ("default", "fast", "max"), "time_limit": TIME_LIMIT},
)
def parts_order(
    problem: OrderProblem, *, start: Start | None = None, effort: str = "default", time_limit: float | None = None
) -> Solved:
    """The best orders found for the parts, put together; optimal if that of the part with the highest peak is.

    Never worse than `start` and the greedy order. Without a compiler PlanError is raised.
    """
    order, bound = (start.order, start.bound) if start else ((), 0)
    found, bound, stopped, work = problem.kernel.parts(WORK[effort], time_limit, order, bound)
    return Solved(tuple(found), bound, stopped, work)
