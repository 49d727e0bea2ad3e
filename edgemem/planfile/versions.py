"""The version of the format that a file needs. docs/plan-file.md lists what each version added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.plans import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.plans import PlanSet

__all__ = ["SEVERAL", "least_version"]

SEVERAL = 4  # the first version whose root is a PlanFile, which holds any number of plan sets


def least_version(plansets: Sequence[PlanSet]) -> int:
    """The first version of the format that can say all of this; a file has no other."""
    if len(plansets) != 1:
        return SEVERAL
    (planset,) = plansets
    if planset.recording is not None or planset.cycle is not None or planset.settings != Settings():
        return SEVERAL
    problem, target = planset.problem, planset.target
    if problem.features & {"overlap", "within", "state", "regions"} or problem.traffic is not None:
        return SEVERAL
    if target is not None and (len(target.regions) > 1 or target.pins or target.states):
        return SEVERAL
    if any(plan.regions is not None or plan.region_sizes for plan in planset.offsets):
        return SEVERAL
    if planset.problem.constraints or (planset.target and planset.target.region.reserved):
        return 3
    return 2 if any(isinstance(v, float) for plan in planset.plans for v in plan.options.values()) else 1
