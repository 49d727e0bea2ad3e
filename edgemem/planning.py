"""From a problem to a set of plans: run one strategy, several, or all, and keep what they give."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from edgemem.bounds import lower_bounds, naive_size
from edgemem.errors import PlanError, UnknownStrategyError
from edgemem.plans import OffsetPlan, PlanSet, SearchReport, SharedObjectsPlan
from edgemem.strategy.catalogue import registered
from edgemem.strategy.options import default_of, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from edgemem.plans import LowerBounds, OptionValue, Plan
    from edgemem.records.problem import Problem, Size
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["Choice", "Limits", "choices", "make_plans", "run"]

# `auto` runs every quick strategy up to this many records, to have them all to compare; above, and for the slow
# ones always, it stops as soon as a bound is met.
COMPARE_ALL = 2000

# Up to this many records `auto` searches again, with effort "default", where nothing was proved optimal: that takes
# seconds.
SEARCH_AGAIN = 20_000


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
        limits: how hard to search. Without an effort `auto` searches with "fast", and where that proves nothing
            optimal among up to 20,000 records, again with "default".
        fits: bytes that the arena should not exceed (the objects, where only those are planned). Where it does, and
            no bound forbids it, `auto` searches again whatever the number of records.
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
        autos = [_Auto(problem, family, bounds, limits, clock, progress) for family in families]
        for auto in autos:
            made += auto.rules()
        for k, auto in enumerate(autos):
            auto.sharers = sum(bool(a.kept) for a in autos[k:]) or 1
            made += auto.last(fits if k == 0 else None)
        done = {(p.strategy, *p.options.items()) for p in made}
        for choice in also:
            new = (choice.strategy.name, *choice.options.items()) not in done
            if new and choice.strategy.honours(problem) and not clock.is_up():
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


class _Auto:
    """`auto` in one family. Where time is limited, the fixed rules of all families go first and share what is left."""

    def __init__(
        self,
        problem: Problem,
        family: Family,
        bounds: LowerBounds,
        limits: Limits,
        clock: _Clock,
        progress: Callable[[str], None],
    ) -> None:
        self._problem = problem
        self._bounds = bounds
        self._limits = limits
        self._clock = clock
        self._progress = progress
        self._bound = bounds.offsets if family == "offsets" else bounds.shared_objects  # the best that was proved
        self._best: int | None = None  # the smallest plan
        able = [s for s in registered(family) if s.honours(problem)]
        self._strategies = sorted(able, key=lambda s: s.limit is not None)
        self.kept: list[Strategy] = []  # for last
        self.sharers = 1  # families that what is left of the time is for
        self._slowest = 0.0  # seconds that a rule took
        if limits.time_limit is not None:
            # Those that can be trusted with a limit: of many records only the simplest rule and what takes a limit.
            searches = [s for s in self._strategies if "time_limit" in s.options]
            rules = [s for s in self._strategies if s not in searches and s.limit is None]
            first = len(rules) if len(problem) <= COMPARE_ALL else 1
            self._strategies, self.kept = rules[:first], searches or rules[first:]

    def rules(self) -> Iterator[Plan]:
        """All variants of the strategies, quick ones first; without a time limit also of the searches."""
        return self._all(self._strategies)

    def last(self, fits: int | None) -> Iterator[Plan]:
        """What was kept for last, and another try for what is not proved optimal, or does not fit."""
        yield from self._all(self.kept)
        if self._limits.effort is not None:
            return
        for strategy in (*self._strategies, *self.kept):
            if "effort" in strategy.options and self._wants_more(fits):
                yield from self._made(Choice(strategy, self._limits.options(strategy)))

    def _wants_more(self, fits: int | None) -> bool:
        if self._best is None or self._best <= self._bound:
            return False
        return len(self._problem) <= SEARCH_AGAIN or (fits is not None and self._best > fits >= self._bound)

    def _all(self, strategies: Iterable[Strategy]) -> Iterator[Plan]:
        for strategy in strategies:
            met = self._best is not None and self._best <= self._bound
            quick = strategy.limit is None and len(self._problem) <= COMPARE_ALL
            if (met and not quick) or (strategy.limit is not None and len(self._problem) > strategy.limit):
                continue
            given = self._limits.options(strategy)
            for variant in strategy.variants():
                # An effort that was asked for counts, not the one that `auto` prefers.
                options = {k: v for k, v in variant.items() if k != "effort" or self._limits.effort is None} | given
                yield from self._made(Choice(strategy, options))

    def _made(self, choice: Choice) -> Iterator[Plan]:
        """The plan, where there is one to have: no solver, one that gave up, or no time leave the others' plans."""
        timed = "time_limit" in choice.strategy.options
        left = self._clock.left(self.sharers)
        # A rule cannot be ended: it may take as long as the slowest before it.
        if self._best is not None and left is not None and left <= (0.0 if timed else self._slowest):
            return
        self._progress(str(choice))
        seconds = left if timed else None
        begin = time.monotonic()
        try:
            plan = run(self._problem, choice, self._bounds, seconds)
        except PlanError:
            return
        if not timed:
            self._slowest = max(self._slowest, time.monotonic() - begin)
        self._best = plan.size if self._best is None else min(self._best, plan.size)
        self._bound = max(self._bound, plan.search.bound if plan.search else 0)
        yield plan
