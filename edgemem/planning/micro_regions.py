"""Plans for TensorFlow Lite Micro on a device with several memories: one of them holds all tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import BudgetExceededError, UnsupportedError
from edgemem.formats.offline_allocation import micro_offsets
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_memories import choose_memories, micro_sizes
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.records.micro_memories import MicroMemories
    from edgemem.targets import Target

__all__ = ["memories_of", "put_into_memories"]


def put_into_memories(planset: PlanSet, graph: Graph, target: Target) -> PlanSet:
    """The plans in the region where head and tail cost least together, as far as the smallest of them fits.

    Raises BudgetExceededError if no regions hold them; names the largest tensor and the regions. Raises
    UnsupportedError for an ONNX model.
    """
    if graph.layout == "nchw":
        raise UnsupportedError(
            "TensorFlow Lite Micro runs .tflite models, and keeps all tensors in one region; for an engine of your own "
            'give the target scratch = "unknown"'
        )
    best = planset.best_offsets
    if best is None:
        return planset
    sizes = micro_sizes(graph, micro_offsets(planset), build_of(target))
    traffic = 0 if planset.problem.traffic is None else int(planset.problem.traffic.sum())
    found = choose_memories(sizes, traffic, target.regions, alignment=planset.problem.alignment)
    if found is None:
        largest = int(planset.problem.size.argmax())
        name, size = planset.problem.names[largest], int(planset.problem.size[largest])
        has = join_names(
            (
                f"{r.name} has {'as much as it takes' if r.capacity is None else f'{r.capacity:,}'}"
                + (f" at multiples of {r.alignment}" if r.alignment > planset.problem.alignment else "")
                for r in target.regions
            ),
            most=len(target.regions),
        )
        raise BudgetExceededError(
            f"no region holds the head, {sizes.head:,} bytes with the largest tensor {name!r} of {size:,}, and none "
            f"beside it the tail, {sizes.tail:,} bytes, or one both, {sizes.one:,}: {has}",
            required=sizes.head,
            available=max((r.capacity or 0 for r in target.regions), default=0),
            tensors=[(name, size)],
        )
    if not found.head:
        return planset

    def moved(plan: OffsetPlan) -> OffsetPlan:
        regions = np.full(len(plan.offsets), found.head, np.int64)
        return replace(plan, regions=regions, region_sizes=(*(0,) * found.head, plan.size))

    return replace(planset, offsets=tuple(moved(plan) for plan in planset.offsets))


def memories_of(planset: PlanSet, graph: Graph) -> MicroMemories | None:
    """Where head and tail of a plan are by its target's regions; None where there is one, or they do not hold them."""
    target, best = planset.target, planset.best_offsets
    if target is None or best is None or len(target.regions) == 1 or target.scratch != "tflm":
        return None
    head = 0 if best.regions is None else int(best.regions.max(initial=0))
    traffic = 0 if planset.problem.traffic is None else int(planset.problem.traffic.sum())
    sizes = micro_sizes(graph, micro_offsets(planset), build_of(target))
    return choose_memories(sizes, traffic, target.regions, alignment=planset.problem.alignment, head=head)
