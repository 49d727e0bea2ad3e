"""The order that a file had before a runtime optimised it, for the operators that there are now.

ONNX Runtime saves an optimised graph in an order of its own: from the outputs back, depth first. For a model that was
written to run in stripes this undoes what the stripes were made for, because it runs all stripes of a layer before the
next layer. Fused operators keep the name of their last result, which tells their place in the file.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from edgemem.model.topological_order import ranked_order
from edgemem.schedule.order import find_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["depth_first_order", "order_like"]


def depth_first_order(graph: Graph, written: Iterable[Iterable[str]], target: Target) -> tuple[int, ...]:
    """The order of the original file, or that of a depth-first search where that needs less memory.

    Arguments are those of `order_like`; `target` is whose rules count memory.
    """
    near = order_like(graph, written)
    return tuple(near[k] for k in find_order(graph.reordered(near), target, method="depth_first").order)


def order_like(graph: Graph, written: Iterable[Iterable[str]]) -> tuple[int, ...]:
    """The topological order of a graph's operators that is closest to that of an original.

    Args:
        graph: made from the original; a permutation of its operators is given back.
        written: what each operator of the original writes, in its order.

    An operator without a name from the original (a conversion that was inserted) runs just before what reads it first;
    several of them in the order of their results' names, because a runtime's own order changes with every process.
    """
    place = {name: k for k, names in enumerate(written) for name in names if name}
    last = len(place)
    rank = [max((place.get(graph.tensors[i].name, -1) for i in op.outputs if i >= 0), default=-1) for op in graph.ops]
    reads: dict[int, int] = {}  # tensor -> the first place that reads it
    for k in reversed(range(len(graph.ops))):
        op = graph.ops[k]
        if rank[k] < 0:
            rank[k] = min((reads.get(i, last) for i in op.outputs), default=last)
        for i in op.inputs:
            reads[i] = min(reads.get(i, last), rank[k])
    names = [next((graph.tensors[i].name for i in op.outputs if i >= 0), "") for op in graph.ops]
    keys = list(zip(rank, names, strict=True))
    places = {key: n for n, key in enumerate(sorted(set(keys)))}
    writer = {i: k for k, op in enumerate(graph.ops) for i in op.outputs if i >= 0}
    waits = [{writer[i] for i in op.inputs if i in writer} for op in graph.ops]
    for before, after in graph.precedence:
        waits[after].add(before)
    fixed = [k for k, op in enumerate(graph.ops) if op.ordered]
    for before, after in pairwise(fixed):
        waits[after].add(before)
    return ranked_order(waits, [places[key] for key in keys])
