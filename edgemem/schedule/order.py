"""A good order for a graph's operators: the best that the solvers find, and never worse than the order it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.errors import MissingDependencyError, PlanError, UnknownStrategyError
from edgemem.schedule import (  # noqa: F401 - registered by their import
    beam,
    depth_first,
    ilp,
    neighbourhood,
    parts,
)
from edgemem.schedule.bound import order_bound
from edgemem.schedule.greedy import greedy_order
from edgemem.schedule.ordering import Ordering, Start, Stopped
from edgemem.schedule.overlaps import has_overlaps, order_with_overlaps
from edgemem.schedule.peak import least_peak, order_peak, peak_of
from edgemem.schedule.precedence import has_shared_bodies, is_reorderable
from edgemem.schedule.problem import order_problem
from edgemem.schedule.registry import SOLVERS
from edgemem.strategy.clock import Clock
from edgemem.strategy.options import SEED, TIME_LIMIT, normal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.plans import OptionValue
    from edgemem.schedule.registry import Solver
    from edgemem.strategy.options import Option
    from edgemem.targets import Target

__all__ = ["find_order"]

_LIMITS: Mapping[str, Option] = {"effort": ("default", "fast", "max"), "seed": SEED, "time_limit": TIME_LIMIT}
_MOVES: Mapping[str, int] = {"fast": 5_000, "default": 20_000, "max": 500_000}  # steps of `order_with_overlaps`


def find_order(
    graph: Graph,
    target: Target,
    *,
    method: str = "auto",
    effort: str | None = None,
    seed: int | None = None,
    time_limit: float | None = None,
) -> Ordering:
    """The order of the operators with the smallest lower bound of the arena under a target that was found.

    Operators with side effects keep their order, and so do those that share a variable and the pairs of
    `graph.precedence`. The result is the graph's own order unless another one is really better. A graph in which two
    operators write one tensor keeps its order.

    `auto` runs all solvers, the quick ones first, each with the best order of those before it, until a lower bound is
    reached. It does without those that lack a dependency or that the number of operators would keep too long. Without
    `effort`, those that need a dependency make little of it.

    Args:
        graph: in the order of its file.
        target: whose lifetimes and aliasing count.
        method: a solver, or "auto" for the best of all.
        effort: "fast", "default" or "max": work, which is counted the same on every machine.
        seed: of random choices, from 0.
        time_limit: seconds for all solvers together; with it the order depends on the machine.

    Raises:
        UnknownStrategyError: there is no such method, or an option is out of range.
        MissingDependencyError: the method needs what is not installed.
        UnsupportedError: an activation's dtype has no fixed width.
    """
    clock = Clock(time_limit)
    limits = _checked({"effort": effort, "seed": seed, "time_limit": time_limit})
    solvers = _solvers(method)
    if not is_reorderable(graph):
        given = peak_of(graph, target)
        return Ordering(tuple(range(len(graph.ops))), given, given, given, "given", "bound", clock.seconds())
    if not has_overlaps(target):
        return _search(graph, target, solvers, limits, clock, is_auto=method == "auto")
    # Rules without overlaps are only near to the target's, so that more work for them is seldom worth it.
    if method == "auto":
        solvers = [solver for solver in solvers if solver.extra is None]
    limits.setdefault("effort", "fast")

    def find(rules: Target) -> Ordering:
        return _search(graph, rules, solvers, limits, Clock(clock.left(2)), is_auto=method == "auto")

    steps = _MOVES[effort or "default"] if method == "auto" else 0
    return order_with_overlaps(graph, target, find, clock, steps)


def _search(
    graph: Graph,
    target: Target,
    solvers: Sequence[Solver],
    limits: Mapping[str, OptionValue],
    clock: Clock,
    *,
    is_auto: bool,
) -> Ordering:
    """The best that solvers find which run one after the other. Arguments and errors as `find_order`."""
    search = _Search(graph, target, clock)
    for at, solver in enumerate(solvers):
        if search.is_done or clock.is_up() or (is_auto and solver.is_slow(len(graph.ops))):
            continue
        given_limits = dict(limits, time_limit=clock.left(sum("time_limit" in s.options for s in solvers[at:]) or 1))
        if is_auto and solver.extra:
            given_limits.setdefault("effort", "fast")
        try:
            search.run(solver, given_limits)
        except (MissingDependencyError, PlanError):
            if not is_auto:
                raise
    return search.result(SOLVERS["beam"] if is_auto else solvers[0], limits)


class _Search:
    """What solvers that run one after the other have found."""

    def __init__(self, graph: Graph, target: Target, clock: Clock) -> None:
        self._graph, self._target, self._clock = graph, target, clock
        self._problem = order_problem(graph, target)
        self._order = tuple(range(len(graph.ops)))
        self._given = self._peak = peak_of(graph, target)
        self._method = "given"
        self._padded = order_peak(self._problem, self._order)  # of the same order
        self._start = Start(self._order, self._padded, least_peak(self._problem))
        self._is_proved = False  # the bound, by a solver
        self._out_of: set[Stopped] = set()
        greedy = greedy_order(self._problem)
        reached = order_peak(self._problem, greedy)
        if reached < self._padded:
            self._start = replace(self._start, order=greedy, peak=reached)
        if self._start.peak > self._start.bound:
            self._start = replace(self._start, bound=order_bound(self._problem, self._start.order))

    @property
    def is_done(self) -> bool:
        """Whether the best order is at the bound of the problem."""
        return self._padded <= self._start.bound

    def run(self, solver: Solver, limits: Mapping[str, OptionValue | None]) -> None:
        found = solver.solve(self._problem, start=self._start, **limits)
        padded = order_peak(self._problem, found.order)
        if found.bound > self._start.bound:
            self._start = replace(self._start, bound=found.bound)
            self._is_proved = True
        if padded < self._start.peak:
            self._start = replace(self._start, order=found.order, peak=padded)
        self._out_of.add(found.stopped)
        self._offer(found.order, padded, solver.name)

    def _offer(self, order: tuple[int, ...], padded: int, method: str) -> None:
        if padded - self._problem.padding >= self._peak:
            return
        reached = peak_of(self._graph.reordered(order), self._target)
        if reached < self._peak:
            self._order, self._peak, self._padded, self._method = order, reached, padded, method

    def result(self, closer: Solver, limits: Mapping[str, OptionValue]) -> Ordering:
        """What was found. Where padding alone separates it from its bound, the closer tries to close that gap."""
        # The problem keeps memory of a body that several operators run until the last of them is done, which may be
        # longer than it is needed: then it proves nothing.
        proves = not has_shared_bodies(self._graph)
        is_done = self.is_done and proves
        # The record that lies highest needs no padding.
        bound = max(self._start.bound - self._problem.padding, 0) if proves else 0
        if is_done and bound < self._peak:
            bound = max(bound, self._bound_without_padding(closer, limits))
        return Ordering(
            self._order,
            self._peak,
            self._given,
            bound,
            self._method,
            self._stopped(bound, is_done),
            self._clock.seconds(),
        )

    def _bound_without_padding(self, closer: Solver, limits: Mapping[str, OptionValue]) -> int:
        """The bound where no size is padded, which padding only adds to. A better order found there is taken over."""
        problem = order_problem(self._graph, replace(self._target, alignment=1))
        start = Start(self._order, order_peak(problem, self._order), least_peak(problem))
        if start.peak > start.bound:
            start = replace(start, bound=order_bound(problem, self._order))
        if start.peak > start.bound:
            found = closer.solve(problem, start=start, **dict(limits, time_limit=self._clock.left()))
            start = replace(start, bound=max(start.bound, found.bound))
            self._offer(found.order, order_peak(self._problem, found.order), closer.name)
        return start.bound - problem.padding

    def _stopped(self, bound: int, is_done: bool) -> Stopped:
        if is_done:
            return "bound" if not self._is_proved and self._peak == bound else "proof"
        if self._clock.is_up() or "time" in self._out_of:
            return "time"
        return "work" if "work" in self._out_of else "rule"


def _checked(limits: Mapping[str, OptionValue | None]) -> dict[str, OptionValue]:
    """Those that are given. Raises UnknownStrategyError."""
    checked = {}
    for name, value in limits.items():
        if value is None:
            continue
        try:
            checked[name] = normal(_LIMITS[name], value)
        except ValueError as e:
            raise UnknownStrategyError(f"order: {name} {e}") from None
    return checked


def _solvers(method: str) -> list[Solver]:
    """In the order in which they run. Raises UnknownStrategyError."""
    if method == "auto":
        return sorted(SOLVERS.values(), key=lambda s: s.rank)
    if method not in SOLVERS:
        raise UnknownStrategyError(f"no method {method!r} orders operators; there are: auto, {', '.join(SOLVERS)}")
    return [SOLVERS[method]]
