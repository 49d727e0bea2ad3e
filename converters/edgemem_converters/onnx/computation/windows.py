"""ONNX operators that move a window over [batch, channels, height, width]: convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, Literal

from edgemem.model.tensor_ops import Convolution, LineConvolution, LocalResponse, Pool, TransposedConvolution
from edgemem_converters.onnx.computation.functions import fused
from edgemem_converters.onnx.computation.operator import LARGEST, InexpressibleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import Function, TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

__all__ = ["WINDOWS"]


@dataclass(frozen=True, slots=True)
class _Window:
    """What moves over an image: numbers along each of its axes."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def reach(self, k: int) -> int:
        """Elements from the first to the last that the window covers along an axis."""
        return (self.kernel[k] - 1) * self.dilation[k] + 1


def _window(call: OnnxOperator, kernel: Sequence[int], given: Sequence[int], made: Sequence[int]) -> _Window:
    """The window of an operator with its paddings explicit.

    Args:
        call: the operator.
        kernel: the window's size.
        given: the image that it moves over.
        made: the image that has an element for each of its places.
    """
    rank = len(given)
    stride = call.integers("strides") or (1,) * rank
    dilation = call.integers("dilations") or (1,) * rank
    pads = call.integers("pads") or (0,) * (2 * rank)
    if not len(kernel) == len(stride) == len(dilation) == len(made) == rank or len(pads) != 2 * rank:
        raise InexpressibleError("with attributes of another rank than its input")
    if min(*kernel, *stride, *dilation) < 1 or max(*kernel, *stride, *dilation, *pads) > LARGEST:
        raise InexpressibleError("with a size of nothing or a size beyond any image")
    bare = _Window(tuple(kernel), stride, dilation, pads[:rank], pads[rank:])
    match call.text("auto_pad", "NOTSET"):
        case "VALID":
            return _Window(bare.kernel, stride, dilation, (0,) * rank, (0,) * rank)
        case "SAME_UPPER" | "SAME_LOWER" as kind:
            total = [max((made[k] - 1) * stride[k] + bare.reach(k) - given[k], 0) for k in range(rank)]
            less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
            first, last = (less, more) if kind == "SAME_UPPER" else (more, less)
            return _Window(bare.kernel, stride, dilation, first, last)
        case "NOTSET":
            return bare
        case other:
            raise InexpressibleError(f"with the padding {other!r}")


def _check_places(window: _Window, given: Sequence[int], made: Sequence[int], *, rounds_up: bool = False) -> None:
    """Raise InexpressibleError unless the output has an element for each place of the window."""
    for k, size in enumerate(given):
        last = (size + window.before[k] + window.after[k] - window.reach(k)) / window.stride[k]
        if made[k] - 1 not in {int(last // 1), ceil(last) if rounds_up else int(last // 1)}:
            raise InexpressibleError("with an output of another size than its window gives")
        if rounds_up and (made[k] - 1) * window.stride[k] >= size + window.before[k]:
            raise InexpressibleError("with windows of padding alone, which are not counted")


def _image(call: OnnxOperator) -> tuple[int, ...]:
    """Height and width of its input."""
    shape = call.shape()
    if len(shape) != 4:
        axes = len(shape) - 2
        raise InexpressibleError(f"over {axes} ax{'i' if axes == 1 else 'e'}s, not height and width")
    return shape[2:]


def _two(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[1]


def _weights(call: OnnxOperator) -> NDArray[np.float32]:
    weights = call.weights(1, "weights")
    if weights is None or weights.ndim < 3 or len(call.shape()) != weights.ndim:
        raise InexpressibleError("with weights of another rank than its input")
    if (kernel := call.integers("kernel_shape")) and kernel != weights.shape[2:]:
        raise InexpressibleError("with weights of another size than its window")
    return weights


def _bias(call: OnnxOperator, channels: int) -> NDArray[np.float32] | None:
    bias = call.weights(2, "biases")
    if bias is not None and bias.shape != (channels,):
        raise InexpressibleError("with biases of another number than its channels")
    return bias


def _groups(call: OnnxOperator, weights: NDArray[np.float32], of_input: int, of_output: int) -> int:
    """The groups of a convolution whose weights have these channels in their first two dimensions, all together."""
    groups = call.integer("group", 1)
    if groups < 1 or of_input % groups or of_output % groups:
        raise InexpressibleError(f"with {groups} groups of {of_input} and {of_output} channels")
    if (of_input, of_output) != (call.shape()[1], call.made()[1]) or not weights.size:
        raise InexpressibleError("with weights of another number of channels than its tensors")
    return groups


def _convolution(call: OnnxOperator) -> list[TensorOp]:
    weights, groups = _weights(call), call.integer("group", 1)
    _groups(call, weights, weights.shape[1] * groups, weights.shape[0])
    is_line = len(call.shape()) == 3
    given, made = call.shape()[2:] if is_line else _image(call), call.made()[2:]
    window = _window(call, weights.shape[2:], given, made)
    _check_places(window, given, made)
    added = call.input(3) if call.has(3) else -1
    if added >= 0 and (is_line or call.shape(3) != call.made()):
        raise InexpressibleError("with a tensor of another shape added")
    if is_line:
        return [
            LineConvolution(
                input=call.input(),
                output=call.single(),
                weights=weights.transpose(0, 2, 1),
                bias=_bias(call, weights.shape[0]),
                stride=window.stride[0],
                dilation=window.dilation[0],
                pad=window.before[0],
                groups=groups,
                function=_activation(call),
            )
        ]
    return [
        Convolution(
            input=call.input(),
            output=call.single(),
            weights=weights.transpose(0, 2, 3, 1),
            bias=_bias(call, weights.shape[0]),
            stride=_two(window.stride),
            dilation=_two(window.dilation),
            pads=_two(window.before),
            groups=groups,
            added=added,
            function=_activation(call),
        )
    ]


def _activation(call: OnnxOperator) -> Function:
    return fused(call.text("activation", ""), call.floats("activation_params") or ())


def _transposed(call: OnnxOperator) -> list[TensorOp]:
    weights, groups = _weights(call), call.integer("group", 1)
    _groups(call, weights, weights.shape[0], weights.shape[1] * groups)
    made, given = _image(call), call.made()[2:]  # the window moves over the output
    kernel = weights.shape[2:]
    extra = call.integers("output_padding") or (0, 0)
    window = _window(call, kernel, given, made)
    if len(extra) != 2 or min(extra) < 0:
        raise InexpressibleError("with attributes of another rank than its input")
    before = []
    for k in range(2):
        kind, first, last = call.text("auto_pad", "NOTSET"), window.before[k], window.after[k]
        full = (made[k] - 1) * window.stride[k] + window.reach(k) + extra[k]
        is_told = call.integers("output_shape") is not None
        if is_told or kind.startswith("SAME"):
            total = max(full - (given[k] if is_told else made[k] * window.stride[k]), 0)
            first = total // 2 if kind == "SAME_UPPER" else total - total // 2
            last = total - first
        if not is_told and full - first - last != given[k]:
            raise InexpressibleError("with an output of another size than its window gives")
        before.append(first)
    if min(before) < 0:
        raise InexpressibleError("with negative paddings")
    each = weights.shape[0] // groups
    split = weights.reshape(groups, each, weights.shape[1], *kernel).transpose(0, 2, 3, 4, 1)
    return [
        TransposedConvolution(
            input=call.input(),
            output=call.single(),
            weights=split.reshape(weights.shape[1] * groups, *kernel, each),
            bias=_bias(call, weights.shape[1] * groups),
            stride=_two(window.stride),
            dilation=_two(window.dilation),
            pads=_two(before),
            groups=groups,
        )
    ]


def _pool(kind: Literal["max", "average"]) -> Rule:
    def rule(call: OnnxOperator) -> list[TensorOp]:
        given, made = _image(call), call.made()[2:]
        window = _window(call, call.integers("kernel_shape") or (), given, made)
        rounds_up = bool(call.integer("ceil_mode", 0)) and call.text("auto_pad", "NOTSET") != "VALID"
        _check_places(window, given, made, rounds_up=rounds_up)
        if min(*window.before, *window.after) < 0 or call.made()[:2] != call.shape()[:2]:
            raise InexpressibleError("with negative paddings")
        return [
            Pool(
                kind=kind,
                input=call.input(),
                output=call.single(),
                kernel=_two(window.kernel),
                stride=_two(window.stride),
                dilation=_two(window.dilation),
                pads=(*_two(window.before), *_two(window.after)),
                counts_padding=kind == "average" and bool(call.integer("count_include_pad", 0)),
            )
        ]

    return rule


def _local_response(call: OnnxOperator) -> list[TensorOp]:
    size = call.integer("size", 0)
    if not 0 < size <= LARGEST:
        raise InexpressibleError(f"over {size} channels")
    _image(call)
    return [
        LocalResponse(
            input=call.input(),
            output=call.single(),
            before=(size - 1) // 2,
            after=size // 2,
            alpha=call.number("alpha", 1e-4) / size,
            beta=call.number("beta", 0.75),
            bias=call.number("bias", 1.0),
        )
    ]


WINDOWS: Final[Mapping[str, Rule]] = {
    "Conv": _convolution,
    "com.microsoft::FusedConv": _convolution,
    "ConvTranspose": _transposed,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("average"),
    "LRN": _local_response,
}
