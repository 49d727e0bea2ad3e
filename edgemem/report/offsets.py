"""The offset plan that an export is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError

if TYPE_CHECKING:
    from edgemem.plans import OffsetPlan, PlanSet

__all__ = ["best_offsets"]


def best_offsets(planset: PlanSet) -> OffsetPlan:
    """The smallest offset plan. Raises PlanError if there is none."""
    plan = planset.best_offsets
    if plan is None:
        raise PlanError("there is no offset plan; plan with a strategy of the family offsets")
    return plan
