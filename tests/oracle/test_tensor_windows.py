"""The oracle of tensor operations that tell channels apart, against PyTorch, ONNX Runtime and SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from scipy import signal

from edgemem.model.tensor_ops import (
    Convolution,
    Function,
    LocalResponse,
    Pool,
    Resize,
    TensorOp,
    TransposedConvolution,
)
from tests.oracle.by_onnx import by_onnx, numbers
from tests.oracle.tensor_ops import evaluate, reads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.graph import Layout

LAYOUTS: tuple[Layout, ...] = ("nchw", "nhwc")


def image(x: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Batch, channels, height, width in the order of a layout."""
    return x if layout == "nchw" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def same_image(op: TensorOp, x: NDArray[np.float32], expected: NDArray[Any], added: NDArray[Any] | None = None) -> None:
    """Both layouts give the result that is expected as batch, channels, height, width."""
    for layout in LAYOUTS:
        values = {0: image(x, layout)} | ({2: image(added, layout)} if added is not None else {})
        result = evaluate(op, values, image(expected, layout).shape, layout)
        np.testing.assert_allclose(result, image(expected, layout), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 2)), ((3, 2), (2, 1))])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 2, 0, 1), (2, 0, 1, 3)])
def test_convolutions(
    groups: int, stride: tuple[int, int], dilation: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    x, weights, bias = numbers(2, 4, 9, 11), numbers(8, 4 // groups, 3, 2, seed=1), numbers(8, seed=2)
    sizes = [
        (n + before + after - (k - 1) * d - 1) // s + 1
        for n, before, after, k, d, s in zip((9, 11), pads[:2], pads[2:], (3, 2), dilation, stride, strict=True)
    ]
    shape = (2, 8, *sizes)
    given: dict[str, Any] = {"strides": stride, "dilations": dilation, "pads": pads, "group": groups}
    expected = by_onnx("Conv", shape, x, weights, bias, **given)
    op = Convolution(
        input=0,
        output=1,
        weights=weights.transpose(0, 2, 3, 1),
        bias=bias,
        stride=stride,
        dilation=dilation,
        pads=pads[:2],
        groups=groups,
    )
    same_image(op, x, expected)


def test_a_convolution_is_a_correlation_and_adds_before_its_function() -> None:
    x, weights, added = numbers(1, 1, 7, 6), numbers(1, 3, 3, 1, seed=1), numbers(1, 1, 5, 4, seed=2)
    summed = signal.correlate2d(x[0, 0], weights[0, :, :, 0], mode="valid")[None, None] + added
    op = Convolution(input=0, output=1, weights=weights, added=2, function=Function("relu"))
    same_image(op, x, np.maximum(summed, 0.0), added)
    assert reads(op) == (0, 2)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((2, 1), (2, 3))])
@pytest.mark.parametrize(("pads", "more"), [((0, 0, 0, 0), (0, 0)), ((1, 1, 0, 1), (1, 0))])
def test_transposed_convolutions(
    groups: int,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[int, int, int, int],
    more: tuple[int, int],
) -> None:
    if max(more) >= max(stride):  # ONNX Runtime refuses it
        more = (0, 0)
    x, weights, bias = numbers(2, 4, 5, 4), numbers(4, 6 // groups, 3, 4, seed=1), numbers(6, seed=2)
    sizes = [
        (n - 1) * s + (k - 1) * d + 1 - before - after + m
        for n, before, after, k, d, s, m in zip((5, 4), pads[:2], pads[2:], (3, 4), dilation, stride, more, strict=True)
    ]
    shape = (2, 6, *sizes)
    given: dict[str, Any] = {
        "strides": stride,
        "dilations": dilation,
        "pads": pads,
        "group": groups,
        "output_padding": more,
    }
    expected = by_onnx("ConvTranspose", shape, x, weights, bias, **given)
    # ONNX: [in channels, out channels / groups, height, width].
    split = weights.reshape(groups, 4 // groups, 6 // groups, 3, 4).transpose(0, 2, 3, 4, 1)
    op = TransposedConvolution(
        input=0,
        output=1,
        weights=split.reshape(6, 3, 4, 4 // groups),
        bias=bias,
        stride=stride,
        dilation=dilation,
        pads=pads[:2],
        groups=groups,
    )
    same_image(op, x, expected)


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 1, 1), (0, 1, 1, 0)])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((2, 2), (2, 1))])
@pytest.mark.parametrize("kind", ["max", "average", "counted"])
def test_pools(
    kind: str,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[int, int, int, int],
    ceil_mode: int,
) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(2, 3, 8, 9)
    sizes = []
    for n, before, after, k, d, s in zip((8, 9), pads[:2], pads[2:], (3, 2), dilation, stride, strict=True):
        span = n + before + after - (k - 1) * d - 1
        size = span // s + 1
        if ceil_mode and span % s and size * s < n + before:
            size += 1
        sizes.append(size)
    given: dict[str, Any] = {"kernel_shape": (3, 2), "strides": stride, "dilations": dilation, "pads": pads}
    op = Pool(
        kind="max" if kind == "max" else "average",
        input=0,
        output=1,
        kernel=(3, 2),
        stride=stride,
        dilation=dilation,
        pads=pads,
        counts_padding=kind == "counted",
    )
    if kind == "max":
        same_image(op, x, by_onnx("MaxPool", (2, 3, *sizes), x, ceil_mode=ceil_mode, **given))
    elif dilation == (1, 1) and pads[:2] == pads[2:]:
        pooled = torch.nn.functional.avg_pool2d(
            torch.from_numpy(x), (3, 2), stride, pads[:2], bool(ceil_mode), kind == "counted"
        )
        same_image(op, x, pooled.numpy())
    elif not ceil_mode:
        given["count_include_pad"] = int(kind == "counted")
        same_image(op, x, by_onnx("AveragePool", (2, 3, *sizes), x, **given))


@pytest.mark.parametrize(("kind", "name"), [("max", "MaxPool"), ("average", "AveragePool")])
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
def test_pools_of_uneven_padding(kind: Literal["max", "average"], name: str, padding: str) -> None:
    x = numbers(1, 2, 6, 6)
    expected = by_onnx(name, (1, 2, 3, 3), x, kernel_shape=(3, 3), strides=(2, 2), auto_pad=padding)
    pads = (0, 0, 1, 1) if padding == "SAME_UPPER" else (1, 1, 0, 0)
    same_image(Pool(kind=kind, input=0, output=1, kernel=(3, 3), stride=(2, 2), pads=pads), x, expected)


@pytest.mark.parametrize("sizes", [(8, 10), (3, 4), (1, 7), (4, 5), (13, 2)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("mode", ["linear", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_resizes(mode: str, coordinates: Any, sizes: tuple[int, int]) -> None:
    x = numbers(1, 2, 4, 5)
    shape = (1, 2, *sizes)
    given: dict[str, Any] = {"coordinate_transformation_mode": coordinates}
    given |= {"mode": "linear"} if mode == "linear" else {"mode": "nearest", "nearest_mode": mode}
    expected = by_onnx("Resize", shape, x, None, None, np.array(shape, np.int64), **given)
    if mode == "linear":
        op = Resize(mode="linear", input=0, output=1, coordinates=coordinates)
    else:
        rounding: Any = mode
        op = Resize(mode="nearest", input=0, output=1, coordinates=coordinates, rounding=rounding)
    same_image(op, x, expected)


@pytest.mark.parametrize("align", [False, True])
def test_resizes_are_those_of_torch(align: bool) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(2, 3, 5, 7)
    expected = torch.nn.functional.interpolate(torch.from_numpy(x), (9, 4), mode="bilinear", align_corners=align)
    coordinates: Any = "align_corners" if align else "half_pixel"
    same_image(Resize(mode="linear", input=0, output=1, coordinates=coordinates), x, expected.numpy())


def test_a_resize_of_a_given_scale() -> None:
    x = numbers(1, 1, 5, 5)
    scales = np.array([1, 1, 1.5, 0.7], np.float32)
    shape = (1, 1, 7, 3)
    given = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    expected = by_onnx("Resize", shape, x, None, scales, **given)
    op = Resize(mode="linear", input=0, output=1, coordinates="half_pixel", scale=(1 / 1.5, float(1 / scales[3])))
    same_image(op, x, expected)
    op = Resize(mode="linear", input=0, output=1, coordinates="half_pixel")
    assert np.abs(evaluate(op, {0: x}, shape, "nchw") - expected).max() > 1e-2


def test_tensorflow_s_nearest_takes_the_pixel_under_the_centre() -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5, 1)
    op = Resize(mode="nearest", input=0, output=1, coordinates="tf_half_pixel")
    assert evaluate(op, {0: x}, (1, 1, 2, 1), "nhwc").ravel().tolist() == [1.0, 3.0]


@pytest.mark.parametrize("size", [3, 5])
def test_local_response(size: int) -> None:
    x = numbers(1, 7, 2, 3)
    expected = by_onnx("LRN", x.shape, x, size=size, alpha=0.3, beta=0.6, bias=1.5)
    half = (size - 1) // 2
    op = LocalResponse(input=0, output=1, before=half, after=half, alpha=0.3 / size, beta=0.6, bias=1.5)
    same_image(op, x, expected)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "floor", "ceil"])
@pytest.mark.parametrize("size", [3, 6, 7, 9, 10])
def test_a_scale_in_floats_is_a_fraction(size: int, rounding: Any) -> None:
    x = numbers(1, 1, 5, 5)
    scale = np.float32(size) / np.float32(5)
    shape = (1, 1, size, size)
    scales = np.array([1, 1, scale, scale], np.float32)
    given = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    expected = by_onnx("Resize", shape, x, None, scales, **given)
    over = (float(1 / scale),) * 2
    op = Resize(mode="nearest", input=0, output=1, coordinates="asymmetric", rounding=rounding, scale=over)
    same_image(op, x, expected)
