"""The workspace of CMSIS-NN's kernels is what its own functions say.

The figures are of `arm_convolve_wrapper_s8_get_buffer_size_dsp` and its like in CMSIS-NN 99f736a63036, compiled by GCC
12 and called on 2026-11-26 and 2026-11-27; 39,230 random convolutions gave the same, and 878,495 cases of all
operators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.micro_workspace import with_workspace
from edgemem.records.micro_arena import prepared_bytes
from edgemem.records.micro_builds import build_of, structures_of
from edgemem.records.micro_tail import operator_bytes
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from edgemem.model.graph import Attribute

SAME, WIDE = ((1, 1), (1, 1), (1, 1, 1, 1)), ((1, 1), (2, 2), (2, 2, 2, 2))
NONE = ((1, 1), (1, 1), (0, 0, 0, 0))
# Operator, image, weights, result, (stride, dilation, pads), bytes with DSP and with MVE instructions.
CASES = [
    ("CONV_2D", (1, 8, 8, 3), (16, 3, 3, 3), (1, 8, 8, 16), SAME, 112, 128),
    ("CONV_2D", (1, 8, 8, 16), (8, 1, 1, 16), (1, 8, 8, 8), NONE, 0, 0),
    ("CONV_2D", (1, 8, 8, 16), (8, 1, 1, 8), (1, 8, 8, 8), NONE, 64, 64),
    ("CONV_2D", (1, 8, 8, 8), (4, 3, 3, 8), (1, 8, 8, 4), WIDE, 288, 320),
    ("CONV_2D", (1, 1, 16, 4), (8, 1, 3, 4), (1, 1, 16, 8), ((1, 1), (1, 1), (0, 1, 0, 1)), 48, 16),
    ("DEPTHWISE_CONV_2D", (1, 8, 8, 16), (1, 3, 3, 16), (1, 8, 8, 16), SAME, 0, 4464),
    ("DEPTHWISE_CONV_2D", (1, 8, 8, 16), (1, 5, 5, 16), (1, 8, 8, 16), ((1, 1), (1, 1), (2, 2, 2, 2)), 800, 12400),
    ("DEPTHWISE_CONV_2D", (1, 8, 8, 16), (1, 3, 3, 32), (1, 8, 8, 32), SAME, 0, 0),
    ("DEPTHWISE_CONV_2D", (1, 8, 8, 1), (1, 3, 3, 8), (1, 8, 8, 8), SAME, 0, 136),
]


def graph(
    kind: str,
    image: tuple[int, ...],
    weights: tuple[int, ...],
    made: tuple[int, ...],
    window: object,
    dtype: str = "int8",
) -> Graph:
    tensors = (Tensor("x", dtype, image), Tensor("w", "int8", weights, "constant"), Tensor("y", dtype, made))
    attributes = dict(zip(("stride", "dilation", "pads"), window, strict=True))  # type: ignore[call-overload]
    return Graph("one", tensors, (Op("op", kind, (0, 1), (2,), attributes=attributes),), (0,), (2,))


@pytest.mark.parametrize(("kind", "image", "weights", "made", "window", "dsp", "mve"), CASES)
def test_convolutions(
    kind: str,
    image: tuple[int, ...],
    weights: tuple[int, ...],
    made: tuple[int, ...],
    window: object,
    dsp: int,
    mve: int,
) -> None:
    plain = graph(kind, image, weights, made, window)
    for kernels, size in (("cmsis-nn-dsp", dsp), ("cmsis-nn-mve", mve), ("tflm-reference", 0), ("none", 0)):
        assert sum(with_workspace(plain, 4, kernels).ops[0].scratch) == size, kernels


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_mean_of_windows_has_a_sum_for_each_channel(dtype: str) -> None:
    tensors = (Tensor("x", dtype, (1, 8, 8, 24)), Tensor("y", dtype, (1, 4, 4, 24)))
    pool = Graph("one", tensors, (Op("op", "AVERAGE_POOL_2D", (0,), (1,)),), (0,), (1,))
    assert with_workspace(pool, 4, "cmsis-nn-dsp").ops[0].scratch == (96,)
    assert with_workspace(pool, 4, "cmsis-nn-mve").ops[0].scratch == ()


@pytest.mark.parametrize(
    ("kind", "image", "weights", "made", "dsp", "mve"),
    [
        ("DEPTHWISE_CONV_2D", (1, 8, 8, 16), (1, 3, 3, 16), (1, 8, 8, 16), 288, 4464),
        ("DEPTHWISE_CONV_2D", (1, 8, 8, 1), (1, 3, 3, 8), (1, 8, 8, 8), 0, 0),
        ("FULLY_CONNECTED", (1, 2, 16), (8, 16), (1, 2, 8), 0, 0),
        ("FULLY_CONNECTED", (2, 16), (8, 16), (2, 8), 0, 0),
    ],
)
def test_weights_of_four_bits(
    kind: str, image: tuple[int, ...], weights: tuple[int, ...], made: tuple[int, ...], dsp: int, mve: int
) -> None:
    """The figures are of `arm_depthwise_conv_s8_opt_get_buffer_size_dsp` and `..._wrapper_s4_get_buffer_size_mve`."""
    plain = graph(kind, image, weights, made, SAME)
    narrow = replace(plain, tensors=(plain.tensors[0], replace(plain.tensors[1], dtype="int4"), plain.tensors[2]))
    for kernels, size in (("cmsis-nn-dsp", dsp), ("cmsis-nn-mve", mve)):
        assert sum(with_workspace(narrow, 4, kernels).ops[0].scratch) == size, kernels


@pytest.mark.parametrize(
    ("image", "made", "scales", "dsp", "mve"),
    [((2, 16), (2, 8), 0, (), (32,)), ((1, 2, 16), (1, 2, 8), 0, (64,), (64,)), ((1, 2, 16), (1, 2, 8), 8, (), ())],
)
def test_dense_layers(
    image: tuple[int, ...], made: tuple[int, ...], scales: int, dsp: tuple[int, ...], mve: tuple[int, ...]
) -> None:
    """Rows of rows are a 1x1 convolution, which wants a multiplier and a shift for each channel."""
    plain = graph("FULLY_CONNECTED", image, (8, 16), made, NONE)
    dense = replace(plain, ops=(replace(plain.ops[0], attributes={"scales": scales} if scales else {}),))
    for kernels, sizes in (("cmsis-nn-dsp", dsp), ("cmsis-nn-mve", mve)):
        assert with_workspace(dense, 4, kernels).ops[0].scratch == sizes, kernels


def graph_of(kind: str, *read: Tensor, made: Tensor, **attributes: Attribute) -> Graph:
    op = Op("op", kind, tuple(range(len(read))), (len(read),), attributes=attributes)
    inputs = tuple(k for k, tensor in enumerate(read) if tensor.kind == "activation")
    return Graph("one", (*read, made), (op,), inputs, (len(read),))


WEIGHTS = Tensor("w", "int8", (12, 16), "constant")
LSTM = tuple(Tensor(f"i{k}", "int8", (4, 4), "constant") for k in range(19))
OTHERS: dict[str, tuple[Graph, tuple[int, ...], tuple[int, ...]]] = {
    "a convolution of int16": (
        graph("CONV_2D", (1, 8, 8, 3), (16, 3, 3, 3), (1, 8, 8, 16), SAME, "int16"),
        (108,),
        (256,),
    ),
    **{
        f"a transposed convolution of {channels} channels": (
            graph_of(
                "TRANSPOSE_CONV",
                Tensor("shape", "int32", (4,), "constant"),
                Tensor("w", "int8", (8, 3, 3, channels), "constant"),
                Tensor("x", "int8", (1, 4, 4, channels)),
                made=Tensor("y", "int8", (1, 8, 8, 8)),
                stride=(2, 2),
            ),
            dsp,
            mve,
        )
        for channels, dsp, mve in ((17, (624, 1224), (640, 1224)), (8, (864, 0), (864, 0)))
    },
    "a product": (
        graph_of(
            "BATCH_MATMUL",
            Tensor("x", "int8", (1, 8, 16)),
            Tensor("w", "int8", (1, 16, 9)),
            made=Tensor("y", "int8", (1, 8, 9)),
        ),
        (),
        (36,),
    ),
    "SVDF": (
        graph_of("SVDF", Tensor("x", "int8", (2, 16)), WEIGHTS, made=Tensor("y", "int8", (2, 6))),
        (96, 48),
        (96, 48, 48),
    ),
    "an LSTM": (
        graph_of(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            *LSTM,
            Tensor("cells", "int16", (2, 4), "variable"),
            made=Tensor("y", "int8", (2, 3, 4)),
        ),
        (16, 16, 16),
        (16, 16, 16),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_operators(name: str) -> None:
    """A piece of no bytes is one in the tail, and none in the head."""
    plain, dsp, mve = OTHERS[name]
    for kernels, sizes in (("cmsis-nn-dsp", dsp), ("cmsis-nn-mve", mve)):
        assert with_workspace(plain, 4, kernels).ops[0].scratch == sizes, kernels


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("AVERAGE_POOL_2D", 36),
        ("CONV_2D", 60),
        ("DEPTHWISE_CONV_2D", 60),
        ("FULLY_CONNECTED", 72),
        ("MAX_POOL_2D", 36),
        ("SOFTMAX", 64),
    ],
)
def test_structures_of_kernels(kind: str, size: int) -> None:
    """`sizeof` in tflite-micro 90b983c2b3f1's cmsis_nn folder, by GCC 12 for Arm without an operating system."""
    build = build_of(replace(BUILT_IN["tflm"], kernels="cmsis-nn-dsp"))
    assert structures_of(kind, build)[1] == size


@pytest.mark.parametrize(("dtype", "more"), [("int8", 2 * 64), ("float32", 0)])
def test_convolutions_keep_multipliers_of_integers_alone(dtype: str, more: int) -> None:
    """As builds for Arm took in qemu-arm on 2026-11-27, from 16 output channels."""
    plain = graph("CONV_2D", (1, 8, 8, 3), (16, 3, 3, 3), (1, 8, 8, 16), SAME, dtype)
    build = build_of(replace(BUILT_IN["tflm"], kernels="cmsis-nn-dsp"))
    pieces = build.pointer * len(with_workspace(plain, 4, build.kernels).ops[0].scratch)
    assert operator_bytes(plain, plain.ops[0], build) - pieces == build.node + 28 + 64 + more


def test_a_mean_of_windows_asks_twice_for_its_tensors() -> None:
    """In qemu-arm 592 bytes, of which 580 are in use in the end, were not enough to prepare this one with MVE."""
    ends = (Tensor("x", "int8", (1, 6, 4, 4)), Tensor("y", "int8", (1, 3, 2, 4)))
    pool = Graph("one", ends, (Op("op", "AVERAGE_POOL_2D", (0,), (1,)),), (0,), (1,))
    build = build_of(replace(BUILT_IN["tflm"], kernels="cmsis-nn-mve"))
    assert prepared_bytes(pool, build) > 592
