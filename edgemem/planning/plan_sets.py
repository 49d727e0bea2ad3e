"""From a problem to a set of plans: run one strategy, several, or all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.planning.choice import Choice
from edgemem.planning.limits import Limits
from edgemem.planning.strategy_plan import run
from edgemem.planning.strategy_selection import AutoPlanner
from edgemem.plans import OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.strategy.catalogue import registered
from edgemem.strategy.clock import Clock
from edgemem.strategy.registry import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from edgemem.plans import Plan
    from edgemem.records.problem import Problem
    from edgemem.strategy.registry import Family

__all__ = ["make_plans"]


def make_plans(
    problem: Problem,
    wanted: Iterable[Choice] = (),
    *,
    families: Sequence[Family] = ("offsets", "shared_objects"),
    limits: Limits | None = None,
    fits: int | None = None,
    quick: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Plans for a problem, without a model around it.

    Args:
        problem: the usage records.
        wanted: strategies to run; none means `auto`: its strategies in both families, cheapest first, stopping at a
            lower bound.
        families: what `auto` covers.
        limits: how hard to search. Without an effort `auto` searches with "fast", and where that proves nothing
            optimal among up to 20,000 records, again with "default".
        fits: bytes that the arena should not exceed (the objects, where only those are planned). Where it does, and
            no bound forbids it, `auto` searches again whatever the number of records.
        quick: `auto` searches once.
        progress: called before each strategy runs, with its name and the best size so far.

    Raises:
        UnknownStrategyError: a limit that no strategy takes so.
        PlanError: a strategy that was asked for by name failed, or a family has no plan.
    """
    limits = limits or Limits()
    clock = Clock(limits.time_limit)
    wanted = tuple(Choice(c.strategy, {**limits.options(c.strategy), **c.options}) for c in wanted)
    limits.check(wanted)
    bounds = lower_bounds(problem)
    made: list[Plan] = []
    for k, choice in enumerate(wanted):
        progress(str(choice))
        made.append(run(problem, choice, bounds, _seconds_for(choice, wanted[k + 1 :], clock)))
    if not wanted:
        _require_able(problem, families)
        autos = [AutoPlanner(problem, family, bounds, limits, clock, progress, quick=quick) for family in families]
        for auto in autos:
            made += auto.first_round()
        for k, auto in enumerate(autos):
            sharers = sum(a.has_deferred for a in autos[k:]) or 1
            made += auto.second_round(sharers=sharers, fits=fits if k == 0 else None)
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


def _require_able(problem: Problem, families: Sequence[Family]) -> None:
    """Raise PlanError where no strategy of the first family honours all that the problem asks for."""
    able = registered(families[0]) if families else ()
    if able and not any(strategy.can_plan(problem) for strategy in able):
        raise PlanError(
            f"no strategy for {families[0]} honours {in_words(problem.features - {'state'})}; plan without some of them"
        )


def _seconds_for(choice: Choice, later: Sequence[Choice], clock: Clock) -> float | None:
    """Seconds for one of several strategies that the user named; None where there is no limit, or it takes none."""
    left = clock.left(1 + sum("time_limit" in c.strategy.options for c in later))
    if left is None or "time_limit" not in choice.strategy.options:
        return None
    own = choice.options["time_limit"]
    assert isinstance(own, float)
    return min(own, left)
