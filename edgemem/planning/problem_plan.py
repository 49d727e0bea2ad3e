"""Makes the plans of a problem with the strategies and limits of a user's settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.planning.choice import choices
from edgemem.planning.limits import Limits
from edgemem.planning.plan_sets import make_plans
from edgemem.system.distribution import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.plans import PlanSet, Settings
    from edgemem.records.problem import Problem
    from edgemem.strategy.registry import Family

__all__ = ["plan_with_settings"]


def plan_with_settings(
    problem: Problem,
    settings: Settings,
    *,
    families: Sequence[Family],
    fits: int | None = None,
    quick: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """`make_plans` with the strategies and limits of these settings, which are kept with the plans.

    The other arguments and the errors are those of `make_plans`.
    """
    made = make_plans(
        problem,
        tuple(choice for name in settings.strategies for choice in choices(name)),
        families=families,
        limits=Limits(settings.effort, settings.seed, settings.time_limit, settings.threads),
        fits=fits,
        quick=quick,
        progress=progress,
    )
    return replace(made, settings=settings, versions={"edgemem": VERSION, **made.versions})
