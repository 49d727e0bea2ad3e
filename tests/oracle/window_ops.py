"""Tensor operations with a window in NumPy: convolutions, pools, resizes. `tensor_ops` has the others."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.model.tensor_ops import Convolution
from tests.oracle.positions import ROUNDED, position, ratio
from tests.oracle.scalar_functions import apply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import LineConvolution, Pool, Resize, TransposedConvolution

    Floats: TypeAlias = NDArray[np.float64]
    Values: TypeAlias = Mapping[int, NDArray[Any]]

__all__ = ["convolution", "line_convolution", "pool", "resize", "transposed_convolution", "within"]


def _image(x: NDArray[Any], layout: Layout) -> Floats:
    """A tensor of four dimensions as batch, height, width, channels."""
    if x.ndim != 4:
        raise ValueError(f"a window over {x.ndim} dimensions")
    return (x.transpose(0, 2, 3, 1) if layout == "nchw" else x).astype(np.float64)


def _image_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ValueError(f"a window over {len(shape)} dimensions")
    a, b, c, d = shape
    return (a, c, d, b) if layout == "nchw" else (a, b, c, d)


def _own_order(image: Floats, layout: Layout) -> Floats:
    """Batch, height, width, channels as the graph has them."""
    return image.transpose(0, 3, 1, 2) if layout == "nchw" else image


def convolution(op: Convolution, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
    """As `edgemem.model.tensor_ops` describes it."""
    x = _image(values[op.input], layout)
    batch, height, width, channels = _image_shape(shape, layout)
    _, kernel_height, kernel_width, _ = op.weights.shape
    rows, columns = _strided(op.stride, op.dilation, (height, width), (kernel_height, kernel_width))
    (top, left), (_, in_height, in_width, _) = op.pads, x.shape
    below, right = max(0, rows - top - in_height), max(0, columns - left - in_width)
    x = np.pad(x, ((0, 0), (top, below), (left, right), (0, 0)))
    result = np.zeros((batch, height, width, channels))
    for i in range(kernel_height):
        for j in range(kernel_width):
            seen = x[:, i * op.dilation[0] :: op.stride[0], j * op.dilation[1] :: op.stride[1]][:, :height, :width]
            result += _tap(seen, op.weights[:, i, j, :], op.groups)
    if op.bias is not None:
        result += op.bias.astype(np.float64)
    result = _own_order(result, layout)
    if op.added >= 0:
        result = result + values[op.added].astype(np.float64)
    return apply(op.function, result)


def line_convolution(op: LineConvolution, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    """As `edgemem.model.tensor_ops` describes it."""
    image = Convolution(
        input=op.input,
        output=op.output,
        weights=op.weights[:, None],
        bias=op.bias,
        stride=(1, op.stride),
        dilation=(1, op.dilation),
        pads=(0, op.pad),
        groups=op.groups,
        function=op.function,
    )
    return convolution(image, {op.input: values[op.input][:, :, None]}, (*shape[:2], 1, shape[2]), "nchw")[:, :, 0]


def transposed_convolution(op: TransposedConvolution, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
    """As `edgemem.model.tensor_ops` describes it."""
    x = _image(values[op.input], layout)
    batch, height, width, channels = _image_shape(shape, layout)
    _, kernel_height, kernel_width, _ = op.weights.shape
    rows, columns = _strided(op.stride, op.dilation, x.shape[1:3], (kernel_height, kernel_width))
    top, left = op.pads
    whole = np.zeros((batch, max(rows, top + height), max(columns, left + width), channels))
    for i in range(kernel_height):
        for j in range(kernel_width):
            y, x_ = i * op.dilation[0], j * op.dilation[1]
            rows_of = slice(y, y + (x.shape[1] - 1) * op.stride[0] + 1, op.stride[0])
            columns_of = slice(x_, x_ + (x.shape[2] - 1) * op.stride[1] + 1, op.stride[1])
            whole[:, rows_of, columns_of] += _tap(x, op.weights[:, i, j, :], op.groups)
    result = whole[:, top : top + height, left : left + width]
    if op.bias is not None:
        result = result + op.bias.astype(np.float64)
    return apply(op.function, _own_order(result, layout))


def _strided(
    stride: Sequence[int], dilation: Sequence[int], positions: Sequence[int], kernel: Sequence[int]
) -> tuple[int, int]:
    """How far the windows of so many positions reach, as rows and columns."""
    height, width = (
        (p - 1) * s + (k - 1) * d + 1 for p, s, d, k in zip(positions, stride, dilation, kernel, strict=True)
    )
    return height, width


def _tap(x: Floats, weights: NDArray[np.float32], groups: int) -> Floats:
    """[..., in channels] times [out channels, in channels / groups], a group's outputs from its inputs."""
    out_channels, in_of_group = weights.shape
    if x.shape[-1] != in_of_group * groups or out_channels % groups:
        raise ValueError(f"{x.shape[-1]} channels in {groups} groups, and weights for {in_of_group} each")
    split = np.moveaxis(x.reshape(-1, groups, in_of_group), 1, 0)  # group, position, channel
    by_group = weights.astype(np.float64).reshape(groups, out_channels // groups, in_of_group)
    product: Floats = np.matmul(split, by_group.transpose(0, 2, 1))
    return np.moveaxis(product, 0, 1).reshape(*x.shape[:-1], out_channels)


def pool(op: Pool, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
    """As `edgemem.model.tensor_ops` describes it."""
    x = _image(values[op.input], layout)
    batch, height, width, channels = _image_shape(shape, layout)
    top, left, bottom, right = op.pads
    largest = np.full((batch, height, width, channels), -np.inf)
    total, count = np.zeros((batch, height, width, channels)), np.zeros((height, width))
    for i in range(op.kernel[0]):
        for j in range(op.kernel[1]):
            rows = np.arange(height) * op.stride[0] - top + i * op.dilation[0]
            columns = np.arange(width) * op.stride[1] - left + j * op.dilation[1]
            ys, xs = within(rows, 0, x.shape[1]), within(columns, 0, x.shape[2])
            seen = x[:, rows[ys]][:, :, columns[xs]]
            place = np.ix_(np.arange(batch), np.flatnonzero(ys), np.flatnonzero(xs), np.arange(channels))
            largest[place] = np.maximum(largest[place], seen)
            total[place] += seen
            if op.counts_padding:
                ys, xs = within(rows, -top, x.shape[1] + bottom), within(columns, -left, x.shape[2] + right)
            count += np.outer(ys, xs)
    result = largest if op.kind == "max" else total / count[:, :, None]
    return apply(op.function, _own_order(result, layout))


def within(positions: NDArray[np.int64], start: int, end: int) -> NDArray[np.bool_]:
    return (positions >= start) & (positions < end)


def resize(op: Resize, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
    """As `edgemem.model.tensor_ops` describes it."""
    x = _image(values[op.input], layout)
    sizes = _image_shape(shape, layout)
    for axis in (1, 2):
        scale = ratio(op.scale[axis - 1]) if op.scale else Fraction(x.shape[axis], sizes[axis])
        last = x.shape[axis] - 1
        places = [position(op.coordinates, o, scale, x.shape[axis], sizes[axis]) for o in range(sizes[axis])]
        places = [min(max(p, Fraction(0)), Fraction(last)) for p in places]
        if op.mode == "nearest":
            x = x.take([ROUNDED[op.rounding](p) for p in places], axis)
        else:
            low = [floor(p) for p in places]
            part = np.array([float(p - i) for p, i in zip(places, low, strict=True)])
            part = part.reshape([-1 if d == axis else 1 for d in range(4)])
            x = x.take(low, axis) * (1.0 - part) + x.take([min(i + 1, last) for i in low], axis) * part
    return _own_order(x, layout)
