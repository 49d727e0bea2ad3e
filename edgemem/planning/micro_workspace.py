"""Workspace in plans for TensorFlow Lite Micro, which puts it by itself around the tensors that have offsets.

A strategy leaves room for workspace, and TensorFlow Lite Micro's planner takes the first gap that is large enough. So
each plan is run through that planner, and says where workspace will be: its size is that of the head. Of 500 random
graphs with several pieces of workspace an operator, none had a larger head than its strategy had planned.

To TensorFlow Lite Micro some tensors live for less time than their records: an input that nothing reads ends before the
first operator, and of what both branches of an `IF` give back each is only there in its own. Workspace may then lie on
them without harm, but no record says so. Such tensors are moved away, so that the plan is right by its records, too. In
1,700 plans of random graphs with such tensors one move or two were enough. A few kernels write behind their workspace,
which the planner does not know, and may hit tensors that have to stay where others are. Then all tensors are moved
above the workspace, together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.micro_buffers import Buffer, buffers_of
from edgemem.records.micro_planner import place_buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.records.problem import Problem
    from edgemem.targets import Target

__all__ = ["settle_workspace"]

_ROUNDS = 3  # workspace may go where a tensor was moved away


def settle_workspace(planset: PlanSet, graph: Graph, target: Target) -> PlanSet:
    """The plans with workspace where TensorFlow Lite Micro puts it, and the sizes that their arenas have then.

    Plans in several regions, or around reserved ranges, stay as they are. So does workspace that TensorFlow Lite Micro
    never asks for, as it runs no such bodies.

    Args:
        planset: of the graph's records.
        graph: of a .tflite file, with its workspace.
        target: the rules that the records follow.
    """
    if target.region.reserved:  # nobody keeps TensorFlow Lite Micro from these
        return planset
    space = _Workspace(planset.problem, buffers_of(graph, target.pointer_bytes, target.kernels))

    def settled(plan: OffsetPlan) -> OffsetPlan:
        if plan.regions is not None and plan.regions.any():
            return plan
        offsets = space.settled(plan.offsets)
        return replace(plan, offsets=offsets, size=int((offsets + planset.problem.size).max(initial=0)))

    made = replace(planset, offsets=tuple(settled(plan) for plan in planset.offsets))
    bound = made.proved.offsets
    return replace(made, offsets=tuple(replace(plan, optimal=plan.size == bound) for plan in made.offsets))


class _Workspace:
    """The workspace among the records of a problem."""

    def __init__(self, problem: Problem, buffers: Sequence[Buffer]) -> None:
        self._problem, self._buffers = problem, buffers
        self._records = problem.records
        self._sizes = -(-problem.size // problem.alignment) * problem.alignment
        asked = {name for buffer in buffers if buffer.is_workspace for name in (buffer.name, *buffer.also)}
        self._asked = [k for k, r in enumerate(self._records) if r.kind == "scratch" and r.name in asked]
        self._tensors = np.array([record.kind != "scratch" for record in self._records])
        self._free = self._tensors.copy()  # may be moved alone
        for rows in (problem.overlap, problem.within):
            if rows is not None:
                self._free[rows[:, :2]] = False
        if problem.pinned is not None:
            self._free[problem.pinned >= 0] = False

    def settled(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets with workspace where it will be, and tensors moved where it would be on them."""
        found = self._placed(offsets)
        clash = self._clashes(found)
        for _ in range(_ROUNDS):
            if not clash.any() or not self._free[clash].all():
                break
            found = self._placed(self._moved(found, clash))
            clash = self._clashes(found)
        is_pinned = self._problem.pinned is not None and (self._problem.pinned >= 0).any()
        return self._placed(offsets + self._most()) if clash.any() and not is_pinned else found

    def _most(self) -> int:
        """The most that the workspace of one step takes: above it no tensor is hit."""
        p = self._problem
        steps = np.zeros(int(p.last_op.max(initial=0)) + 1, np.int64)
        for k in self._asked:
            steps[p.first_op[k] : p.last_op[k] + 1] += self._sizes[k]
        return int(steps.max(initial=0))

    def _placed(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        offline = {name: int(offsets[k]) for k, record in enumerate(self._records) for name in record.tensors}
        places = {
            name: offset
            for buffer, offset in place_buffers(self._buffers, offline)
            for name in (buffer.name, *buffer.also)
        }
        placed = offsets.copy()
        placed[self._asked] = [places[self._records[k].name] for k in self._asked]
        return placed

    def _clashes(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The tensors that workspace lies on while both are in use."""
        p, ends = self._problem, offsets + self._problem.size
        found = np.zeros(len(offsets), np.bool_)
        for k in self._asked:
            alive = (p.first_op <= p.last_op[k]) & (p.first_op[k] <= p.last_op)
            found |= alive & (offsets < ends[k]) & (offsets[k] < ends) & self._tensors
        return found

    def _moved(self, offsets: NDArray[np.int64], moved: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The offsets with some records in the first gap that is large enough, the others where they are."""
        p = self._problem
        columns = zip(self._sizes.tolist(), p.first_op.tolist(), p.last_op.tolist(), strict=True)
        records = [Buffer(str(k), size, first, last) for k, (size, first, last) in enumerate(columns)]
        kept = {str(k): int(offsets[k]) for k in np.flatnonzero(~moved)}
        found = offsets.copy()
        for record, offset in place_buffers(records, kept):
            found[int(record.name)] = offset
        return found
