"""Operators of .tflite files that work element by element."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from edgemem.model.tensor_ops import IDENTITY, Binary, Function, Unary
from edgemem_converters.tflite.computation.constants import NotExpressibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.tflite.computation.operator import TfliteOperator

__all__ = ["FUNCTIONS", "broadcast"]

_WHOLE: Final = ("int32", "int64")


def _unary(function: Function, case: TfliteOperator) -> tuple[TensorOp, ...]:
    return _elementwise(function, case, case.floats(0))


def _of_any(function: Function, case: TfliteOperator) -> tuple[TensorOp, ...]:
    """A function that is exact for whole numbers, too."""
    return _elementwise(function, case, case.operand(0))


def _elementwise(function: Function, case: TfliteOperator, operand: int) -> tuple[TensorOp, ...]:
    if case.dims(0) != case.shape:
        raise case.contradiction()
    return (Unary(function=function, input=operand, output=case.output),)


def _leaky_relu(case: TfliteOperator) -> tuple[TensorOp, ...]:
    return _unary(Function("leaky_relu", (case.option("alpha"),)), case)


def _gelu(case: TfliteOperator) -> tuple[TensorOp, ...]:
    return _unary(Function("gelu_tanh" if case.option("approximate") else "gelu"), case)


def _cast(case: TfliteOperator) -> tuple[TensorOp, ...]:
    """Whole numbers and booleans are kept as floats, so that most casts change nothing."""
    source, result = case.dtype(0), case.output_dtype
    if source in (result, "bool") or result == "float32":
        return _of_any(IDENTITY, case)
    if result in _WHOLE:
        return _of_any(Function("trunc") if source in ("float32", "float16") else IDENTITY, case)
    raise NotExpressibleError(f"CAST from {source} to {result}")


def _dequantise(case: TfliteOperator) -> tuple[TensorOp, ...]:
    """Of float16, which is a cast; all else is quantised, and `operand` refuses it."""
    return _unary(IDENTITY, case)


def _binary(name: str, case: TfliteOperator, *, whole: bool = False, fused: bool = False) -> tuple[TensorOp, ...]:
    """A function of two elements; `whole`: also of whole numbers; `fused`: it has an activation."""
    operand = case.operand if whole else case.floats
    a, b = operand(0), operand(1)
    shape = broadcast(case, case.dims(0), case.dims(1))
    if shape != case.shape:
        raise case.contradiction()
    return (Binary(name=name, a=a, b=b, output=case.output, function=case.function() if fused else IDENTITY),)


def broadcast(case: TfliteOperator, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Two shapes together, as NumPy does it. Raises ModelError where they do not fit."""
    rank = max(len(a), len(b))
    made = []
    for m, n in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if m != n and 1 not in (m, n):
            raise case.contradiction()
        made.append(n if m == 1 else m)
    return tuple(made)


def _sum_of_all(case: TfliteOperator) -> tuple[TensorOp, ...]:
    if case.count() == 1:
        return _of_any(IDENTITY, case)
    if case.count() == 2:
        return _binary("add", case, whole=True)
    raise NotExpressibleError("ADD_N of more than two tensors")


_UNARY: Final = {
    "CEIL": Function("ceil"),
    "COS": Function("cos"),
    "ELU": Function("elu", (1.0,)),
    "EXP": Function("exp"),
    "FLOOR": Function("floor"),
    "HARD_SWISH": Function("hard_swish"),
    "LOG": Function("log"),
    "LOGISTIC": Function("sigmoid"),
    "RELU": Function("relu"),
    "RELU6": Function("clip", (0.0, 6.0)),
    "RELU_0_TO_1": Function("clip", (0.0, 1.0)),
    "RELU_N1_TO_1": Function("clip", (-1.0, 1.0)),
    "ROUND": Function("round"),
    "RSQRT": Function("rsqrt"),
    "SIN": Function("sin"),
    "SQRT": Function("sqrt"),
    "SQUARE": Function("square"),
    "TANH": Function("tanh"),
}
_WHOLE_UNARY: Final = {
    "ABS": Function("abs"),
    "LOGICAL_NOT": Function("not"),
    "NEG": Function("neg"),
    "SIGN": Function("sign"),
}
_BINARY: Final = {"POW": "pow", "PRELU": "prelu"}
_WHOLE_BINARY: Final = {
    "EQUAL": "equal",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "LOGICAL_AND": "and",
    "LOGICAL_OR": "or",
    "MAXIMUM": "max",
    "MINIMUM": "min",
    "NOT_EQUAL": "not_equal",
    "SQUARED_DIFFERENCE": "squared_difference",
}
FUNCTIONS: Final[Mapping[str, Callable[[TfliteOperator], tuple[TensorOp, ...]]]] = {
    **{name: partial(_unary, function) for name, function in _UNARY.items()},
    **{name: partial(_of_any, function) for name, function in _WHOLE_UNARY.items()},
    **{name: partial(_binary, function) for name, function in _BINARY.items()},
    **{name: partial(_binary, function, whole=True) for name, function in _WHOLE_BINARY.items()},
    **{name: partial(_binary, name.lower(), whole=True, fused=True) for name in ("ADD", "SUB", "MUL")},
    "ADD_N": _sum_of_all,
    "CAST": _cast,
    "DEQUANTIZE": _dequantise,
    "DIV": partial(_binary, "div", fused=True),
    "GELU": _gelu,
    "LEAKY_RELU": _leaky_relu,
}
