"""`auto` in one family: a rule that always has a plan, the strategies that are best somewhere, then a longer search.

A strategy is part of `auto` where no other one finds a plan as small for some published or generated instance
(docs/search.md); the others run where they are named.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.planning.choice import Choice
from edgemem.planning.strategy_plan import run
from edgemem.strategy.catalogue import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from edgemem.planning.limits import Limits
    from edgemem.plans import LowerBounds, Plan
    from edgemem.records.problem import Problem
    from edgemem.strategy.clock import Clock
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["MOST_FOR_RULES", "SEARCH_AGAIN", "AutoPlanner"]

# Above this many records `auto` runs only its simplest rule where time is limited, as rules cannot be stopped.
MOST_FOR_RULES = 2000

# Up to this many records `auto` searches again with effort "default" where no plan is proved optimal. That takes
# seconds.
SEARCH_AGAIN = 20_000


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the strategies that ran so far have found.

    Attributes:
        bound: bytes (or texels) that no plan can go below, the best that was proved.
        best: size of the smallest plan, None before there is one.
        slowest_s: seconds of the slowest strategy that takes no time limit.
    """

    bound: int
    best: int | None = None
    slowest_s: float = 0.0

    @property
    def is_optimal(self) -> bool:
        return self.best is not None and self.best <= self.bound

    def after(self, plan: Plan) -> _Standing:
        best = plan.size if self.best is None else min(self.best, plan.size)
        return replace(self, best=best, bound=max(self.bound, plan.search.bound if plan.search else 0))


class AutoPlanner:
    """`auto` in one family.

    Without a time limit the first round runs all and the second round only searches again. With one, the first round
    runs the fixed rules, and the second round gives the searches what is left of the time.

    The rounds stop at the first plan at a lower bound. With `quick` they do not search again with a greater effort.
    """

    def __init__(
        self,
        problem: Problem,
        family: Family,
        bounds: LowerBounds,
        limits: Limits,
        clock: Clock,
        progress: Callable[[str], None],
        *,
        quick: bool = False,
    ) -> None:
        self._problem = problem
        self._bounds = bounds
        self._limits = limits
        self._clock = clock
        self._progress = progress
        self._quick = quick
        self._standing = _Standing(bounds.offsets if family == "offsets" else bounds.shared_objects)
        own = [s for s in registered(family) if s.package == "edgemem" and s.auto is not None]
        strategies = tuple(s for s in own if s.can_plan(problem))
        if limits.time_limit is None:
            self._first: tuple[Strategy, ...] = strategies
            self._deferred: tuple[Strategy, ...] = ()
        else:
            # A strategy that takes no limit cannot be stopped: for many records only the simplest rule runs.
            searches = tuple(s for s in strategies if "time_limit" in s.options)
            rules = tuple(s for s in strategies if s not in searches)
            count = len(rules) if len(problem) <= MOST_FOR_RULES else 1
            self._first, self._deferred = rules[:count], searches or rules[count:]

    @property
    def has_deferred(self) -> bool:
        """Whether the second round has strategies that the first one left out."""
        return bool(self._deferred)

    def first_round(self) -> list[Plan]:
        """Runs all variants of the strategies, quick ones first. Without a time limit that includes the searches."""
        return self._run_all(self._first, sharers=1)

    def second_round(self, *, sharers: int, fits: int | None) -> list[Plan]:
        """Runs the deferred strategies, then searches again if no plan is proved optimal, or the best does not fit.

        Args:
            sharers: families that divide the remaining time evenly, this one included.
            fits: bytes that the plan should not exceed, or None.
        """
        made = self._run_all(self._deferred, sharers=sharers)
        if self._quick or self._limits.effort is not None:
            return made
        for strategy in (*self._first, *self._deferred):
            if "effort" in strategy.options and self._should_search_again(fits):
                made += self._attempt(Choice(strategy, self._limits.options(strategy)), sharers)
        return made

    def _should_search_again(self, fits: int | None) -> bool:
        standing = self._standing
        if standing.best is None or standing.is_optimal:
            return False
        return len(self._problem) <= SEARCH_AGAIN or (fits is not None and standing.best > fits >= standing.bound)

    def _run_all(self, strategies: Iterable[Strategy], *, sharers: int) -> list[Plan]:
        made: list[Plan] = []
        for strategy in strategies:
            given = self._limits.options(strategy)
            for variant in strategy.variants():
                if self._standing.is_optimal:
                    return made
                # The user's effort replaces the one that `auto` prefers.
                options = {k: v for k, v in variant.items() if k != "effort" or self._limits.effort is None} | given
                made += self._attempt(Choice(strategy, options), sharers)
        return made

    def _attempt(self, choice: Choice, sharers: int) -> list[Plan]:
        """The plan in a list; an empty list if no time is left, a solver is missing, or the strategy fails."""
        takes_limit = "time_limit" in choice.strategy.options
        left = self._clock.left(sharers)
        # A rule without a limit may take as long as the slowest one before it.
        least = 0.0 if takes_limit else self._standing.slowest_s
        if self._standing.best is not None and left is not None and left <= least:
            return []
        standing = self._standing
        so_far = "" if standing.best is None else f"; best so far {standing.best:,}, no less than {standing.bound:,}"
        self._progress(f"{choice}{so_far}")
        begin = time.monotonic()
        try:
            plan = run(self._problem, choice, self._bounds, left if takes_limit else None)
        except PlanError:
            return []
        if not takes_limit:
            seconds = time.monotonic() - begin
            self._standing = replace(self._standing, slowest_s=max(self._standing.slowest_s, seconds))
        self._standing = self._standing.after(plan)
        return [plan]
