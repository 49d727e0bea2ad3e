"""The output types of ONNX Runtime's operators on quantised tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onnx import TensorProto

from edgemem_converters.onnx.calls import RuleError, TypedNode
from edgemem_converters.onnx.layouts import WINDOW, channels_last
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx import TypeProto

__all__ = ["QUANTIZED"]

_Types: TypeAlias = "list[TypeProto | None]"


def _same(call: TypedNode) -> _Types:
    return [call.like()]


def _broadcast(call: TypedNode) -> _Types:
    """A, its scale and zero point, then B."""
    return [call.like(0, call.broadcast(call.dims(0), call.dims(3)))]


def _where(call: TypedNode) -> _Types:
    """A condition, X with scale and zero point, then Y."""
    return [call.like(1, call.broadcast(call.dims(0), call.dims(1), call.dims(4)))]


def _concat(call: TypedNode) -> _Types:
    """The result's scale and zero point, then each tensor with its own two."""
    shapes = [call.dims(k) for k in range(2, len(call.types), 3)]
    if not shapes:
        raise RuleError("it has no inputs")
    rank = len(shapes[0])
    axis = call.axis(call.integer("axis"), rank)
    rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rest) > 1 or any(len(s) != rank for s in shapes):
        raise RuleError("its inputs differ in other dimensions than the one along which they are joined")
    return [call.like(2, [*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :]])]


def _window(op_type: str, weights: int | None = None) -> Callable[[TypedNode], _Types]:
    """ONNX's operator of this type, on channels that come second, or last by an attribute."""

    def rule(call: TypedNode) -> _Types:
        others = [call.like(weights)] if weights is not None else []

        def plain(x: TypeProto) -> TypeProto:
            return call.as_standard(op_type, [_as_float(x), *map(_as_float, others)], WINDOW)

        made = channels_last(call, plain) if call.integer("channels_last", 0) else plain(call.like(0))
        return [tensor_type(call.elem(0), [d.dim_value for d in made.tensor_type.shape.dim])]

    return rule


def _as_float(made: TypeProto) -> TypeProto:
    """ONNX's windows take floating-point numbers alone."""
    return tensor_type(TensorProto.FLOAT, [d.dim_value for d in made.tensor_type.shape.dim])


def _gemm(call: TypedNode) -> _Types:
    """A and B with scales and zero points, C, then the result's: without these it is in floating point."""
    a, b = call.dims(0, 2), call.dims(3, 2)
    a = a[::-1] if call.integer("transA", 0) else a
    b = b[::-1] if call.integer("transB", 0) else b
    return [tensor_type(call.elem(0) if call.has(7) else TensorProto.FLOAT, call.product(a, b))]


def _product(elem_position: int) -> Callable[[TypedNode], _Types]:
    """A matrix product whose elements are of the type of another input."""

    def rule(call: TypedNode) -> _Types:
        return [tensor_type(call.elem(elem_position), call.product(call.dims(0), call.dims(1)))]

    return rule


def _product_of_integers(call: TypedNode) -> _Types:
    return [tensor_type(TensorProto.INT32, call.product(call.dims(0), call.dims(1)))]


def _quantize(call: TypedNode) -> _Types:
    return [tensor_type(call.elem(2) if call.has(2) else TensorProto.UINT8, call.dims(0))]


def _dequantize(call: TypedNode) -> _Types:
    return [tensor_type(call.elem(1), call.dims(0))]


def _lstm(call: TypedNode) -> _Types:
    steps, batch, _ = call.dims(0, 3)
    direction = call.attribute("direction")
    count = 2 if direction is not None and direction.s == b"bidirectional" else 1
    hidden = call.integer("hidden_size")
    last = call.like(0, [count, batch, hidden])
    return [call.like(0, [steps, count, batch, hidden]), last, last]


QUANTIZED: Mapping[str, Callable[[TypedNode], _Types]] = {
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"), _same),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _broadcast),
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _product(0),
    "MatMulInteger16": _product_of_integers,
    "MatMulIntegerToFloat": _product(2),
    "QGemm": _gemm,
    "QLinearAveragePool": _window("AveragePool"),
    "QLinearConcat": _concat,
    "QLinearConv": _window("Conv", 3),
    "QLinearGlobalAveragePool": _window("GlobalAveragePool"),
    "QLinearWhere": _where,
    "QuantizeLinear": _quantize,
}
