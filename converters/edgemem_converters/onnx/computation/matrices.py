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


def _einsum(call: OnnxOperator) -> list[TensorOp]:
    """A sum over one axis of two tensors whose axes stand as those of matrices do, with axes of one element between.

    `bhwc,wkc->bhwk` is [b h w 1 c] times the transpose of [1 1 w k c], which gives [b h w 1 k].
    """
    equation = call.text("equation", "").replace(" ", "")
    terms, _, made = equation.partition("->")
    a, _, b = terms.partition(",")
    inner = [c for c in a if c in b and c not in made]
    others = {*made, *inner}
    is_plain = len(inner) == 1 and made.isalpha() and all(len(t) == len({*t}) and {*t} <= others for t in (a, b, made))
    if not is_plain or {*made} - {*a, *b} or (len(a), len(b)) != (len(call.shape(0)), len(call.shape(1))):
        raise InexpressibleError(f"of {equation!r}")
    sides = (*zip(a, call.shape(0), strict=True), *zip(b, call.shape(1), strict=True))
    sizes = dict(sides)
    if any(sizes[c] != size for c, size in sides):
        raise InexpressibleError(f"of {equation!r} with axes of other sizes")
    column = made[-1:] if made[-1] not in a else ""
    rest = made.removesuffix(column)
    row = rest[-1:] if rest and rest[-1] not in b else ""
    leading = rest.removesuffix(row)
    seen, turned = [], []
    for term, before, after in ((a, row, inner[0]), (b, inner[0], column)):
        first = "".join(c for c in leading if c in term)
        if term not in (first + before + after, first + after + before):
            raise InexpressibleError(f"of {equation!r}, whose axes are in another order than those of matrices")
        is_turned = bool(before and after) and term.endswith(after + before)
        last = (after, before) if is_turned else (before, after)
        seen.append((*(sizes[c] if c in term else 1 for c in leading), *(sizes.get(c, 1) for c in last)))
        turned.append(is_turned)
    return [
        MatMul(
            a=call.operand(0),
            b=call.operand(1),
            output=call.single(),
            transpose_a=turned[0],
            transpose_b=turned[1],
            a_shape=seen[0],
            b_shape=seen[1],
        )
    ]


MATRICES: Final[Mapping[str, Rule]] = {
    "Gemm": _general,
    "com.microsoft::FusedGemm": _general,
    "Einsum": _einsum,
    "MatMul": _plain,
    "com.microsoft::FusedMatMul": _fused,
    "com.microsoft::TransposeMatMul": _fused,
}
