"""ONNX operators that are a function of each element, and the activations that other operators have fused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.tensor_ops import IDENTITY, Binary, Function, Unary
from edgemem_converters.onnx.computation.operator import InexpressibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

__all__ = ["FUNCTIONS", "clip", "fused"]

_LARGEST: Final = float(np.finfo(np.float32).max)
_SELU: Final = 1.67326319217681884765625, 1.05070102214813232421875
_FIRST_SELU: Final = 1.6732, 1.0507  # of operator set 1
_QUICK: Final = 1.702  # the factor in a QuickGelu


def clip(low: float, high: float) -> Function:
    """Numbers between two bounds, either of which may be infinite."""
    low, high = max(low, -_LARGEST), min(high, _LARGEST)
    if low == 0.0 and high == _LARGEST:
        return Function("relu")
    return IDENTITY if (low, high) == (-_LARGEST, _LARGEST) else Function("clip", (low, high))


def fused(name: str, parameters: Sequence[float]) -> Function:
    """The function that an operator of ONNX Runtime has fused, by the name of its operator; "" for none."""
    given = tuple(float(p) for p in parameters)
    plain = {"": "identity", "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "HardSwish": "hard_swish"}
    if name in plain:
        return Function(plain[name])
    if name == "LeakyRelu":
        return Function("leaky_relu", (given or (0.01,))[:1])
    if name == "HardSigmoid":
        return Function("hard_sigmoid", given[:2] if len(given) > 1 else (0.2, 0.5))
    if name == "Clip" and len(given) > 1:
        return clip(given[0], given[1])
    raise InexpressibleError(f"with the activation {name!r} fused")


def _clip(call: OnnxOperator) -> Function:
    if call.opset < 11:
        return clip(call.number("min", -_LARGEST), call.number("max", _LARGEST))
    return clip(call.scalar(1, "bounds", -_LARGEST), call.scalar(2, "bounds", _LARGEST))


def _selu(call: OnnxOperator) -> Function:
    alpha, gamma = _FIRST_SELU if call.opset < 6 else _SELU
    return Function("selu", (call.number("alpha", alpha), call.number("gamma", gamma)))


def _gelu(call: OnnxOperator) -> Function:
    return Function("gelu_tanh" if call.text("approximate", "none") == "tanh" else "gelu")


def _swish(default: float) -> Callable[[OnnxOperator], Function]:
    def rule(call: OnnxOperator) -> Function:
        if call.number("alpha", default) != 1.0:
            raise InexpressibleError(f"with the factor {call.number('alpha', default):g}")
        return Function("silu")

    return rule


def _parameters(name: str, **defaults: float) -> Callable[[OnnxOperator], Function]:
    """A function with these attributes as its parameters, in order."""
    return lambda call: Function(name, tuple(call.number(key, value) for key, value in defaults.items()))


def _dropout(call: OnnxOperator) -> Function:
    """Of a run without training."""
    trains = (
        call.scalar(2, "modes", 0.0) if call.opset >= 12 else float(call.opset < 7 and not call.integer("is_test", 0))
    )
    if trains:
        raise InexpressibleError("while it trains")
    return IDENTITY


def _cast(call: OnnxOperator) -> Function:
    """Numbers that the other type has; a GPU keeps all of them as floats."""
    given, made = call.dtype(call.input()), call.dtype(call.output())
    if given in (made, "bool") or made.startswith(("float", "bfloat")):
        return IDENTITY
    if not call.is_integer(call.input()):
        return Function("trunc")
    if made not in ("int32", "int64", "uint32", "uint64"):
        raise InexpressibleError(f"from {given} to {made}, which wraps around")
    return IDENTITY


def _cast_rule(call: OnnxOperator) -> list[TensorOp]:
    """Truth values of numbers are those that are not 0."""
    number = call.input()
    if call.dtype(call.output()) == "bool" != call.dtype(number):
        return [Binary(name="or", a=number, b=number, output=call.single())]
    return [Unary(function=_cast(call), input=number, output=call.single())]


def _each(make: Callable[[OnnxOperator], Function]) -> Rule:
    """The rule of an operator that is a function of each element of its first input."""

    def rule(call: OnnxOperator) -> list[TensorOp]:
        return [Unary(function=make(call), input=call.input(), output=call.single())]

    return rule


def _biased(name: str) -> Rule:
    """Of a function of the sum of two inputs, the second of which may be absent."""

    def rule(call: OnnxOperator) -> list[TensorOp]:
        if not call.has(1):
            return [Unary(function=Function(name), input=call.input(), output=call.single())]
        a, b = call.operand(0), call.operand(1)
        return [Binary(name="add", a=a, b=b, output=call.single(), function=Function(name))]

    return rule


_PLAIN: Final = {
    "Identity": "identity",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSwish": "hard_swish",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Mish": "mish",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Abs": "abs",
    "Neg": "neg",
    "Sign": "sign",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Sin": "sin",
    "Cos": "cos",
    "Erf": "erf",
    "Not": "not",
    "IsNaN": "is_nan",
}

FUNCTIONS: Final[Mapping[str, Rule]] = {
    **{kind: _each(_parameters(name)) for kind, name in _PLAIN.items()},
    "Clip": _each(_clip),
    "LeakyRelu": _each(_parameters("leaky_relu", alpha=0.01)),
    "Elu": _each(_parameters("elu", alpha=1.0)),
    "Celu": _each(_parameters("celu", alpha=1.0)),
    "Selu": _each(_selu),
    "HardSigmoid": _each(_parameters("hard_sigmoid", alpha=0.2, beta=0.5)),
    "Gelu": _each(_gelu),
    "Swish": _each(_swish(1.0)),
    "Dropout": _each(_dropout),
    "Cast": _cast_rule,
    "CastLike": _cast_rule,
    "com.microsoft::Gelu": _each(_parameters("gelu")),
    "com.microsoft::QuickGelu": _each(_swish(_QUICK)),
    "com.microsoft::FastGelu": _biased("gelu_tanh"),
    "com.microsoft::BiasGelu": _biased("gelu"),
}
