"""What recomputation makes of a graph: ways to run it with a lower peak for more arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.model.macs import macs_of
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.remat.curve import recompute_curve
from edgemem.remat.operators import estimated_costs, repeatable
from edgemem.remat.search import recompute
from edgemem.schedule.overlaps import bound_with_overlaps, has_overlaps
from edgemem.schedule.peak import least_peak, order_peak, peak_of
from edgemem.schedule.precedence import is_reorderable
from edgemem.schedule.problem import order_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgemem.model.graph import Graph
    from edgemem.remat.recompute_schedule import RecomputeSchedule
    from edgemem.targets import Target

__all__ = ["Front", "SearchEffort", "Way", "find_front", "find_ways"]

_LOWER: Final = 0.95  # a second limit, of the first one
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """How hard to search, as `recompute` takes it."""

    effort: str = "fast"
    seed: int = 1
    time_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """A sequence in which the operators of a graph run.

    Attributes:
        runs: indices of operators, as `repeat` takes them.
        peak: the lower bound of the arena of the graph that runs so, in bytes (texels for textures).
        macs: multiply-accumulate operations.
    """

    runs: tuple[int, ...]
    peak: int
    macs: int


@dataclass(frozen=True, slots=True)
class Front:
    """Ways to run a graph.

    Attributes:
        ways: the graph as it is, then those with a lower and lower peak for more and more arithmetic. One without more
            arithmetic than the first is another order.
        lower_bound: no sequence of runs has a lower peak, in whatever order and however often operators run.
    """

    ways: tuple[Way, ...]
    lower_bound: int


def find_front(
    graph: Graph, target: Target, *, max_macs: float, points: int = 8, search: SearchEffort | None = None
) -> Front:
    """What less memory costs in arithmetic, down to the lowest peak that so much arithmetic pays for.

    Args:
        graph: in the order from which the search starts.
        target: whose rules count memory.
        max_macs: the most multiply-accumulate operations, as a multiple of the graph's.
        points: how many budgets are tried besides, evenly spaced; at most so many ways more are found.
        search: how hard to search.

    Raises UnsupportedError for an activation whose dtype has no fixed width.
    """
    ways = _Ways(graph, target, max_macs, search or SearchEffort())
    ways.add(ways.curve(points))
    ways.add_lowest()
    return ways.front()


def find_ways(
    graph: Graph, target: Target, *, max_macs: float, budget: int | None = None, search: SearchEffort | None = None
) -> Front:
    """Ways to run a graph with peaks near to a budget, or with the lowest peak that so much arithmetic pays for.

    Args:
        graph: in the order from which the search starts.
        target: whose rules count memory.
        max_macs: the most multiply-accumulate operations, as a multiple of the graph's.
        budget: bytes (texels for textures), which the ways may miss; None for the lowest peak.
        search: how hard to search.

    Raises UnsupportedError for an activation whose dtype has no fixed width.
    """
    ways = _Ways(graph, target, max_macs, search or SearchEffort())
    if budget is None:
        ways.add_lowest()
    else:
        ways.add(ways.near(budget))
        if ways.lowest() > budget:
            ways.add_lowest()  # a search that looks at the arithmetic, too
    return ways.front()


class _Ways:
    """The ways to run one graph that were found."""

    def __init__(self, graph: Graph, target: Target, max_macs: float, search: SearchEffort) -> None:
        self._graph, self._target, self._most, self._search = graph, target, max_macs, search
        self._macs = [macs_of(graph, op) for op in graph.ops]
        self._total = sum(self._macs)
        given = tuple(range(len(graph.ops)))
        self._ways = [Way(given, peak_of(graph, target), self._total)]
        self._is_fixed = not is_reorderable(graph) or bool(target.states)
        self._problem = order_problem(graph, target)
        self._costs = estimated_costs(graph, self._problem)
        # What writes graph outputs stays, and bodies capture what they read by name.
        fixed = set(graph.outputs).union(*(op.inputs for op in graph.ops if op.bodies))
        self._again = frozenset(k for k in repeatable(graph) if fixed.isdisjoint(graph.ops[k].outputs))

    def add(self, schedules: Iterable[RecomputeSchedule]) -> None:
        for schedule in schedules:
            spent = sum(self._macs[k] for k in schedule.runs)
            if spent <= self._most * self._total:
                peak = peak_of(repeat(self._graph, schedule.runs).graph, self._target)
                self._ways.append(Way(schedule.runs, peak, spent))

    def add_lowest(self) -> None:
        """The lowest peak within the arithmetic. Costs are estimated times, so that a limit of them is adapted."""
        limit = self._most
        for _ in range(_TRIES):
            if self._is_fixed:
                return
            schedule = recompute(self._problem, self._costs, most_cost=limit, **self._options())
            spent = sum(self._macs[k] for k in schedule.runs) / max(self._total, 1)
            self.add([schedule])
            if spent <= self._most:
                return
            limit = 1 + (limit - 1) * (self._most - 1) / (spent - 1) * _LOWER

    def lowest(self) -> int:
        """The lowest peak that was found."""
        return min(way.peak for way in self._ways)

    def curve(self, points: int) -> Iterable[RecomputeSchedule]:
        """The least costs for budgets between the lowest peak and that of the graph as it is."""
        if self._is_fixed:
            return ()
        return recompute_curve(self._problem, self._costs, most_cost=self._most, points=points, **self._options())

    def near(self, budget: int) -> Iterator[RecomputeSchedule]:
        """For the budget, and for a lower one, which a plan may need."""
        # What may lie inside each other lies side by side in the problem, whose padding counts, too.
        apart = order_peak(self._problem, range(self._problem.count)) - self._ways[0].peak
        for limit in dict.fromkeys((budget + apart, budget, int(budget * _LOWER))):
            if not self._is_fixed:
                yield recompute(self._problem, self._costs, budget=limit, **self._options())

    def front(self) -> Front:
        if has_overlaps(self._target):
            bound = bound_with_overlaps(self._graph, self._target)
        else:
            bound = least_peak(self._problem) - self._problem.padding
        front = self._ways[:1]
        for way in sorted(self._ways[1:], key=lambda w: (w.macs, len(w.runs), w.peak)):
            if way.peak < front[-1].peak:
                front.append(way)
        return Front(tuple(front), max(bound, 0))

    def _options(self) -> dict[str, Any]:
        search = self._search
        return {
            "effort": search.effort,
            "seed": search.seed,
            "time_limit": search.time_limit,
            "may_repeat": self._again,
        }
