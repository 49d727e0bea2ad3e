"""Row arithmetic against brute force: a naive operator on one column, computed whole and in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import TilingError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.passes.reach import Window, axis_of, window_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Attribute, Layout

    Naive = Callable[[NDArray[np.float64], int, int], NDArray[np.float64]]  # items, padding before and after


def graph_of(
    op_type: str,
    shapes: Sequence[tuple[int, ...]],
    made: tuple[int, ...],
    layout: Layout = "nhwc",
    **attributes: Attribute,
) -> Graph:
    tensors = (*(Tensor(f"t{i}", "float32", s) for i, s in enumerate(shapes)), Tensor("made", "float32", made))
    inputs = tuple(range(len(shapes)))
    op = Op("op", op_type, inputs, (len(shapes),), attributes=attributes)
    return Graph("g", tensors, (op,), inputs, (len(shapes),), layout)


def placed(item: int, other: int, layout: Layout, side: int) -> tuple[int, ...]:
    """A shape with one of its spatial dimensions given."""
    spatial = (item, other) if side == 0 else (other, item)
    return (1, *spatial, 2) if layout == "nhwc" else (1, 2, *spatial)


def convolve(kernel: NDArray[np.float64], stride: int, dilation: int) -> Naive:
    def run(items: NDArray[np.float64], before: int, after: int) -> NDArray[np.float64]:
        padded = np.concatenate([np.zeros(before), items, np.zeros(after)])
        reach = (len(kernel) - 1) * dilation + 1
        count = (len(padded) - reach) // stride + 1
        return np.array(
            [sum(kernel[k] * padded[r * stride + k * dilation] for k in range(len(kernel))) for r in range(count)]
        )

    return run


def check(window: Window, naive: Naive, begin: int, end: int) -> None:
    """A part computed from what it needs is the part of the whole, and nothing less than that is enough."""
    items = np.random.default_rng(0).standard_normal(window.given)
    whole = naive(items, window.before, window.after)
    assert len(whole) == window.made
    need = window.needs(begin, end)
    assert 0 <= need.begin <= need.end <= window.given
    low, high = window.computes(begin, end)
    assert low <= begin < end <= high
    part = naive(items[need.begin : need.end], need.before, need.after)
    assert len(part) == high - low
    assert part[begin - low : len(part) - (high - end)].tolist() == whole[begin:end].tolist()


def check_making(window: Window) -> None:
    """`makes` is the largest count whose needs are met."""
    needs = [window.needs(0, count) for count in range(1, window.made + 1)]
    for items in range(window.given + 1):
        met = [need.end <= items and (items == window.given or not need.after) for need in needs]
        assert window.makes(items) == max((n for n, m in enumerate(met, start=1) if m), default=0)


@given(st.data())
def test_parts_of_convolutions_and_pools(data: st.DataObject) -> None:
    layout: Layout = data.draw(st.sampled_from(("nhwc", "nchw")))
    side = data.draw(st.integers(0, 1))
    kernel, stride, dilation = (data.draw(st.integers(1, n)) for n in (5, 4, 3))
    before, after = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    reach = (kernel - 1) * dilation + 1
    size = data.draw(st.integers(max(1, reach - before - after), 20))
    made = (size + before + after - reach) // stride + 1
    pads = (before, 0, after, 0) if side == 0 else (0, before, 0, after)
    graph = graph_of(
        data.draw(st.sampled_from(("CONV_2D", "AVERAGE_POOL_2D") if layout == "nhwc" else ("Conv", "MaxPool"))),
        [placed(size, 7, layout, side)],
        placed(made, 7, layout, side),
        layout,
        kernel=(kernel, 1)[:: 1 - 2 * side],
        stride=(stride, 1)[:: 1 - 2 * side],
        dilation=(dilation, 1)[:: 1 - 2 * side],
        pads=pads,
    )
    window = window_of(graph, graph.ops[0], "height" if side == 0 else "width")
    begin = data.draw(st.integers(0, made - 1))
    end = data.draw(st.integers(begin + 1, made))
    check(window, convolve(np.arange(1.0, kernel + 1), stride, dilation), begin, end)
    check_making(window)


@given(st.data())
def test_parts_of_paddings(data: st.DataObject) -> None:
    size, before, after = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    made = size + before + after
    graph = graph_of("PAD", [(1, size, 5, 2)], (1, made, 8, 2), paddings=(0, 0, before, after, 1, 2, 0, 0))
    window = window_of(graph, graph.ops[0], "height")
    begin = data.draw(st.integers(0, made - 1))
    end = data.draw(st.integers(begin + 1, made))
    check(window, convolve(np.ones(1), 1, 1), begin, end)
    assert window_of(graph, graph.ops[0], "width").before == 1
    assert [window.makes(items) for items in range(size)] == [min(before + items, made) for items in range(size)]
    assert window.makes(size) == made


def resized(factor: int, rule: str) -> Naive:
    def run(items: NDArray[np.float64], before: int, after: int) -> NDArray[np.float64]:
        assert before == after == 0
        rows = []
        for r in range(factor * len(items)):
            at = (r + 0.5) / factor - 0.5 if rule == "half pixel" else r / factor
            low = int(np.floor(at))
            weight = at - low
            first, second = (items[min(max(i, 0), len(items) - 1)] for i in (low, low + 1))
            rows.append(items[r // factor] if rule == "nearest" else first * (1 - weight) + second * weight)
        return np.array(rows)

    return run


@given(st.data())
def test_parts_of_resizes(data: st.DataObject) -> None:
    factor, size = data.draw(st.sampled_from((1, 2, 4, 8))), data.draw(st.integers(1, 9))
    rule = data.draw(st.sampled_from(("nearest", "corner", "half pixel")))
    graph = graph_of(
        "RESIZE_NEAREST_NEIGHBOR" if rule == "nearest" else "RESIZE_BILINEAR",
        [(1, size, 3, 2), (2,)],
        (1, factor * size, 3, 2),
        align_corners=0,
        half_pixel_centers=int(rule == "half pixel"),
    )
    window = window_of(graph, graph.ops[0], "height")
    made = factor * size
    begin = data.draw(st.integers(0, made - 1))
    end = data.draw(st.integers(begin + 1, made))
    check(window, resized(factor, rule), begin, end)
    check_making(window)


def test_blocks_of_rows() -> None:
    to_space = graph_of("DEPTH_TO_SPACE", [(1, 3, 3, 8)], (1, 6, 6, 2))
    assert window_of(to_space, to_space.ops[0], "height").needs(2, 5) == (1, 3, 0, 0)
    assert window_of(to_space, to_space.ops[0], "height").computes(2, 5) == (2, 6)
    to_depth = graph_of("SPACE_TO_DEPTH", [(1, 6, 6, 2)], (1, 3, 3, 8))
    assert window_of(to_depth, to_depth.ops[0], "height").needs(1, 3) == (2, 6, 0, 0)


def test_inputs_with_one_row_are_read_whole() -> None:
    graph = graph_of("MUL", [(1, 6, 6, 2), (1, 1, 1, 2)], (1, 6, 6, 2))
    assert window_of(graph, graph.ops[0], "height").cut == (0,)
    graph = graph_of("ADD", [(2,), (1, 6, 6, 2)], (1, 6, 6, 2))
    assert window_of(graph, graph.ops[0], "height").cut == (1,)
    graph = graph_of("Add", [(1, 2, 6, 1), (1, 2, 6, 6)], (1, 2, 6, 6), "nchw")
    assert window_of(graph, graph.ops[0], "height").cut == (0, 1)
    assert window_of(graph, graph.ops[0], "width").cut == (1,)
    graph = graph_of("CONCATENATION", [(1, 6, 6, 2), (1, 6, 6, 3)], (1, 6, 6, 5), axis=3)
    assert window_of(graph, graph.ops[0], "width").cut == (0, 1)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (graph_of("MEAN", [(1, 6, 6, 2), (2,)], (1, 1, 1, 2)), "MEAN is not known"),
        (graph_of("CONV_2D", [(1, 6, 6, 2)], (1, 6, 6, 2)), "kernel of this CONV_2D is unknown"),
        (graph_of("RELU", [(6, 6, 2)], (6, 6, 2)), "not four dimensions"),
        (graph_of("ADD", [(1, 6, 6, 2), (1, 3, 6, 2)], (1, 6, 6, 2)), "do not have the rows"),
        (graph_of("CONCATENATION", [(1, 3, 6, 2), (1, 3, 6, 2)], (1, 6, 6, 2), axis=1), "along the dimension"),
        (graph_of("CONCATENATION", [(1, 6, 6, 2), (1, 6, 6, 2)], (1, 6, 6, 4)), "axis .* unknown"),
        (graph_of("RELU", [(1, 6, 6, 2)], (1, 6, 6, 2), ""), "does not say which dimensions"),
        (graph_of("PAD", [(1, 6, 6, 2)], (1, 8, 6, 2)), "paddings .* unknown"),
        (
            graph_of("RESIZE_BILINEAR", [(1, 2, 2, 2)], (1, 5, 5, 2), align_corners=0, half_pixel_centers=0),
            "not by an integer factor",
        ),
        (
            graph_of("RESIZE_BILINEAR", [(1, 2, 2, 2)], (1, 6, 6, 2), align_corners=0, half_pixel_centers=0),
            "no power of two",
        ),
        (
            graph_of("RESIZE_BILINEAR", [(1, 2, 2, 2)], (1, 4, 4, 2), align_corners=1, half_pixel_centers=0),
            "aligns corners",
        ),
        (graph_of("Resize", [(1, 2, 2, 2)], (1, 2, 4, 4), "nchw"), "mode of this Resize is unknown"),
    ],
)
def test_refusals_say_why(graph: Graph, why: str) -> None:
    with pytest.raises(TilingError, match=why) as refusal:
        window_of(graph, graph.ops[0], "height")
    assert refusal.value.op


def test_a_convolution_that_quantises_its_input_is_refused() -> None:
    graph = graph_of(
        *("CONV_2D", [(1, 6, 6, 2), (2, 1, 1, 2)], (1, 6, 6, 2)),
        kernel=(1, 1),
        stride=(1, 1),
        dilation=(1, 1),
        pads=(0, 0, 0, 0),
    )
    window_of(graph, graph.ops[0], "height")
    tensors = (graph.tensors[0], replace(graph.tensors[1], dtype="int8"), graph.tensors[2])
    hybrid = replace(graph, tensors=tensors)
    with pytest.raises(TilingError, match="largest value"):
        window_of(hybrid, hybrid.ops[0], "height")


def test_axes() -> None:
    graph = graph_of("RELU", [(1, 6, 6, 2)], (1, 6, 6, 2))
    assert (axis_of(graph, "height"), axis_of(graph, "width")) == (1, 2)
