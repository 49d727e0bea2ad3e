"""The output types of operators that ONNX has no rules for.

Most are what ONNX Runtime adds to ONNX's own: what its optimiser and quantiser write (its docs/ContribOperators.md
describes them). The others scale inputs of classifiers (ai.onnx.ml). Tests compare the rules with what ONNX Runtime
infers and with what it computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from onnx import TensorProto, defs

from edgemem_converters.onnx.attention import ATTENTION
from edgemem_converters.onnx.calls import RuleError, TypedNode
from edgemem_converters.onnx.layouts import BLOCKED, LAST, WINDOW, block_of, channels_last
from edgemem_converters.onnx.quantized_types import QUANTIZED
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TypeProto

__all__ = ["Imports", "contrib_types"]

_Types: TypeAlias = "list[TypeProto | None]"


@dataclass(frozen=True, slots=True)
class Imports:
    """What rules need to know of a model.

    Attributes:
        version: of the operator set of ONNX's own operators.
        block: channels of a block, where there are tensors in blocks.
    """

    version: int
    block: int

    @classmethod
    def of(cls, model: ModelProto) -> Imports:
        """Read a model's."""
        return cls(next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0), block_of(model))


def contrib_types(
    node: NodeProto,
    imports: Imports,
    types: Sequence[TypeProto | None],
    values: Sequence[NDArray[np.generic] | None],
) -> tuple[_Types, str] | None:
    """The output types of one of these operators, and why they cannot be had, or "".

    Args:
        node: the node.
        imports: what a rule needs to know of the model.
        types: of the inputs, all known; None for an absent one.
        values: of the inputs; None for what is unknown.

    Returns None for an operator without a rule here. Types are None for outputs that the rule does not give; a
    dimension that depends on unknown values is unknown.
    """
    rule = _rule(node, imports.version)
    if rule is None:
        return None
    try:
        made = rule(TypedNode(node, types, values, imports.block))
    except (RuleError, ValueError, OverflowError) as e:  # the last two: dimensions that are no 64-bit integers
        return [None] * len(node.output), str(e)
    if any(d.dim_value < 0 for one in made if one is not None for d in one.tensor_type.shape.dim):
        return [None] * len(node.output), "its attributes make a dimension negative"
    return [*made, *[None] * len(node.output)][: len(node.output)], ""


def _rule(node: NodeProto, version: int) -> Callable[[TypedNode], _Types] | None:
    if node.domain == "com.microsoft":
        return _MICROSOFT.get(node.op_type)
    if node.domain == "ai.onnx.ml":
        return _SCALERS.get(node.op_type)
    if node.domain == "com.microsoft.nchwc":
        return BLOCKED.get(node.op_type)
    if node.domain == "com.ms.internal.nhwc":
        return LAST.get(node.op_type)
    if node.domain in ("", "ai.onnx") and node.op_type in _OWN and not defs.has(node.op_type, version, ""):
        return _OWN[node.op_type]
    return None


def _same(call: TypedNode) -> _Types:
    """As the first input."""
    return [call.like()]


def _floats(call: TypedNode) -> _Types:
    """32-bit floats in the shape of the first input."""
    return [tensor_type(TensorProto.FLOAT, call.dims(0))]


def _layer_normalization(call: TypedNode) -> _Types:
    """Beside the result: mean and inverse deviation, of length 1 from the axis on."""
    dims = call.dims(0)
    axis = call.axis(call.integer("axis", -1), len(dims))
    statistics = tensor_type(TensorProto.FLOAT, [*dims[:axis], *[1] * (len(dims) - axis)])
    return [call.like(), statistics, statistics]


def _simplified_layer_normalization(call: TypedNode) -> _Types:
    return [tensor_type(call.elem(1), call.dims(0)), *_layer_normalization(call)[1:2]]


def _skip_layer_normalization(call: TypedNode) -> _Types:
    dims = call.dims(0)
    if not dims:
        raise RuleError("its input is a scalar")
    statistics = tensor_type(TensorProto.FLOAT, [*dims[:-1], 1])
    return [call.like(), statistics, statistics, call.like()]


def _fused_matmul(call: TypedNode) -> _Types:
    """Matmul of inputs whose last two dimensions may be swapped, and whose first may be the last but one."""

    def turned(position: int, letter: str) -> list[int]:
        dims = call.dims(position)
        if len(dims) > 1 and call.integer(f"transBatch{letter}", 0):
            dims = [*dims[1:-1], dims[0], dims[-1]]
        if len(dims) > 1 and call.integer(f"trans{letter}", 0):
            dims = [*dims[:-2], dims[-1], dims[-2]]
        return dims

    return [call.like(0, call.product(turned(0, "A"), turned(1, "B")))]


def _fused_conv(call: TypedNode) -> _Types:
    return [call.as_standard("Conv", [call.like(0), call.like(1)], WINDOW)]


def _fused_gemm(call: TypedNode) -> _Types:
    return [call.as_standard("Gemm", [call.like(0), call.like(1)], ("transA", "transB"))]


def _nhwc_max_pool(call: TypedNode) -> _Types:
    return [channels_last(call, lambda x: call.as_standard("MaxPool", [x], WINDOW))]


def _matmul_n_bits(call: TypedNode) -> _Types:
    dims = call.dims(0)
    if not dims:
        raise RuleError("its input is a scalar")
    return [call.like(0, [*dims[:-1], call.integer("N")])]


def _halved(call: TypedNode) -> _Types:
    dims = call.dims(0)
    if not dims or dims[-1] % 2:
        raise RuleError("its input has no even length")
    return [call.like(0, [*dims[:-1], dims[-1] // 2])]


def _pad(call: TypedNode) -> _Types:
    pads = call.values[1] if len(call.values) > 1 else None
    return [call.as_standard("Pad", [call.like(0), call.like(1) if pads is None else pads.reshape(-1)], ("mode",))]


def _grid_sample(call: TypedNode) -> _Types:
    return [call.like(0, [*call.dims(0, 4)[:2], *call.dims(1, 4)[1:3]])]


def _crop_and_resize(call: TypedNode) -> _Types:
    size = call.values[3] if len(call.values) > 3 else None
    lengths = [int(n) for n in size] if size is not None and size.shape == (2,) else [None, None]
    return [tensor_type(call.elem(0), [call.dims(1, 2)[0], call.dims(0, 4)[1], *lengths])]


def _distances(call: TypedNode) -> _Types:
    return [call.like(0, [call.dims(0, 2)[0], call.dims(1, 2)[0]])]


def _embed_layer_normalization(call: TypedNode) -> _Types:
    dims = [*call.dims(0, 2), call.dims(2, 2)[1]]
    made = tensor_type(call.elem(2), dims)
    return [made, tensor_type(TensorProto.INT32, dims[:1]), made]


_MICROSOFT: Mapping[str, Callable[[TypedNode], _Types]] = {
    **dict.fromkeys(
        (
            *("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "GroupNorm", "Inverse", "MoE"),
            *("QuickGelu", "RotaryEmbedding", "Trilu"),
        ),
        _same,
    ),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_layer_normalization),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
    "BiasSplitGelu": _halved,
    "CDist": _distances,
    "CropAndResize": _crop_and_resize,
    "EmbedLayerNormalization": _embed_layer_normalization,
    "FusedConv": _fused_conv,
    "MatMulNBits": _matmul_n_bits,
    "FusedGemm": _fused_gemm,
    "GridSample": _grid_sample,
    "NhwcMaxPool": _nhwc_max_pool,
    "Pad": _pad,
    **ATTENTION,
    **QUANTIZED,
}

_SCALERS: Mapping[str, Callable[[TypedNode], _Types]] = {
    "Imputer": _same,
    "Normalizer": _floats,
    "Scaler": _floats,
}

# In ONNX's own domain, in operator sets that do not have them.
_OWN: Mapping[str, Callable[[TypedNode], _Types]] = {
    "LayerNormalization": _layer_normalization,
    "SimplifiedLayerNormalization": _simplified_layer_normalization,
}
