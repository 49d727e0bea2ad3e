"""The functions of one number and of two that tensor operations name, as their names say, in 64-bit floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import Function

__all__ = ["ARGUMENTS", "BINARY", "apply", "combine"]

Floats: TypeAlias = "NDArray[np.float64]"

# How many parameters each function has, in the order in which its description names them.
ARGUMENTS: Final = {
    "clip": 2,
    "leaky_relu": 1,
    "elu": 1,
    "selu": 2,
    "celu": 1,
    "hard_sigmoid": 2,
}


def _softplus(x: Floats) -> Floats:
    return np.logaddexp(0.0, x)


def _gelu_tanh(x: Floats) -> Floats:
    inner: Floats = np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + np.tanh(inner))


_PLAIN: Final[dict[str, Callable[[Floats], Floats]]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "sigmoid": special.expit,
    "hard_swish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "silu": lambda x: x * special.expit(x),
    "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * (1.0 + special.erf(x / np.sqrt(2.0))),
    "gelu_tanh": _gelu_tanh,
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "softplus": _softplus,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
    "square": np.square,
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sin": np.sin,
    "cos": np.cos,
    "erf": special.erf,
    "not": lambda x: np.where(x == 0.0, 1.0, 0.0),
    "is_nan": lambda x: np.where(np.isnan(x), 1.0, 0.0),
}


def _clip(x: Floats, low: float, high: float) -> Floats:
    return np.minimum(np.maximum(x, low), high)


def _elu(x: Floats, alpha: float) -> Floats:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _celu(x: Floats, alpha: float) -> Floats:
    return np.maximum(x, 0.0) + np.minimum(0.0, alpha * np.expm1(np.minimum(x / alpha, 700.0)))


_WITH_PARAMETERS: Final[dict[str, Callable[..., Floats]]] = {
    "clip": _clip,
    "leaky_relu": lambda x, alpha: np.where(x >= 0.0, x, alpha * x),
    "elu": _elu,
    "selu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "celu": _celu,
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0.0, 1.0),
}

BINARY: Final[dict[str, Callable[[Floats, Floats], NDArray[np.float64] | NDArray[np.bool_]]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "prelu": lambda a, b: np.where(a >= 0.0, a, a * b),
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def apply(function: Function, x: NDArray[np.floating]) -> Floats:
    """The function of each element. Raises ValueError for one that is not described, or of other parameters."""
    if len(function.parameters) != ARGUMENTS.get(function.name, 0):
        raise ValueError(f"{function.name} with {len(function.parameters)} parameters")
    values = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if function.name in _WITH_PARAMETERS:
            return _WITH_PARAMETERS[function.name](values, *function.parameters)
        if function.name not in _PLAIN:
            raise ValueError(f"no function {function.name}")
        return _PLAIN[function.name](values)


def combine(name: str, a: NDArray[np.floating], b: NDArray[np.floating]) -> Floats:
    """A function of the elements of two arrays, which are broadcast; truths are 1 and 0."""
    with np.errstate(all="ignore"):
        return BINARY[name](a.astype(np.float64), b.astype(np.float64)).astype(np.float64)
