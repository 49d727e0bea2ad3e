"""Multiply-accumulate operations of a graph: what a change of it costs in arithmetic.

Convolutions, matrix products and fully connected layers count; other operators do far less, and count as 0.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op

    Shape = tuple[int, ...]
    Rule = Callable[[list[Shape]], int]

__all__ = ["count_macs", "macs_of"]


def count_macs(graph: Graph) -> int:
    """Multiply-accumulate operations of one run, every operator once; those of bodies are left out."""
    return sum(macs_of(graph, op) for op in graph.ops)


def macs_of(graph: Graph, op: Op) -> int:
    """Multiply-accumulate operations of one operator of the graph; bodies that it runs are left out."""
    rule = _PER_RESULT.get(op.type)
    if rule is None or not op.outputs or op.outputs[0] < 0:
        return 0
    shapes = [graph.tensors[i].shape if i >= 0 else () for i in op.inputs]
    try:
        each = rule(shapes)
    except IndexError:
        return 0
    results = shapes[0] if op.type in _SCATTER else graph.tensors[op.outputs[0]].shape
    return prod(results) * each


def _weights(position: int, first: int, last: int | None = None) -> Rule:
    """The product of these dimensions of an input."""
    return lambda shapes: prod(shapes[position][first:last]) if len(shapes[position]) > 1 else 0


def _inner(shapes: list[Shape]) -> int:
    return shapes[0][-1]


# Operators that add every input element into several results, times their weights.
_SCATTER: Final = frozenset({"ConvTranspose"})

# Operator -> multiplications for each element of its result (for _SCATTER: of its input), from the inputs' shapes.
_PER_RESULT: Final[Mapping[str, Rule]] = {
    "CONV_2D": _weights(1, 1),
    "DEPTHWISE_CONV_2D": _weights(1, 1, 3),
    "FULLY_CONNECTED": _weights(1, 1),
    "BATCH_MATMUL": _inner,
    **dict.fromkeys(("Conv", "com.microsoft::FusedConv", "com.microsoft.nchwc::Conv"), _weights(1, 1)),
    "ConvInteger": _weights(1, 1),
    "QLinearConv": _weights(3, 1),
    "ConvTranspose": _weights(1, 1),
    **dict.fromkeys(("MatMul", "Gemm", "com.microsoft::FusedMatMul", "com.microsoft::FusedGemm"), _inner),
    **dict.fromkeys(("MatMulInteger", "QLinearMatMul"), _inner),
}
