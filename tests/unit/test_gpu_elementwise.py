"""Kernels of functions of one element and of two, against the oracle and NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Binary, Function, Unary
from edgemem.runtime.webgpu.lowering import Lowering, lower
from tests.oracle.tensor_ops import evaluate
from tests.webgpu import compute
from tests.webgpu_checks import agree, kernels, numbers

if TYPE_CHECKING:
    from edgemem.model.graph import Layout

FUNCTIONS = [
    Function("identity"),
    Function("relu"),
    Function("clip", (-1.0, np.inf)),
    Function("clip", (0.0, 6.0)),
    Function("leaky_relu", (0.1,)),
    Function("elu", (0.7,)),
    Function("selu", (1.67, 1.05)),
    Function("celu", (0.8,)),
    Function("sigmoid"),
    Function("hard_sigmoid", (0.2, 0.5)),
    Function("hard_swish"),
    Function("silu"),
    Function("tanh"),
    Function("gelu"),
    Function("gelu_tanh"),
    Function("mish"),
    Function("softplus"),
    Function("softsign"),
    Function("exp"),
    Function("log"),
    Function("sqrt"),
    Function("rsqrt"),
    Function("reciprocal"),
    Function("square"),
    Function("abs"),
    Function("neg"),
    Function("sign"),
    Function("floor"),
    Function("ceil"),
    Function("round"),
    Function("trunc"),
    Function("sin"),
    Function("cos"),
    Function("erf"),
    Function("not"),
]
# Numbers where functions overflow, round half to even, or have another form.
EXTREMES = [0.0, 1e-6, 0.5, 1.5, 2.5, 3.5, 15.0, 87.0, 88.7, 89.0, 100.0, 1000.0, 1e6]
BINARY = (
    "add sub mul div max min squared_difference prelu less less_equal greater greater_equal equal not_equal and or xor"
)
LAYOUTS: tuple[Layout, ...] = ("nchw", "nhwc")
# Output, one operand, the other one, and the kernel in the layouts nchw and nhwc.
BROADCASTS = [
    ((2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 7), "binary", "binary"),
    ((2, 3, 5, 7), (2, 3, 5, 7), (1, 3, 1, 1), "binary", "binary"),
    ((2, 3, 5, 7), (2, 3, 5, 7), (), "binary", "binary"),
    ((2, 3, 5, 7), (7,), (2, 3, 5, 7), "broadcast", "binary"),
    ((2, 3, 5, 7), (3, 1, 1), (2, 3, 5, 7), "broadcast", "broadcast"),
    ((2, 3, 5, 7), (2, 1, 5, 1), (1, 3, 1, 7), "binary", "binary"),
    ((6, 5), (6, 1), (5,), "binary", "binary"),
    ((9,), (9,), (1,), "binary", "binary"),
    ((3, 4, 6), (4, 6), (3, 1, 6), "broadcast", "broadcast"),
    ((2, 3, 2, 4, 5), (3, 1, 4, 1), (2, 3, 2, 4, 5), "broadcast", "broadcast"),
    ((2, 3, 2, 4, 5), (2, 1, 1, 4, 5), (2, 3, 2, 4, 5), "binary", "binary"),
    ((2, 3, 2, 2, 2, 5), (2, 1, 2, 1, 2, 1), (1, 3, 1, 2, 1, 5), "broadcast", "broadcast"),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_functions(function: Function) -> None:
    x = np.concatenate([np.linspace(-12, 12, 1203), EXTREMES, np.negative(EXTREMES)]).astype(np.float32)
    op = Unary(function=function, input=0, output=1)
    found, expected = compute(op, {0: x}, x.shape), evaluate(op, {0: x}, x.shape, "nhwc")
    if function.name in ("sin", "cos"):  # the argument is reduced by a multiple of pi in 32 bits
        found, expected = found[np.abs(x) <= 1000], expected[np.abs(x) <= 1000]
    np.testing.assert_allclose(found, expected, rtol=4e-6, atol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS[3::6], ids=lambda f: f.name)
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (7,), (3, 2, 2, 1, 2, 3)], ids=str)
def test_a_function_in_all_storages_and_in_place(shape: tuple[int, ...], function: Function) -> None:
    agree(Unary(function=function, input=0, output=1), {0: numbers(*shape)}, shape, "nchw", half=4e-3)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.name != "not"], ids=lambda f: f.name)
def test_what_is_no_number_stays_so(function: Function) -> None:
    x = np.array([1, np.nan, 2, -1, np.nan], np.float32)
    found = compute(Unary(function=function, input=0, output=1), {0: x}, x.shape)
    assert np.isnan(found[[1, 4]]).all()


@pytest.mark.parametrize("name", ["add", "max", "min", "mul", "prelu", "pow"])
def test_what_is_no_number_stays_so_in_functions_of_two(name: str) -> None:
    a, b = np.array([1, np.nan, 2, np.nan], np.float32), np.array([np.nan, 1, 3, np.nan], np.float32)
    found = compute(Binary(name=name, a=0, b=1, output=2), {0: a, 1: b}, a.shape)
    used = [1, 3] if name == "prelu" else [0, 1, 3]  # the slope of a positive number does not count
    assert np.isnan(found[used]).all()


@pytest.mark.parametrize("name", BINARY.split())
def test_functions_of_two(name: str) -> None:
    a, b = np.round(numbers(3, 5, 7)), np.round(numbers(3, 5, 7, seed=1)) + np.float32(name == "div") * 0.25
    op = Binary(name=name, a=0, b=1, output=2)
    expected = evaluate(op, {0: a, 1: b}, a.shape, "nhwc")
    np.testing.assert_allclose(compute(op, {0: a, 1: b}, a.shape), expected, rtol=1e-6)


def test_powers() -> None:
    bases = np.array([-3, -2.5, -1, -0.0, 0, 0.5, 1, 2, 7.25], np.float32)
    exponents = np.array([-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 5, 0.3, 2.4, 7], np.float32)
    a, b = (v.astype(np.float32) for v in np.meshgrid(bases, exponents))
    op = Binary(name="pow", a=0, b=1, output=2)
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    found = compute(op, {0: a, 1: b}, a.shape)
    usual = (a != 0) | (b >= 0)  # what 0 to a negative power is depends on the driver
    np.testing.assert_allclose(found[usual], expected[usual], rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "a", "b", "first", "last"), BROADCASTS, ids=str)
def test_broadcasts(
    shape: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...], first: str, last: str, layout: Layout
) -> None:
    op = Binary(name="sub", a=0, b=1, output=2, function=Function("relu"))
    assert kernels(op, {0: a, 1: b, 2: shape}, layout) == [first if layout == "nchw" else last]
    agree(op, {0: numbers(*a), 1: numbers(*b, seed=1)}, shape, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (7,), (3, 1, 1), (1, 5, 7), (2, 3, 5, 7)], ids=str)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_constant_of_any_rank(shape: tuple[int, ...], layout: Layout, is_first: bool) -> None:
    x, constant = numbers(2, 3, 5, 7), numbers(*shape, seed=1)
    op = Binary(name="sub", a=int(is_first), b=int(not is_first), output=2)
    context = Lowering({0: x.shape, 1: shape, 2: x.shape}, layout, {1: constant})
    assert [d.kernel for d in lower(op, context)] == ["binary"]
    agree(op, {0: x}, x.shape, layout, constants={1: constant})


def test_one_tensor_twice() -> None:
    x = numbers(2, 3, 6)
    agree(Binary(name="mul", a=0, b=0, output=1), {0: x}, x.shape)


def test_a_function_without_a_kernel_is_refused() -> None:
    context = Lowering({0: (2,), 1: (2,)})
    with pytest.raises(UnsupportedError, match="modulo of two elements"):
        lower(Binary(name="modulo", a=0, b=0, output=1), context)


def test_shapes_that_contradict_each_other_are_refused() -> None:
    context = Lowering({0: (3, 2), 1: (4, 3), 2: (3,)})
    with pytest.raises(UnsupportedError, match=r"\(3, 2\) cannot be broadcast to \(4, 3\)"):
        lower(Binary(name="add", a=2, b=0, output=1), context)
    with pytest.raises(UnsupportedError, match=r"\(4, 3\) cannot be broadcast to \(3,\)"):
        lower(Binary(name="add", a=2, b=1, output=2), context)
