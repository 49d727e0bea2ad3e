"""Kernels that make one number of many, against the oracle; resizes also against ONNX Runtime and LiteRT's formulas."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pytest

from edgemem.model.tensor_ops import ArgMax, Function, LocalResponse, Normalization, Reduce, Resize, Softmax
from edgemem.runtime.webgpu.lowering import Lowering, lower
from edgemem.runtime.webgpu.lowering.lines import share
from tests.oracle.tensor_ops import evaluate
from tests.tflite_operators import Input, build
from tests.webgpu import compute
from tests.webgpu_checks import agree, kernels, numbers

if TYPE_CHECKING:
    from edgemem.model.graph import Layout

LAYOUTS: tuple[Layout, ...] = ("nchw", "nhwc")
SHAPES = [(7,), (5, 6), (3, 5, 6), (2, 3, 5, 6), (2, 3, 2, 2, 5), (2, 3, 2, 3, 2, 5)]


Kind = Literal["mean", "sum", "max", "min", "prod", "l2", "sum_square"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], *, keeps: bool) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keeps or a not in axes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions_along_all_axes(shape: tuple[int, ...], layout: Layout, keeps: bool) -> None:
    x = numbers(*shape)
    rank = len(shape)
    some = [axes for count in range(1, rank + 1) for axes in combinations(range(rank), count)]
    for number, axes in enumerate(some[:: 1 if rank < 5 else 5]):
        ends = _reduced(shape, axes, keeps=keeps)
        op = Reduce(kind=KINDS[number % len(KINDS)], input=0, output=1, axes=axes)
        found, expected = compute(op, {0: x}, ends, layout=layout), evaluate(op, {0: x}, ends, layout)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("axes", "layout"), [((1, 2), "nhwc"), ((3,), "nhwc"), ((0, 2, 3), "nchw"), ((1,), "nchw"), ((2,), "nchw")]
)
def test_reductions_in_all_storages(axes: tuple[int, ...], layout: Layout, kind: Kind) -> None:
    shape = (2, 9, 5, 6)
    op = Reduce(kind=kind, input=0, output=1, axes=axes)
    agree(op, {0: numbers(*shape)}, _reduced(shape, axes, keeps=False), layout, half=5e-3)


@pytest.mark.parametrize("axes", [(1,), (0,)])
def test_what_is_no_number_stays_so(axes: tuple[int, ...]) -> None:
    x = numbers(5, 33)
    x[3, 30] = np.nan
    for kind in KINDS:
        op = Reduce(kind=kind, input=0, output=1, axes=axes)
        found = compute(op, {0: x}, _reduced(x.shape, axes, keeps=False))
        np.testing.assert_array_equal(np.isnan(found), np.arange(len(found)) == (3 if axes == (1,) else 30), kind)
    found = compute(Softmax(input=0, output=1, axis=axes[0]), {0: x}, x.shape)
    expected = np.broadcast_to(np.isnan(x.sum(axes, keepdims=True)), x.shape)
    np.testing.assert_array_equal(np.isnan(found), expected)


@pytest.mark.parametrize("axes", [(1, 2), (1, 2, 3)])
def test_a_mean_of_many_numbers(axes: tuple[int, ...]) -> None:
    x = 1000 + numbers(2, 61, 67, 6)
    op = Reduce(kind="mean", input=0, output=1, axes=axes)
    ends = _reduced(x.shape, axes, keeps=True)
    np.testing.assert_allclose(compute(op, {0: x}, ends), x.astype(np.float64).mean(axes, keepdims=True), rtol=1e-6)


def test_invocations_that_work_on_one_group() -> None:
    """A power of two, with four steps for each invocation; one where there are many groups."""
    assert [share(10, steps) for steps in (1, 7, 8, 16, 100, 256, 10000)] == [1, 1, 2, 4, 16, 64, 64]
    assert [share(groups, 10000) for groups in (1, 1024, 1025, 12544, 65536, 10**6)] == [64, 64, 32, 4, 1, 1]


@pytest.mark.parametrize("shape", [(3, 8), (5, 33), (2, 100), (1, 517), (300, 40)], ids=str)
@pytest.mark.parametrize("rows", [False, True])
def test_groups_that_share_a_workgroup(shape: tuple[int, int], rows: bool) -> None:
    """The channels of a matrix, or its rows' texels, are 2 to 130 steps, for which 1 to 32 invocations work."""
    x = numbers(*(shape if rows else shape[::-1]))
    axis = 1 if rows else 0
    for op in (
        Softmax(input=0, output=1, axis=axis),
        Normalization(input=0, output=1, axes=(axis,), epsilon=1e-3),
        Reduce(kind="mean", input=0, output=1, axes=(axis,)),
    ):
        ends = x.shape if not isinstance(op, Reduce) else (x.shape[1 - axis],)
        found, expected = compute(op, {0: x}, ends), evaluate(op, {0: x}, ends, "nhwc")
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_along_each_axis(shape: tuple[int, ...], layout: Layout, is_log: bool) -> None:
    x = numbers(*shape) * 4
    for axis in range(len(shape)):
        op = Softmax(input=0, output=1, axis=axis, beta=1.5, is_log=is_log)
        found, expected = compute(op, {0: x}, shape, layout=layout), evaluate(op, {0: x}, shape, layout)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [1, 2])
def test_softmax_of_long_lines(axis: int) -> None:
    x = numbers(3, 150, 150) * 16
    x[0, 3, 4] = -np.inf  # as masks of attention have
    agree(Softmax(input=0, output=1, axis=axis), {0: x}, x.shape, half=4e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("is_min", [False, True])
@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_indices_of_the_largest(shape: tuple[int, ...], is_min: bool, last: bool, layout: Layout) -> None:
    x = np.round(numbers(*shape) * 2)  # with equal numbers
    for axis in range(len(shape)):
        op = ArgMax(input=0, output=1, axis=axis, is_min=is_min, last=last)
        ends = _reduced(shape, (axis,), keeps=axis % 2 == 0)
        found, expected = compute(op, {0: x}, ends, layout=layout), evaluate(op, {0: x}, ends, layout)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axes", [(), (1,), (3,), (2, 3), (1, 2), (0, 2, 3), (1, 2, 3)], ids=str)
def test_normalizations(axes: tuple[int, ...], layout: Layout) -> None:
    shape = (2, 6, 7, 5)
    scale = numbers(*(n if a in (axes or (1,)) else 1 for a, n in enumerate(shape)), seed=1)
    shift = numbers(1, shape[1], 1, 1, seed=2)
    op = Normalization(
        input=0, output=1, axes=axes, scale=scale, shift=shift, epsilon=0.01, function=Function("leaky_relu", (0.1,))
    )
    assert kernels(op, {0: shape, 1: shape}, layout) == ["normalization" if axes else "scale"]
    agree(op, {0: numbers(*shape) + 3}, shape, layout, half=0.02)


@pytest.mark.parametrize("is_l2", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_normalizations_of_all_ranks(shape: tuple[int, ...], is_l2: bool) -> None:
    x = numbers(*shape)
    rank = len(shape)
    for axes in ((rank - 1,), tuple(range(1, rank)), (0,), (rank // 2,)):
        if axes:
            scale = numbers(*(n if a in axes else 1 for a, n in enumerate(shape)), seed=1)
            op = Normalization(input=0, output=1, axes=axes, scale=scale, epsilon=1e-3, is_l2=is_l2)
            found, expected = compute(op, {0: x}, shape), evaluate(op, {0: x}, shape, "nhwc")
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 2), (1, 2), (5, 0), (0, 40)])
def test_local_responses(before: int, after: int, layout: Layout) -> None:
    op = LocalResponse(input=0, output=1, before=before, after=after, alpha=0.3, beta=0.75, bias=1.5)
    agree(op, {0: numbers(2, 9, 3, 10)}, (2, 9, 3, 10), layout)


COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel")


@pytest.mark.parametrize("sizes", [((5, 7), (10, 21)), ((8, 6), (4, 3)), ((4, 5), (1, 9)), ((6, 1), (9, 4))], ids=str)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resizes(mode: str, coordinates: str, sizes: tuple[tuple[int, int], tuple[int, int]]) -> None:

    for number, rounding in enumerate(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")):
        op = Resize(mode=mode, input=0, output=1, coordinates=coordinates, rounding=rounding)  # type: ignore[arg-type]
        layout = LAYOUTS[number % 2]
        shapes = [(2, 6, *size) if layout == "nchw" else (2, *size, 6) for size in sizes]
        x = numbers(*shapes[0])
        if rounding == "floor":
            agree(op, {0: x}, shapes[1], layout)
        elif mode == "nearest":
            found, expected = compute(op, {0: x}, shapes[1], layout=layout), evaluate(op, {0: x}, shapes[1], layout)
            np.testing.assert_array_equal(found, expected)


def _rows(op: Resize, size: int, size_out: int) -> np.ndarray:
    """The rows of the input that a resize with `nearest` takes."""
    context = Lowering({0: (1, size, 1, 1), 1: (1, size_out, 1, 1)}, "nhwc")
    return lower(op, context)[0].weights[0][:, 0].astype(int)


@pytest.mark.parametrize(
    ("coordinates", "rounding"),
    [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("half_pixel", "ceil"),
        ("pytorch_half_pixel", "floor"),
        ("align_corners", "round_prefer_ceil"),
    ],
)
def test_nearest_rows_are_those_of_onnx_runtime(coordinates: str, rounding: str) -> None:
    ort = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    graph = helper.make_graph(
        [node],
        "rows",
        [helper.make_tensor_value_info("x", real, [1, 1, "n", 1]), helper.make_tensor_value_info("scales", real, [4])],
        [helper.make_tensor_value_info("y", real, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in (1, 2, 3, 6, 7, 13, 14, 20, 31):
        for size_out in (1, 2, 4, 9, 14, 19, 26, 41, 64):
            scale = np.float32(size_out) / np.float32(size)
            x = np.arange(size, dtype=np.float32).reshape(1, 1, size, 1)
            expected = session.run(None, {"x": x, "scales": np.array([1, 1, scale, 1], np.float32)})[0].ravel()
            if len(expected) != size_out:  # the product of size and scale is a little less
                continue
            op = Resize(
                mode="nearest",
                input=0,
                output=1,
                coordinates=coordinates,  # type: ignore[arg-type]
                rounding=rounding,  # type: ignore[arg-type]
                scale=(1 / float(scale), 1.0),
            )
            np.testing.assert_array_equal(_rows(op, size, len(expected)), expected, f"{size} to {size_out}")


@pytest.mark.parametrize("option", ["", "alignCorners", "halfPixelCenters"])
def test_nearest_rows_are_those_of_litert(option: str) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    coordinates, rounding = {
        "": ("asymmetric", "floor"),
        "alignCorners": ("align_corners", "round_prefer_ceil"),
        "halfPixelCenters": ("tf_half_pixel", "floor"),
    }[option]
    for size in (1, 2, 3, 6, 7, 13, 14, 31):
        for size_out in (1, 2, 4, 9, 14, 41, 47, 82):
            x = Input((1, size, 1, 1))
            options = ("ResizeNearestNeighborOptions", {option: True} if option else {})
            data = build(
                "RESIZE_NEAREST_NEIGHBOR",
                [x, Input.of([size_out, 1], "int32")],
                [((1, size_out, 1, 1), "float32")],
                options,
            )
            runner = interpreter.Interpreter(model_content=data)
            runner.allocate_tensors()
            runner.set_tensor(0, np.arange(size, dtype=np.float32).reshape(1, size, 1, 1))
            runner.invoke()
            expected = runner.get_tensor(runner.get_output_details()[0]["index"]).ravel()
            op = Resize(mode="nearest", input=0, output=1, coordinates=coordinates, rounding=rounding)  # type: ignore[arg-type]
            np.testing.assert_array_equal(_rows(op, size, size_out), expected, f"{size} to {size_out}")
