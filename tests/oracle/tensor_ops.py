"""Every tensor operation in NumPy, word for word as `edgemem.model.tensor_ops` describes it.

Numbers come in as 32-bit floats; sums and functions are in 64 bits; what a tensor holds is rounded to 32 bits (or 16)
again. Positions of a resize are fractions. Windows are loops over taps, so that small networks run in seconds.
"""

from __future__ import annotations

from functools import singledispatch
from math import prod
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
from tests.oracle.scalar_functions import apply, combine
from tests.oracle.window_ops import convolution, line_convolution, pool, resize, transposed_convolution, within

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


@singledispatch
def _evaluate(op: TensorOp, values: Values, shape: tuple[int, ...], layout: Layout) -> Floats:  # noqa: ARG001
    raise ValueError(f"no operation {type(op).__name__}")


_evaluate.register(Convolution, convolution)
_evaluate.register(LineConvolution, line_convolution)
_evaluate.register(TransposedConvolution, transposed_convolution)
_evaluate.register(Pool, pool)
_evaluate.register(Resize, resize)


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
            inside &= within(index, 0, size)
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
