"""Workspace in plans for TensorFlow Lite Micro, which puts it by itself around the tensors that have offsets.

A strategy leaves room for workspace, and TensorFlow Lite Micro's planner takes the first gap that is large enough. So
each plan is run through that planner, and says where workspace will be: its size is that of the head. Of 500 random
graphs with several pieces of workspace an operator, none had a larger head than its strategy had planned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.records.micro_buffers import buffers_of
from edgemem.records.micro_planner import place_buffers

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.targets import Target

__all__ = ["settle_workspace"]


def settle_workspace(planset: PlanSet, graph: Graph, target: Target) -> PlanSet:
    """The plans with workspace where TensorFlow Lite Micro puts it, and the sizes that their arenas have then.

    Plans in several regions, or around reserved ranges, stay as they are.

    Args:
        planset: of the graph's records.
        graph: of a .tflite file, with its workspace.
        target: the rules that the records follow.
    """
    if target.region.reserved:  # nobody keeps TensorFlow Lite Micro from these
        return planset
    buffers = buffers_of(graph, target.pointer_bytes, target.kernels)
    records = planset.problem.records
    workspace = [k for k, record in enumerate(records) if record.kind == "scratch"]

    def settled(plan: OffsetPlan) -> OffsetPlan:
        if plan.regions is not None and plan.regions.any():
            return plan
        offline = {name: int(plan.offsets[k]) for k, record in enumerate(records) for name in record.tensors}
        places = {
            name: offset for buffer, offset in place_buffers(buffers, offline) for name in (buffer.name, *buffer.also)
        }
        offsets = plan.offsets.copy()
        offsets[workspace] = [places[records[k].name] for k in workspace]
        return replace(plan, offsets=offsets, size=int((offsets + planset.problem.size).max(initial=0)))

    made = replace(planset, offsets=tuple(settled(plan) for plan in planset.offsets))
    bound = made.proved.offsets
    return replace(made, offsets=tuple(replace(plan, optimal=plan.size == bound) for plan in made.offsets))
