"""Memory against cost: the schedules between which a user may choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.remat.search import recompute
from edgemem.strategy.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.remat.recompute_schedule import RecomputeSchedule
    from edgemem.schedule.problem import OrderProblem

__all__ = ["recompute_curve"]

POINTS: Final = 12


def recompute_curve(
    problem: OrderProblem,
    costs: Sequence[int],
    *,
    most_cost: float | None = None,
    may_repeat: Collection[int] | None = None,
    points: int = POINTS,
    effort: str = "fast",
    seed: int = 1,
    time_limit: float | None = None,
) -> tuple[RecomputeSchedule, ...]:
    """Schedules from the cheapest to the one with the lowest peak, none of which another one beats in both.

    The first runs each operator once. The lowest peak is looked for next, and `points` budgets between the two, evenly
    spaced. Each schedule is the cheapest that was found within its budget. Arguments and errors are those of
    `recompute`.
    """
    clock = Clock(time_limit)

    def schedule(budget: int | None, most: float | None, sharers: int) -> RecomputeSchedule:
        return recompute(
            problem,
            costs,
            budget=budget,
            most_cost=most,
            may_repeat=may_repeat,
            effort=effort,
            seed=seed,
            time_limit=clock.left(sharers),
        )

    once = schedule(None, 1.0, points + 2)
    lowest = schedule(None, most_cost, points + 1)
    found = [once, lowest]
    step = (once.peak - lowest.peak) / (points + 1)
    for number in range(1, points + 1):
        budget = round(once.peak - number * step)
        if lowest.peak < budget < once.peak and not any(f.budget == budget for f in found):
            found.append(schedule(budget, most_cost, points + 1 - number))
    return tuple(_front(found))


def _front(found: Sequence[RecomputeSchedule]) -> list[RecomputeSchedule]:
    """Those that none of the others beats, by ascending cost."""
    front: list[RecomputeSchedule] = []
    for schedule in sorted(found, key=lambda f: (f.cost, f.peak)):
        if not front or schedule.peak < front[-1].peak:
            front.append(schedule)
    return front
