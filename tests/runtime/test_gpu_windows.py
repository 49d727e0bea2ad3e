"""GPU kernels with windows and products, against NumPy: convolutions, pools, fully connected layers, matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Convolution, FullyConnected, Function, MatMul, Pool, TransposedConvolution
from edgemem.runtime.webgpu.lowering import Lowering, blocks, lower
from edgemem.runtime.webgpu.lowering.blocks import Tiling
from edgemem.runtime.webgpu.lowering.convolution import tiled
from tests.oracle.tensor_ops import evaluate
from tests.webgpu import EVERY_REACH, FLOATS, Storage, compute, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import TensorOp
    from edgemem.runtime.webgpu.shaders import Precision

every_reach = pytest.mark.parametrize(("storage", "precision"), EVERY_REACH)
RELU = Function("relu")


def random(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(
    op: TensorOp,
    feeds: dict[int, NDArray[np.float32]],
    shape: tuple[int, ...],
    *,
    layout: Layout = "nhwc",
    constants: dict[int, NDArray[np.float32]] | None = None,
    storage: Storage = "buffer",
    precision: Precision = "fp32",
    in_place: int = -1,
) -> None:
    """The GPU's output is that of the oracle, for inputs as they are stored."""
    rounded = {i: v.astype(FLOATS[precision]).astype(np.float32) for i, v in feeds.items()}
    expected = evaluate(op, {**rounded, **(constants or {})}, shape, layout)
    found = compute(
        op,
        rounded,
        shape,
        layout=layout,
        constants=constants,
        storage=storage,
        precision=precision,
        in_place=in_place,
    )
    spread = float(np.std(expected)) or 1.0
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= (3e-5 if precision == "fp32" else 4e-3) * spread * 2


def rotated(count: int) -> list[tuple[int, Storage, Precision]]:
    """Each of `count` cases in one storage, the first one in all: drivers take a second to compile some kernels."""
    first = [(0, storage, precision) for storage, precision in EVERY_REACH]
    return first + [(k, *EVERY_REACH[k % len(EVERY_REACH)]) for k in range(1, count)]


# channels in and out, kernel, stride, dilation, pads above and left, below and right, groups
CONVOLUTIONS: dict[
    str, tuple[int, int, tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int], int, int]
] = {
    "1x1": (10, 9, (1, 1), (1, 1), (1, 1), (0, 0), 0, 1),
    "1x1, many": (32, 40, (1, 1), (1, 1), (1, 1), (0, 0), 0, 1),
    "3x3 stride 2, same": (3, 8, (3, 3), (2, 2), (1, 1), (0, 0), 1, 1),
    "dilated": (5, 7, (3, 3), (1, 1), (2, 3), (2, 3), 3, 1),
    "1x5, strides differ": (8, 6, (1, 5), (2, 1), (1, 1), (0, 2), 2, 1),
    "5x2": (4, 4, (5, 2), (1, 2), (1, 1), (2, 1), 2, 1),
    "two groups of 4": (8, 16, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2),
    "three groups of 3 and 2": (9, 6, (3, 3), (1, 1), (1, 1), (1, 1), 1, 3),
    "groups of 24 and 16": (48, 32, (1, 1), (1, 1), (1, 1), (0, 0), 0, 2),
    "depthwise": (10, 10, (3, 3), (1, 1), (1, 1), (1, 1), 1, 10),
    "depthwise stride 2": (6, 6, (3, 3), (2, 2), (1, 1), (0, 0), 1, 6),
    "depthwise dilated": (5, 5, (3, 3), (1, 1), (2, 2), (2, 2), 2, 5),
    "depthwise dilated stride 2": (5, 5, (3, 3), (2, 2), (2, 2), (2, 2), 2, 5),
    "depthwise 5x5 stride 3": (7, 7, (5, 5), (3, 3), (1, 1), (2, 2), 2, 7),
    "depthwise of 27 columns": (2, 2, (1, 27), (1, 1), (1, 1), (0, 13), 13, 2),
    "multiplier 2": (6, 12, (3, 3), (1, 1), (1, 1), (1, 1), 1, 6),
    "multiplier 3": (3, 9, (3, 3), (2, 2), (1, 1), (0, 0), 1, 3),
    "multiplier 8 of one channel": (1, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1),
}


def convolution(name: str, layout: Layout, **changes: Any) -> tuple[Convolution, NDArray[np.float32], tuple[int, ...]]:
    ins, outs, kernel, stride, dilation, pads, behind, groups = CONVOLUTIONS[name]
    size = (9, 11)
    out = [
        (size[d] + pads[d] + behind - (kernel[d] - 1) * dilation[d] - 1) // stride[d] + 1
        if kernel[d] > 1
        else -(-size[d] // stride[d])
        for d in (0, 1)
    ]
    x = random(1, 2, ins, *size) if layout == "nchw" else random(1, 2, *size, ins)
    shape = (2, outs, *out) if layout == "nchw" else (2, *out, outs)
    op = Convolution(
        input=0,
        output=1,
        weights=random(2, outs, *kernel, ins // groups),
        bias=random(3, outs),
        stride=stride,
        dilation=dilation,
        pads=pads,
        groups=groups,
        **changes,
    )
    return op, x, shape


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_all_kinds(name: str, layout: Layout) -> None:
    op, x, shape = convolution(name, layout)
    check(op, {0: x}, shape, layout=layout)


STORED = ("3x3 stride 2, same", "depthwise", "1x1", "three groups of 3 and 2", "depthwise dilated")


@pytest.mark.parametrize(("case", "storage", "precision"), rotated(len(STORED)))
def test_convolutions_in_every_storage(case: int, storage: Storage, precision: Precision) -> None:
    op, x, shape = convolution(STORED[case], "nchw", function=Function("clip", (0.0, 1.5)))
    check(op, {0: x}, shape, layout="nchw", storage=storage, precision=precision)


@pytest.mark.parametrize(("case", "storage", "precision"), rotated(2))
def test_a_tensor_is_added_before_the_function(case: int, storage: Storage, precision: Precision) -> None:
    op, x, shape = convolution(("depthwise", "1x1")[case], "nhwc", added=2, function=RELU)
    check(op, {0: x, 2: random(5, *shape)}, shape, storage=storage, precision=precision)


@pytest.mark.parametrize("name", ["1x1", "depthwise"])
def test_what_is_added_may_be_written_over_or_be_the_input(name: str) -> None:
    op, x, shape = convolution(name, "nhwc", added=2)
    apart = compute(op, {0: x, 2: random(5, *shape)}, shape)
    within = compute(op, {0: x, 2: random(5, *shape)}, shape, in_place=2)
    assert apart.tobytes() == within.tobytes()
    op, x, shape = convolution("depthwise", "nhwc", added=0)
    check(op, {0: x}, shape)
    with pytest.raises(UnsupportedError, match="cannot write over its input 0"):
        compute(op, {0: x}, shape, in_place=0)


def test_weights_too_large_for_a_binding_are_in_several_dispatches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_MOST_BYTES", 1 << 12)
    op, x, shape = convolution("1x1, many", "nhwc")
    connected = FullyConnected(input=0, output=1, weights=random(1, 70, 60), bias=random(2, 70))
    turned = TransposedConvolution(input=0, output=1, weights=random(2, 40, 2, 2, 32), bias=random(3, 40))
    for one, feed, out in (
        (op, x, shape),
        (connected, random(3, 5, 60), (5, 70)),
        (turned, random(1, 1, 3, 3, 32), (1, 4, 4, 40)),
    ):
        assert len(lower(one, Lowering({0: feed.shape, 1: out}, "nhwc"))) > 1
        check(one, {0: feed}, out)


def test_a_large_gpu_gets_more_workgroups() -> None:
    x, shape = random(1, 1, 14, 14, 64), (1, 14, 14, 96)
    op = Convolution(input=0, output=1, weights=random(2, 96, 1, 1, 64))
    counts = []
    for busy in (32, 1024):
        context = Lowering({0: x.shape, 1: shape}, "nhwc", busy=busy)
        dispatches = lower(op, context)
        counts.append(sum(math.prod(d.workgroups) for d in dispatches))
        found = run(dispatches, context, {0: x})[1]
        np.testing.assert_allclose(found, evaluate(op, {0: x}, shape, "nhwc"), rtol=0, atol=1e-4)
    assert counts[0] < counts[1]


def test_more_workgroups_than_a_side_of_the_grid_holds() -> None:
    x = random(1, 1, 1, 70_000, 1)
    op = Convolution(input=0, output=1, weights=random(2, 1, 1, 1, 1))
    context = Lowering({0: x.shape, 1: x.shape}, "nhwc")
    (dispatch,) = tiled(op, context, Tiling(1, 1, 1))
    assert dispatch.workgroups[1] == 2
    found = run([dispatch], context, {0: x})[1]
    assert np.array_equal(found, x * op.weights[0, 0, 0, 0])


# channels in and out, kernel, stride, dilation, pads, groups
TRANSPOSED: dict[str, tuple[int, int, tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int], int]] = {
    "2x2 stride 2": (6, 5, (2, 2), (2, 2), (1, 1), (0, 0), 1),
    "3x3 stride 2": (5, 9, (3, 3), (2, 2), (1, 1), (1, 0), 1),
    "4x4 stride 3": (4, 3, (4, 4), (3, 3), (1, 1), (1, 2), 1),
    "3x3 dilated": (3, 4, (3, 3), (1, 2), (2, 3), (2, 1), 1),
    "two groups": (6, 10, (3, 2), (2, 1), (1, 1), (0, 0), 2),
    "depthwise": (5, 5, (4, 4), (2, 2), (1, 1), (1, 1), 5),
}


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str, extra: int, layout: Layout) -> None:
    ins, outs, kernel, stride, dilation, pads, groups = TRANSPOSED[name]
    size = (4, 5)
    out = [(size[d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1 - 2 * pads[d] + extra for d in (0, 1)]
    x = random(1, 2, ins, *size) if layout == "nchw" else random(1, 2, *size, ins)
    shape = (2, outs, *out) if layout == "nchw" else (2, *out, outs)
    op = TransposedConvolution(
        input=0,
        output=1,
        weights=random(2, outs, *kernel, ins // groups),
        bias=random(3, outs) if extra else None,
        stride=stride,
        dilation=dilation,
        pads=pads,
        groups=groups,
        function=RELU,
    )
    storage, precision = EVERY_REACH[len(name) % 6]
    check(op, {0: x}, shape, layout=layout, storage=storage, precision=precision)


@every_reach
@pytest.mark.parametrize("kind", ["max", "average"])
def test_pools(kind: Any, storage: Storage, precision: Precision) -> None:
    for k, (counts, layout) in enumerate(((False, "nhwc"), (True, "nchw"))):
        shape = (2, 9, 8, 6) if layout == "nhwc" else (2, 6, 9, 8)
        out = (2, 5, 7, 6) if layout == "nhwc" else (2, 6, 5, 7)
        op = Pool(
            kind=kind,
            input=0,
            output=1,
            kernel=(3, 3),
            stride=(2, 1),
            pads=(1, 1, 1, 0),
            counts_padding=counts,
            function=Function("clip", (-0.5, 0.7)),
        )
        check(op, {0: random(k, *shape)}, out, layout=layout, storage=storage, precision=precision)  # type: ignore[arg-type]


def test_pools_of_a_rounded_up_size_and_of_negative_numbers() -> None:
    below = -1 - np.abs(random(1, 1, 6, 7, 5))
    for kind in ("max", "average"):
        op = Pool(kind=kind, input=0, output=1, kernel=(3, 2), stride=(2, 3), pads=(1, 0, 1, 1), counts_padding=True)
        check(op, {0: below}, (1, 4, 3, 5))
    op = Pool(kind="max", input=0, output=1, kernel=(2, 3), dilation=(3, 2), pads=(1, 2, 1, 2))
    check(op, {0: below}, (1, 5, 7, 5))
    op = Pool(kind="average", input=0, output=1, kernel=(6, 7))
    check(op, {0: below}, (1, 1, 1, 5))


def test_a_pool_keeps_what_is_no_number_and_minus_infinity() -> None:
    x = random(1, 1, 6, 6, 5)
    x[0, 1, 1, 2], x[0, 4, 3, 4] = np.nan, np.inf
    x[0, 2:4, 0:2, 1] = -np.inf
    op = Pool(kind="max", input=0, output=1, kernel=(2, 2), stride=(2, 2))
    for storage, precision in EVERY_REACH[:2]:
        given = x.astype(FLOATS[precision]).astype(np.float32)
        found = compute(op, {0: given}, (1, 3, 3, 5), storage=storage, precision=precision)
        expected = given.reshape(1, 3, 2, 3, 2, 5).max(axis=(2, 4))  # NumPy keeps NaN
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.isnan(found).sum() == np.isneginf(found).sum() == np.isposinf(found).sum() == 1


# shapes of the input and the output; the weights follow
CONNECTED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 100), (1, 10)),
    ((5, 19), (5, 7)),
    ((1, 4, 3, 6), (1, 9)),
    ((2, 4, 3, 5), (2, 5)),
    ((3, 8, 10), (3, 8, 6)),
    ((2, 3, 10), (6, 5)),
    ((4, 6), (2, 8)),
    ((1, 20, 12), (1, 20, 33)),
    ((7,), (3,)),
    ((2, 5, 3, 10), (2, 5, 3, 6)),
    ((2, 3, 10), (2, 1, 3, 6)),
)


@pytest.mark.parametrize(("case", "storage", "precision"), rotated(len(CONNECTED)))
def test_fully_connected(case: int, storage: Storage, precision: Precision) -> None:
    shape, out = CONNECTED[case]
    rows = int(np.prod(out[:-1]))
    weights, bias = random(1, out[-1], int(np.prod(shape)) // rows), random(2, out[-1])
    op = FullyConnected(input=0, output=1, weights=weights, bias=bias, function=RELU)
    for layout in ("nhwc", "nchw"):
        check(op, {0: random(3, *shape)}, out, layout=layout, storage=storage, precision=precision)


def test_a_dilated_window_as_large_as_the_input_reaches_beyond_it() -> None:
    op = Convolution(input=0, output=1, weights=random(2, 4, 2, 2, 3), stride=(2, 2), dilation=(2, 2))
    check(op, {0: random(1, 1, 2, 2, 3)}, (1, 1, 1, 4))


def test_a_window_of_the_whole_input() -> None:
    for layout, shape, out in (("nhwc", (2, 3, 4, 6), (2, 1, 1, 9)), ("nchw", (2, 6, 3, 4), (2, 9, 1, 1))):
        op = Convolution(input=0, output=1, weights=random(1, 9, 3, 4, 6), bias=random(2, 9))
        assert [d.kernel for d in lower(op, Lowering({0: shape, 1: out}, layout))] == ["fully_connected"]  # type: ignore[arg-type]
        check(op, {0: random(3, *shape)}, out, layout=layout)  # type: ignore[arg-type]


# a, b, transposed, layout
PRODUCTS: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[bool, bool], Layout], ...] = (
    ((5, 6), (6, 7), (False, False), ""),
    ((2, 5, 6), (2, 6, 7), (False, False), ""),
    ((2, 5, 6), (2, 7, 6), (False, True), ""),
    ((2, 6, 5), (1, 6, 7), (True, False), ""),
    ((3, 1, 5, 6), (2, 6, 7), (False, False), "nchw"),
    ((2, 6, 5, 3), (2, 6, 4, 3), (False, True), "nchw"),
    ((2, 3, 5, 6), (2, 3, 6, 7), (False, False), "nhwc"),
    ((3, 1, 9, 5), (1, 2, 6, 9), (True, True), "nhwc"),
    ((6, 5), (7, 6), (True, True), ""),
    ((2, 6, 9, 3), (1, 1, 9, 7), (True, False), "nchw"),
    ((2, 1, 2, 4, 3), (3, 1, 3, 5), (False, False), ""),
    ((6,), (6, 7), (False, False), ""),
    ((4, 6), (6,), (False, False), ""),
    ((2, 6, 5, 9), (9, 7), (False, False), "nchw"),
)


@pytest.mark.parametrize(("case", "storage", "precision"), rotated(len(PRODUCTS)))
def test_products_of_matrices(case: int, storage: Storage, precision: Precision) -> None:
    a, b, transposed, layout = PRODUCTS[case]
    left, right = random(1, *a), random(2, *b)
    x = left.swapaxes(-1, -2) if transposed[0] else left
    y = right.swapaxes(-1, -2) if transposed[1] else right
    shape = np.matmul(x, y).shape
    for k, bias in enumerate((None, random(3, shape[-1]), random(3, *shape), random(3, 1))):
        op = MatMul(
            a=0,
            b=1,
            output=2,
            transpose_a=transposed[0],
            transpose_b=transposed[1],
            alpha=0.5,
            bias=bias,
            function=RELU,
        )
        feeds, constants = {0: left, 1: right}, {}
        if (case + k) % 3:  # one of them is a constant
            constants[(case + k) % 3 - 1] = feeds.pop((case + k) % 3 - 1)
        check(op, feeds, shape, layout=layout, constants=constants, storage=storage, precision=precision)


def test_a_tensor_times_itself() -> None:
    x = random(1, 4, 4)
    op = MatMul(a=0, b=0, output=1, transpose_b=True)
    check(op, {0: x}, (4, 4))


def test_weights_that_do_not_fit_are_refused() -> None:
    op = Convolution(input=0, output=1, weights=random(1, 8, 3, 3, 5))
    with pytest.raises(UnsupportedError, match="4 channels to 8 in 1 groups with weights 8 x 3 x 3 x 5"):
        lower(op, Lowering({0: (1, 6, 6, 4), 1: (1, 6, 6, 8)}, "nhwc"))
    connected = FullyConnected(input=0, output=1, weights=random(1, 8, 7))
    with pytest.raises(UnsupportedError, match="do not fit"):
        lower(connected, Lowering({0: (1, 6), 1: (1, 8)}))
    product = MatMul(a=0, b=1, output=2)
    with pytest.raises(UnsupportedError, match="a product of matrices"):
        lower(product, Lowering({0: (2, 3), 1: (2, 3), 2: (2, 3)}))
