"""Every tensor operation in NumPy, word for word as `edgemem.model.tensor_ops` describes it.

Numbers come in as 32-bit floats; sums and functions are in 64 bits; what a tensor holds is rounded to 32 bits (or 16)
again. Positions of a resize are fractions. Windows are loops over taps, so that small networks run in seconds.
"""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch
from math import floor, prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from edgemem.model.tensor_ops import (
    AffineMap,
    ArgMax,
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Gather,
    LineConvolution,
    LocalResponse,
    MatMul,
    Normalization,
    Pool,
    Reduce,
    Resize,
    Select,
    Softmax,
    TensorOp,
    TransposedConvolution,
    Unary,
)
from tests.oracle.positions import ROUNDED, position, ratio
from tests.oracle.scalar_functions import apply, combine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import TensorProgram

__all__ = ["evaluate", "reads", "run_program"]

Floats: TypeAlias = "NDArray[np.float64]"
Values: TypeAlias = "Mapping[int, NDArray[Any]]"
Precision: TypeAlias = Literal["fp32", "fp16"]

_STORED_AS: Final[dict[str, type[np.floating]]] = {"fp32": np.float32, "fp16": np.float16}


def evaluate(op: TensorOp, values: Values, shape_of_output: Sequence[int], layout: Layout) -> NDArray[np.float32]:
    """The output of an operation.

    Args:
        op: the operation.
        values: the tensors that it reads, constants included, by index, in the shapes of the graph.
        shape_of_output: as the graph has it.
        layout: of the graph; it says where the channels of four dimensions are.

    Raises:
        ValueError: if the operation and the shapes do not fit together.
    """
    with np.errstate(all="ignore"):
        result = _evaluate(op, values, tuple(shape_of_output), layout)
        if result.shape != tuple(shape_of_output):
            raise ValueError(f"{type(op).__name__} gives {result.shape}, and its tensor is {tuple(shape_of_output)}")
        return result.astype(np.float32)


def run_program(program: TensorProgram, feeds: Values, precision: Precision = "fp32") -> dict[int, NDArray[np.float32]]:
    """Every tensor that the program reads or writes, by index.

    Args:
        program: all of whose steps have tensor operations.
        feeds: the graph's inputs by index.
        precision: what tensors are rounded to; constants are not.

    Raises:
        ValueError: for a step without operations, one that writes what is not its own, and shapes that do not fit.
    """
    graph = program.graph

    def rounded(value: NDArray[Any]) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            return value.astype(_STORED_AS[precision]).astype(np.float32)

    values = {i: np.asarray(v, np.float32) for i, v in program.constants.items()}
    values.update({i: rounded(np.asarray(feeds[i])) for i in graph.inputs if i in feeds})
    for i, value in values.items():
        if value.shape != graph.tensors[i].shape:
            raise ValueError(f"{graph.tensors[i].name} is {graph.tensors[i].shape}, not {value.shape}")
    for op, step in zip(graph.ops, program.steps, strict=True):
        if isinstance(step, str):
            raise ValueError(f"{op.name} has no tensor operations: {step}")  # noqa: TRY004 (it is the program's value)
        for operation in step:
            if operation.output not in op.outputs:
                raise ValueError(f"{op.name} writes {operation.output}, which is none of its outputs {op.outputs}")
            if operation.output in values:
                raise ValueError(f"{op.name} writes {operation.output} twice")
            shape = graph.tensors[operation.output].shape
            values[operation.output] = rounded(evaluate(operation, values, shape, graph.layout))
    return values


def reads(op: TensorOp) -> tuple[int, ...]:
    """The tensors that an operation reads, in order; one may be there twice."""
    match op:
        case Concat():
            return op.inputs
        case MatMul() | Binary():
            return op.a, op.b
        case Select():
            return op.condition, op.a, op.b
        case Gather():
            return op.input, op.indices
        case Convolution() if op.added >= 0:
            return op.input, op.added
        case _:
            return (op.input,)


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


@singledispatch
def _evaluate(op: TensorOp, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    raise ValueError(f"no operation {type(op).__name__}")


@_evaluate.register(Convolution)
def _(op: Convolution, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
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


@_evaluate.register(LineConvolution)
def _(op: LineConvolution, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
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
    return _evaluate(image, {op.input: values[op.input][:, :, None]}, (*shape[:2], 1, shape[2]), "nchw")[:, :, 0]


@_evaluate.register(TransposedConvolution)
def _(op: TransposedConvolution, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
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


@_evaluate.register(FullyConnected)
def _(op: FullyConnected, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    weights = op.weights.astype(np.float64)
    result = values[op.input].astype(np.float64).reshape(-1, weights.shape[1]) @ weights.T
    if op.bias is not None:
        result = result + op.bias.astype(np.float64)
    return apply(op.function, result.reshape(shape))


@_evaluate.register(MatMul)
def _(op: MatMul, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    a, b = values[op.a].astype(np.float64), values[op.b].astype(np.float64)
    if op.a_shape is not None and op.b_shape is not None:
        a, b = a.reshape(op.a_shape), b.reshape(op.b_shape)
        result = np.matmul(a.mT if op.transpose_a else a, b.mT if op.transpose_b else b)
        return apply(op.function, result.reshape(shape))
    result = op.alpha * np.matmul(a.mT if op.transpose_a else a, b.mT if op.transpose_b else b)
    if op.bias is not None:
        result = result + op.bias.astype(np.float64)
    return apply(op.function, result)


@_evaluate.register(Unary)
def _(op: Unary, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    return apply(op.function, values[op.input])


@_evaluate.register(Binary)
def _(op: Binary, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    return apply(op.function, combine(op.name, values[op.a], values[op.b]))


@_evaluate.register(Select)
def _(op: Select, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    return np.where(values[op.condition] != 0, values[op.a], values[op.b]).astype(np.float64)


@_evaluate.register(Gather)
def _(op: Gather, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x = values[op.input].astype(np.float64).reshape(op.before, *op.sizes, op.after)
    indices = values[op.indices].astype(np.int64)
    if op.of_each:
        own = indices.reshape(op.before, -1, op.after) % op.sizes[0]
        return np.take_along_axis(x, own, 1).reshape(shape)
    rows = indices.reshape(-1, len(op.sizes))
    by_index = np.moveaxis(x, 0, -2)
    found: Floats = np.moveaxis(np.stack([by_index[tuple(row)] for row in rows.tolist()]), -2, 0)
    return found.reshape(shape)


@_evaluate.register(Pool)
def _(op: Pool, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
    x = _image(values[op.input], layout)
    batch, height, width, channels = _image_shape(shape, layout)
    top, left, bottom, right = op.pads
    largest = np.full((batch, height, width, channels), -np.inf)
    total, count = np.zeros((batch, height, width, channels)), np.zeros((height, width))
    for i in range(op.kernel[0]):
        for j in range(op.kernel[1]):
            rows = np.arange(height) * op.stride[0] - top + i * op.dilation[0]
            columns = np.arange(width) * op.stride[1] - left + j * op.dilation[1]
            ys, xs = _within(rows, 0, x.shape[1]), _within(columns, 0, x.shape[2])
            seen = x[:, rows[ys]][:, :, columns[xs]]
            place = np.ix_(np.arange(batch), np.flatnonzero(ys), np.flatnonzero(xs), np.arange(channels))
            largest[place] = np.maximum(largest[place], seen)
            total[place] += seen
            if op.counts_padding:
                ys, xs = _within(rows, -top, x.shape[1] + bottom), _within(columns, -left, x.shape[2] + right)
            count += np.outer(ys, xs)
    result = largest if op.kind == "max" else total / count[:, :, None]
    return apply(op.function, _own_order(result, layout))


def _within(positions: NDArray[np.int64], start: int, end: int) -> NDArray[np.bool_]:
    return (positions >= start) & (positions < end)


_REDUCED: Final[dict[str, Callable[..., Floats]]] = {
    "mean": np.mean,
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l2": lambda x, axis: np.sqrt(np.sum(x * x, axis=axis)),
    "sum_square": lambda x, axis: np.sum(x * x, axis=axis),
}


@_evaluate.register(Reduce)
def _(op: Reduce, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x = values[op.input].astype(np.float64)
    return _REDUCED[op.kind](x, axis=op.axes).reshape(_checked(shape, x.shape, op.axes))


def _checked(shape: tuple[int, ...], of_input: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, if it is that of the input with the axes of size 1, or without them."""
    kept = tuple(1 if d in axes else n for d, n in enumerate(of_input))
    if shape not in (kept, tuple(n for d, n in enumerate(of_input) if d not in axes)):
        raise ValueError(f"{of_input} without {axes} is not {shape}")
    return shape


@_evaluate.register(Concat)
def _(op: Concat, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    parts = [values[i] for i in op.inputs]
    parts = [np.expand_dims(x, op.axis) if x.ndim == len(shape) - 1 else x for x in parts]
    return apply(op.function, np.concatenate(parts, axis=op.axis))


@_evaluate.register(AffineMap)
def _(op: AffineMap, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x = values[op.input].astype(np.float64)
    if prod(op.out_dims) != prod(shape) or prod(op.in_dims) != x.size:
        raise ValueError(f"{op.in_dims} to {op.out_dims} for {x.shape} to {shape}")
    if min(op.shift, default=0) < 0 or not 1 <= len(op.out_dims) <= 6:
        raise ValueError(f"shifts {op.shift}, dimensions {op.out_dims}")
    inside = np.ones(op.out_dims, bool)
    place = np.zeros(op.out_dims, np.int64)
    for k, size in enumerate(op.in_dims):
        index = np.full(op.out_dims, op.offset[k], np.int64)
        for d, (count, shift, split) in enumerate(zip(op.out_dims, op.shift, op.split, strict=True)):
            i = np.arange(count) + shift
            term = op.quotients[k][d] * (i // split) + op.remainders[k][d] * (i % split)
            index += term.reshape([-1 if e == d else 1 for e in range(len(op.out_dims))])
        if op.border == "value":
            inside &= _within(index, 0, size)
        place = place * size + _mirrored(index, size, op.border)
    return np.where(inside, x.reshape(-1)[place], op.value).reshape(shape)


def _mirrored(index: NDArray[np.int64], size: int, border: str) -> NDArray[np.int64]:
    """The element inside of the dimension that stands for an index."""
    if border in ("value", "edge"):
        return np.clip(index, 0, size - 1)
    if border == "symmetric":
        there = index % (2 * size)
        return np.where(there < size, there, 2 * size - 1 - there)
    if size == 1:
        return np.zeros_like(index)
    there = index % (2 * size - 2)
    return np.where(there < size, there, 2 * size - 2 - there)


@_evaluate.register(Resize)
def _(op: Resize, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:
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


@_evaluate.register(Softmax)
def _(op: Softmax, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x: Floats = op.beta * values[op.input].astype(np.float64)
    x = x - x.max(axis=op.axis, keepdims=True)
    total: Floats = np.exp(x).sum(axis=op.axis, keepdims=True)
    return x - np.log(total) if op.is_log else np.exp(x) / total


@_evaluate.register(ArgMax)
def _(op: ArgMax, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x = values[op.input]
    find = np.argmin if op.is_min else np.argmax
    if op.last:
        index = x.shape[op.axis] - 1 - find(np.flip(x, op.axis), axis=op.axis)
    else:
        index = find(x, axis=op.axis)
    return np.asarray(index, np.float64).reshape(_checked(shape, x.shape, (op.axis,)))


@_evaluate.register(Normalization)
def _(op: Normalization, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x = values[op.input].astype(np.float64)
    if op.is_l2:
        x = x / np.sqrt(np.maximum((x * x).sum(axis=op.axes, keepdims=True), op.epsilon))
    elif op.axes:
        mean = x.mean(axis=op.axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=op.axes, keepdims=True)
        x = (x - mean) / np.sqrt(variance + op.epsilon)
    for factor in (op.scale, op.shift):
        if factor is not None and factor.ndim != x.ndim:
            raise ValueError(f"scale or shift {factor.shape} for {x.shape}")
    x = x if op.scale is None else x * op.scale.astype(np.float64)
    x = x if op.shift is None else x + op.shift.astype(np.float64)
    return apply(op.function, x)


@_evaluate.register(LocalResponse)
def _(op: LocalResponse, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    x = values[op.input].astype(np.float64)
    axis = 1 if layout == "nchw" and x.ndim == 4 else x.ndim - 1
    channels = np.moveaxis(x, axis, 0)
    squares = np.stack(
        [(channels[max(0, c - op.before) : c + op.after + 1] ** 2).sum(axis=0) for c in range(len(channels))]
    )
    return np.moveaxis(channels / (op.bias + op.alpha * squares) ** op.beta, 0, axis)
