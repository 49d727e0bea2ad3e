"""Tensor operations of ONNX's functions of one element and of two, and of its products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgemem.model.tensor_ops import Binary, FullyConnected, Function, MatMul, Normalization, Unary
from tests.onnx_computed import check_alike, fed, one, outcome, program_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BOOL, INT64, INT32, DOUBLE, HALF = (
    TensorProto.BOOL,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
)


def _numbers(*shape: int, seed: int = 0, scale: float = 2.0) -> NDArray[np.float32]:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)


@pytest.mark.parametrize(
    ("kind", "opset", "attributes"),
    [
        *((kind, 13, {}) for kind in ("Identity", "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Exp", "Abs")),
        *((kind, 13, {}) for kind in ("Neg", "Sign", "Floor", "Ceil", "Round", "Sin", "Cos", "Erf")),
        *((kind, 18, {}) for kind in ("HardSwish", "Mish", "Reciprocal")),
        *((kind, 7, {}) for kind in ("LeakyRelu", "Elu", "Selu", "HardSigmoid", "Dropout")),
        ("LeakyRelu", 16, {"alpha": 0.3}),
        ("Elu", 22, {"alpha": 1.7}),
        ("Selu", 6, {"alpha": 1.5, "gamma": 0.7}),
        ("Celu", 12, {"alpha": 0.6}),
        ("HardSigmoid", 22, {"alpha": 0.3, "beta": 0.4}),
        ("Gelu", 20, {}),
        ("Gelu", 20, {"approximate": "tanh"}),
        ("Clip", 10, {"min": -0.5, "max": 1.5}),
        ("Clip", 6, {"min": 0.0}),
        ("Clip", 13, {}),
        ("Dropout", 13, {}),
    ],
)
def test_functions(kind: str, opset: int, attributes: dict[str, Any]) -> None:
    ((step,),) = check_alike(*one(kind, [_numbers(2, 3, 4, 5)], opset=opset, **attributes))
    assert isinstance(step, Unary)


def test_functions_of_positive_numbers() -> None:
    for kind in ("Sqrt", "Log"):
        check_alike(*one(kind, [np.abs(_numbers(3, 7)) + np.float32(0.1)]))


def test_halves_are_rounded_to_even() -> None:
    check_alike(*one("Round", [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)]))


@pytest.mark.parametrize(
    ("low", "high", "function"),
    [
        (0.0, 6.0, Function("clip", (0.0, 6.0))),
        (0.0, None, Function("relu")),
        (None, 1.0, Function("clip", (-float(np.finfo(np.float32).max), 1.0))),
        (None, None, Function("identity")),
    ],
)
def test_bounds_as_inputs(low: float | None, high: float | None, function: Function) -> None:
    bounds = [None if b is None else np.array(b, np.float32) for b in (low, high)]
    ((step,),) = check_alike(*one("Clip", [_numbers(4, 4), *bounds], fixed=(1, 2)))
    assert isinstance(step, Unary)
    assert step.function == function


def test_functions_of_onnx_runtime() -> None:
    x, bias = _numbers(2, 3, 8), _numbers(8, seed=1)
    for kind, more, attributes in (
        ("Gelu", [], {}),
        ("FastGelu", [], {}),
        ("FastGelu", [bias], {}),
        ("BiasGelu", [bias], {}),
        ("QuickGelu", [], {"alpha": 1.0}),
    ):
        given: list[NDArray[Any] | None] = [x, *more]
        about: dict[str, Any] = dict(attributes)
        check_alike(*one(kind, given, fixed=range(1, len(given)), domain="com.microsoft", **about), tolerance=1e-4)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "PRelu"])
@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), ()), ((4, 5), (1, 5)), ((5,), (5,))],
)
@pytest.mark.parametrize("fixed", [(), (1,)])
def test_pairs(kind: str, a: tuple[int, ...], b: tuple[int, ...], fixed: Sequence[int]) -> None:
    ((step,),) = check_alike(*one(kind, [_numbers(*a), _numbers(*b, seed=1)], fixed=fixed))
    assert isinstance(step, Binary)


def test_a_constant_may_come_first() -> None:
    program = program_of(one("Sub", [_numbers(1, 3), _numbers(4, 3)], fixed=(0,))[0])
    ((step,),) = check_alike(*one("Sub", [_numbers(1, 3), _numbers(4, 3)], fixed=(0,)))
    assert isinstance(step, Binary)
    assert np.array_equal(program.constants[step.a], _numbers(1, 3))


@pytest.mark.parametrize("kind", ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])
def test_comparisons(kind: str) -> None:
    a, b = np.round(_numbers(4, 5)), np.round(_numbers(5, seed=1))
    check_alike(*one(kind, [a, b], elems=(BOOL,)))
    check_alike(*one(kind, [a.astype(np.int64), b.astype(np.int64)], elems=(BOOL,)))


@pytest.mark.parametrize("kind", ["And", "Or", "Xor"])
def test_truth_values(kind: str) -> None:
    a, b = _numbers(4, 5) > 0, _numbers(5, seed=1) > 0
    check_alike(*one(kind, [a, b], elems=(BOOL,)))
    check_alike(*one("Not", [a], elems=(BOOL,)))


@pytest.mark.parametrize(
    ("exponent", "name"), [(2.0, "square"), (0.5, "sqrt"), (1.0, "identity"), (-1.0, "reciprocal"), (-0.5, "rsqrt")]
)
def test_powers_with_a_function(exponent: float, name: str) -> None:
    x = np.abs(_numbers(3, 4)) + np.float32(0.1)
    ((step,),) = check_alike(*one("Pow", [x, np.array(exponent, np.float32)], fixed=(1,)))
    assert isinstance(step, Unary)
    assert step.function == Function(name)


def test_powers() -> None:
    check_alike(*one("Pow", [_numbers(3, 4), np.array([1, 2, 3, 4], np.float32)], fixed=(1,)))
    check_alike(*one("Pow", [np.abs(_numbers(3, 4)), _numbers(3, 4, seed=1)]))


@pytest.mark.parametrize(
    ("given", "made", "step"),
    [
        (np.float32, INT64, "trunc"),
        (np.float32, DOUBLE, "identity"),
        (np.int64, TensorProto.FLOAT, "identity"),
        (np.int64, INT32, "identity"),
        (np.bool_, TensorProto.FLOAT, "identity"),
        (np.bool_, INT64, "identity"),
        (np.float16, TensorProto.FLOAT, "identity"),
    ],
)
def test_casts(given: type, made: int, step: str) -> None:
    x = (_numbers(3, 4) > 0).astype(given) if given is np.bool_ else (_numbers(3, 4) * 3).astype(given)
    ((found,),) = check_alike(*one("Cast", [x], elems=(made,), to=made))
    assert isinstance(found, Unary)
    assert found.function == Function(step)


def test_truth_values_of_numbers_and_of_no_numbers() -> None:
    x = np.array([0.0, -0.0, 0.25, -3.0, np.inf, np.nan], np.float32)
    check_alike(*one("Cast", [x], elems=(BOOL,), to=BOOL))
    check_alike(*one("IsNaN", [x], elems=(BOOL,)))


def test_one_of_two_elements() -> None:
    condition = _numbers(3, 1, 4) > 0
    check_alike(*one("Where", [condition, _numbers(2, 1), _numbers(1, 3, 1, 1, seed=1)]))
    check_alike(*one("Where", [condition, _numbers(2, 4), np.array(-1e9, np.float32)], fixed=(2,)))


def test_casts_without_an_operation_have_reasons() -> None:
    x = _numbers(3, 4)
    wide = one("Cast", [x.astype(np.int64)], elems=(TensorProto.INT8,), to=TensorProto.INT8)[0]
    assert program_of(wide).steps == ("Cast from int64 to int8, which wraps around",)


def test_halves_and_doubles() -> None:
    for dtype, elem, tolerance in ((np.float16, HALF, 2e-3), (np.float64, DOUBLE, 1e-6)):
        a, b = _numbers(3, 4).astype(dtype), _numbers(4, seed=1).astype(dtype)
        check_alike(*one("Add", [a, b], fixed=(1,), elems=(elem,)), tolerance=tolerance)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
def test_an_operand_along_an_axis_before_operator_set_7(kind: str) -> None:
    x, b = _numbers(2, 3, 4, 5), _numbers(3, seed=1)
    model, feeds = one(kind, [x, b], fixed=(1,), opset=6, broadcast=1, axis=1)
    program = program_of(model)
    (steps,) = program.steps
    assert isinstance(steps, tuple)
    assert isinstance(steps[0], Normalization)
    modern, _ = one(kind, [x, b.reshape(3, 1, 1)], fixed=(1,))
    assert np.allclose(outcome(program, feeds)["o0"], fed(modern, feeds)["o0"], rtol=1e-5)


def test_no_operand_lies_along_another_axis_than_the_file_says() -> None:
    """Numpy would put these along the last axis."""
    x, b = _numbers(3, 3), _numbers(3, seed=1)
    for kind, elems in (("Pow", ()), ("Less", (BOOL,))):
        model, _ = one(kind, [x, b], fixed=(1,), opset=6, elems=elems, broadcast=1, axis=0)
        assert program_of(model).steps == (f"{kind} along axis 0",)


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("Sum", 3, "Sum of 3 tensors, more than two"),
        ("Tan", 1, "Tan"),
        ("Mean", 2, "Mean"),
    ],
)
def test_what_has_no_operation_has_a_reason(kind: str, given: int, reason: str) -> None:
    assert program_of(one(kind, [_numbers(2, 3, seed=k) for k in range(given)])[0]).steps == (reason,)


def test_integers_that_floats_do_not_hold_have_reasons() -> None:
    few = np.array([1, 2], np.uint8)
    (reason,) = program_of(one("Sub", [few, few[::-1].copy()], elems=(TensorProto.UINT8,))[0]).steps
    assert reason == "Sub of uint8 numbers, which wrap around"
    given: list[NDArray[Any] | None] = [np.array([16777216], np.int32), np.array([16777217], np.int32)]
    (reason,) = program_of(one("Equal", given, fixed=(1,), elems=(BOOL,))[0]).steps
    assert reason == "Equal with integers beyond 16,777,216, which 32-bit floats round"
    check_alike(*one("Add", [np.arange(6), np.array(1000)], fixed=(1,), elems=(INT64,)))


def test_integers_are_not_divided() -> None:
    a, b = (np.arange(1, 7, dtype=np.int64).reshape(2, 3) for _ in range(2))
    (reason,) = program_of(one("Div", [a, b], elems=(INT64,))[0]).steps
    assert reason == "Div of integers, which a GPU rounds in its own way"


# Products.


@pytest.mark.parametrize("turn_a", [0, 1])
@pytest.mark.parametrize("turn_b", [0, 1])
@pytest.mark.parametrize("addend", [None, (5,), (1, 5), (1,), (), (3, 5), (3, 1)])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_gemm(turn_a: int, turn_b: int, addend: tuple[int, ...] | None, alpha: float) -> None:
    a, b = _numbers(*((4, 3) if turn_a else (3, 4))), _numbers(*((5, 4) if turn_b else (4, 5)), seed=1)
    c = None if addend is None else _numbers(*addend, seed=2)
    model, feeds = one("Gemm", [a, b, c], fixed=(1, 2), transA=turn_a, transB=turn_b, alpha=alpha, beta=0.25)
    ((step,),) = check_alike(model, feeds)
    rows = not turn_a and addend in (None, (5,), (1, 5), (1,), ())
    assert isinstance(step, FullyConnected if rows else MatMul)


def test_weights_of_a_product_are_the_models_own() -> None:
    a, b = _numbers(3, 4), _numbers(5, 4, seed=1)
    ((step,),) = check_alike(*one("Gemm", [a, b], fixed=(1,), transB=1))
    assert isinstance(step, FullyConnected)
    assert not step.weights.flags.owndata  # the bytes of the file


def test_products_of_two_activations() -> None:
    check_alike(*one("Gemm", [_numbers(3, 4), _numbers(4, 5, seed=1)], transA=0, alpha=2.0))
    reason = program_of(one("Gemm", [_numbers(3, 4), _numbers(4, 5), _numbers(5)])[0]).steps[0]
    assert reason == "Gemm with addends that are computed"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((6, 2, 3, 4), (2, 4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((4,), (4,)),
    ],
)
@pytest.mark.parametrize("fixed", [(), (1,), (0,)])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], fixed: Sequence[int]) -> None:
    check_alike(*one("MatMul", [_numbers(*a), _numbers(*b, seed=1)], fixed=fixed))


@pytest.mark.parametrize("turn_a", [0, 1])
@pytest.mark.parametrize("turn_b", [0, 1])
@pytest.mark.parametrize("fixed", [(), (1,)])
def test_fused_matmul(turn_a: int, turn_b: int, fixed: Sequence[int]) -> None:
    a, b = _numbers(2, *((4, 3) if turn_a else (3, 4))), _numbers(*((5, 4) if turn_b else (4, 5)), seed=1)
    inputs: list[NDArray[Any] | None] = [a, b]
    about = {"alpha": 0.3, "transA": turn_a, "transB": turn_b}
    check_alike(*one("FusedMatMul", inputs, fixed=fixed, domain="com.microsoft", **about))  # type: ignore[arg-type]


def test_fused_gemm() -> None:
    a, b, c = _numbers(3, 4), _numbers(4, 5, seed=1), _numbers(5, seed=2)
    for name, about in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2})):
        more: dict[str, Any] = {"activation": name, **about}
        model, feeds = one("FusedGemm", [a, b, c], fixed=(1, 2), domain="com.microsoft", **more)
        check_alike(model, feeds)


def test_constants_of_nodes() -> None:
    """Values of Constant nodes are read as initializers are."""
    nodes = [
        helper.make_node("Constant", [], ["low"], value_float=-0.5),
        helper.make_node("Constant", [], ["high"], value=helper.make_tensor("", TensorProto.FLOAT, (), [0.5])),
        helper.make_node("Clip", ["x", "low", "high"], ["y"]),
        helper.make_node("Constant", [], ["w"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Mul", ["y", "w"], ["z"]),
    ]
    x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3)) for n in "xz")
    graph = helper.make_graph(nodes, "g", [x], [z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check_alike(model, {"x": _numbers(2, 3)})
