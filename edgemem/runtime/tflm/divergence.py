"""The first operator that computes something else in TensorFlow Lite Micro because of the offsets in a file.

TensorFlow Lite Micro shows no tensors but outputs. So the model is cut off behind an operator, whose results become the
outputs, and runs with the same offsets and without any; a bisection over the operators that an output depends on finds
the first one that differs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from edgemem.errors import EdgememError
from edgemem.formats import MicroPlanned, Rewritable
from edgemem.formats.offline_allocation import MICRO_ALIGNMENT, micro_offsets
from edgemem.model.graph import Graph
from edgemem.model.rewrite import Rewrite
from edgemem.records.problem import Problem, UsageRecord
from edgemem.runtime.tflm.execution import execute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Op
    from edgemem.plans import PlanSet
    from edgemem.runtime.tflm.execution import TflmRun

    Inputs = Sequence[NDArray[Any]]

__all__ = ["Cuttable", "depends_on_memory", "first_divergence"]


_FILL: Final = 0x5A  # each byte of the arena before a run that must not read it


class Cuttable(MicroPlanned, Rewritable, Protocol):
    """A model that can be written without its last operators, and with offsets."""

    def graph(self) -> Graph:
        """Its graph."""


def first_divergence(
    model: Cuttable, planset: PlanSet, output: str, sets: Sequence[Inputs], *, timeout_s: float | None = None
) -> Op | None:
    """The first operator on the way to an output whose results differ from those without offsets.

    Args:
        model: the file.
        planset: the plan whose offsets it has.
        output: the name of an output that differs.
        sets: of inputs, which run one after the other in one interpreter.
        timeout_s: seconds for each process.

    Returns:
        The operator; None where the model cannot be cut, or the cut one does not show the difference.
    """
    graph = model.graph()
    if any(op.bodies for op in graph.ops) or any(t.kind not in ("activation", "constant") for t in graph.tensors):
        return None
    chain = _ancestors(graph, output)
    try:
        if not chain or not _differs(model, graph, chain[-1], planset, sets, timeout_s):
            return None
        low, high = 0, len(chain) - 1
        while low < high:
            middle = (low + high) // 2
            if _differs(model, graph, chain[middle], planset, sets, timeout_s):
                high = middle
            else:
                low = middle + 1
    except EdgememError:  # an operator that cannot be written, or whose result cannot be an output
        return None
    return graph.ops[chain[low]]


def depends_on_memory(
    model: Cuttable, planset: PlanSet, plain: TflmRun, sets: Sequence[Inputs], *, timeout_s: float | None = None
) -> bool:
    """Whether TensorFlow Lite Micro's results depend on what its memory held before, though no tensors share any.

    Then it reads what nothing has written, or writes what is not its own, and differences are not a plan's.

    Args:
        model: the file.
        planset: a plan of all its tensors, which tells their sizes.
        plain: a run of the file without offsets, in memory as the system gave it.
        sets: of inputs, which ran one after the other in one interpreter.
        timeout_s: seconds for the process.
    """
    sizes = [r.size for r in planset.problem.records if isinstance(r.size, int)]
    ends = np.cumsum([-(-size // MICRO_ALIGNMENT) * MICRO_ALIGNMENT for size in sizes], dtype=np.int64)
    best = planset.best_offsets
    assert best is not None
    column = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    apart = replace(planset, offsets=(replace(best, offsets=column),), shared_objects=())
    arena = int(ends[-1]) + 2 * (plain.head + plain.tail) + (1 << 20)
    made = model.with_offsets(apart).content()
    count = len(model.graph().outputs)
    filled = execute(made, sets[0], then=sets[1:], outputs=count, arena=arena, fill=_FILL, timeout_s=timeout_s)
    return _are_different(filled, plain)


def _ancestors(graph: Graph, output: str) -> list[int]:
    """The operators that an output depends on, in order."""
    needed = {i for i in graph.outputs if graph.tensors[i].name == output}
    found = []
    for number in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[number]
        if not needed.isdisjoint(op.outputs):
            found.append(number)
            needed.update(i for i in op.inputs if i >= 0)
    return found[::-1]


def _differs(
    model: Cuttable, graph: Graph, last: int, planset: PlanSet, sets: Sequence[Inputs], timeout_s: float | None
) -> bool:
    """Whether the results of an operator differ, where the model ends with it."""
    plain = model.rewritten(_cut(graph, last))
    assert isinstance(plain, MicroPlanned)
    cut = plain.graph()
    outputs = cut.outputs
    placed = plain.with_offsets(_of_tensors(planset, {t.name for t in cut.tensors}))
    one, other = (
        execute(m.content(), sets[0], then=sets[1:], outputs=len(outputs), timeout_s=timeout_s) for m in (placed, plain)
    )
    return _are_different(one, other)


def _are_different(one: TflmRun, other: TflmRun) -> bool:
    return any(
        a.tobytes() != b.tobytes()
        for here, there in zip(one.each, other.each, strict=True)
        for a, b in zip(here, there, strict=True)
    )


def _cut(graph: Graph, last: int) -> Rewrite:
    """The graph up to an operator, whose results are its outputs, without the tensors that are left over."""
    ops = graph.ops[: last + 1]
    outputs = [i for i in ops[-1].outputs if i >= 0]
    used = sorted({*graph.inputs, *(i for op in ops for i in (*op.inputs, *op.outputs) if i >= 0)})
    place = {old: new for new, old in enumerate(used)} | {-1: -1}
    made = Graph(
        graph.name,
        tuple(graph.tensors[i] for i in used),
        tuple(
            replace(op, inputs=tuple(place[i] for i in op.inputs), outputs=tuple(place[i] for i in op.outputs))
            for op in ops
        ),
        tuple(place[i] for i in graph.inputs),
        tuple(place[i] for i in outputs),
        graph.layout,
    )
    return Rewrite(made, tuple(range(len(ops))), tuple(used))


def _of_tensors(planset: PlanSet, names: set[str]) -> PlanSet:
    """The places of these tensors alone."""
    offsets = {name: offset for name, offset in micro_offsets(planset).items() if name in names}
    best = planset.best_offsets
    assert best is not None
    records = [UsageRecord(name, 0, 0, 0, "tensor", (name,)) for name in offsets]
    column = np.array(list(offsets.values()), np.int64)
    plan = replace(best, offsets=column, regions=None, region_sizes=())
    problem = Problem(records, alignment=planset.problem.alignment)
    return replace(planset, problem=problem, offsets=(plan,), shared_objects=())
