"""Offsets of a model that Vela compiled for an Arm Ethos-U, as TensorFlow Lite Micro obeys them.

Operators "ethos-u" hold commands with the places of tensors in them, as distances in one scratch tensor. Vela puts all
tensors there, those that only the processor's operators use, too.

    op k on the processor   reads in tick 2k, writes from tick 2k: results lie beside what it reads
    op k, an ethos-u        reads in tick 2k, writes in tick 2k + 1: results may lie on what dies there
    scratch                 in a tick of its own behind the last: tensors lie in it; so the fast scratch
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats.offline_allocation import MICRO_ALIGNMENT
from edgemem.model.graph import digest
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof import Cause, Violation, examine
from edgemem.proof.violations import MOST
from edgemem.records.problem import Problem, UsageRecord
from edgemem.records.sizes import tensor_bytes
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph, Op

__all__ = ["ETHOS_U", "VelaOffsets", "examine_vela"]

ETHOS_U: Final = "ethos-u"
_SCRATCH, _FAST, _OPERANDS = 2, 3, 4  # inputs: commands, weights, scratch, fast scratch, then what the commands read


@dataclass(frozen=True, slots=True, eq=False)
class VelaOffsets:
    """What came of the offsets.

    Attributes:
        planset: the plan that they amount to; `first_op` and `last_op` of its records count ticks.
        violations: everything that is wrong; () is right as far as can be told.
        checked: what was looked at in the operators of the Ethos-U, in words.
        not_checked: what only their commands tell, in words.
    """

    planset: PlanSet
    violations: tuple[Violation, ...]
    checked: str
    not_checked: tuple[str, ...]


def examine_vela(graph: Graph, offsets: Mapping[str, int]) -> VelaOffsets:
    """Examine the offsets that Vela gave the tensors of a graph.

    Args:
        graph: of the compiled file.
        offsets: in bytes by tensor.

    Raises UnsupportedError for a graph with bodies or others beside it, and ModelError for an ethos-u operator without
    a scratch tensor.
    """
    if graph.others or any(op.bodies for op in graph.ops):
        raise UnsupportedError(
            "the model has several subgraphs beside operators of an Ethos-U: its plan cannot be proved"
        )
    lives = _lives(graph)
    missing = [
        Violation(Cause.MISSING_TENSOR, f"OfflineMemoryAllocation has no place for {tensor.name!r}", "", (tensor.name,))
        for tensor in (graph.tensors[i] for i in lives)
        if tensor.name not in offsets and tensor.kind != "variable"
    ]
    lives = {i: life for i, life in lives.items() if graph.tensors[i].name in offsets}
    records = [UsageRecord(graph.tensors[i].name, *life, _bytes(graph, i)) for i, life in lives.items()]
    problem = Problem(records, alignment=MICRO_ALIGNMENT)
    at = np.array([offsets[record.name] for record in records], np.int64)
    size, bounds = int((at + problem.size).max(initial=0)), lower_bounds(problem)
    plan = OffsetPlan("Vela", {}, at, size, optimal=size == bounds.offsets)
    planset = PlanSet(problem, naive_size(problem), bounds, (plan,), (), digest=digest(graph))
    found, kept = _beside_commands(graph, problem, at, {i: row for row, i in enumerate(lives)})
    ops = [op for op in graph.ops if op.type == ETHOS_U]
    left = [
        "the commands of ethos-u operators, which have the places of tensors in them: they are Vela's",
        "workspace, which TensorFlow Lite Micro places by itself beside the plan",
    ]
    if kept:
        which = f"{len(kept):,} tensor{'s' * (len(kept) > 1)} needed later, such as {min(kept)!r}"
        left.append(f"that commands keep {which}, in the scratch tensor")
    fast = {op.inputs[_FAST] for op in ops} - {op.inputs[_SCRATCH] for op in ops}
    if fast & lives.keys():
        left.append("what lies in the fast scratch tensor, for which the driver may have memory outside the arena")
    checked = f"{len(ops):,} of ethos-u: what they read and write lies in the scratch tensor"
    return VelaOffsets(planset, (*missing, *examine(planset), *found)[:MOST], checked, tuple(left))


def _bytes(graph: Graph, index: int) -> int:
    return tensor_bytes(graph.tensors[index], BUILT_IN["tflm"], graph.layout)


def _operands(op: Op) -> tuple[int, ...]:
    return op.inputs[_OPERANDS:] if op.type == ETHOS_U else op.inputs


def _lives(graph: Graph) -> dict[int, tuple[int, int]]:
    """The first and the last tick of every tensor in the arena, by index."""
    lives: dict[int, tuple[int, int]] = {}

    def use(index: int, *ticks: int) -> None:
        if index >= 0 and graph.tensors[index].kind in ("activation", "variable") and _bytes(graph, index):
            span = (*lives.get(index, ticks), *ticks)
            lives[index] = min(span), max(span)

    end = 2 * len(graph.ops)
    scratch = set()
    for k, op in enumerate(graph.ops):
        is_npu = op.type == ETHOS_U
        if is_npu and (len(op.inputs) < _OPERANDS or graph.tensors[op.inputs[_SCRATCH]].kind != "activation"):
            raise ModelError(f"operator {op.name!r} has no scratch tensor")
        scratch |= set(op.inputs[_SCRATCH:_OPERANDS]) if is_npu else set()
        for index in _operands(op):
            use(index, 2 * k)
        for index in op.outputs:
            use(index, 2 * k + is_npu, 2 * k + 1)
    for index in set(graph.inputs) - scratch:
        use(index, 0)
    for index in graph.outputs:
        use(index, end - 1)
    for index, tensor in enumerate(graph.tensors):
        if tensor.kind == "variable":
            use(index, 0, end - 1)
    for tick, index in enumerate(sorted(scratch), end):
        use(index, tick)
    return lives


def _beside_commands(
    graph: Graph, problem: Problem, at: NDArray[np.int64], rows: Mapping[int, int]
) -> tuple[list[Violation], set[str]]:
    """What ethos-u operators read or write outside their scratch tensor, and what lies across an end of it.

    And the tensors within it that are needed later: only the commands tell whether they stay.
    """
    end, names = at + problem.size, problem.names
    found: list[Violation] = []
    kept: set[str] = set()
    for k, op in enumerate(graph.ops):
        scratch = rows.get(op.inputs[_SCRATCH]) if op.type == ETHOS_U else None
        if scratch is None:
            continue
        outside = (at < at[scratch]) | (end > end[scratch])
        touched = (at < end[scratch]) & (end > at[scratch])
        across = (problem.first_op <= 2 * k) & (problem.last_op > 2 * k) & touched
        kept |= {names[row] for row in np.flatnonzero(across & ~outside).tolist()}
        operands = {rows[i] for i in (*_operands(op), *op.outputs) if i in rows}
        for row in sorted(operands & set(np.flatnonzero(outside).tolist())):
            message = f"{names[row]!r} is not inside {names[scratch]!r}, where {op.name!r} looks for it"
            found.append(Violation(Cause.NOT_WITHIN, message, "Vela", (names[row], names[scratch]), k))
        for row in set(np.flatnonzero(across & outside).tolist()) - operands:
            message = f"{names[row]!r} is needed after {op.name!r} and lies across an end of {names[scratch]!r}"
            found.append(Violation(Cause.OVERLAP, message, "Vela", (names[row], names[scratch]), k))
    return found, kept
