"""Operators of .tflite files that sum: products of matrices, reductions, softmax, normalisations."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, Literal

from edgemem.model.tensor_ops import (
    ArgMax,
    FullyConnected,
    LocalResponse,
    MatMul,
    Normalization,
    Reduce,
    Softmax,
)
from edgemem_converters.tflite.computation.constants import NotExpressibleError
from edgemem_converters.tflite.computation.functions import broadcast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.tflite.computation.operator import TfliteOperator

__all__ = ["SUMS"]

_L2_EPSILON: Final = 1e-6  # below this the kernels divide by it instead of the root


def _fully_connected(case: TfliteOperator) -> tuple[TensorOp, ...]:
    if case.option("format"):
        raise NotExpressibleError("FULLY_CONNECTED with shuffled weights")
    weights = case.constant(1, "weights")
    if weights.ndim != 2 or not weights.shape[1] or prod(case.dims(0)) % weights.shape[1]:
        raise case.contradiction()
    units, size = weights.shape
    bias = case.constant(2, "biases").reshape(-1) if case.has(2) else None
    if bias is not None and bias.size != units:
        raise case.contradiction()
    if prod(case.shape) != prod(case.dims(0)) // size * units:
        raise case.contradiction()
    made = FullyConnected(
        input=case.floats(0), output=case.output, weights=weights, bias=bias, function=case.function()
    )
    return (made,)


def _matmul(case: TfliteOperator) -> tuple[TensorOp, ...]:
    a, b = case.dims(0), case.dims(1)
    if min(len(a), len(b)) < 2:
        raise case.contradiction()
    left, right = bool(case.option("adj_x")), bool(case.option("adj_y"))
    rows, inner = a[-2:][::-1] if left else a[-2:]
    depth, columns = b[-2:][::-1] if right else b[-2:]
    if inner != depth or (*broadcast(case, a[:-2], b[:-2]), rows, columns) != case.shape:
        raise case.contradiction()
    made = MatMul(a=case.floats(0), b=case.floats(1), output=case.output, transpose_a=left, transpose_b=right)
    return (made,)


_Kind = Literal["mean", "sum", "max", "min", "prod", "l2", "sum_square"]


def _reduce(kind: _Kind, case: TfliteOperator) -> tuple[TensorOp, ...]:
    axes, shape = _axes(case), case.dims(0)
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    if case.shape not in (kept, tuple(d for a, d in enumerate(shape) if a not in axes)):
        raise case.contradiction()
    operand = case.floats(0) if kind == "mean" else case.operand(0)
    return (Reduce(kind=kind, input=operand, output=case.output, axes=axes),)


def _axes(case: TfliteOperator) -> tuple[int, ...]:
    rank = len(case.dims(0))
    axes = tuple(sorted({case.axis(a, rank) for a in case.whole(1, "axes")}))
    if not axes:
        raise NotExpressibleError(f"{case.type} along no axis")
    return axes


def _arg(case: TfliteOperator) -> tuple[TensorOp, ...]:
    axes, shape = _axes(case), case.dims(0)
    if len(axes) != 1 or case.shape != shape[: axes[0]] + shape[axes[0] + 1 :]:
        raise case.contradiction()
    is_min = case.type == "ARG_MIN"
    return (ArgMax(input=case.operand(0), output=case.output, axis=axes[0], is_min=is_min),)


def _softmax(case: TfliteOperator) -> tuple[TensorOp, ...]:
    is_log = case.type == "LOG_SOFTMAX"
    beta = 1.0 if is_log else case.option("beta")
    op = Softmax(input=case.floats(0), output=case.output, axis=_last(case), beta=beta, is_log=is_log)
    return (op,)


def _l2_normalization(case: TfliteOperator) -> tuple[TensorOp, ...]:
    op = Normalization(
        input=case.floats(0),
        output=case.output,
        axes=(_last(case),),
        epsilon=_L2_EPSILON**2,
        is_l2=True,
        function=case.function(),
    )
    return (op,)


def _local_response(case: TfliteOperator) -> tuple[TensorOp, ...]:
    radius = case.option("radius")
    if radius < 0 or len(case.shape) != 4 or case.shape != case.dims(0):
        raise case.contradiction()
    op = LocalResponse(
        input=case.floats(0),
        output=case.output,
        before=radius,
        after=radius,
        alpha=case.option("alpha"),
        beta=case.option("beta"),
        bias=case.option("bias"),
    )
    return (op,)


def _last(case: TfliteOperator) -> int:
    """The last axis of an input of the output's shape."""
    if not case.shape or case.shape != case.dims(0):
        raise case.contradiction()
    return len(case.shape) - 1


SUMS: Final[Mapping[str, Callable[[TfliteOperator], tuple[TensorOp, ...]]]] = {
    "ARG_MAX": _arg,
    "ARG_MIN": _arg,
    "BATCH_MATMUL": _matmul,
    "FULLY_CONNECTED": _fully_connected,
    "L2_NORMALIZATION": _l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "LOG_SOFTMAX": _softmax,
    "MEAN": partial(_reduce, "mean"),
    "REDUCE_ALL": partial(_reduce, "min"),
    "REDUCE_ANY": partial(_reduce, "max"),
    "REDUCE_MAX": partial(_reduce, "max"),
    "REDUCE_MIN": partial(_reduce, "min"),
    "REDUCE_PROD": partial(_reduce, "prod"),
    "SOFTMAX": _softmax,
    "SUM": partial(_reduce, "sum"),
}
