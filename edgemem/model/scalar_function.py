"""A function of one number, as tensor operations name it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["IDENTITY", "Function"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one number.

    Attributes:
        name: `identity`, `relu`, `clip` (low, high), `leaky_relu` (alpha), `elu` (alpha), `selu` (alpha, gamma),
            `celu` (alpha), `sigmoid`, `hard_sigmoid` (alpha, beta), `hard_swish`, `silu`, `tanh`, `gelu` (by erf),
            `gelu_tanh`, `mish`, `softplus`, `softsign`, `exp`, `log`, `sqrt`, `rsqrt`, `reciprocal`, `square`, `abs`,
            `neg`, `sign`, `floor`, `ceil`, `round` (half to even), `trunc`, `sin`, `cos`, `erf`, `not`, `is_nan`.
        parameters: the numbers in brackets above.
    """

    name: str
    parameters: tuple[float, ...] = ()


IDENTITY = Function("identity")
