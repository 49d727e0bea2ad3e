"""The oracle of tensor operations against ONNX Runtime, NumPy and loops over single elements."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import special

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.tensor_ops import (
    AffineMap,
    ArgMax,
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    MatMul,
    Normalization,
    Reduce,
    Softmax,
    TensorOp,
    TensorProgram,
    Unary,
)
from tests.extent import run_for_seeds
from tests.oracle.by_onnx import by_onnx, numbers
from tests.oracle.tensor_ops import evaluate, run_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def test_rows_times_weights() -> None:
    x, weights, bias = numbers(3, 2, 5), numbers(7, 10, seed=1), numbers(7, seed=2)
    expected = by_onnx("Gemm", (3, 7), x.reshape(3, 10), weights, bias, transB=1)
    op = FullyConnected(input=0, output=1, weights=weights, bias=bias)
    np.testing.assert_allclose(evaluate(op, {0: x}, (3, 7), ""), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("transpose_a", "transpose_b"), list(product((False, True), repeat=2)))
def test_products_of_matrices(transpose_a: bool, transpose_b: bool) -> None:
    a, b, bias = numbers(2, 1, 4, 5), numbers(3, 5, 6, seed=1), numbers(6, seed=2)
    given: dict[str, Any] = {"transA": int(transpose_a), "transB": int(transpose_b), "alpha": 0.5}
    swapped = a.swapaxes(2, 3).copy() if transpose_a else a, b.swapaxes(1, 2).copy() if transpose_b else b
    expected = by_onnx("FusedMatMul", (2, 3, 4, 6), *swapped, domain="com.microsoft", **given) + bias
    op = MatMul(a=0, b=1, output=2, transpose_a=transpose_a, transpose_b=transpose_b, alpha=0.5, bias=bias)
    result = evaluate(op, {0: swapped[0], 1: swapped[1]}, (2, 3, 4, 6), "")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


BY_ONNX: dict[str, tuple[str, tuple[float, ...], dict[str, Any]]] = {
    "identity": ("Identity", (), {}),
    "relu": ("Relu", (), {}),
    "leaky_relu": ("LeakyRelu", (0.2,), {"alpha": 0.2}),
    "elu": ("Elu", (1.5,), {"alpha": 1.5}),
    "selu": ("Selu", (1.5, 0.75), {"alpha": 1.5, "gamma": 0.75}),
    "celu": ("Celu", (1.5,), {"alpha": 1.5}),
    "sigmoid": ("Sigmoid", (), {}),
    "hard_sigmoid": ("HardSigmoid", (0.3, 0.4), {"alpha": 0.3, "beta": 0.4}),
    "hard_swish": ("HardSwish", (), {}),
    "tanh": ("Tanh", (), {}),
    "gelu": ("Gelu", (), {}),
    "gelu_tanh": ("Gelu", (), {"approximate": "tanh"}),
    "mish": ("Mish", (), {}),
    "softplus": ("Softplus", (), {}),
    "softsign": ("Softsign", (), {}),
    "exp": ("Exp", (), {}),
    "log": ("Log", (), {}),
    "sqrt": ("Sqrt", (), {}),
    "reciprocal": ("Reciprocal", (), {}),
    "abs": ("Abs", (), {}),
    "neg": ("Neg", (), {}),
    "sign": ("Sign", (), {}),
    "floor": ("Floor", (), {}),
    "ceil": ("Ceil", (), {}),
    "round": ("Round", (), {}),
    "sin": ("Sin", (), {}),
    "cos": ("Cos", (), {}),
    "erf": ("Erf", (), {}),
}
WITHOUT_ONNX: dict[str, Any] = {
    "clip": lambda x: np.clip(x, -1.0, 2.5),
    "silu": lambda x: x * special.expit(x),
    "rsqrt": lambda x: x**-0.5,
    "square": lambda x: x * x,
    "trunc": np.trunc,
    "is_nan": lambda x: (x != x).astype(np.float64),
    "not": lambda x: (x == 0).astype(np.float64),
}
SOME = np.array([-40.0, -3.5, -2.5, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, 30.0], np.float32)


@pytest.mark.parametrize("name", BY_ONNX)
def test_functions(name: str) -> None:
    kind, parameters, attributes = BY_ONNX[name]
    expected = by_onnx(kind, SOME.shape, SOME, **attributes)
    result = evaluate(Unary(function=Function(name, parameters), input=0, output=1), {0: SOME}, SOME.shape, "")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WITHOUT_ONNX)
def test_functions_that_onnx_has_not(name: str) -> None:
    parameters = (-1.0, 2.5) if name == "clip" else ()
    result = evaluate(Unary(function=Function(name, parameters), input=0, output=1), {0: SOME}, SOME.shape, "")
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, WITHOUT_ONNX[name](SOME), rtol=1e-6)


def test_every_described_function_is_tested() -> None:
    described = (Function.__doc__ or "").split("parameters:")[0].split("name:")[1]
    assert set(described.split("`")[1::2]) == {*BY_ONNX, *WITHOUT_ONNX}
    described = (Binary.__doc__ or "").split("name:")[1]
    assert set(described.split("`")[1::2]) == {name for name, _ in PAIRS}


PAIRS: list[tuple[str, Any]] = [
    ("add", np.add),
    ("sub", np.subtract),
    ("mul", np.multiply),
    ("div", np.divide),
    ("max", np.maximum),
    ("min", np.minimum),
    ("pow", np.float_power),
    ("squared_difference", lambda a, b: (a - b) ** 2),
    ("prelu", lambda a, b: np.where(a < 0, a * b, a)),
    ("less", np.less),
    ("less_equal", np.less_equal),
    ("greater", np.greater),
    ("greater_equal", np.greater_equal),
    ("equal", np.equal),
    ("not_equal", np.not_equal),
    ("and", lambda a, b: (a != 0) & (b != 0)),
    ("or", lambda a, b: (a != 0) | (b != 0)),
    ("xor", lambda a, b: (a != 0) != (b != 0)),
]


@pytest.mark.parametrize(("name", "expected"), PAIRS)
def test_functions_of_two(name: str, expected: Any) -> None:
    a = np.arange(-3, 3, dtype=np.float32).reshape(1, 2, 3)
    b = np.array([[[-2.0], [1.0]], [[0.0], [2.0]]], np.float32)
    if name in {"and", "or", "xor"}:
        a, b = (a > 0).astype(np.float32), (b > 0).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = expected(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    op = Binary(name=name, a=0, b=1, output=2, function=Function("neg"))
    np.testing.assert_array_equal(evaluate(op, {0: a, 1: b}, (2, 2, 3), ""), -wanted)


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("axes", [(1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("mean", "ReduceMean"),
        ("sum", "ReduceSum"),
        ("max", "ReduceMax"),
        ("min", "ReduceMin"),
        ("prod", "ReduceProd"),
        ("l2", "ReduceL2"),
        ("sum_square", "ReduceSumSquare"),
    ],
)
def test_reductions(kind: Any, name: str, axes: tuple[int, ...], keeps: int) -> None:
    x = numbers(2, 3, 4)
    shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape) if keeps or d not in axes)
    expected = by_onnx(name, shape, x, np.array(axes, np.int64), keepdims=keeps)
    op = Reduce(kind=kind, input=0, output=1, axes=axes)
    np.testing.assert_allclose(evaluate(op, {0: x}, shape, ""), expected, rtol=1e-5)


def test_concatenation_of_one_tensor_twice() -> None:
    a, b = numbers(2, 3, 1), numbers(2, 2, 1, seed=1)
    op = Concat(inputs=(0, 1, 0), output=2, axis=1, function=Function("relu"))
    expected = np.maximum(by_onnx("Concat", (2, 8, 1), a, b, a, axis=1), 0)
    np.testing.assert_array_equal(evaluate(op, {0: a, 1: b}, (2, 8, 1), "nchw"), expected)


def test_concatenation_of_tensors_without_the_axis() -> None:
    a, b = numbers(2, 3), numbers(2, 3, seed=1)
    op = Concat(inputs=(0, 1), output=2, axis=1)
    np.testing.assert_array_equal(evaluate(op, {0: a, 1: b}, (2, 2, 3), ""), np.stack([a, b], axis=1))


def one_by_one(op: AffineMap, x: NDArray[np.float32]) -> list[float]:
    """The map of each single output index, as its description says."""
    flat, found = x.reshape(op.in_dims), []
    for place in product(*(range(n) for n in op.out_dims)):
        parts = [divmod(i + s, k) for i, s, k in zip(place, op.shift, op.split, strict=True)]
        index = [
            o + sum(a * q + b * r for a, b, (q, r) in zip(by_q, by_r, parts, strict=True))
            for o, by_q, by_r in zip(op.offset, op.quotients, op.remainders, strict=True)
        ]
        if op.border == "value" and any(not 0 <= i < n for i, n in zip(index, op.in_dims, strict=True)):
            found.append(op.value)
            continue
        for k, size in enumerate(op.in_dims):
            while not 0 <= index[k] < size:
                if op.border == "edge":
                    index[k] = 0 if index[k] < 0 else size - 1
                elif op.border == "symmetric":
                    index[k] = -1 - index[k] if index[k] < 0 else 2 * size - 1 - index[k]
                else:
                    index[k] = -index[k] if index[k] < 0 else 2 * size - 2 - index[k]
        found.append(float(flat[tuple(index)]))
    return found


@pytest.mark.parametrize("border", ["value", "edge", "reflect", "symmetric"])
@run_for_seeds(range(20), quick=4)
def test_affine_maps(border: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    out_dims = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    in_dims = tuple(int(n) for n in rng.integers(2, 5, rng.integers(1, 4)))
    x = numbers(*in_dims, seed=seed)
    by = (len(in_dims), len(out_dims))
    op = AffineMap(
        input=0,
        output=1,
        out_dims=out_dims,
        shift=tuple(int(n) for n in rng.integers(0, 3, len(out_dims))),
        split=tuple(int(n) for n in rng.integers(1, 4, len(out_dims))),
        in_dims=in_dims,
        offset=tuple(int(n) for n in rng.integers(-3, 3, len(in_dims))),
        quotients=tuple(tuple(int(n) for n in row) for row in rng.integers(-1, 3, by)),
        remainders=tuple(tuple(int(n) for n in row) for row in rng.integers(-1, 3, by)),
        border=border,
        value=-7.0,
    )
    result = evaluate(op, {0: x.reshape(-1)}, (prod(out_dims), 1), "")
    np.testing.assert_array_equal(result.reshape(-1), np.array(one_by_one(op, x), np.float32))


@pytest.mark.parametrize(("border", "mode"), [("reflect", "reflect"), ("symmetric", "symmetric"), ("edge", "edge")])
def test_borders_are_those_of_numpy(border: Any, mode: Any) -> None:
    x = numbers(4)
    op = AffineMap(
        input=0,
        output=1,
        out_dims=(17,),
        shift=(0,),
        split=(1,),
        in_dims=(4,),
        offset=(-6,),
        quotients=((1,),),
        remainders=((0,),),
        border=border,
    )
    np.testing.assert_array_equal(evaluate(op, {0: x}, (17,), ""), np.pad(x, (6, 7), mode=mode))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_softmax(name: str, axis: int) -> None:
    x = 30 * numbers(2, 3, 4)
    expected = by_onnx(name, x.shape, 0.5 * x, axis=axis)
    op = Softmax(input=0, output=1, axis=axis, beta=0.5, is_log=name == "LogSoftmax")
    np.testing.assert_allclose(evaluate(op, {0: x}, x.shape, ""), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_indices_of_the_largest(name: str, last: bool, keeps: int) -> None:
    x = np.random.default_rng(3).integers(0, 3, (4, 5, 6)).astype(np.float32)
    shape = (4, 1, 6) if keeps else (4, 6)
    expected = by_onnx(name, shape, x, axis=1, select_last_index=int(last), keepdims=keeps)
    op = ArgMax(input=0, output=1, axis=1, is_min=name == "ArgMin", last=last)
    np.testing.assert_array_equal(evaluate(op, {0: x}, shape, ""), expected)


def test_normalizations() -> None:
    x, scale, shift = numbers(2, 6, 3, 4), numbers(6, seed=1), numbers(6, seed=2)
    of_channels = scale[:, None, None][None], shift[:, None, None][None]
    expected = by_onnx("InstanceNormalization", x.shape, x, scale, shift, epsilon=0.01)
    op = Normalization(input=0, output=1, axes=(2, 3), scale=of_channels[0], shift=of_channels[1], epsilon=0.01)
    np.testing.assert_allclose(evaluate(op, {0: x}, x.shape, "nchw"), expected, rtol=1e-4, atol=1e-5)
    row = numbers(4, seed=3), numbers(4, seed=4)
    expected = by_onnx("LayerNormalization", x.shape, x, *row, axis=-1, epsilon=0.01)
    op = Normalization(input=0, output=1, axes=(3,), scale=row[0][None, None, None], shift=row[1][None, None, None])
    assert np.abs(evaluate(op, {0: x}, x.shape, "nchw") - expected).max() > 1e-3  # epsilon counts
    op = Normalization(
        input=0, output=1, axes=(3,), scale=row[0][None, None, None], shift=row[1][None, None, None], epsilon=0.01
    )
    np.testing.assert_allclose(evaluate(op, {0: x}, x.shape, "nchw"), expected, rtol=1e-4, atol=1e-5)
    op = Normalization(input=0, output=1, axes=(), scale=of_channels[0], shift=of_channels[1])
    np.testing.assert_allclose(
        evaluate(op, {0: x}, x.shape, "nchw"), x * of_channels[0] + of_channels[1], rtol=1e-5, atol=1e-6
    )
    op = Normalization(input=0, output=1, axes=(1,), is_l2=True)
    np.testing.assert_allclose(
        evaluate(op, {0: x}, x.shape, "nchw"), by_onnx("LpNormalization", x.shape, x, axis=1, p=2), rtol=1e-5
    )


def test_what_does_not_fit_is_said() -> None:
    x = numbers(1, 2, 3, 4)
    wrong: Mapping[TensorOp, str] = {
        Unary(function=Function("relu"), input=0, output=1): "gives",
        Unary(function=Function("clip"), input=0, output=1): "with 0 parameters",
        Unary(function=Function("swirl"), input=0, output=1): "no function swirl",
        Reduce(kind="sum", input=0, output=1, axes=(1,)): "without",
        Convolution(input=0, output=1, weights=numbers(5, 1, 1, 3)): "channels in 1 groups",
    }
    for op, said in wrong.items():
        with pytest.raises(ValueError, match=said):
            evaluate(op, {0: x}, (1, 5, 3, 5), "nchw")


def test_a_program() -> None:
    tensors = (
        Tensor("in", "float32", (1, 4)),
        Tensor("table", "float32", (1, 4), "constant"),
        Tensor("sum", "float32", (1, 4)),
        Tensor("out", "float32", (1, 4)),
    )
    ops = (Op("add", "Add", (0, 1), (2,)), Op("half", "Mul", (2,), (3,)))
    graph = Graph("two", tensors, ops, (0,), (3,))
    steps: tuple[tuple[TensorOp, ...] | str, ...] = (
        (Binary(name="add", a=0, b=1, output=2),),
        (Unary(function=Function("square"), input=2, output=3),),
    )
    table = np.array([[0.0, 1.0, 2.0, 3.0]], np.float32)
    x = np.array([[1.0, 1.0, 1.0, 0.1]], np.float32)
    program = TensorProgram(graph, steps, {1: table})
    assert run_program(program, {0: x})[3].tolist() == ((x + table) ** 2).astype(np.float32).tolist()
    half = run_program(program, {0: x}, "fp16")[3]
    assert half.tolist() == half.astype(np.float16).tolist() != run_program(program, {0: x})[3].tolist()
    with pytest.raises(ValueError, match="half has no tensor operations: Loop"):
        run_program(TensorProgram(graph, (steps[0], "Loop"), {1: table}), {0: x})
    with pytest.raises(ValueError, match="half writes 2, which is none of its outputs"):
        run_program(TensorProgram(graph, (steps[0], steps[0]), {1: table}), {0: x})
    with pytest.raises(ValueError, match="in is"):
        run_program(program, {0: x[0]})
