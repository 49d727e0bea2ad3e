"""Depth first: all that an operator needs just before it, as compilers run a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.schedule.registry import order_solver

if TYPE_CHECKING:
    from edgemem.schedule.problem import OrderProblem

__all__ = ["depth_first_order"]


@order_solver("depth_first", rank=0, paper="none: reverse post-order, as TVM has it", complexity="O(m)")
def depth_first_order(problem: OrderProblem) -> tuple[int, ...]:
    """Reverse post-order from the operators that none waits for; predecessors in the graph's order.

    It runs a stripe or a tile from its first layer to its last before the next one begins.
    """
    order: list[int] = []
    is_seen = [False] * problem.count
    for end in (k for k in range(problem.count) if not problem.after[k]):
        waiting = [(end, iter(problem.before[end]))]
        while waiting:
            rest = waiting[-1][1]
            first = next((b for b in rest if not is_seen[b]), None)
            if first is None:
                order.append(waiting.pop()[0])
            else:
                is_seen[first] = True
                waiting.append((first, iter(problem.before[first])))
    return tuple(order)
