"""A set of plans as plain data for JSON; the shape is documented in docs/json.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgemem.model.profiles import KERNELS
from edgemem.plans import OffsetPlan
from edgemem.targets import to_table

if TYPE_CHECKING:
    from edgemem.plans import Plan, PlanSet
    from edgemem.records.problem import Size

__all__ = ["document"]

VERSION = 1


def document(planset: PlanSet) -> dict[str, Any]:
    """The plans as JSON-ready data. All sizes are bytes, or texels when the records are texel extents.

    Plans made for a graph say so under `model`, with the records; plans for a record file do not repeat them.
    """
    best = {"offsets": planset.best_offsets, "shared_objects": planset.best_shared_objects}
    data: dict[str, Any] = {
        "version": VERSION,
        "naive": planset.naive,
        "lower_bounds": {
            "offsets": planset.bounds.offsets,
            "shared_objects": planset.bounds.shared_objects,
        },
        "proved": {
            "offsets": planset.proved.offsets,
            "shared_objects": planset.proved.shared_objects,
        },
        "plans": [_plan(p) for p in planset.plans],
        "chosen": {family: plan.strategy for family, plan in best.items() if plan},
    }
    if planset.digest:
        data["model"] = {
            "digest": planset.digest,
            "target": to_table(planset.target) if planset.target else None,
            "kernels": _kernels(planset),
            "alignment": planset.problem.alignment,
            "reserved": [list(pair) for pair in planset.problem.reserved],
            "dims": dict(planset.dims),
            **({"ranges": {name: str(made) for name, made in planset.ranges.items()}} if planset.ranges else {}),
            "input_shapes": {name: list(shape) for name, shape in planset.input_shapes.items()},
            "order": None if planset.order is None else list(planset.order),
            "steps": list(planset.steps),
            "records": [
                {
                    "name": r.name,
                    "first_op": r.first_op,
                    "last_op": r.last_op,
                    "size": _size(r.size),
                    "kind": r.kind,
                    "tensors": list(r.tensors),
                    "offset": r.offset,
                    **({"regions": list(r.regions)} if planset.problem.regions is not None else {}),
                    **({"spill_cost": r.spill_cost} if planset.problem.spill_cost is not None else {}),
                }
                for r in planset.problem.records
            ],
            **{
                name: rows.tolist()
                for name, rows in (("overlap", planset.problem.overlap), ("within", planset.problem.within))
                if rows is not None
            },
            "unplanned": [{"tensor": name, "reason": reason} for name, reason in planset.unplanned],
            "versions": dict(planset.versions),
        }
    return data


def _kernels(planset: PlanSet) -> dict[str, str | None] | None:
    if not planset.kernels or planset.target is None:
        return None
    return {"profile": planset.target.kernels, "version": planset.versions.get(KERNELS)}


def _plan(plan: Plan) -> dict[str, Any]:
    head = {
        "family": "offsets" if isinstance(plan, OffsetPlan) else "shared_objects",
        "strategy": plan.strategy,
        "options": dict(plan.options),
        "size": plan.size,
        "optimal": plan.optimal,
        "search": asdict(plan.search) if plan.search else None,
    }
    if isinstance(plan, OffsetPlan):
        places: dict[str, Any] = {"offsets": plan.offsets.tolist()}
        if plan.regions is not None:
            places |= {"regions": plan.regions.tolist(), "region_sizes": list(plan.region_sizes)}
        return {**head, **places}
    return {**head, "objects": [_size(o) for o in plan.objects], "assignment": plan.assignment.tolist()}


def _size(size: Size) -> int | list[int]:
    return size if isinstance(size, int) else list(size)
