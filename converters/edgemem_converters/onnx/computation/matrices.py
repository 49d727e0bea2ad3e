"""ONNX operators that multiply matrices."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.tensor_ops import IDENTITY, FullyConnected, MatMul
from edgemem_converters.onnx.computation.functions import fused
from edgemem_converters.onnx.computation.operator import InexpressibleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import Function, TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

__all__ = ["MATRICES"]


def _general(call: OnnxOperator) -> list[TensorOp]:
    """Gemm: alpha * A' * B' + beta * C."""
    beta = call.number("beta", 1.0)
    bias = call.weights(2, "addends") if beta else None
    if bias is not None and beta != 1.0:
        bias = bias * np.float32(beta)
    if len(call.shape(0)) != 2 or len(call.shape(1)) != 2:
        raise InexpressibleError("of other tensors than matrices")
    turned = bool(call.integer("transA", 0)), bool(call.integer("transB", 0))
    return _product(call, turned, call.number("alpha", 1.0), bias, _activation(call))


def _activation(call: OnnxOperator) -> Function:
    given = [call.number(f"activation_{name}", float("nan")) for name in ("alpha", "beta", "gamma")]
    return fused(call.text("activation", ""), [p for p in given if not isnan(p)])


def _plain(call: OnnxOperator) -> list[TensorOp]:
    return _product(call, (False, False), 1.0, None, IDENTITY)


def _fused(call: OnnxOperator) -> list[TensorOp]:
    if call.integer("transBatchA", 0) or call.integer("transBatchB", 0):
        raise InexpressibleError("with batches that are transposed")
    turned = bool(call.integer("transA", 0)), bool(call.integer("transB", 0))
    return _product(call, turned, call.number("alpha", 1.0), None, IDENTITY)


def _product(
    call: OnnxOperator, turned: tuple[bool, bool], alpha: float, bias: NDArray[np.float32] | None, function: Function
) -> list[TensorOp]:
    """Rows times a constant matrix where that is all; else a product of two tensors.

    Args:
        call: the operator, with its factors as the first two inputs.
        turned: whether their last two axes are to be swapped first; those of a vector stay.
        alpha: a factor.
        bias: what is added.
        function: of the sum.
    """
    left, right = call.shape(0), call.shape(1)
    if not left or not right:
        raise InexpressibleError("of scalars")
    turn_a, turn_b = turned[0] and len(left) > 1, turned[1] and len(right) > 1
    units = right[-2 if turn_b else -1]
    inner, depth = left[-2 if turn_a else -1], right[-1] if turn_b or len(right) == 1 else right[-2]
    if inner != depth:
        raise InexpressibleError(f"with inner sizes of {inner} and {depth}")
    is_vector = bias is None or (bias.size in (1, units) and bias.size == (bias.shape or (1,))[-1])
    if call.is_constant(1) and not turn_a and len(right) == 2 and is_vector:
        weights = call.weights(1, "weights")
        assert weights is not None
        rows = weights if turn_b else weights.T
        if call.made() != (*left[:-1], units):
            raise InexpressibleError("with an output of another size than its factors give")
        return [
            FullyConnected(
                input=call.input(),
                output=call.single(),
                weights=rows if alpha == 1.0 else rows * np.float32(alpha),
                bias=None if bias is None else np.broadcast_to(bias.reshape(-1), (units,)),
                function=function,
            )
        ]
    return [
        MatMul(
            a=call.operand(0),
            b=call.operand(1),
            output=call.single(),
            transpose_a=turn_a,
            transpose_b=turn_b,
            alpha=alpha,
            bias=bias,
            function=function,
        )
    ]


MATRICES: Final[Mapping[str, Rule]] = {
    "Gemm": _general,
    "com.microsoft::FusedGemm": _general,
    "MatMul": _plain,
    "com.microsoft::FusedMatMul": _fused,
    "com.microsoft::TransposeMatMul": _fused,
}
