"""Values that depend on constants and shapes alone: the sizes that models compute to reshape, slice and resize with.

Only small tensors are computed, by operators that occur in such computations; weights are not read.
"""

from __future__ import annotations

import warnings
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from edgemem_converters.onnx.constants import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto

__all__ = ["BOUNDED", "FOLDED", "elements_made", "evaluate", "evaluator", "shape_value"]

# No rule tells how large their results are, but they are not much larger than their inputs.
BOUNDED = frozenset(("NonZero", "Compress", "Unique"))

FOLDED = BOUNDED | frozenset(
    (
        *("Shape", "Size", "Identity", "Cast", "CastLike", "Constant", "ConstantOfShape", "Range", "EyeLike"),
        *("Gather", "GatherElements", "GatherND", "Slice", "Split", "Concat", "Squeeze", "Unsqueeze", "Reshape"),
        *("Flatten", "Transpose", "Expand", "Tile", "Where", "ScatterElements", "ScatterND", "CumSum"),
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Sign", "Min", "Max", "Clip", "Sqrt", "Floor"),
        *(
            "Ceil",
            "Round",
            "Reciprocal",
            "Equal",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "And",
            "Or",
            "Not",
            "Xor",
        ),
        *("ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax", "ArgMax", "ArgMin"),
    )
)


_BROADCAST = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("And", "Or", "Xor", "Where", "Max", "Min"),
    )
)
_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_MOST_MADE = 2**22  # elements while an operator is computed


def shape_value(node: NodeProto, dims: Sequence[int]) -> NDArray[np.int64]:
    """What Shape (with `start` and `end`) or Size gives for a tensor of these dimensions."""
    if node.op_type == "Size":
        return np.array(np.prod(dims, dtype=object), dtype=np.int64)
    bounds = {a.name: a.i for a in node.attribute}
    return np.array(dims[bounds.get("start", 0) : bounds.get("end")], dtype=np.int64)


class GatherElements(OpRun):
    """onnx's own takes the wrong elements, or fails, where the axis is longer than `np.choose` allows (64)."""

    op_domain = ""

    def _run(self, data: NDArray[Any], indices: NDArray[Any], axis: int = 0) -> tuple[NDArray[Any]]:
        axis %= data.ndim
        used = tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(indices.shape))
        return (np.take_along_axis(data[used], indices, axis),)


class ScatterElements(OpRun):
    """onnx's own writes element by element in Python."""

    op_domain = ""

    def _run(
        self, data: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], axis: int = 0, reduction: str = "none"
    ) -> tuple[NDArray[Any]]:
        made = data.copy()
        places: list[Any] = list(np.indices(indices.shape, sparse=True))
        places[axis] = indices
        if reduction == "none":
            made[tuple(places)] = updates
        else:
            _REDUCTIONS[reduction].at(made, tuple(places), updates)
        return (made,)


def evaluator(model: ModelProto) -> ReferenceEvaluator:
    """What computes a model of one node with NumPy."""
    return ReferenceEvaluator(model, new_ops=[GatherElements, ScatterElements])


def evaluate(model: ModelProto, values: Sequence[NDArray[np.generic] | None]) -> list[NDArray[np.generic]] | None:
    """The outputs of a model of one node without inputs; None if they are no small tensors or it cannot be run.

    `values` are those of the node's inputs, None for an absent one.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if elements_made(model.graph.node[0], [v for v in values if v is not None]) > _MOST_MADE:
                return None
            made = evaluator(model).run(None, {})
    except Exception:  # noqa: BLE001 - an evaluator of foreign nodes; a value that is not found is only unknown
        return None
    if not all(isinstance(v, np.ndarray | np.generic) and v.size <= SMALL for v in made):
        return None
    return [np.asarray(v) for v in made]


def elements_made(node: NodeProto, values: Sequence[NDArray[np.generic]]) -> int:
    """At least as many elements as the node's result has, whatever the file declares.

    Raises an error of any type for inputs that the operator does not take.
    """
    kind, sizes = node.op_type, [int(v.size) for v in values]
    if kind in ("ConstantOfShape", "Expand", "Tile"):
        factors: list[int] = [max(1, int(d)) for d in values[-1].flat]
        return prod(factors) * prod(sizes[:-1])
    if kind == "Range":
        start, limit, step = (float(v.item()) for v in values)
        return int((limit - start) / step) + 1
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    if kind in ("GatherElements", "ScatterElements"):
        length, indices = values[0].shape[axis], values[1].astype(np.int64)
        if np.any((indices < -length) | (indices >= length)):  # numpy takes time in proportion to them
            raise IndexError
    if kind == "Gather":
        return sizes[0] // max(1, int(values[0].shape[axis])) * sizes[1]
    if kind == "GatherND":
        return sizes[0] * sizes[1] // max(1, int(values[1].shape[-1]))
    if kind in _BROADCAST:
        return prod(np.broadcast_shapes(*(v.shape for v in values)))
    return sum(sizes)
