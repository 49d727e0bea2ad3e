"""The one way from an iteration of a training loop to its proved plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.planning.recording_plan import for_offsets
from edgemem.planning.settled import settled_plans
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.trace.reusable import reusable_spaces

if TYPE_CHECKING:
    from edgemem.plans import PlanSet
    from edgemem.trace.cycle import Cycle
    from edgemem.trace.slots import Slots

__all__ = ["CyclePlan", "plan_cycle"]

_ALIGNMENT = 64  # of every block that PyTorch gets from edgemem, in bytes
_NEAR = 1.01  # times the lower bound


@dataclass(frozen=True, slots=True, eq=False)
class CyclePlan:
    """A proved plan of one period of a program that repeats itself.

    Attributes:
        cycle: the period.
        planset: the smallest offset plan of its static requests.
        slots: the places in the form that a loop replays.
        lower_bound: bytes that no arena for these requests can go below.
    """

    cycle: Cycle
    planset: PlanSet
    slots: Slots
    lower_bound: int

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return self.slots.size


def plan_cycle(cycle: Cycle, settings: Settings | None = None) -> CyclePlan:
    """The smallest offset plan of a period, proved, and the room that it leaves to dynamic requests.

    Strategies for shared objects do not apply; if the settings name no other, all strategies are tried as for `auto`.
    Since a program waits, `auto` stops at the first plan that meets the lower bound, and searches longer, for some
    seconds, only where its plan is more than a hundredth above it.

    Args:
        cycle: the period.
        settings: what the user asked for; an alignment below 64 bytes is raised to 64.

    Raises:
        UnknownStrategyError, PlanError: as `edgemem.planning.make_plans`.
        InvalidPlanError: a strategy made a wrong plan (a bug).
    """
    settings = settings or Settings()
    alignment = max(settings.alignment or _ALIGNMENT, _ALIGNMENT)
    problem, _ = cycle.problem(alignment)
    wanted, bound = for_offsets(settings), cycle.lower_bound(alignment)
    made = settled_plans(problem, wanted, families=("offsets",), quick=True)
    best = made.best_offsets
    assert best is not None
    if best.size > _NEAR * bound and "auto" in wanted.strategies and wanted.effort is None:
        made = settled_plans(problem, wanted, families=("offsets",))
        best = made.best_offsets
        assert best is not None
    planset = prove(replace(made, offsets=(best,), shared_objects=(), settings=settings)).planset
    space, spaces = reusable_spaces(cycle, planset)
    slots = replace(cycle.slots(planset), space=space, spaces=spaces)
    return CyclePlan(cycle, planset, slots, bound)
