"""A good order for a graph's operators: the best that the solvers find, and never worse than the order it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.schedule import beam
from edgemem.schedule.peak import least_peak, peak_of
from edgemem.schedule.precedence import is_reorderable
from edgemem.schedule.problem import order_problem
from edgemem.schedule.registry import SOLVERS

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["find_order"]


def find_order(graph: Graph, target: Target, *, width: int = beam.WIDTH) -> tuple[int, ...]:
    """The order of the operators with the smallest lower bound of the arena under a target that was found.

    Operators with side effects keep their order, and so do those that share a variable and the pairs of
    `graph.precedence`. The result is the graph's own order unless another one is really better. A graph in which two
    operators write one tensor keeps its order.

    Args:
        graph: in the order of its file.
        target: whose lifetimes and aliasing count.
        width: how many partial orders the beam search keeps; 1 or more. More is slower and no worse, as a rule.

    Returns:
        A permutation of `range(len(graph.ops))` that `Graph.reordered` accepts.

    Raises:
        PlanError: `width` is below 1.
        UnsupportedError: an activation's dtype has no fixed width.
    """
    if width < 1:
        raise PlanError(f"the width of a beam is 1 or more, not {width}")
    best = tuple(range(len(graph.ops)))
    if not is_reorderable(graph):
        return best
    best_peak = peak_of(graph, target)
    problem = order_problem(graph, target)
    floor = least_peak(problem) - problem.padding  # the record that lies highest needs none
    for solver in sorted(SOLVERS.values(), key=lambda s: s.rank):
        if best_peak <= floor:
            break
        order = solver.solve(problem, width=width)
        peak = peak_of(graph.reordered(order), target)
        if peak < best_peak:
            best, best_peak = order, peak
    return best
