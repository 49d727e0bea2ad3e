"""Values that depend on constants and shapes alone: the sizes that models compute to reshape, slice and resize with.

Only small tensors are computed, by operators that occur in such computations; weights are not read.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from onnx.reference import ReferenceEvaluator

from edgemem_converters.onnx.scopes import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto

__all__ = ["BOUNDED", "FOLDED", "evaluate", "shape_value"]

# No rule tells how large their results are, but they are not much larger than their inputs.
BOUNDED = frozenset(("NonZero", "Compress", "Unique"))

FOLDED = BOUNDED | frozenset(
    (
        *("Shape", "Size", "Identity", "Cast", "CastLike", "Constant", "ConstantOfShape", "Range", "EyeLike"),
        *("Gather", "GatherElements", "GatherND", "Slice", "Split", "Concat", "Squeeze", "Unsqueeze", "Reshape"),
        *("Flatten", "Transpose", "Expand", "Tile", "Where", "ScatterElements", "ScatterND", "CumSum"),
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Sign", "Min", "Max", "Clip", "Sqrt", "Floor"),
        *("Ceil", "Round", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Not", "Xor"),
        *("ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax", "ArgMax", "ArgMin"),
    )
)


def shape_value(node: NodeProto, dims: Sequence[int]) -> NDArray[np.int64]:
    """What Shape (with `start` and `end`) or Size gives for a tensor of these dimensions."""
    if node.op_type == "Size":
        return np.array(np.prod(dims, dtype=object), dtype=np.int64)
    bounds = {a.name: a.i for a in node.attribute}
    return np.array(dims[bounds.get("start", 0) : bounds.get("end")], dtype=np.int64)


def evaluate(model: ModelProto) -> list[NDArray[np.generic]] | None:
    """The outputs of a model of one node without inputs; None if they are no small tensors or it cannot be run."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = ReferenceEvaluator(model).run(None, {})
    except Exception:  # noqa: BLE001 - an evaluator of foreign nodes; a value that is not found is only unknown
        return None
    if not all(isinstance(v, np.ndarray | np.generic) and v.size <= SMALL for v in made):
        return None
    return [np.asarray(v) for v in made]
