"""Large-neighbourhood search: operators around the peaks are ordered anew, a few at a time.

kernels/planner/schedule/improve.h has the drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.schedule.ordering import Solved
from edgemem.schedule.registry import order_solver
from edgemem.strategy.options import SEED, TIME_LIMIT

if TYPE_CHECKING:
    from edgemem.schedule.ordering import Start
    from edgemem.schedule.problem import OrderProblem

__all__ = ["neighbourhood_order"]

# Operators that are added to sets. A million take about a tenth of a second.
WORK = {"fast": 1_000_000, "default": 10_000_000, "max": 1_000_000_000}


@order_solver(
    "neighbourhood",
    rank=4,
    paper="local search as in Shaw 1998 (large-neighbourhood search), sections 2 and 3; each neighbourhood by dynamic "
    "programming over sets of operators as in Ahn et al. 2020 (SERENITY), section 3.1",
    complexity="as much work as asked for",
    options={"effort": ("default", "fast", "max"), "seed": SEED, "time_limit": TIME_LIMIT},
)
def neighbourhood_order(
    problem: OrderProblem,
    *,
    start: Start | None = None,
    effort: str = "default",
    seed: int = 1,
    time_limit: float | None = None,
) -> Solved:
    """The best order found from `start`, or from the greedy one; never worse than that.

    Up to 64 operators are ordered at once first, which proves the order if the work suffices. Without a compiler
    PlanError is raised.
    """
    order, bound = (start.order, start.bound) if start else ((), 0)
    found, bound, stopped, work = problem.kernel.improve(WORK[effort], seed, time_limit, order, bound)
    return Solved(tuple(found), bound, stopped, work)
