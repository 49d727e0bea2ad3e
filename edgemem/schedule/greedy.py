"""Greedy: always the ready operator that leaves the fewest bytes alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.schedule.registry import order_solver

if TYPE_CHECKING:
    from edgemem.schedule.problem import OrderProblem

__all__ = ["greedy_order"]


@order_solver("greedy", rank=0, paper="none: the usual list scheduling, by memory", complexity="O(m log n)")
def greedy_order(problem: OrderProblem) -> tuple[int, ...]:
    """Ties are broken by what is alive while the operator runs, then by its number."""
    return tuple(problem.kernel.greedy())
