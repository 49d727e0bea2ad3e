"""The order that others use beside depth first: layer by layer, from what must run before what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.schedule.problem import OrderProblem

__all__ = ["breadth_first"]


def breadth_first(problem: OrderProblem) -> tuple[int, ...]:
    """Layer by layer: by the length of the longest path from an input, then by number."""
    layer = [0] * problem.count
    for k in range(problem.count):  # a graph's operators are in topological order
        layer[k] = max((layer[b] + 1 for b in problem.before[k]), default=0)
    return tuple(sorted(range(problem.count), key=lambda k: (layer[k], k)))
