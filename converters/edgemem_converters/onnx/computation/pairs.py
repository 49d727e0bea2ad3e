"""ONNX operators that are a function of two elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.tensor_ops import Binary, Function, Normalization, Select, Unary
from edgemem_converters.onnx.computation.operator import InexpressibleError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

__all__ = ["PAIRS"]

_NAMES: Final = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Equal": "equal",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
}
_MANY: Final = {"Sum": "add", "Max": "max", "Min": "min"}
_POWERS: Final = {2.0: "square", 0.5: "sqrt", 1.0: "identity", -1.0: "reciprocal", -0.5: "rsqrt"}


def _pair(name: str) -> Rule:
    """The rule of an operator with numpy's broadcasting; before operator set 7 it had an attribute for that."""

    def rule(call: OnnxOperator) -> list[TensorOp]:
        if name == "div" and call.is_integer(call.output()):
            raise InexpressibleError("of integers, which a GPU rounds in its own way")
        return _broadcast(call, name)

    return rule


def _broadcast(call: OnnxOperator, name: str) -> list[TensorOp]:
    if call.opset < 7 and call.integer("broadcast", 0):
        return _along(call, name)
    return [_binary(call, name)]


def _binary(call: OnnxOperator, name: str) -> Binary:
    output = call.single()
    if name in ("add", "sub", "mul") and call.wraps(output):
        raise InexpressibleError(f"of {call.dtype(output)} numbers, which wrap around")
    try:
        fits = np.broadcast_shapes(call.shape(0), call.shape(1)) == call.made()
    except ValueError:
        fits = False
    if not fits:
        raise InexpressibleError("with shapes that do not fit")
    return Binary(name=name, a=call.operand(0), b=call.operand(1), output=output)


def _along(call: OnnxOperator, name: str) -> list[TensorOp]:
    """The second input lies along an axis of the first one and those behind it."""
    shape, other = call.shape(0), call.shape(1)
    axis = counted(call.integer("axis", len(shape) - len(other)), len(shape) or 1)
    behind = len(shape) - axis - len(other)
    if behind == 0 or not other:
        return [_binary(call, name)]
    constant = call.weights(1, "addends or factors")
    if constant is None or behind < 0 or name not in ("add", "sub", "mul", "div"):
        raise InexpressibleError(f"along axis {axis}")
    lying = constant.reshape((1,) * axis + other + (1,) * behind)
    if any(a not in (1, b) for a, b in zip(lying.shape, shape, strict=True)):
        raise InexpressibleError("with shapes that do not fit")
    scale: NDArray[np.float32] | None = None
    shift: NDArray[np.float32] | None = None
    with np.errstate(all="ignore"):
        if name in ("mul", "div"):
            scale = lying if name == "mul" else np.float32(1) / lying
        else:
            shift = lying if name == "add" else -lying
    return [Normalization(input=call.input(), output=call.single(), axes=(), scale=scale, shift=shift)]


def _many(name: str) -> Rule:
    """The rule of an operator of any number of inputs, of which there are one or two."""

    def rule(call: OnnxOperator) -> list[TensorOp]:
        if call.inputs == 1:
            return [Unary(function=Function("identity"), input=call.input(), output=call.single())]
        if call.inputs > 2:
            raise InexpressibleError(f"of {call.inputs} tensors, more than two")
        return [_binary(call, name)]

    return rule


def _power(call: OnnxOperator) -> list[TensorOp]:
    if call.is_integer(call.output()):
        raise InexpressibleError("of integers")
    if call.is_constant(1) and len(call.shape(1)) <= len(call.shape(0)) and call.made() == call.shape(0):
        exponent = call.weights(1, "exponents")
        if exponent is not None and exponent.size == 1 and float(exponent.reshape(-1)[0]) in _POWERS:
            name = _POWERS[float(exponent.reshape(-1)[0])]
            return [Unary(function=Function(name), input=call.input(), output=call.single())]
    return _broadcast(call, "pow")


def _where(call: OnnxOperator) -> list[TensorOp]:
    try:
        fits = np.broadcast_shapes(*(call.shape(k) for k in range(3))) == call.made()
    except ValueError:
        fits = False
    if not fits:
        raise InexpressibleError("with shapes that do not fit")
    condition, a, b = (call.operand(k) for k in range(3))
    return [Select(condition=condition, a=a, b=b, output=call.single())]


def _prelu(call: OnnxOperator) -> list[TensorOp]:
    slopes = call.shape(1)
    if call.opset < 7 and slopes not in ((), (1,)) and len(slopes) < len(call.shape(0)):
        raise InexpressibleError("with slopes along the channels")
    return [_binary(call, "prelu")]


PAIRS: Final[Mapping[str, Rule]] = {
    **{kind: _pair(name) for kind, name in _NAMES.items()},
    **{kind: _many(name) for kind, name in _MANY.items()},
    "Pow": _power,
    "PRelu": _prelu,
    "Where": _where,
}
