"""The plan of a candidate's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.planning.model_plan import FAMILIES, plan_model

if TYPE_CHECKING:
    from edgemem.formats import Model
    from edgemem.plans import PlanSet, Settings
    from edgemem.targets import Target

__all__ = ["plan_candidate"]


def plan_candidate(model: Model, target: Target, settings: Settings, fits: int | None = None) -> tuple[PlanSet, int]:
    """Proved plans, and the bytes (texels for textures) of the smallest.

    Offsets alone for memory of dense bytes, else shared objects, too. Arguments and errors are those of `plan_model`.
    """
    planset = plan_model(model, target, settings, families=FAMILIES[:1] if target.is_dense else FAMILIES, fits=fits)
    best = planset.best_offsets or planset.best_shared_objects
    assert best is not None
    return planset, best.size
