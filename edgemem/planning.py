"""From a problem to a set of plans: run one strategy, several, or all, and keep what they give."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from edgemem.bounds import lower_bounds, naive_size
from edgemem.errors import PlanError, UnknownStrategyError
from edgemem.plans import OffsetPlan, PlanSet, SearchReport, SharedObjectsPlan
from edgemem.strategy.options import default_of, parsed
from edgemem.strategy.registry import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from edgemem.plans import LowerBounds, OptionValue, Plan
    from edgemem.records import Problem, Size
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["Choice", "Limits", "choices", "make_plans", "run"]

# `auto` runs every quick strategy up to this many records, to have them all to compare; above, and for the slow
# ones always, it stops as soon as a bound is met.
COMPARE_ALL = 2000


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard the searches try. None leaves a strategy at its own default, and `auto` at its own.

    Attributes:
        effort: "fast", "default" or "max": work, which is counted the same on every machine.
        seed: of their random choices, from 0.
        time_limit: seconds for all strategies together; with it the plans depend on the machine.
        threads: of each search that has them; the work is that of each thread.
    """

    effort: str | None = None
    seed: int | None = None
    time_limit: float | None = None
    threads: int | None = None

    def options(self, strategy: Strategy) -> dict[str, OptionValue]:
        """Those that the strategy takes and that differ from its defaults. Raises UnknownStrategyError."""
        given = {name: getattr(self, name) for name in ("effort", "seed", "time_limit", "threads")}
        taken = {name: value for name, value in given.items() if value is not None and name in strategy.options}
        checked = strategy.check(taken)
        return {name: value for name, value in checked.items() if value != default_of(strategy.options[name])}

    def check(self, wanted: Sequence[Choice]) -> None:
        """Raise UnknownStrategyError for a value out of range, and for a limit that would limit nothing.

        Threads only say how many there may be, so that any strategy goes with them.
        """
        for strategy in registered():
            self.options(strategy)
        for name in ("effort", "seed", "time_limit"):
            if getattr(self, name) is None or not wanted or any(name in c.strategy.options for c in wanted):
                continue
            having = ", ".join(dict.fromkeys(s.name for s in registered() if name in s.options))
            raise UnknownStrategyError(
                f"no strategy among those chosen has the option {name!r}; it belongs to {having}"
            )


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy with its options, as asked for."""

    strategy: Strategy
    options: Mapping[str, OptionValue] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.strategy.name}{f':{options}' if options else ''}"


def choices(text: str) -> tuple[Choice, ...]:
    """What `--strategy` names: `auto`, or `[FAMILY/]NAME[:OPTION=VALUE,...]` in every family that has the name.

    Returns () for `auto`. Raises UnknownStrategyError for a name or option that is not registered.
    """
    if text == "auto":
        return ()
    name, _, tail = text.partition(":")
    family, _, bare = name.rpartition("/")
    if family and family not in ("offsets", "shared_objects"):
        raise UnknownStrategyError(f"{family!r} is no family; there are offsets and shared_objects")
    found = [s for s in registered() if s.name == bare and family in ("", s.family)]
    if not found:
        known = ", ".join(dict.fromkeys(s.name for s in registered() if family in ("", s.family)))
        raise UnknownStrategyError(f"no strategy {bare!r}; there are auto, {known}")
    given = dict(part.partition("=")[::2] for part in tail.split(",") if part)
    chosen = []
    for strategy in found:
        if not family and not given.keys() <= strategy.options.keys() and len(found) > 1:
            continue  # the options belong to the strategy of that name in the other family
        values = {k: parsed(strategy.options[k], v) if k in strategy.options else v for k, v in given.items()}
        chosen.append(Choice(strategy, strategy.check(values)))
    if not chosen:
        found[0].check(given)
    return tuple(chosen)


def run(problem: Problem, choice: Choice, bounds: LowerBounds, seconds: float | None = None) -> Plan:
    """One strategy's plan.

    Args:
        problem: the usage records.
        choice: what to run; its options are kept with the plan.
        bounds: of the problem.
        seconds: what is left to a strategy that takes a time limit, instead of the one among its options.
    """
    strategy, options = choice.strategy, dict(choice.options)
    found = strategy.solve(problem, **options if seconds is None else options | {"time_limit": seconds})
    result = found.values
    result.flags.writeable = False
    bound = bounds.offsets if strategy.family == "offsets" else bounds.shared_objects
    report = None
    if found.bound is not None:
        seed = options.get("seed", default_of(strategy.options["seed"])) if "seed" in strategy.options else None
        bound = max(bound, found.bound)
        report = SearchReport(bound, found.stopped, found.work, seed if isinstance(seed, int) else None)
    if strategy.family == "offsets":
        tops = (result + problem.size)[problem.size > 0]
        size = int(tops.max()) if len(tops) else 0
        return OffsetPlan(strategy.name, options, result, size, size == bound, report)
    objects = _object_sizes(problem, result.tolist())
    size = sum(o if isinstance(o, int) else prod(o) for o in objects)
    return SharedObjectsPlan(strategy.name, options, result, objects, size, size == bound, report)


def _object_sizes(problem: Problem, assignment: Sequence[int]) -> tuple[Size, ...]:
    count = max(assignment, default=-1) + 1
    if problem.extents is None:
        sizes = [0] * count
        for number, size in zip(assignment, problem.size.tolist(), strict=True):
            sizes[number] = max(sizes[number], size)
        return tuple(sizes)
    rank = problem.extents.shape[1]
    extents = [(0,) * rank] * count
    for number, extent in zip(assignment, problem.extents.tolist(), strict=True):
        extents[number] = tuple(map(max, extents[number], extent))
    return tuple((e[0], e[1]) if rank == 2 else (e[0], e[1], e[2]) for e in extents)


class _Clock:
    """The time that is left; None where there is no limit."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._begin = time.monotonic()

    def left(self, sharers: int = 1) -> float | None:
        """Seconds, shared evenly with those that are still to come."""
        return None if self._limit is None else max(0.0, self._limit - (time.monotonic() - self._begin)) / sharers

    def is_up(self) -> bool:
        return self.left() == 0.0


def make_plans(
    problem: Problem,
    wanted: Iterable[Choice] = (),
    *,
    also: Iterable[Choice] = (),
    families: Sequence[Family] = ("offsets", "shared_objects"),
    limits: Limits | None = None,
    fits: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Plans for a problem, without a model around it.

    Args:
        problem: the usage records.
        wanted: strategies to run; none means `auto`: all of both families and all their variants, cheapest first,
            stopping at a lower bound.
        also: strategies that `auto` runs in any case, bound or no bound, while there is time.
        families: what `auto` covers.
        limits: how hard to search. `auto` makes its searches with effort "fast" unless it says otherwise.
        fits: bytes that the arena should not exceed (the objects, where only those are planned). Where it does, and
            no bound forbids it, `auto` searches again with effort "default", unless `limits` gives an effort.
        progress: called with each strategy's name before it runs.

    Raises:
        UnknownStrategyError: a limit that no strategy takes so.
        PlanError: a strategy that was asked for by name failed, or a family has no plan.
    """
    limits = limits or Limits()
    clock = _Clock(limits.time_limit)
    wanted = tuple(Choice(c.strategy, {**limits.options(c.strategy), **c.options}) for c in wanted)
    limits.check(wanted)
    bounds = lower_bounds(problem)
    made: list[Plan] = []
    for k, choice in enumerate(wanted):
        progress(str(choice))
        made.append(run(problem, choice, bounds, _share(choice, wanted[k + 1 :], clock)))
    if not wanted:
        for k, family in enumerate(families):
            auto = _Auto(problem, family, bounds, limits, clock, len(families) - k, progress)
            made += auto.plans(fits if k == 0 else None)
        done = {(p.strategy, *p.options.items()) for p in made}
        for choice in also:
            if (choice.strategy.name, *choice.options.items()) not in done and not clock.is_up():
                made.append(run(problem, choice, bounds))
    offsets = [p for p in made if isinstance(p, OffsetPlan)]
    objects = [p for p in made if isinstance(p, SharedObjectsPlan)]
    planset = PlanSet(problem, naive_size(problem), bounds, tuple(offsets), tuple(objects))
    # What one strategy proved makes another's plan of that size optimal, too.
    best = planset.proved
    return replace(
        planset,
        offsets=tuple(replace(p, optimal=p.size == best.offsets) for p in offsets),
        shared_objects=tuple(replace(p, optimal=p.size == best.shared_objects) for p in objects),
    )


def _share(choice: Choice, later: Sequence[Choice], clock: _Clock) -> float | None:
    """Seconds for a search among others that were asked for by name; None for none, or for what takes no limit."""
    left = clock.left(1 + sum("time_limit" in c.strategy.options for c in later))
    if left is None or "time_limit" not in choice.strategy.options:
        return None
    own = choice.options["time_limit"]
    assert isinstance(own, float)
    return min(own, left)


@dataclass
class _Auto:
    """`auto` in one family, of which `families` are still to be planned."""

    problem: Problem
    family: Family
    bounds: LowerBounds
    limits: Limits
    clock: _Clock
    families: int
    progress: Callable[[str], None]
    bound: int = 0  # the best that was proved
    best: int | None = None  # the smallest plan

    def plans(self, fits: int | None) -> Iterator[Plan]:
        """All variants of the family's strategies, quick ones first, and searches last if time is limited."""
        self.bound = self.bounds.offsets if self.family == "offsets" else self.bounds.shared_objects
        strategies = sorted(registered(self.family), key=lambda s: s.limit is not None)
        if self.limits.time_limit is not None:
            strategies = self._timed(strategies)
        for strategy in strategies:
            quick = strategy.limit is None and len(self.problem) <= COMPARE_ALL
            if (self._met() and not quick) or (strategy.limit is not None and len(self.problem) > strategy.limit):
                continue
            given = self.limits.options(strategy)
            for variant in strategy.variants():
                # An effort that was asked for counts, not the one that `auto` prefers.
                options = {k: v for k, v in variant.items() if k != "effort" or self.limits.effort is None} | given
                plan = self._made(Choice(strategy, options))
                if plan is not None:
                    yield plan
        if fits is None or self.limits.effort is not None:
            return
        for strategy in strategies:
            if "effort" in strategy.options and self.best is not None and self.best > fits >= self.bound:
                plan = self._made(Choice(strategy, self.limits.options(strategy)))
                if plan is not None:
                    yield plan

    def _timed(self, strategies: list[Strategy]) -> list[Strategy]:
        """Those that can be trusted with a time limit: of many records only the simplest and what takes a limit."""
        searches = [s for s in strategies if "time_limit" in s.options]
        rules = [s for s in strategies if s not in searches and s.limit is None]
        few = len(self.problem) <= COMPARE_ALL or not searches
        return (rules if few else rules[:1]) + searches

    def _met(self) -> bool:
        return self.best is not None and self.best <= self.bound

    def _made(self, choice: Choice) -> Plan | None:
        """The plan; None where there is none to have: no solver, one that gave up, or no time."""
        timed = "time_limit" in choice.strategy.options
        if self.best is not None and self.clock.is_up():
            return None
        self.progress(str(choice))
        try:
            plan = run(self.problem, choice, self.bounds, self.clock.left(self.families) if timed else None)
        except PlanError:
            return None
        self.best = plan.size if self.best is None else min(self.best, plan.size)
        self.bound = max(self.bound, plan.search.bound if plan.search else 0)
        return plan
