"""Operators of ONNX Runtime on tensors whose channels come last, or in blocks.

Blocked tensors have the dimensions of the plain ones; their channels are filled up to whole blocks. Blocks have 8 or 16
channels, depending on the processor on which ONNX Runtime wrote the file. The file does not say which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from edgemem_converters.onnx.calls import RuleError, TypedNode
from edgemem_converters.onnx.rules import dims_of
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx import ModelProto, TypeProto

__all__ = ["BLOCKED", "LAST", "WINDOW", "block_of", "channels_last"]

_Types: TypeAlias = "list[TypeProto | None]"

_BLOCKS = (8, 16)  # channels

# Attributes of windows that move over a tensor.
WINDOW = ("auto_pad", "ceil_mode", "dilations", "group", "kernel_shape", "pads", "storage_order", "strides")


def channels_last(call: TypedNode, rule: Callable[[TypeProto], TypeProto]) -> TypeProto:
    """What a rule for tensors with the channels second gives for a first input with the channels last."""
    dims = call.dims(0)
    if len(dims) < 3:
        raise RuleError("its input has no channels")
    made = dims_of(rule(call.like(0, [dims[0], dims[-1], *dims[1:-1]]))) or []
    return tensor_type(call.elem(0), [*made[:1], *made[2:], *made[1:2]])


def _standing(op_type: str, weights: int | None = None) -> Callable[[TypedNode], _Types]:
    """The rule of ONNX's operator of this type, whose weights are at a position, on channels that come second."""

    def rule(call: TypedNode) -> _Types:
        inputs = [call.like(0), *([call.like(weights)] if weights is not None else [])]
        return [call.as_standard(op_type, inputs, WINDOW)]

    return rule


def _last(op_type: str, weights: int | None = None) -> Callable[[TypedNode], _Types]:
    """The same on channels that come last."""

    def rule(call: TypedNode) -> _Types:
        others = [call.like(weights)] if weights is not None else []
        return [channels_last(call, lambda x: call.as_standard(op_type, [x, *others], WINDOW))]

    return rule


def block_of(model: ModelProto) -> int:
    """How many channels a block has in a model: the smaller number if a weight has such blocks, otherwise the larger.

    Weights are filled up to whole blocks, too, except that an input with fewer channels than a block stays plain: a
    convolution with 8 channels of output has blocks of 8. If no weight tells the blocks apart, the larger number gives
    sizes that are enough for both.
    """
    small, large = _BLOCKS
    weights = {t.name: t.dims for t in model.graph.initializer}
    for node in model.graph.node:
        if node.domain == "com.microsoft.nchwc" and node.op_type == "Conv" and len(node.input) > 1:
            dims = weights.get(node.input[1], ())
            group = next((a.i for a in node.attribute if a.name == "group"), 1)
            channels = [dims[0], *(n for n in (dims[1] * group,) if n > small)] if len(dims) > 1 else []
            if any(n % large == small for n in channels):
                return small
    return large


def _reorder_input(call: TypedNode) -> _Types:
    """Into blocks: the channels are rounded up to whole ones."""
    dims = call.dims(0)
    if len(dims) < 3:
        raise RuleError("its input has no channels")
    if call.integer("channels_last", 0):
        dims = [dims[0], dims[-1], *dims[1:-1]]
    dims[1] = -(-dims[1] // call.block) * call.block
    return [call.like(0, dims)]


def _reorder_output(call: TypedNode) -> _Types:
    """Out of blocks: an attribute says how many channels there are."""
    dims = call.dims(0)
    if len(dims) < 3:
        raise RuleError("its input has no channels")
    dims[1] = call.integer("channels")
    if call.integer("channels_last", 0):
        dims = [dims[0], *dims[2:], dims[1]]
    return [call.like(0, dims)]


def _upsample(call: TypedNode) -> _Types:
    dims, scales = call.dims(0), call.integers("scales")
    if len(scales) != len(dims):
        raise RuleError(f"it has {len(scales)} scales for {len(dims)} dimensions")
    return [call.like(0, [d * s for d, s in zip(dims, scales, strict=True)])]


# com.microsoft.nchwc
BLOCKED: Mapping[str, Callable[[TypedNode], _Types]] = {
    "AveragePool": _standing("AveragePool"),
    "Conv": _standing("Conv", 1),
    "GlobalAveragePool": _standing("GlobalAveragePool"),
    "GlobalMaxPool": _standing("GlobalMaxPool"),
    "MaxPool": _standing("MaxPool"),
    "ReorderInput": _reorder_input,
    "ReorderOutput": _reorder_output,
    "Upsample": _upsample,
}

# com.ms.internal.nhwc
LAST: Mapping[str, Callable[[TypedNode], _Types]] = {
    "AveragePool": _last("AveragePool"),
    "Conv": _last("Conv", 1),
    "GlobalAveragePool": _last("GlobalAveragePool"),
    "GlobalMaxPool": _last("GlobalMaxPool"),
    "MaxPool": _last("MaxPool"),
    "QLinearConv": _last("Conv", 3),
}
