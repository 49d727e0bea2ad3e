"""Known distances, and where nothing is known."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.overlap import _distance, distance
from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Attribute

SAME3 = {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pads": (1, 1, 1, 1)}
POINT = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}


def made(
    kind: str,
    given: tuple[int, ...],
    output: tuple[int, ...],
    *weights: tuple[int, ...],
    dtype: str = "int8",
    attributes: Mapping[str, Attribute] | None = None,
) -> tuple[Graph, Op]:
    tensors = (
        Tensor("x", dtype, given),
        *(Tensor(f"w{k}", dtype, shape, "constant") for k, shape in enumerate(weights)),
        Tensor("y", dtype, output),
    )
    last = len(tensors) - 1
    op = Op("op", kind, tuple(range(last)), (last,), attributes=attributes or {})
    return Graph("g", tensors, (op,), (0,), (last,)), op


CONV = made("CONV_2D", (1, 8, 8, 4), (1, 8, 8, 4), (4, 3, 3, 4), attributes=SAME3)
POINTWISE = made("CONV_2D", (1, 8, 8, 4), (1, 8, 8, 2), (2, 1, 1, 4), attributes=POINT)
WIDE = made("DEPTHWISE_CONV_2D", (1, 8, 8, 128), (1, 8, 8, 128), (1, 3, 3, 128), attributes=SAME3)
NARROW = made("DEPTHWISE_CONV_2D", (1, 8, 8, 124), (1, 8, 8, 124), (1, 3, 3, 124), attributes=SAME3)
GROUPED = made("CONV_2D", (1, 8, 8, 4), (1, 8, 8, 4), (4, 3, 3, 2), attributes=SAME3)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # A window reaches one row and one pixel back: pixel (1, 1) is written but for its last channel when pixel
        # (0, 0) is read for the last time.
        (CONV, {"tflm-reference": 39, "cmsis-nn-dsp": 39, "cmsis-nn-mve": 39, "esp-nn": None}),
        (GROUPED, {"tflm-reference": 37, "cmsis-nn-dsp": None, "cmsis-nn-mve": None, "esp-nn": None}),
        (POINTWISE, {"tflm-reference": 1, "cmsis-nn-dsp": None, "cmsis-nn-mve": 7, "esp-nn": None}),
        (NARROW, {"tflm-reference": 1116, "cmsis-nn-dsp": 1116, "cmsis-nn-mve": 1116, "esp-nn": None}),
        (WIDE, {"tflm-reference": 1152, "cmsis-nn-dsp": 1152, "cmsis-nn-mve": None, "esp-nn": None}),
    ],
)
def test_each_library_has_its_own_distances(case: tuple[Graph, Op], expected: Mapping[str, int | None]) -> None:
    assert {profile: distance(profile, *case, 0) for profile in expected} == expected
    # One rule for all chips of ESP-NN.
    assert {name for name in PROFILES if not name.startswith("esp-nn-")} == {"none", *expected}


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "channels", "expected"),
    [
        # The last four pixels are read, from byte 60 on, until all 1,024 bytes but one are written.
        ((1, 8, 8, 1), (1, 1), (1, 1), 16, 64 * 16 - 1 - 60),
        ((1, 8, 8, 1), (1, 1), (2, 2), 16, 16 * 16 - 1 - 48),  # blocks of a row: 48 is its first pixel
        ((1, 8, 8, 1), (1, 1), (1, 1), 1, 1 - 1),  # not more than one output channel: pixel by pixel
        ((1, 1, 1000, 1), (1, 16), (1, 8), 12, None),  # a window is not copied
        ((1, 1, 1000, 1), (1, 16), (1, 6), 12, 12 * 165 - 6 * 164 - 1),  # but with this stride it is
    ],
)
def test_cmsis_nn_takes_convolutions_for_depthwise_ones_of_one_channel(
    shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int], channels: int, expected: int | None
) -> None:
    height, width = ((shape[1 + k] - kernel[k]) // stride[k] + 1 for k in range(2))
    attributes = {"kernel": kernel, "stride": stride, "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    case = made("DEPTHWISE_CONV_2D", shape, (1, height, width, channels), (1, *kernel, channels), attributes=attributes)
    assert distance("cmsis-nn-mve", *case, 0) == expected


def test_libraries_run_the_reference_kernels_for_floats() -> None:
    graph, op = CONV
    floats = replace(graph, tensors=tuple(replace(t, dtype="float32") for t in graph.tensors))
    assert {distance(profile, floats, op, 0) for profile in PROFILES[1:]} == {4 * 39}


def test_what_is_not_known_is_disjoint() -> None:
    graph, op = CONV
    assert distance("none", graph, op, 0) is None
    assert distance("another", graph, op, 0) is None
    assert distance("tflm-reference", graph, op, 1) is None  # the weights
    assert distance("tflm-reference", graph, op, 7) is None
    for key in SAME3:
        unknown = replace(op, attributes={name: value for name, value in SAME3.items() if name != key})
        assert distance("tflm-reference", graph, unknown, 0) is None
    assert distance("tflm-reference", graph, replace(op, type="CUSTOM"), 0) is None
    narrow = replace(graph, tensors=tuple(replace(t, dtype="int4") for t in graph.tensors))
    assert distance("tflm-reference", narrow, op, 0) is None


@pytest.mark.parametrize("kind", ["SOFTMAX", "MEAN", "TRANSPOSE_CONV", "STRIDED_SLICE", "TRANSPOSE", "RESHAPE", "CAST"])
def test_operators_without_a_rule_are_disjoint(kind: str) -> None:
    assert all(distance(profile, *made(kind, (1, 4), (1, 4)), 0) is None for profile in PROFILES)


def test_a_broadcast_operand_is_disjoint() -> None:
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in (("a", (4, 4)), ("b", (1, 4)), ("y", (4, 4))))
    op = Op("add", "ADD", (0, 1), (2,))
    graph = Graph("g", tensors, (op,), (0, 1), (2,))
    assert [distance("tflm-reference", graph, op, k) for k in (0, 1)] == [0, None]


def test_two_types_wider_than_a_byte_are_disjoint() -> None:
    tensors = (Tensor("a", "int16", (4,)), Tensor("y", "float32", (4,)))
    op = Op("d", "DEQUANTIZE", (0,), (1,))
    assert distance("tflm-reference", Graph("g", tensors, (op,), (0,), (1,)), op, 0) is None


def test_equal_operators_are_looked_at_once() -> None:
    big = made("CONV_2D", (1, 112, 112, 96), (1, 112, 112, 96), (96, 3, 3, 96), attributes=SAME3)
    expected = distance("tflm-reference", *big, 0)
    misses = _distance.cache_info().misses
    assert {distance("tflm-reference", *big, 0) for _ in range(1000)} == {expected}
    assert _distance.cache_info().misses == misses


def test_large_images_take_no_memory() -> None:
    """A file may say any size: the loops are looked at one by one, not pixel by pixel."""
    tracemalloc.start()
    graph, op = made("CONV_2D", (1, 60_000, 60_000, 3), (1, 60_000, 60_000, 5), (5, 1, 1, 3), attributes=POINT)
    found = {profile: distance(profile, graph, op, 0) for profile in ("tflm-reference", "cmsis-nn-mve")}
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 24
    # The last pixel has written 5 bytes for each pixel, and still reads 3 of them.
    ahead = 60_000 * 60_000 * 2
    assert found == {"tflm-reference": ahead + 2, "cmsis-nn-mve": ahead + 3 * 4 - 1}


def test_nothing_is_known_of_images_beyond_a_size() -> None:
    graph, op = made("CONV_2D", (1, 1, 1 << 28, 1), (1, 1, 1 << 28, 1), (1, 1, 1, 1), attributes=POINT)
    assert distance("tflm-reference", graph, op, 0) is None
