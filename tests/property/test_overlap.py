"""Distances against the kernels' own order of reads and writes, simulated byte by byte."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.overlap import distance
from tests.oracle import kernel_order as order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.model.graph import Attribute

SMALL = st.integers(1, 5)
WIDTHS = {"float32": 4, "int8": 1, "int16": 2}
DTYPES = st.sampled_from(("float32", "int8"))


def check(
    profile: str,
    kind: str,
    shapes: Sequence[tuple[int, ...]],
    made: tuple[int, ...],
    events: Iterator[order.Event],
    attributes: Mapping[str, Attribute] | None = None,
    *,
    dtypes: tuple[str, str] = ("float32", "float32"),
    position: int = 0,
    constants: int = 0,
    is_exact: bool = True,
) -> None:
    """The distance is safe, and so is any greater one; one byte less is not, unless the rule has slack."""
    read, written = dtypes
    tensors = [
        *(Tensor(f"x{k}", read, shape) for k, shape in enumerate(shapes[: len(shapes) - constants])),
        *(Tensor(f"w{k}", read, s, "constant") for k, s in enumerate(shapes[len(shapes) - constants :])),
        Tensor("y", written, made),
    ]
    count = len(shapes)
    op = Op(kind, kind, tuple(range(count)), (count,), attributes=attributes or {})
    graph = Graph("g", tuple(tensors), (op,), tuple(range(count - constants)), (count,))
    found = distance(profile, graph, op, position)
    listed = list(events)
    widths, size = (WIDTHS[read], WIDTHS[written]), tensors[position].size

    def safe(at: int) -> bool:
        return order.is_safe(listed, at, *widths, size)

    made_size = tensors[-1].size
    least = made_size if found is None else found
    for more in {0, 1, widths[0], 7, made_size - least}:
        assert safe(min(least + more, made_size)), (found, more)
    if is_exact and least > -size:
        assert not safe(least - 1), found


@st.composite
def windows(draw: st.DrawFn, *, batch: bool = True) -> tuple[tuple[int, ...], tuple[int, int], list[tuple[int, ...]]]:
    """The input's shape, the height and width of the output, and kernel, stride, dilation and pads."""
    shape = (draw(st.integers(1, 2)) if batch else 1, draw(SMALL), draw(SMALL), draw(st.integers(1, 4)))
    kernel = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dilation = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    pads = tuple(draw(st.integers(0, (kernel[k % 2] - 1) * dilation[k % 2])) for k in range(4))
    made = []
    for k in range(2):
        reach = (kernel[k] - 1) * dilation[k] + 1
        made.append(max((shape[1 + k] + pads[k] + pads[k + 2] - reach) // stride[k] + 1, 1))
    return shape, (made[0], made[1]), [kernel, stride, dilation, pads]


def parameters(window: Sequence[tuple[int, ...]]) -> dict[str, Attribute]:
    return dict(zip(("kernel", "stride", "dilation", "pads"), window, strict=True))


@given(windows(), st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), DTYPES)
def test_convolutions(
    case: tuple[tuple[int, ...], tuple[int, int], list[tuple[int, ...]]], groups: int, fan: int, depth: int, dtype: str
) -> None:
    (n, h, w, _), (oh, ow), window = case
    shape, made = (n, h, w, groups * depth), (n, oh, ow, groups * fan)
    weights = (groups * fan, *window[0], depth)
    events = order.conv(shape, made, groups, window)
    shapes, attributes, dtypes = [shape, weights], parameters(window), (dtype, dtype)
    check("tflm-reference", "CONV_2D", shapes, made, events, attributes, dtypes=dtypes, constants=1)


@given(windows(), st.integers(1, 5))
def test_convolutions_of_cmsis_nn(
    case: tuple[tuple[int, ...], tuple[int, int], list[tuple[int, ...]]], channels: int
) -> None:
    shape, (oh, ow), window = case
    made, weights = (shape[0], oh, ow, channels), (channels, *window[0], shape[3])
    pointwise = window[0] == (1, 1) and window[2] == (1, 1) and not any(window[3])
    for profile, columns in (("cmsis-nn-dsp", 2), ("cmsis-nn-mve", 4)):
        if pointwise and profile == "cmsis-nn-mve":
            events = order.conv_blocked(shape, made, (window[1][0], window[1][1]))
        else:
            events = order.conv_im2col(shape, made, columns, window)
        dtypes = "int8", "int8"
        args = [shape, weights], made, events, parameters(window)
        check(profile, "CONV_2D", *args, dtypes=dtypes, constants=1, is_exact=False)


@given(windows(), st.integers(1, 3), DTYPES, st.sampled_from(("tflm-reference", "cmsis-nn-dsp", "cmsis-nn-mve")))
def test_depthwise_convolutions(
    case: tuple[tuple[int, ...], tuple[int, int], list[tuple[int, ...]]], multiplier: int, dtype: str, profile: str
) -> None:
    shape, (oh, ow), window = case
    channels = shape[3] * multiplier
    made, weights, dtypes = (shape[0], oh, ow, channels), (1, *window[0], channels), (dtype, dtype)
    events = order.depthwise(shape, made, window)
    check(profile, "DEPTHWISE_CONV_2D", [shape, weights], made, events, parameters(window), dtypes=dtypes, constants=1)


@given(windows(), st.integers(1, 12), st.booleans())
def test_depthwise_convolutions_of_one_channel_with_vectors(
    case: tuple[tuple[int, ...], tuple[int, int], list[tuple[int, ...]]], channels: int, pointwise: bool
) -> None:
    """CMSIS-NN takes the kernels of CONV_2D from 2 output channels on, or, built by armclang, from 9 on."""
    (n, h, w, _), (oh, ow), window = case
    if pointwise:
        (oh, ow), window = (-(-h // window[1][0]), -(-w // window[1][1])), [(1, 1), window[1], (1, 1), (0, 0, 0, 0)]
    shape, made, weights = (n, h, w, 1), (n, oh, ow, channels), (1, *window[0], channels)
    orders = [order.depthwise(shape, made, window)] if channels <= 8 else []
    if channels > 1:
        pointwise = window[0] == (1, 1) and window[2] == (1, 1) and not any(window[3])
        stride = window[1][0], window[1][1]
        blocks = order.conv_blocked(shape, made, stride) if pointwise else order.conv_im2col(shape, made, 4, window)
        orders.append(blocks)
    for events in orders:
        args = [shape, weights], made, events, parameters(window)
        check("cmsis-nn-mve", "DEPTHWISE_CONV_2D", *args, dtypes=("int8", "int8"), constants=1, is_exact=False)


@pytest.mark.full
@given(windows(), DTYPES)
def test_poolings(case: tuple[tuple[int, ...], tuple[int, int], list[tuple[int, ...]]], dtype: str) -> None:
    shape, (oh, ow), window = case
    window = [*window[:2], (1, 1), tuple(min(p, window[0][k % 2] - 1) for k, p in enumerate(window[3]))]
    made, dtypes = (shape[0], oh, ow, shape[3]), (dtype, dtype)
    for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        args = [shape], made, order.depthwise(shape, made, window), parameters(window)
        check("tflm-reference", kind, *args, dtypes=dtypes)
    args = [shape], made, order.pool_in_place(shape, made, window), parameters(window)
    check("cmsis-nn-dsp", "MAX_POOL_2D", *args, dtypes=("int8", "int8"), is_exact=False)


@given(SMALL, SMALL, SMALL, DTYPES)
def test_fully_connected(rows: int, depth: int, channels: int, dtype: str) -> None:
    shapes = [(rows, depth), (channels, depth)]
    events, dtypes = order.fully_connected(rows, depth, channels), (dtype, dtype)
    check("tflm-reference", "FULLY_CONNECTED", shapes, (rows, channels), events, dtypes=dtypes, constants=1)


@pytest.mark.full
@given(st.lists(SMALL, min_size=1, max_size=4), DTYPES)
def test_elementwise_operators(dims: list[int], dtype: str) -> None:
    shape = tuple(dims)
    for kind, shapes, position in (
        ("RELU", [shape], 0),
        ("ADD", [shape] * 2, 1),
        ("MUL", [shape, (1,)], 0),
        ("LOGICAL_OR", [shape] * 2, 0),
    ):
        is_exact = prod(shape) > 1
        events = order.elementwise(prod(shape))
        check(
            "tflm-reference", kind, shapes, shape, events, dtypes=(dtype, dtype), position=position, is_exact=is_exact
        )


@given(st.integers(1, 40), st.sampled_from([("float32", "int8"), ("int8", "float32"), ("int8", "int16")]))
def test_conversions(count: int, dtypes: tuple[str, str]) -> None:
    kind = "DEQUANTIZE" if dtypes[1] == "float32" else "QUANTIZE"
    check(
        "tflm-reference",
        kind,
        [(count,)],
        (count,),
        order.elementwise(count),
        dtypes=dtypes,
        is_exact=count > 1,
    )


@pytest.mark.full
@given(st.lists(st.tuples(SMALL, st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4), DTYPES)
def test_paddings(dims: list[tuple[int, int, int]], dtype: str) -> None:
    shape, paddings = tuple(d for d, _, _ in dims), tuple(p for _, a, b in dims for p in (a, b))
    made = tuple(sum(dim) for dim in dims)
    shapes, attributes = [shape, (len(shape), 2)], {"paddings": paddings}
    is_exact = prod(shape) > 1 or made[0] > 1
    events = order.pad(shape, paddings)
    args = shapes, made, events, attributes
    check("tflm-reference", "PAD", *args, dtypes=(dtype, dtype), constants=1, is_exact=prod(shape) > 1 and is_exact)
    if len(shape) == 4:
        args = shapes, made, order.pad_rows(shape, paddings), attributes
        check("cmsis-nn-mve", "PAD", *args, dtypes=("int8", "int8"), constants=1, is_exact=False)


@pytest.mark.full
@given(st.lists(st.tuples(SMALL, st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4), DTYPES)
def test_slices(dims: list[tuple[int, int, int]], dtype: str) -> None:
    size, begin = tuple(d for d, _, _ in dims), tuple(a for _, a, _ in dims)
    shape = tuple(sum(dim) for dim in dims)
    attributes: dict[str, Attribute] = {"begin": begin, "size": size}
    shapes, events = [shape, (len(shape),), (len(shape),)], order.cut(shape, begin, size)
    check("tflm-reference", "SLICE", shapes, size, events, attributes, dtypes=(dtype, dtype), constants=2)


@pytest.mark.full
@given(st.data(), st.lists(st.integers(1, 3), min_size=2, max_size=4), DTYPES)
def test_concatenations(data: st.DataObject, dims: list[int], dtype: str) -> None:
    axis = data.draw(st.integers(0, len(dims) - 1))
    extents = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    shapes = [(*dims[:axis], extent, *dims[axis + 1 :]) for extent in extents]
    made = (*dims[:axis], sum(extents), *dims[axis + 1 :])
    position = data.draw(st.integers(0, len(shapes) - 1))
    events = order.concatenate(shapes, axis, position)
    attributes: dict[str, Attribute] = {"axis": axis}
    is_exact = WIDTHS[dtype] > 1 or prod(shapes[position][axis:]) > 1
    check(
        "tflm-reference",
        "CONCATENATION",
        shapes,
        made,
        events,
        attributes,
        dtypes=(dtype, dtype),
        position=position,
        is_exact=is_exact,
    )


def _neighbour(k: int, given: int, made: int, align: bool, half: bool, dtype: str) -> int:
    if dtype == "int8":
        scale = (1024 * given + made // 2) // made
        if align and made > 1:
            scale = (1024 * (given - 1) + (made - 1) // 2) // (made - 1)
        value = k * scale + (scale // 2 - 512 if half else 0)
        return max(int(value / 1024), 0)
    real = np.float32
    scale_real = real(given - 1) / real(made - 1) if align and made > 1 else real(given) / real(made)
    at = (real(k) + real(0.5)) * scale_real - real(0.5) if half else real(k) * scale_real
    return max(int(np.floor(at)), 0)


@settings(max_examples=60)
@given(st.tuples(SMALL, SMALL, st.integers(1, 3)), SMALL, SMALL, st.sampled_from((0, 1, 2)), DTYPES)
def test_resizing(dims: tuple[int, int, int], height: int, width: int, mode: int, dtype: str) -> None:
    align, half = mode == 1, mode == 2
    shape, made = (1, *dims), (1, height, width, dims[2])
    attributes: dict[str, Attribute] = {"align_corners": int(align), "half_pixel_centers": int(half)}
    rows = [_neighbour(k, dims[0], height, align, half, dtype) for k in range(height)]
    columns = [_neighbour(k, dims[1], width, align, half, dtype) for k in range(width)]
    events = order.resize(shape, made, rows, columns)
    args = [shape, (2,)], made, events, attributes
    check("tflm-reference", "RESIZE_BILINEAR", *args, dtypes=(dtype, dtype), constants=1, is_exact=False)
    real = np.float32

    def nearest(k: int, given: int, out: int) -> int:
        scale = real(given - 1) / real(out - 1) if align and out > 1 else real(given) / real(out)
        value = (real(k) + real(0.5 if half else 0)) * scale
        return min(int(np.floor(value + real(0.5)) if align else np.floor(value)), given - 1)

    rows, columns = (
        [nearest(k, dims[0], height) for k in range(height)],
        [nearest(k, dims[1], width) for k in range(width)],
    )
    args = [shape, (2,)], made, order.resize_nearest(shape, made, rows, columns), attributes
    check("tflm-reference", "RESIZE_NEAREST_NEIGHBOR", *args, dtypes=(dtype, dtype), constants=1, is_exact=False)
