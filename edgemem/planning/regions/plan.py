"""The plan of a problem whose records may lie in several regions: regions by cost, then offsets in each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import PlanError
from edgemem.planning.regions.items import items_of
from edgemem.planning.regions.packing import Packing
from edgemem.planning.regions.refusal import no_choice_error, refuse_misfits
from edgemem.planning.regions.search import RegionChoice, choose_accepted, choose_regions, improved_choice
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.system.distribution import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.planning.regions.items import Items
    from edgemem.plans import Settings
    from edgemem.records.problem import Problem
    from edgemem.targets import Region

__all__ = ["plan_in_regions"]

_CHECKS: Final = 400  # runs of a strategy to find out what fits, and fewer where there are more records than:
_FEW: Final = 100
_TIGHTER: Final = 8  # times that room is made smaller where records find no offsets in it
_FAMILY: Final = "offsets/"


def plan_in_regions(
    problem: Problem,
    regions: Sequence[Region],
    settings: Settings,
    *,
    steps: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """One offset plan, whose records lie where the bytes that operators move cost least.

    The strategies of the settings plan each region. `OffsetPlan.cost_bound` is what no plan in these regions undercuts.

    Args:
        problem: the usage records, in bytes, with the regions where they may lie and their traffic.
        regions: by index.
        settings: what the user asked for; a time limit is for each region alone.
        steps: the label of each operator, for messages.
        progress: called before each strategy runs.

    Raises:
        BudgetExceededError: the regions do not hold the records; names a record and the regions.
        PlanError: a strategy for shared objects, which have no regions; and as `make_plans`.
    """
    names = tuple(name if name == "auto" or "/" in name else f"{_FAMILY}{name}" for name in settings.strategies)
    other = next((name for name in names if name != "auto" and not name.startswith(_FAMILY)), None)
    if other is not None:
        raise PlanError(f"{other}: shared objects have no regions; name a strategy for offsets, or use one region")
    items = items_of(problem, regions)
    refuse_misfits(problem, items, regions, steps)
    most = max(_CHECKS * _FEW // max(len(items), _FEW), 24)
    packing = Packing(problem, items, regions, replace(settings, strategies=names), most=most)
    choice = _choice(items, packing, most)
    if choice.where is None:
        raise no_choice_error(problem, items, regions, choice, steps)
    offsets, of = np.zeros(len(problem), np.int64), np.zeros(len(problem), np.int64)
    made: list[OffsetPlan] = []
    for r, region in enumerate(regions):
        made.append(packing.best(choice.where, r, partial(_say, progress, region.name)))
        chosen = packing.records(choice.where, r)
        offsets[chosen], of[chosen] = made[-1].offsets, r
    bounds, size = lower_bounds(problem), sum(plan.size for plan in made)
    used = {region.name: plan.strategy for region, plan in zip(regions, made, strict=True) if plan.size}
    strategy, options = next(iter(used.values()), made[0].strategy), made[0].options
    if len(used) > 1:
        strategy, options = "regions", used
    elif used:
        options = next(plan.options for plan in made if plan.size)
    plan = OffsetPlan(
        strategy,
        options,
        offsets,
        size,
        size == bounds.offsets,
        regions=of,
        region_sizes=tuple(plan.size for plan in made),
        cost_bound=choice.bound,
    )
    return PlanSet(problem, naive_size(problem), bounds, (plan,), (), settings=settings, versions={"edgemem": VERSION})


def _choice(items: Items, packing: Packing, most: int) -> RegionChoice:
    """The cheapest choice that is found whose regions have places for their items."""
    relaxed = choose_regions(items)
    if relaxed.where is None or packing.accepts(relaxed.where):
        return relaxed
    exact = choose_accepted(items, packing.accepts, relaxed)
    if exact.is_proved and packing.is_sure:
        return exact
    best = _cheaper(exact, _tighter(items, packing, relaxed))
    best = replace(best, bound=relaxed.bound, is_proved=False)
    if best.where is None:
        return best
    packing.left = max(packing.left, most)
    return improved_choice(items, packing.accepts, best)


def _cheaper(a: RegionChoice, b: RegionChoice) -> RegionChoice:
    return b if a.where is None or (b.where is not None and b.cost < a.cost) else a


def _tighter(items: Items, packing: Packing, choice: RegionChoice) -> RegionChoice:
    """A choice for less room than there is, as much less as it takes for all items to find places."""
    room = items.room.copy()
    for count in range(_TIGHTER):
        assert choice.where is not None
        packing.left = max(packing.left, 2 * len(room))
        overfull = packing.overfull(choice.where)
        if not overfull:
            return choice
        for r in overfull:  # a byte is enough where the highest record has no room for its padding
            room[r] -= 1 + count * room[r] // 128
        choice = choose_regions(replace(items, room=room))
        if choice.where is None:
            break
    return RegionChoice(None, 0, 0, is_proved=False, stuck=choice.stuck)


def _say(progress: Callable[[str], None], region: str, text: str) -> None:
    progress(f"{region}: {text}")
