"""What a plan is a plan of, and how it was made, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.plans import Plan, PlanSet

__all__ = ["strategy_text", "subject_of"]


def strategy_text(plan: Plan) -> str:
    """A plan's strategy with its options: `search effort=max`."""
    return " ".join((plan.strategy, *(f"{name}={value}" for name, value in plan.options.items())))


def subject_of(planset: PlanSet) -> str:
    """What a plan set is a plan of: `graph under TARGET`, `recording of RUNTIME VERSION`, or `usage records`."""
    if planset.recording is not None:
        fingerprint = planset.recording.fingerprint
        return f"recording of {fingerprint.runtime} {fingerprint.version}"
    return "usage records" if planset.target is None else f"graph under {planset.target.name}"
