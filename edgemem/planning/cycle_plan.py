"""The one way from an iteration of a training loop to its proved plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanFileError
from edgemem.planning.problem_plan import plan_with_settings
from edgemem.planning.recording_plan import for_offsets
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.trace.dynamic_slots import dynamic_slots
from edgemem.trace.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.plans import PlanSet
    from edgemem.trace.cycle import Cycle

__all__ = ["CyclePlan", "plan_cycles", "restored"]

_ALIGNMENT = 64  # of every block that PyTorch gets from edgemem, in bytes
_NEAR = 1.01  # times the lower bound


@dataclass(frozen=True, slots=True, eq=False)
class CyclePlan:
    """A proved plan of one period of a program that repeats itself.

    Attributes:
        cycles: the period; or periods of several threads that are not in step, whose plans lie one above the other.
        plansets: the smallest offset plan of each period's static requests.
        slots: the places in the form that a loop replays.
        lower_bound: bytes that no arena for the static requests can go below.
        room: bytes of the arena beside the plans, for dynamic requests.
    """

    cycles: tuple[Cycle, ...]
    plansets: tuple[PlanSet, ...]
    slots: Slots
    lower_bound: int
    room: int

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return self.slots.size

    def __repr__(self) -> str:
        """One line: arena, bound, what is planned, and how."""
        static = self.size - self.room
        bound = "lower bound" if static == self.lower_bound else f"{static / max(self.lower_bound, 1):.4f} lower bounds"
        bound += f" + {self.room:,} for dynamic requests" if self.room else ""
        planned, dynamic = int(np.sum(self.slots.offset >= 0)), int(np.sum(self.slots.space >= 0))
        names = dict.fromkeys(plan.strategy for planset in self.plansets for plan in planset.offsets)
        return (
            f"<arena of {self.size:,} bytes = {bound}; {planned:,} of {len(self.slots):,} requests have a place"
            f"{f', {dynamic:,} are dynamic' if dynamic else ''}; {', '.join(names)}>"
        )


def plan_cycles(cycles: Sequence[Cycle], settings: Settings | None = None) -> CyclePlan:
    """The smallest offset plan of a period, proved, and the room that it leaves to dynamic requests.

    Strategies for shared objects do not apply; if the settings name no other, those of `auto` are tried.
    Since a program waits, `auto` stops at the first plan that meets the lower bound, and searches longer, for some
    seconds, only where its plan is more than a hundredth above it.

    Args:
        cycles: one, or those of threads that are not in step (`edgemem.trace.lanes.steady_cycles`).
        settings: what the user asked for; an alignment below 64 bytes is raised to 64.

    Raises:
        UnknownStrategyError, PlanError: as `edgemem.planning.make_plans`.
        InvalidPlanError: a strategy made a wrong plan (a bug).
    """
    return _replayable([_plan(cycle, settings or Settings()) for cycle in cycles])


def restored(plansets: Iterable[PlanSet]) -> CyclePlan:
    """The plan whose plan sets were stored in a file; those of other plans are left out. Each is proved again.

    Raises:
        PlanFileError: none of them is of a period.
        InvalidPlanError: a plan is wrong.
    """
    own = [prove(planset).planset for planset in plansets if planset.cycle is not None]
    if not own:
        raise PlanFileError("there is no plan of a training program; make one with edgemem.torch or edgemem trace")
    return _replayable(own)


def _replayable(plansets: Sequence[PlanSet]) -> CyclePlan:
    """Plans of periods with their slots, one above the other."""
    cycles, slots, bounds, room = [], [], [], 0
    for planset in plansets:
        cycle, best = planset.cycle, planset.best_offsets
        assert cycle is not None
        assert best is not None
        cycles.append(cycle)
        slots.append(dynamic_slots(cycle, planset))
        room += slots[-1].size - best.size
        bounds.append(cycle.lower_bound(planset.problem.alignment))
    return CyclePlan(tuple(cycles), tuple(plansets), _stacked(slots), sum(bounds), room)


def _plan(cycle: Cycle, settings: Settings) -> PlanSet:
    """The proved plan of one period."""
    alignment = max(settings.alignment or _ALIGNMENT, _ALIGNMENT)
    problem, _ = cycle.problem(alignment)
    wanted, bound = for_offsets(settings), cycle.lower_bound(alignment)
    made = plan_with_settings(problem, wanted, families=("offsets",), quick=True)
    best = made.best_offsets
    assert best is not None
    if best.size > _NEAR * bound and "auto" in wanted.strategies and wanted.effort is None:
        made = plan_with_settings(problem, wanted, families=("offsets",))
        best = made.best_offsets
        assert best is not None
    return prove(replace(made, offsets=(best,), shared_objects=(), settings=settings, cycle=cycle)).planset


def _stacked(parts: Sequence[Slots]) -> Slots:
    """All slots in one arena, those of each part above those of the parts before."""
    if len(parts) == 1:
        return parts[0]
    alignment = max(part.alignment for part in parts)
    padded = [-(-part.size // alignment) * alignment for part in parts]
    bases = np.cumsum([0, *padded[:-1]]).tolist()
    first_spaces = np.cumsum([0, *(len(part.spaces) for part in parts[:-1])]).tolist()
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("bytes", "lane", "section")}
    for name, steps in (("offset", bases), ("other", bases), ("space", first_spaces)):
        moved = [
            np.where(getattr(part, name) >= 0, getattr(part, name) + step, -1)
            for part, step in zip(parts, steps, strict=True)
        ]
        columns[name] = np.concatenate(moved)
    spaces = tuple(space + base for part, base in zip(parts, bases, strict=True) for space in part.spaces)
    return Slots(bases[-1] + parts[-1].size, alignment, **columns, spaces=spaces)
