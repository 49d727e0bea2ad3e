"""Offsets that TensorFlow Lite Micro obeys, against the plan that they should be from, or without one.

TensorFlow Lite Micro checks nothing but how many there are, so that wrong ones give wrong results without an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError
from edgemem.formats.offline_allocation import micro_offsets, micro_refusal
from edgemem.model.aliasing import rules_of
from edgemem.model.control import OPERATOR, Copy, events_of
from edgemem.model.graph import digest
from edgemem.model.profiles import kernel_versions
from edgemem.model.steps import steps_of
from edgemem.plans import LEFT_TO_RUNTIME, OffsetPlan, PlanSet
from edgemem.proof import Cause, Violation
from edgemem.proof.permissions import permissions_of
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["plan_of_offsets", "verify_offsets"]

_STRATEGY = "OfflineMemoryAllocation"


def verify_offsets(offsets: Mapping[str, int], plansets: Sequence[PlanSet]) -> tuple[Violation, ...]:
    """Where the offsets in a file are not those of the plan beside them; () if all are.

    Args:
        offsets: in bytes by tensor, as the file has them; a tensor that it leaves to the runtime is absent.
        plansets: all plan sets of the file.
    """
    planset = next((p for p in plansets if micro_refusal(p) is None), None)
    if planset is None:
        refusal = next((micro_refusal(p) for p in plansets), None)
        why = f": {refusal.why}" if refusal else ""
        message = (
            f"the file has offsets for TensorFlow Lite Micro that none of its plans proves{why}; "
            "plan again, with --target tflm if TensorFlow Lite Micro is to run it"
        )
        return (Violation(Cause.DIFFERENT_OFFSET, message),) if offsets else ()
    planned = micro_offsets(planset)
    best = planset.best_offsets
    assert best is not None
    found = []
    for name in sorted(planned.keys() | offsets.keys(), key=lambda n: (planned.get(n, -1), n)):
        told, right = offsets.get(name), planned.get(name)
        if told != right:
            there = f"places {name!r} at {told:,}" if told is not None else f"has no place for {name!r}"
            here = f"at {right:,}" if right is not None else "nowhere"
            message = f"OfflineMemoryAllocation {there}, and the plan {here}"
            found.append(Violation(Cause.DIFFERENT_OFFSET, message, best.strategy, (name,)))
    return tuple(found)


def plan_of_offsets(graph: Graph, offsets: Mapping[str, int], kernels: str = "none") -> PlanSet:
    """The plan set that offsets without a plan amount to, under the rules of TensorFlow Lite Micro; not proved.

    Tensors of one value are one record where they have one offset. Tensors without an offset are left to the runtime
    and not in the plan. Where offsets let results overlap inputs, or lie inside others, the rules have the kernels or
    the slots that permit it.

    Args:
        graph: of the file.
        offsets: in bytes by tensor.
        kernels: the profile of the kernels that are to obey them; `none` for any, which no result may overlap an input
            of.

    Raises ModelError for an offset of a tensor whose size the file does not tell, such as a resource.
    """
    # A variable with an offset is in the arena, for good.
    # Workspace has no offset, and lies where nothing else does.
    rules = replace(BUILT_IN["tflm"], variables="whole_run", scratch="unknown")
    lives = lifetimes(graph, replace(rules, aliasing="none"), apart=True)
    alone = {record.name: record for record in lives.problem.records}
    for name, reason in lives.unplanned:
        if name in offsets and reason != "empty":
            raise ModelError(f"{_STRATEGY} places {name!r}, which cannot be proved: it is {reason}")
    left = [(name, LEFT_TO_RUNTIME) for name in alone if name not in offsets]
    groups = _in_one_place(graph, kernels, {name: record for name, record in alone.items() if name in offsets}, offsets)
    records = []
    for members in groups:
        kinds = [member.kind for member in members if member.kind != "tensor"]
        records.append(
            UsageRecord(
                members[0].name,
                min(member.first_op for member in members),
                max(member.last_op for member in members),
                members[0].size,
                kinds[0] if kinds else "tensor",
                tuple(member.name for member in members),
            )
        )
    overlap, within = _shared(graph, replace(rules, kernels=kernels, slots=True), records, offsets)
    rules = replace(rules, kernels=kernels if overlap else "none", slots=bool(within))
    problem = Problem(records, alignment=rules.alignment, overlap=overlap, within=within)
    bounds = lower_bounds(problem)
    array = np.array([offsets[record.name] for record in records], np.int64)
    size = int((array + problem.size).max(initial=0))
    plan = OffsetPlan(_STRATEGY, {}, array, size, optimal=size == bounds.offsets)
    return PlanSet(
        problem,
        naive_size(problem),
        bounds,
        (plan,),
        (),
        target=rules,
        digest=digest(graph),
        steps=lives.steps,
        versions=kernel_versions(rules.kernels),
        unplanned=(*lives.unplanned, *left),
    )


def _shared(
    graph: Graph, rules: Target, records: Sequence[UsageRecord], offsets: Mapping[str, int]
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """The rows of `overlap` and of `within` that the rules permit and the offsets use."""
    number = {name: k for k, record in enumerate(records) for name in record.tensors}
    at = [(offsets[r.name], r.size if isinstance(r.size, int) else 0, r.first_op, r.last_op) for r in records]
    permissions = [(op, p) for op, p in zip(graph.ops, permissions_of(graph, rules), strict=True) if p is not None]
    within: dict[int, tuple[int, int, int]] = {}
    # A record has one container at most. A slice that is a piece, too, can do without a row if its input dies.
    pieces = [
        (piece, whole, alias.delta, whole != graph.tensors[op.outputs[0]].name)
        for op, permission in permissions
        for (piece, whole), alias in permission.aliases.items()
    ]
    for piece, whole, delta, _ in sorted(pieces, key=lambda entry: entry[3]):
        i, j = number.get(piece, -1), number.get(whole, -1)
        if min(i, j) < 0 or i == j or i in within or at[i][0] - at[j][0] != delta:
            continue
        meet = at[i][2] <= at[j][3] and at[j][2] <= at[i][3]
        if meet and delta + at[i][1] <= at[j][1] and delta % rules.alignment == 0:
            within[i] = (i, j, delta)
    nested = {frozenset(row[:2]) for row in within.values()}
    overlap: dict[tuple[int, int], int] = {}
    for op, permission in permissions:
        for name in {graph.tensors[index].name for index in op.inputs if index >= 0}:
            i = number.get(name, -1)
            j = number.get(graph.tensors[op.outputs[0]].name, -1) if op.outputs and op.outputs[0] >= 0 else -1
            if min(i, j) < 0 or i == j or at[i][3] != at[j][2] or frozenset((i, j)) in nested:
                continue
            apart = at[i][0] - at[j][0]
            least = permission.least_distance(name) if -at[i][1] < apart < at[j][1] else None
            if least is not None and least <= apart:
                overlap[i, j] = max(least, overlap.get((i, j), least))
    return [(i, j, least) for (i, j), least in overlap.items()], list(within.values())


def _in_one_place(
    graph: Graph, kernels: str, records: Mapping[str, UsageRecord], offsets: Mapping[str, int]
) -> list[list[UsageRecord]]:
    """Records grouped: what may lie in the place of another tensor, and does, is with it.

    That is a view of another tensor, what a body takes in or gives back, and in bodies, where nothing overlaps, what
    the kernels write over an input. Whether the values are still there when they are needed is left to the proof.
    """
    group = {name: [record] for name, record in records.items()}
    for source, to in _pairs(graph, kernels):
        if source not in group or to not in group or group[source] is group[to]:
            continue
        if offsets[source] == offsets[to] and records[source].size == records[to].size:
            group[source] += group[to]
            for record in group[to]:
                group[record.name] = group[source]
    return list({id(members): members for members in group.values()}.values())


def _pairs(graph: Graph, kernels: str) -> Iterator[tuple[str, str]]:
    """Names of tensors, where the second may be the first under another name, or in a body be written over it."""
    rules = rules_of(BUILT_IN["tflm"].aliasing, kernels)
    for step in steps_of(graph):
        op, reads, writes = step.op, step.reads, step.writes
        in_place = rules.in_place.get(op.type, ()) if step.depth else ()
        positions = (0,) if op.type in rules.views else in_place
        yield from ((reads[p], writes[0]) for p in positions if p < len(reads) and writes)
        sides = {(OPERATOR, "inputs"): reads, (OPERATOR, "outputs"): writes}
        for k, body in enumerate(op.bodies):
            sides[k, "inputs"] = tuple(body.tensors[i].name for i in body.inputs)
            sides[k, "outputs"] = tuple(body.tensors[i].name for i in body.outputs)
        for event in events_of(op) if op.bodies else ():
            if isinstance(event, Copy):
                yield from ((sides[event.source][i], sides[event.to][k]) for i, k in event.pairs(op))
