"""From a problem to a set of plans: run one strategy, several, or all, and keep what they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from edgemem.bounds import lower_bounds, naive_size
from edgemem.errors import MissingDependencyError, PlanError, UnknownStrategyError
from edgemem.plans import OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.strategy.registry import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from edgemem.plans import LowerBounds, OptionValue, Plan
    from edgemem.records import Problem, Size
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["Choice", "choices", "make_plans", "run"]

# `auto` runs every quick strategy up to this many records, to have them all to compare; above, and for the slow
# ones always, it stops as soon as a bound is met.
COMPARE_ALL = 2000


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
        options = {k: _option(strategy, k, v) for k, v in given.items()}
        strategy.check(options)
        chosen.append(Choice(strategy, options))
    if not chosen:
        found[0].check(given)
    return tuple(chosen)


def _option(strategy: Strategy, name: str, text: str) -> OptionValue:
    return next((value for value in strategy.options.get(name, ()) if str(value).lower() == text.lower()), text)


def run(problem: Problem, choice: Choice, bounds: LowerBounds) -> Plan:
    """One strategy's plan."""
    strategy, options = choice.strategy, dict(choice.options)
    found = strategy.solve(problem, **options)
    result = found.values
    result.flags.writeable = False
    proved = -1 if found.bound is None else found.bound
    if strategy.family == "offsets":
        tops = (result + problem.size)[problem.size > 0]
        size = int(tops.max()) if len(tops) else 0
        return OffsetPlan(strategy.name, options, result, size, size in (bounds.offsets, proved))
    objects = _object_sizes(problem, result.tolist())
    size = sum(o if isinstance(o, int) else prod(o) for o in objects)
    optimal = size in (bounds.shared_objects, proved)
    return SharedObjectsPlan(strategy.name, options, result, objects, size, optimal)


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


def make_plans(
    problem: Problem,
    wanted: Iterable[Choice] = (),
    *,
    also: Iterable[Choice] = (),
    families: Sequence[Family] = ("offsets", "shared_objects"),
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Plans for a problem, without a model around it.

    Args:
        problem: the usage records.
        wanted: strategies to run; none means `auto`: all of both families and all their variants, cheapest first,
            stopping at a lower bound.
        also: strategies that `auto` runs in any case, bound or no bound.
        families: what `auto` covers.
        progress: called with each strategy's name before it runs.

    Raises:
        PlanError: a strategy that was asked for by name failed, or a family has no plan.
    """
    bounds = lower_bounds(problem)
    made: list[Plan] = []
    wanted = tuple(wanted)
    for choice in wanted:
        progress(str(choice))
        made.append(run(problem, choice, bounds))
    if not wanted:
        for family in families:
            made += _auto(problem, family, bounds, progress)
        done = {(p.strategy, *p.options.items()) for p in made}
        made += [run(problem, c, bounds) for c in also if (c.strategy.name, *c.options.items()) not in done]
    return PlanSet(
        problem,
        naive_size(problem),
        bounds,
        tuple(p for p in made if isinstance(p, OffsetPlan)),
        tuple(p for p in made if isinstance(p, SharedObjectsPlan)),
    )


def _auto(problem: Problem, family: Family, bounds: LowerBounds, progress: Callable[[str], None]) -> Iterator[Plan]:
    """All variants of a family's strategies, quick ones first."""
    strategies = sorted(registered(family), key=lambda s: s.limit is not None)
    met = False
    for strategy in strategies:
        quick = strategy.limit is None and len(problem) <= COMPARE_ALL
        if (met and not quick) or (strategy.limit is not None and len(problem) > strategy.limit):
            continue
        for options in strategy.variants():
            choice = Choice(strategy, options)
            progress(str(choice))
            try:
                plan = run(problem, choice, bounds)
            except MissingDependencyError:
                break  # `auto` does without
            except PlanError:
                continue  # a solver that gave up leaves the others' plans
            yield plan
            met = met or plan.optimal
