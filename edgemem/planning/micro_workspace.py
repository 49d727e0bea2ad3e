"""Workspace in plans for TensorFlow Lite Micro, which puts it by itself around the tensors that have offsets.

A plan says where workspace will be, so that its size is that of the head. The planner of TensorFlow Lite Micro goes by
size alone, so it may split what a plan kept together for one operator, and the head grows. It cannot if all pieces of
an operator's workspace lie in one block of the plan: each piece fits into what is left of the block, or lies lower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.micro_buffers import buffers_of
from edgemem.records.micro_planner import place_buffers
from edgemem.records.problem import Problem
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.model.graph import Graph
    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.targets import Target

__all__ = ["plan_workspace"]


def plan_workspace(graph: Graph, target: Target, problem: Problem, plan: Callable[[Problem], PlanSet]) -> PlanSet:
    """Plans of a problem in which workspace is where TensorFlow Lite Micro puts it.

    Args:
        graph: of a .tflite file, with its workspace.
        target: the rules of the problem.
        problem: with records of workspace.
        plan: makes plans of a problem.
    """
    made = plan(problem)
    settled = _settled(made, graph, target)
    best, placed = made.best_offsets, settled.best_offsets
    if best is None or placed is None or placed.size <= best.size:
        return settled
    in_blocks = _in_blocks(problem)
    if len(in_blocks) == len(problem):
        return settled
    blocks = plan(in_blocks)
    # Records of tensors come first in both; where workspace was planned does not matter any more.
    more = [
        replace(p, offsets=np.pad(p.offsets, (0, len(problem) - len(in_blocks))), search=None)
        for p in blocks.offsets
        if p.regions is None
    ]
    return _settled(replace(made, offsets=(*made.offsets, *more)), graph, target)


def _settled(planset: PlanSet, graph: Graph, target: Target) -> PlanSet:
    """The plan set with the workspace of each offset plan where it will be, and the size of the arena that makes."""
    if target.region.reserved:  # nobody keeps TensorFlow Lite Micro from these
        return planset
    buffers = buffers_of(graph, target.pointer_bytes, target.kernels)
    records = planset.problem.records
    workspace = [k for k, record in enumerate(records) if record.kind == "scratch"]

    def settle(plan: OffsetPlan) -> OffsetPlan:
        if plan.regions is not None and plan.regions.any():
            return plan
        offline = {name: int(plan.offsets[k]) for k, record in enumerate(records) for name in record.tensors}
        places = {
            name: offset for buffer, offset in place_buffers(buffers, offline) for name in (buffer.name, *buffer.also)
        }
        offsets = plan.offsets.copy()
        offsets[workspace] = [places[records[k].name] for k in workspace]
        size = int((offsets + planset.problem.size).max(initial=0))
        return replace(plan, offsets=offsets, size=size)

    settled = replace(planset, offsets=tuple(settle(plan) for plan in planset.offsets))
    bound = settled.proved.offsets
    return replace(settled, offsets=tuple(replace(plan, optimal=plan.size == bound) for plan in settled.offsets))


def _in_blocks(problem: Problem) -> Problem:
    """The problem with one record for all workspace of an operator."""
    tensors = [record for record in problem.records if record.kind != "scratch"]
    blocks: dict[int, list[int]] = {}
    for k, record in enumerate(problem.records):
        if record.kind == "scratch":
            blocks.setdefault(record.first_op, []).append(k)
    sizes = padded(problem.size, problem.alignment)
    made = [replace(problem.records[ks[0]], size=int(sizes[ks].sum())) for ks in blocks.values()]
    roles = None if problem.roles is None else [*problem.roles[: len(tensors)].tolist(), *(-1 for _ in made)]
    return Problem(
        [*tensors, *made],
        alignment=problem.alignment,
        reserved=problem.given_reserved,
        overlap=() if problem.overlap is None else problem.overlap,
        within=() if problem.within is None else problem.within,
        roles=roles,
    )
