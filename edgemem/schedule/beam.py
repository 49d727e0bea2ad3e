"""Beam search over the sets of operators that have run: kernels/planner/schedule/beam.h has the techniques."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.schedule.ordering import Solved
from edgemem.schedule.registry import order_solver
from edgemem.strategy.options import TIME_LIMIT

if TYPE_CHECKING:
    from edgemem.schedule.ordering import Start
    from edgemem.schedule.problem import OrderProblem

__all__ = ["beam_order"]

# Steps of the search. A million take about a third of a second.
WORK = {"fast": 400_000, "default": 4_000_000, "max": 400_000_000}


@order_solver(
    "beam",
    rank=1,
    paper="dynamic programming over sets of operators and soft budgets as in Ahn et al. 2020 (SERENITY), sections 3.1 "
    "and 3.2, cut to a width",
    complexity="O(n * width * (m + ready operators)), for widths 8, 32, 128 and so on while the work lasts",
    options={"effort": ("default", "fast", "max"), "time_limit": TIME_LIMIT},
)
def beam_order(
    problem: OrderProblem, *, start: Start | None = None, effort: str = "default", time_limit: float | None = None
) -> Solved:
    """The best order that fronts of growing width find. It is optimal if no state of a front had to be left out."""
    order, bound = (start.order, start.bound) if start else ((), 0)
    found, bound, stopped, work = problem.kernel.beam(WORK[effort], time_limit, order, bound)
    return Solved(tuple(found), bound, stopped, work)
