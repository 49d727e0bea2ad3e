"""Random tensor operations with values to run them on: shapes that kernels get wrong, in both layouts."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.tensor_ops import (
    AffineMap,
    ArgMax,
    Binary,
    Concat,
    FullyConnected,
    Function,
    Gather,
    MatMul,
    Normalization,
    Reduce,
    Select,
    Softmax,
    Unary,
)
from tests.gpu_draws import AFTER, OUTPUT, Case, Draw
from tests.gpu_window_cases import convolution, line_convolution, local_response, pool, resize, transposed
from tests.webgpu import EVERY_REACH, compute

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


__all__ = ["KINDS", "case", "check_case"]

_NEAR: Final = {"fp32": 1e-4, "fp16": 4e-3}  # of the largest number

_ANY: Final = (
    *AFTER,
    *map(Function, ("gelu_tanh", "mish", "softplus", "softsign", "exp", "square", "abs", "neg", "sign")),
)
_EXACT: Final = tuple(map(Function, ("floor", "ceil", "round", "trunc", "sin", "cos", "erf", "not")))
_OF_POSITIVE: Final = tuple(map(Function, ("log", "sqrt", "rsqrt", "reciprocal")))
_PARAMETERS: Final = (Function("selu", (1.67, 1.05)), Function("celu", (1.5,)), Function("hard_sigmoid", (0.3, 0.4)))


def _fully_connected(draw: Draw) -> Case:
    shape = draw.shape(1, 4)
    of_row = prod(shape[draw.below(0, len(shape) - 1) :])
    units = draw.one_of((1, 3, 4, 7, 16, 33))
    op = FullyConnected(
        input=0,
        output=OUTPUT,
        weights=draw.values(units, of_row),
        bias=draw.values(units) if draw.chance(0.7) else None,
        function=draw.one_of(AFTER),
    )
    return Case(op, {0: draw.values(*shape)}, (prod(shape) // of_row, units), draw.layout)


def _mat_mul(draw: Draw) -> Case:
    m, k, n = (draw.one_of((1, 2, 3, 4, 5, 9, 16, 33)) for _ in range(3))
    lead = tuple(draw.below(1, 3) for _ in range(draw.below(0, 2)))
    of_a = tuple(1 if draw.chance(0.3) else s for s in lead)
    of_b = tuple(1 if of_a[i] != s else (1 if draw.chance(0.3) else s) for i, s in enumerate(lead))
    of_b = tuple(s if of_a[i] == 1 else b for i, (s, b) in enumerate(zip(lead, of_b, strict=True)))
    of_b = of_b[draw.below(0, len(of_b)) if draw.chance(0.3) else 0 :]
    a, b = draw.chance(0.3), draw.chance(0.3)
    values = {0: draw.values(*of_a, *((k, m) if a else (m, k))), 1: draw.values(*of_b, *((n, k) if b else (k, n)))}
    shape = (*np.broadcast_shapes(of_a, of_b), m, n)
    bias = draw.one_of((None, draw.values(n), draw.values(m, n), draw.values(m, 1), draw.values(1)))
    op = MatMul(
        a=0,
        b=1,
        output=OUTPUT,
        transpose_a=a,
        transpose_b=b,
        alpha=draw.one_of((1.0, 0.25)),
        bias=bias,
        function=draw.one_of(AFTER),
    )
    constants = draw.one_of((frozenset(), frozenset({1}), frozenset({0})))
    return Case(op, values, shape, draw.layout, constants)


def _unary(draw: Draw) -> Case:
    shape = draw.shape()
    x = 2.5 * draw.values(*shape)
    if draw.chance(0.3):
        function, x = draw.one_of(_OF_POSITIVE), np.abs(x) + np.float32(0.25)
    elif draw.chance(0.4):
        function, x = draw.one_of(_EXACT), np.asarray(np.rint(2 * x) / 2, np.float32)
    else:
        function = draw.one_of((*_ANY, *_PARAMETERS))
    op = Unary(function=function, input=0, output=OUTPUT)
    return Case(op, {0: x}, shape, draw.layout, in_place=0)


_COMPARED: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_LOGICAL: Final = ("and", "or", "xor")
_ORDERED: Final = ("pow", "div")  # whose second number has other limits than the first
_NAMES: Final = (
    *("add", "sub", "mul", "div", "max", "min", "pow", "squared_difference", "prelu"),
    *_COMPARED,
    *_LOGICAL,
)


def _binary(draw: Draw) -> Case:
    name, shape = draw.one_of(_NAMES), draw.shape()
    of_b = tuple(1 if draw.chance(0.3) else n for n in shape)
    of_b = of_b[draw.below(0, len(of_b)) if draw.chance(0.4) else 0 :]
    of_a = shape
    if draw.chance(0.3):  # sizes of 1 in the other one
        padded = (1,) * (len(shape) - len(of_b)) + of_b
        of_a = tuple(1 if p == n and draw.chance(0.3) else n for n, p in zip(shape, padded, strict=True))
    a, b = draw.values(*of_a), draw.values(*of_b)
    if name in _COMPARED:
        a, b = (np.asarray(np.rint(v), np.float32) for v in (a, b))
    elif name in _LOGICAL:
        a, b = (np.asarray(v > 0, np.float32) for v in (a, b))
    elif name == "pow":
        a = np.abs(a) + np.float32(0.25)
    elif name == "div":
        b = np.sign(b) * (np.abs(b) + np.float32(0.25))
    values, shape = {0: a, 1: b}, np.broadcast_shapes(of_a, of_b)
    if draw.chance(0.3) and name not in _ORDERED:
        values = {0: b, 1: a}
    if of_a == of_b and name not in _ORDERED and draw.chance(0.2):
        return Case(Binary(name=name, a=0, b=0, output=OUTPUT), {0: a}, shape, draw.layout, in_place=0)
    constants = draw.one_of((frozenset(), frozenset(), frozenset({0}), frozenset({1})))
    function = draw.one_of(AFTER) if draw.chance() else Function("identity")
    op = Binary(name=name, a=0, b=1, output=OUTPUT, function=function)
    free = [i for i in (0, 1) if i not in constants and values[i].shape == shape]
    return Case(op, values, shape, draw.layout, constants, draw.one_of(free) if free else -1)


def _select(draw: Draw) -> Case:
    shape = draw.shape()

    def part() -> NDArray[np.float32]:
        own = tuple(1 if draw.chance(0.3) else n for n in shape)
        return draw.values(*own[draw.below(0, len(own)) if draw.chance(0.4) else 0 :])

    values = {0: np.asarray(part() > 0, np.float32), 1: part(), 2: part()}
    values[draw.below(1, 2)] = draw.values(*shape)
    constants = frozenset(i for i in values if draw.chance(0.2))
    op = Select(condition=0, a=1, b=2, output=OUTPUT)
    free = [i for i in values if i not in constants and values[i].shape == shape]
    return Case(op, values, shape, draw.layout, constants, draw.one_of(free) if free else -1)


def _gather(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis = draw.below(0, len(shape) - 1)
    of_each = draw.chance(0.4)
    axes = 1 if of_each else draw.below(1, len(shape) - axis)
    before, sizes, after = prod(shape[:axis]), shape[axis : axis + axes], prod(shape[axis + axes :])
    chosen = (draw.below(1, 9),) if of_each else draw.shape(0, 5 - len(shape) + axes)
    made = (*shape[:axis], *chosen, *shape[axis + axes :])
    of_indices = made if of_each else (*chosen, axes)
    if axes == 1 and not of_each and draw.chance():
        of_indices = chosen
    sides = np.resize(np.asarray(sizes), of_indices) if of_indices else np.asarray(sizes[0])
    indices = np.asarray(np.floor(draw.rng.random(of_indices) * 2 * sides) - sides, np.float32)
    op = Gather(input=0, indices=1, output=OUTPUT, before=before, sizes=sizes, after=after, of_each=of_each)
    constants = draw.one_of((frozenset(), frozenset(), frozenset({0}), frozenset({1})))
    return Case(op, {0: draw.values(*shape), 1: indices}, made, draw.layout, constants)


def _reduce(draw: Draw) -> Case:
    shape = draw.shape(1)
    axes, keeps = draw.axes(len(shape)), draw.chance()
    op = Reduce(
        kind=draw.one_of(("mean", "sum", "max", "min", "prod", "l2", "sum_square")), input=0, output=OUTPUT, axes=axes
    )
    out = tuple(1 if d in axes else n for d, n in enumerate(shape) if keeps or d not in axes)
    return Case(op, {0: draw.values(*shape)}, out, draw.layout)


def _concat(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, count = draw.below(0, len(shape) - 1), draw.below(1, 7)
    stacked = draw.chance(0.2)
    parts: dict[int, NDArray[np.float32]] = {}
    total = 0
    for i in range(count):
        size = 1 if stacked else draw.one_of((1, 2, 3, 4, 5, 8))
        of_part = (*shape[:axis], *(() if stacked else (size,)), *shape[axis + 1 :])
        parts[i] = draw.values(*of_part)
    inputs = tuple(draw.below(0, count - 1) for _ in range(count)) if draw.chance(0.3) else tuple(range(count))
    total = sum(1 if stacked else parts[i].shape[axis] for i in inputs)
    constants = frozenset(i for i in parts if draw.chance(0.15))
    op = Concat(inputs=inputs, output=OUTPUT, axis=axis, function=draw.one_of(AFTER))
    return Case(op, parts, (*shape[:axis], total, *shape[axis + 1 :]), draw.layout, constants)


def _affine(draw: Draw) -> Case:
    out_dims = tuple(draw.below(1, 6) for _ in range(draw.below(1, 6)))
    in_dims = tuple(draw.below(1, 6) for _ in range(draw.below(1, 5)))
    by = range(len(in_dims))
    op = AffineMap(
        input=0,
        output=OUTPUT,
        out_dims=out_dims,
        shift=tuple(draw.below(0, 2) for _ in out_dims),
        split=tuple(draw.below(1, 4) for _ in out_dims),
        in_dims=in_dims,
        offset=tuple(draw.below(-3, 3) for _ in by),
        quotients=tuple(tuple(draw.below(-1, 2) for _ in out_dims) for _ in by),
        remainders=tuple(tuple(draw.below(-1, 2) for _ in out_dims) for _ in by),
        border=draw.one_of(("value", "edge", "reflect", "symmetric")),
        value=draw.one_of((0.0, -7.5)),
    )
    return Case(op, {0: draw.values(*_grouped(draw, in_dims))}, _grouped(draw, out_dims), draw.layout)


def _grouped(draw: Draw, dims: tuple[int, ...]) -> tuple[int, ...]:
    """As many elements in a shape of at most five dimensions."""
    shape = list(dims)
    while len(shape) > 5 or (len(shape) > 1 and draw.chance(0.4)):
        at = draw.below(0, len(shape) - 2)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    return tuple(shape)


def _softmax(draw: Draw) -> Case:
    shape = draw.shape(1)
    op = Softmax(
        input=0,
        output=OUTPUT,
        axis=draw.below(0, len(shape) - 1),
        beta=draw.one_of((1.0, 0.5)),
        is_log=draw.chance(0.3),
    )
    return Case(op, {0: draw.one_of((1, 10)) * draw.values(*shape)}, shape, draw.layout)


def _arg_max(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, keeps = draw.below(0, len(shape) - 1), draw.chance()
    op = ArgMax(input=0, output=OUTPUT, axis=axis, is_min=draw.chance(), last=draw.chance())
    out = tuple(1 if d == axis else n for d, n in enumerate(shape) if keeps or d != axis)
    return Case(op, {0: np.asarray(np.rint(draw.values(*shape)), np.float32)}, out, draw.layout)


def _normalization(draw: Draw) -> Case:
    shape = draw.shape(1)
    axes = draw.axes(len(shape)) if draw.chance(0.8) else ()
    is_l2 = bool(axes) and draw.chance(0.3)

    def factor() -> NDArray[np.float32] | None:
        return draw.values(*(1 if draw.chance() else n for n in shape)) if draw.chance(0.7) else None

    op = Normalization(
        input=0,
        output=OUTPUT,
        axes=axes,
        scale=factor(),
        shift=factor(),
        epsilon=draw.one_of((1e-5, 1e-3, 0.1)),
        is_l2=is_l2,
        function=draw.one_of(AFTER),
    )
    return Case(op, {0: draw.values(*shape)}, shape, draw.layout)


KINDS: Final[dict[str, Callable[[Draw], Case]]] = {
    "Convolution": convolution,
    "LineConvolution": line_convolution,
    "TransposedConvolution": transposed,
    "FullyConnected": _fully_connected,
    "MatMul": _mat_mul,
    "Unary": _unary,
    "Binary": _binary,
    "Select": _select,
    "Gather": _gather,
    "Pool": pool,
    "Reduce": _reduce,
    "Concat": _concat,
    "AffineMap": _affine,
    "Resize": resize,
    "Softmax": _softmax,
    "ArgMax": _arg_max,
    "Normalization": _normalization,
    "LocalResponse": local_response,
}


def case(kind: str, seed: int) -> Case:
    """The case of this number of an operation, by the name of its class."""
    return KINDS[kind](Draw(seed))


def check_case(kind: str, seed: int) -> None:
    """Compare a case on the device of `tests.webgpu`, in the storage of its seed, with its evaluation in NumPy."""
    made = case(kind, seed)
    storage, precision = EVERY_REACH[seed % len(EVERY_REACH)]
    result = compute(
        made.op,
        {i: v for i, v in made.values.items() if i not in made.constants},
        made.shape,
        layout=made.layout,
        constants={i: v for i, v in made.values.items() if i in made.constants},
        storage=storage,
        precision=precision,
        in_place=made.in_place if storage == "buffer" else -1,
    )
    expected = made.expected(precision)
    near = _NEAR[precision] * max(np.abs(expected).max(initial=0.0), 1e-3)
    np.testing.assert_allclose(result, expected, rtol=0, atol=near)
