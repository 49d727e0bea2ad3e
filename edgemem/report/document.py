"""A set of plans as plain data for JSON; docs/json.md describes it, docs/plan.schema.json is its schema."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgemem.model.profiles import KERNELS
from edgemem.model.steps import steps_of
from edgemem.plans import OffsetPlan
from edgemem.report.peak import find_peak
from edgemem.report.regions import region_uses
from edgemem.targets import to_table

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import LowerBounds, Plan, PlanSet
    from edgemem.records.problem import Size

__all__ = ["document"]

VERSION = 2


def document(planset: PlanSet, graph: Graph | None = None) -> dict[str, Any]:
    """The plans as JSON-ready data. All sizes are bytes, or texels when the records are texel extents.

    Plans made for a graph say so under `model`, with the records; plans for a record file do not repeat them.

    Args:
        planset: the plans.
        graph: what they are for. With it `model` lists the operators' types, and the tensors' shapes and types.
    """
    plans = planset.plans
    best = {"offsets": planset.best_offsets, "shared_objects": planset.best_shared_objects}
    peak = find_peak(planset)
    data: dict[str, Any] = {
        "version": VERSION,
        "naive": planset.naive,
        "lower_bounds": _bounds(planset.bounds),
        "proved": _bounds(planset.proved),
        "claimed": _bounds(planset.claimed),
        "plans": [_plan(p) for p in plans],
        "chosen": {family: next(k for k, p in enumerate(plans) if p is plan) for family, plan in best.items() if plan},
        "peak": {
            "op": peak.op,
            "label": peak.label,
            "size": peak.size,
            "alive": [{"name": name, "size": size} for name, size in peak.alive],
        },
    }
    uses = region_uses(planset)
    if uses and planset.best_offsets is not None:
        data["regions"] = {
            "cost": sum(use.cost for use in uses),
            "cost_bound": planset.best_offsets.cost_bound,
            "uses": [
                {
                    "name": use.region.name,
                    "arena": use.arena,
                    "capacity": use.region.capacity,
                    "byte_cost": use.region.cost,
                    "moved": use.moved,
                    "cost": use.cost,
                }
                for use in uses
            ],
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
            **({} if graph is None else _operators(planset, graph)),
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
                    **({"traffic": r.traffic} if planset.problem.traffic is not None else {}),
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


def _bounds(bounds: LowerBounds) -> dict[str, int]:
    return {"offsets": bounds.offsets, "shared_objects": bounds.shared_objects}


def _operators(planset: PlanSet, graph: Graph) -> dict[str, Any]:
    """What runs at each step, and every tensor of the graph and the bodies that run in it."""
    steps = steps_of(graph, bodies=planset.target is None or planset.target.bodies == "inline")
    graphs = list({id(g): g for g in (graph, *(step.graph for step in steps))}.values())
    return {
        "operators": [
            {"type": step.op.type, "inputs": list(step.reads), "outputs": list(step.writes)} for step in steps
        ],
        "tensors": {
            t.name: {"dtype": t.dtype, "shape": list(t.shape), "kind": t.kind} for g in graphs for t in g.tensors
        },
    }


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
