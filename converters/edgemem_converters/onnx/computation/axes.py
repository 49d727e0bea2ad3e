"""ONNX operators that take all elements along axes together: reductions, softmaxes and normalizations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.tensor_ops import ArgMax, Binary, FullyConnected, Function, Normalization, Reduce, Softmax, Unary
from edgemem_converters.onnx.computation.operator import InexpressibleError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, TypeAlias

    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

    Kind: TypeAlias = Literal["mean", "sum", "max", "min", "prod", "l2", "sum_square"]

__all__ = ["AXES"]

_NOTHING: Final = 1e-37  # a sum of squares below which a vector is zero
_LONGEST_SUM: Final = 4096  # of a cumulative sum, whose triangle has the square of it
_DEVIATION: Final = 1e-18  # ONNX adds its root to the deviation


def _reduced(kind: Kind) -> Rule:
    def rule(call: OnnxOperator) -> list[TensorOp]:
        rank = len(call.shape())
        given = call.axes(1)
        if kind in ("mean", "l2") and call.is_integer(call.output()):
            raise InexpressibleError("of integers")
        if not given and call.integer("noop_with_empty_axes", 0):
            if kind in ("l2", "sum_square"):
                raise InexpressibleError("along no axis")
            return [Unary(function=Function("identity"), input=call.input(), output=call.single())]
        axes = tuple(sorted({counted(axis, rank) for axis in given or range(rank)}))
        return [_reduce(call, kind, axes)]

    return rule


def _reduce(call: OnnxOperator, kind: Kind, axes: tuple[int, ...]) -> TensorOp:
    shape, made = call.shape(), call.made()
    kept = tuple(1 if k in axes else size for k, size in enumerate(shape))
    if made not in (kept, tuple(size for k, size in enumerate(shape) if k not in axes)):
        raise InexpressibleError("with an output of another shape than it gives")
    return Reduce(kind=kind, input=call.input(), output=call.single(), axes=axes)


def _over_image(kind: Kind) -> Rule:
    """The rule of a pool over all of the image."""

    def rule(call: OnnxOperator) -> list[TensorOp]:
        if kind == "l2" and call.integer("p", 2) != 2:
            raise InexpressibleError("of another power than 2")
        if len(call.shape()) < 3:
            raise InexpressibleError("of a tensor without image")
        return [_reduce(call, kind, tuple(range(2, len(call.shape()))))]

    return rule


def _softmax(*, is_log: bool) -> Rule:
    def rule(call: OnnxOperator) -> list[TensorOp]:
        shape = call.shape()
        axis = call.axis("axis", -1 if call.opset >= 13 else 1, len(shape) or 1)
        if not shape:
            raise InexpressibleError("of a scalar")
        if call.opset < 13:  # along this axis and all behind it as one
            long = [k for k in range(axis, len(shape)) if shape[k] > 1]
            if len(long) > 1:
                raise InexpressibleError(f"along axes {tuple(long)} as one")
            axis = long[0] if long else axis
        return [Softmax(input=call.input(), output=call.single(), axis=axis, is_log=is_log)]

    return rule


def _arg_max(*, is_min: bool) -> Rule:
    def rule(call: OnnxOperator) -> list[TensorOp]:
        axis = call.axis("axis", 0, len(call.shape()))
        last = bool(call.integer("select_last_index", 0))
        return [ArgMax(input=call.input(), output=call.single(), axis=axis, is_min=is_min, last=last)]

    return rule


def _channels(call: OnnxOperator, values: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """A number for each channel, in the shape in which they are broadcast."""
    shape = call.shape()
    if values is None or len(shape) < 2 or values.shape != shape[1:2]:
        raise InexpressibleError("with numbers for other channels than its input has")
    return values.reshape(1, -1, *(1 for _ in shape[2:]))


def _batch(call: OnnxOperator) -> list[TensorOp]:
    """With the mean and the variance of a training: a factor and an addend for each channel."""
    if call.integer("training_mode", 0) or (call.opset < 7 and not call.integer("is_test", 0)):
        raise InexpressibleError("while it trains")
    if not call.integer("spatial", 1):
        raise InexpressibleError("of each place on its own")
    what = ("factors", "addends", "means", "variances")
    scale, shift, mean, variance = (
        _channels(call, call.weights(k, name)).astype(np.float64) for k, name in enumerate(what, 1)
    )
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + call.number("epsilon", 1e-5))
        addend = (shift - mean * factor).astype(np.float32)
    factors = factor.astype(np.float32)
    return [Normalization(input=call.input(), output=call.single(), axes=(), scale=factors, shift=addend)]


def _instance(call: OnnxOperator) -> list[TensorOp]:
    return [
        Normalization(
            input=call.input(),
            output=call.single(),
            axes=tuple(range(2, len(call.shape()))),
            scale=_channels(call, call.weights(1, "factors")),
            shift=_channels(call, call.weights(2, "addends")),
            epsilon=call.number("epsilon", 1e-5),
        )
    ]


def _group(call: OnnxOperator) -> list[TensorOp]:
    """Each channel on its own, or all of them together; tensor operations have no other groups."""
    shape, groups = call.shape(), call.integer("num_groups", 0)
    if len(shape) < 2 or groups not in (1, shape[1]):
        raise InexpressibleError(f"of {groups} groups")
    return [
        Normalization(
            input=call.input(),
            output=call.single(),
            axes=tuple(range(1 if groups == 1 else 2, len(shape))),
            scale=_channels(call, call.weights(1, "factors")),
            shift=_channels(call, call.weights(2, "addends")),
            epsilon=call.number("epsilon", 1e-5),
        )
    ]


def _layer(call: OnnxOperator) -> list[TensorOp]:
    shape = call.shape()
    axis = call.axis("axis", -1, len(shape))
    return [_layered(call, call.input(), call.single(), 1, axis, call.number("epsilon", 1e-5))]


def _layered(call: OnnxOperator, source: int, result: int, scale: int, axis: int, epsilon: float) -> Normalization:
    """A layer normalization of a tensor, with its factors at this input and its addends at the next one."""
    shape = call.shape_of(source)
    return Normalization(
        input=source,
        output=result,
        axes=tuple(range(axis, len(shape))),
        scale=_stretched(call.weights(scale, "factors"), shape),
        shift=_stretched(call.weights(scale + 1, "addends"), shape),
        epsilon=epsilon,
    )


def _stretched(values: NDArray[np.float32] | None, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """With axes of size 1 in front, up to the rank of a shape."""
    if values is None:
        return None
    made = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    if made.ndim != len(shape) or any(a not in (1, b) for a, b in zip(made.shape, shape, strict=True)):
        raise InexpressibleError("with factors or addends of another shape than its input")
    return made


def _skip_layer(call: OnnxOperator) -> list[TensorOp]:
    """The sum of two tensors, which must be an output too, and its layer normalization."""
    if call.has(4) or len(call.outputs) < 4 or any(index >= 0 for index in call.outputs[1:3]):
        raise InexpressibleError("whose sum is no output")
    if not call.shape() or call.shape(0) != call.shape(1):
        raise InexpressibleError("with shapes that do not fit")
    total = Binary(name="add", a=call.operand(0), b=call.operand(1), output=call.output(3))
    epsilon = call.number("epsilon", 1e-12)
    return [total, _layered(call, call.output(3), call.output(), 2, len(call.shape()) - 1, epsilon)]


def _length(call: OnnxOperator) -> list[TensorOp]:
    """Vectors divided by their lengths."""
    if call.integer("p", 2) != 2:
        raise InexpressibleError("of another power than 2")
    axis = call.axis("axis", -1, len(call.shape()))
    return [Normalization(input=call.input(), output=call.single(), axes=(axis,), epsilon=_NOTHING, is_l2=True)]


def _mean_variance(call: OnnxOperator) -> list[TensorOp]:
    rank = len(call.shape())
    axes = tuple(sorted({counted(axis, rank) for axis in call.integers("axes") or (0, 2, 3)}))
    return [Normalization(input=call.input(), output=call.single(), axes=axes, epsilon=_DEVIATION)]


def _cumulative_sum(call: OnnxOperator) -> list[TensorOp]:
    """Of integers along the last axis: the product with a triangle of ones, which is exact."""
    shape, axis = call.shape(), call.numbers(1, "axes")
    if not shape or axis is None or len(axis) != 1 or counted(axis[0], len(shape)) != len(shape) - 1:
        raise InexpressibleError("along another axis than the last one")
    if not call.is_integer(call.input()) or call.wraps(call.output()) or shape[-1] > _LONGEST_SUM:
        raise InexpressibleError(f"of other numbers than integers, or of more than {_LONGEST_SUM:,}")
    ones = np.tri(shape[-1], k=-1 if call.integer("exclusive", 0) else 0, dtype=np.float32)
    weights = ones.T if call.integer("reverse", 0) else ones
    return [FullyConnected(input=call.input(), output=call.single(), weights=np.ascontiguousarray(weights))]


AXES: Final[Mapping[str, Rule]] = {
    "CumSum": _cumulative_sum,
    "ReduceMean": _reduced("mean"),
    "ReduceSum": _reduced("sum"),
    "ReduceMax": _reduced("max"),
    "ReduceMin": _reduced("min"),
    "ReduceProd": _reduced("prod"),
    "ReduceL2": _reduced("l2"),
    "ReduceSumSquare": _reduced("sum_square"),
    "GlobalAveragePool": _over_image("mean"),
    "GlobalMaxPool": _over_image("max"),
    "GlobalLpPool": _over_image("l2"),
    "Softmax": _softmax(is_log=False),
    "LogSoftmax": _softmax(is_log=True),
    "ArgMax": _arg_max(is_min=False),
    "ArgMin": _arg_max(is_min=True),
    "BatchNormalization": _batch,
    "InstanceNormalization": _instance,
    "GroupNormalization": _group,
    "LayerNormalization": _layer,
    "com.microsoft::SkipLayerNormalization": _skip_layer,
    "LpNormalization": _length,
    "MeanVarianceNormalization": _mean_variance,
}
