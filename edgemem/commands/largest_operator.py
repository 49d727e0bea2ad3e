"""The operator whose own inputs and results take most: no order and no recomputation makes a peak lower than that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.schedule.overlaps import has_overlaps
from edgemem.schedule.peak import own_peaks
from edgemem.schedule.problem import order_problem
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["WidestOperator", "widest_operator"]


@dataclass(frozen=True, slots=True)
class WidestOperator:
    """The operator that alone needs most.

    Attributes:
        name: of it; its type if it has no name.
        type: of it.
        needs: bytes (texels for textures) that are alive while it runs, in any order.
        reads: what it reads, as text: the sum of bytes, and the largest tensors.
        writes: what it writes, in the same form.
    """

    name: str
    type: str
    needs: int
    reads: str
    writes: str


def widest_operator(graph: Graph, target: Target) -> WidestOperator | None:
    """The operator of a graph that alone needs most under the rules of a target.

    None for a graph without operators, and where results may lie inside inputs: then no operator has memory of its own.
    """
    if not graph.ops or has_overlaps(target):
        return None
    problem = order_problem(graph, target)
    needs = own_peaks(problem)
    k = max(range(len(needs)), key=needs.__getitem__)
    op = graph.ops[k]
    return WidestOperator(
        op.name or op.type,
        op.type,
        max(needs[k] - problem.padding, 0),
        _sizes(graph, op.inputs),
        _sizes(graph, op.outputs),
    )


def _sizes(graph: Graph, tensors: Sequence[int]) -> str:
    """The bytes of the tensors that are no constants, and the largest of them."""
    known = {i: graph.tensors[i] for i in tensors if i >= 0 and graph.tensors[i].kind not in ("constant", "opaque")}
    parts = sorted(((t.size, t.name) for t in known.values()), reverse=True)
    return f"{sum(size for size, _ in parts):,} ({join_names((f'{name} {size:,}' for size, name in parts), most=3)})"
