"""Operators of .tflite files with a window: convolutions, pools, resizes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from edgemem.model.tensor_ops import IDENTITY, Convolution, Pool, Resize, TransposedConvolution
from edgemem_converters.tflite.computation.constants import NotExpressibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import Function, TensorOp
    from edgemem_converters.tflite.computation.operator import TfliteOperator

__all__ = ["WINDOWS"]

_SAME, _VALID = 0, 1  # of the schema's enumeration Padding


def _convolution(case: TfliteOperator) -> tuple[TensorOp, ...]:
    weights = case.constant(1, "weights")
    window = _window(case)
    channels = case.dims(0)[3]
    if case.type == "DEPTHWISE_CONV_2D":
        if weights.shape[0] != 1 or weights.shape[3] % channels:
            raise case.contradiction()
        weights, groups = weights.transpose(3, 1, 2, 0), channels
    else:
        if not weights.shape[3] or channels % weights.shape[3] or weights.shape[0] % (channels // weights.shape[3]):
            raise case.contradiction()
        groups = channels // weights.shape[3]
    if weights.shape[0] != case.shape[3]:
        raise case.contradiction()
    made = Convolution(
        input=case.floats(0),
        output=case.output,
        weights=weights,
        bias=_bias(case, 2, case.shape[3]),
        stride=window.stride,
        dilation=window.dilation,
        pads=window.pads[:2],
        groups=groups,
        function=case.function(),
    )
    return (made,)


def _pool(case: TfliteOperator) -> tuple[TensorOp, ...]:
    window = _window(case)
    if case.dims(0)[3] != case.shape[3]:
        raise case.contradiction()
    made = Pool(
        kind="max" if case.type == "MAX_POOL_2D" else "average",
        input=case.floats(0),
        output=case.output,
        kernel=window.kernel,
        stride=window.stride,
        pads=window.pads,
        function=case.function(),
    )
    return (made,)


class _Window(NamedTuple):
    """Height and width of each; pads are top, left, bottom, right."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]


def _window(case: TfliteOperator) -> _Window:
    """What `attributes_of` has checked against height and width, but for the size that `SAME` asks for."""
    given, made = case.dims(0), case.shape
    match [case.attribute(name) for name in ("kernel", "stride", "dilation", "pads")]:
        case [(a, b), (c, d), (e, f), (top, left, bottom, right)]:
            is_same = made[1:3] == (-(-given[1] // c), -(-given[2] // d))
            if made[0] == given[0] and (is_same or case.option("padding") != _SAME):
                return _Window((a, b), (c, d), (e, f), (top, left, bottom, right))
    raise case.contradiction()


def _bias(case: TfliteOperator, position: int, channels: int) -> NDArray[np.float32] | None:
    if not case.has(position):
        return None
    bias = case.constant(position, "biases").reshape(-1)
    if bias.size != channels:
        raise case.contradiction()
    return bias


def _transposed(case: TfliteOperator) -> tuple[TensorOp, ...]:
    stride = case.option("stride_h"), case.option("stride_w")
    return _transpose_of(case, 2, 3, stride, case.option("padding"), case.function())


def _transposed_with_bias(case: TfliteOperator) -> tuple[TensorOp, ...]:
    """MediaPipe's own transposed convolution; its options are padding (1 same, 2 valid) and strides as int32."""
    options = case.custom()
    if len(options) < 12:
        raise NotExpressibleError(f"{case.type} without options")
    padding, width, height = struct.unpack_from("<3i", options)
    if padding not in (1, 2):
        raise NotExpressibleError(f"{case.type} with padding {padding}")
    return _transpose_of(case, 0, 2, (height, width), padding - 1, IDENTITY)


def _transpose_of(
    case: TfliteOperator, source: int, bias: int, stride: tuple[int, int], padding: int, function: Function
) -> tuple[TensorOp, ...]:
    """The transpose of the convolution that makes the input's size of the output's.

    Args:
        case: the operator, whose weights are input 1.
        source: the position of its input.
        bias: of its bias.
        stride: (height, width).
        padding: of the schema's enumeration.
        function: of the result.
    """
    weights, given, made = case.constant(1, "weights"), case.dims(source), case.shape
    if weights.ndim != 4 or len(given) != 4 or len(made) != 4 or min(stride) < 1 or padding not in (_SAME, _VALID):
        raise case.contradiction()
    if weights.shape[0] != made[3] or weights.shape[3] != given[3] or made[0] != given[0]:
        raise case.contradiction()
    pads = []
    for axis in range(2):
        size, step, kernel = made[1 + axis], stride[axis], weights.shape[1 + axis]
        positions = -(-size // step) if padding == _SAME else (size - kernel + step) // step
        if positions != given[1 + axis]:
            raise case.contradiction()
        pads.append(max((positions - 1) * step + kernel - size, 0) // 2)
    op = TransposedConvolution(
        input=case.floats(source),
        output=case.output,
        weights=weights,
        bias=_bias(case, bias, made[3]),
        stride=stride,
        pads=(pads[0], pads[1]),
        function=function,
    )
    return (op,)


def _bilinear(case: TfliteOperator) -> tuple[TensorOp, ...]:
    align, half = _centres(case)
    coordinates: Literal["align_corners", "half_pixel", "asymmetric"] = (
        "align_corners" if align else "half_pixel" if half else "asymmetric"
    )
    return (Resize(mode="linear", input=case.floats(0), output=case.output, coordinates=coordinates),)


def _nearest(case: TfliteOperator) -> tuple[TensorOp, ...]:
    """Half pixels are added, and not taken off again; corners are rounded half up, all else down."""
    align, half = _centres(case)
    coordinates: Literal["align_corners", "tf_half_pixel", "asymmetric"] = (
        "align_corners" if align else "tf_half_pixel" if half else "asymmetric"
    )
    rounding: Literal["round_prefer_ceil", "floor"] = "round_prefer_ceil" if align else "floor"
    op = Resize(mode="nearest", input=case.floats(0), output=case.output, coordinates=coordinates, rounding=rounding)
    return (op,)


def _centres(case: TfliteOperator) -> tuple[bool, bool]:
    given, made = case.dims(0), case.shape
    if len(given) != 4 or len(made) != 4 or given[0] != made[0] or given[3] != made[3]:
        raise case.contradiction()
    align, half = bool(case.option("align_corners")), bool(case.option("half_pixel_centers"))
    if align and half:
        raise NotExpressibleError(f"{case.type} with both align_corners and half_pixel_centers")
    return align, half


WINDOWS: Final[Mapping[str, Callable[[TfliteOperator], tuple[TensorOp, ...]]]] = {
    "AVERAGE_POOL_2D": _pool,
    "CONV_2D": _convolution,
    "Convolution2DTransposeBias": _transposed_with_bias,
    "DEPTHWISE_CONV_2D": _convolution,
    "MAX_POOL_2D": _pool,
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "TRANSPOSE_CONV": _transposed,
}
