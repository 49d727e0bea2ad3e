"""Where onnx's shape inference is wrong or silent although the operator's specification is clear.

The cases were found by comparing it with the results of onnx's own test cases (tests/unit/test_onnx_rules.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto, TypeProto, helper

from edgemem_converters.onnx.rules import dims_of
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto

__all__ = ["guessed", "made_explicit", "said_by_the_specification"]


def guessed(
    node: NodeProto, types: Sequence[TypeProto | None], values: Sequence[NDArray[np.generic] | None]
) -> list[TypeProto | None] | None:
    """The known part of types that onnx would guess; None if it does not guess.

    onnx infers Split and Squeeze with an unknown second input as if they had none: equal parts, every 1 removed.
    """
    if node.domain not in ("", "ai.onnx") or node.op_type not in ("Split", "Squeeze"):
        return None
    if len(node.input) < 2 or not node.input[1] or values[1] is not None:
        return None
    data, dims = types[0], dims_of(types[0])
    if data is None or dims is None:
        return [None] * len(node.output)
    if node.op_type == "Split":
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if -len(dims) <= axis < len(dims):
            dims[axis] = None
        return [tensor_type(data.tensor_type.elem_type, dims)] * len(node.output)
    axes = dims_of(types[1])
    count = axes[0] if axes else None
    rest = [None] * (len(dims) - count) if isinstance(count, int) else None
    return [tensor_type(data.tensor_type.elem_type, rest)]


def made_explicit(node: NodeProto) -> None:
    """Write out a default that onnx's rule gets wrong: STFT is one-sided unless it says otherwise."""
    if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
        node.attribute.append(helper.make_attribute("onesided", 1))


def said_by_the_specification(
    node: NodeProto, model: ModelProto, types: Sequence[TypeProto | None], made: list[TypeProto | None]
) -> list[TypeProto | None]:
    """The output types, completed where onnx has no rule: a Dropout's mask, two normalisations."""
    if node.domain not in ("", "ai.onnx") or not types or types[0] is None:
        return made
    if node.op_type in ("MeanVarianceNormalization", "GroupNormalization"):
        return [types[0], *made[1:]]
    if node.op_type == "Dropout" and len(made) == 2 and (made[1] is None or made[1].WhichOneof("value") is None):
        version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
        dims = dims_of(types[0])
        return [made[0], tensor_type(TensorProto.BOOL if version >= 10 else types[0].tensor_type.elem_type, dims)]
    return made
