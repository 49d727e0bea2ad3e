"""The plan of a cycle, run for several periods: no two requests that are alive together share a byte.

A plan of one period holds for all if it holds for four in a row: no request with a place lives for two periods, and
those that live longer than one take two places by turns. The periods are unrolled from the events of the cycle and the
places that a loop replays. How the problem of one period was made of them does not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.proof.sweep import sweep_plan
from edgemem.proof.violations import Cause, Violation
from edgemem.records.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.plans import PlanSet
    from edgemem.trace.cycle import Cycle

__all__ = ["check_periods"]

_PERIODS: Final = 4


def check_periods(planset: PlanSet, cycle: Cycle) -> Iterator[Violation]:
    """Whatever is wrong with the best offset plan once the period is repeated."""
    plan = planset.best_offsets
    if plan is None:
        return
    try:
        slots = cycle.slots(planset)
    except ModelError as e:
        yield Violation(Cause.WRONG_STEPS, str(e), plan.strategy)
        return
    placed = np.flatnonzero(slots.offset >= 0)
    if (cycle.end[placed] < 0).any():
        yield Violation(Cause.WRONG_STEPS, "a request that is never freed has a place", plan.strategy)
        return
    first, last = cycle.start[placed], cycle.end[placed] - 1
    by_turns = (slots.offset[placed], np.where(slots.other[placed] >= 0, slots.other[placed], slots.offset[placed]))
    periods = range(_PERIODS)
    unrolled = Problem.from_arrays(
        np.concatenate([first + k * cycle.length for k in periods]),
        np.concatenate([last + k * cycle.length for k in periods]),
        np.tile(cycle.size[placed], _PERIODS),
        names=[f"request {i} of period {k}" for k in periods for i in placed.tolist()],
        alignment=planset.problem.alignment,
    )
    yield from sweep_plan(unrolled, replace(plan, offsets=np.concatenate([by_turns[k % 2] for k in periods])))
