"""Operators of .tflite files without tensor operations, and files whose options contradict their shapes."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.model import TfliteConverter
from tests.tflite_cases import (
    FLAT,
    WHOLE,
    Case,
    X,
    binary,
    conv,
    conv_of,
    depthwise,
    fused,
    ints,
    made,
    pool,
    reduced,
    resize,
    scalar,
    sliced,
    weights,
)
from tests.tflite_models import M, O, S, T
from tests.tflite_models import build as small
from tests.tflite_operators import Input, build

pytest.importorskip("ai_edge_litert")

REFUSED: dict[str, tuple[Case, str]] = {
    "an operator without a rule": (("CUMSUM", [FLAT, scalar(0)], [made(4, 6)], None), "CUMSUM"),
    "computed weights": (conv_of(Input((4, 3, 3, 3))), "CONV_2D with weights that are computed"),
    "quantised weights": (conv_of(Input.of(np.ones((4, 3, 3, 3)), "uint8")), "quantised; the GPU runs float models"),
    "quantised tensors": (("RELU", [Input((4, 6), "int8")], [made(4, 6, dtype="int8")], None), "quantised"),
    "fused tanh": (fused("ADD", 4), "ADD with fused activation 4"),
    "division of whole numbers": (binary("DIV", WHOLE, WHOLE, ("DivOptions", {}), "int32"), "DIV of int32"),
    "double precision": (("NEG", [Input((4, 6), "float64")], [made(4, 6, dtype="float64")], None), "NEG of float64"),
    "unequal distances": (
        ("GATHER", [X, ints(0, 1, 3)], [made(2, 3, 6, 3)], ("GatherOptions", {"axis": 1})),
        "GATHER of indices at unequal distances",
    ),
    "two conventions": (resize("BILINEAR", (9, 9), align=True, half=True), "both align_corners and half_pixel_centers"),
    "an empty tensor": (("RELU", [Input((0, 6))], [made(0, 6)], None), "RELU with an empty tensor"),
    "seven axes": (
        ("TRANSPOSE", [Input((2,) * 7), ints(6, 5, 4, 3, 2, 1, 0)], [made(*(2,) * 7)], None),
        "more than 6 dimensions",
    ),
    "shuffled weights": (
        ("FULLY_CONNECTED", [FLAT, weights(5, 6)], [made(4, 5)], ("FullyConnectedOptions", {"weightsFormat": 1})),
        "shuffled",
    ),
    "three sums": (("ADD_N", [FLAT, FLAT, FLAT], [made(4, 6)], None), "more than two"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_tensor_operations_says_why(name: str) -> None:
    case, reason = REFUSED[name]
    (step,) = TfliteConverter.from_bytes(build(*case)).program().steps
    assert isinstance(step, str)
    assert reason in step


CONTRADICTIONS: dict[str, Case] = {
    "channels": conv(X, weights(4, 3, 3, 2), (2, 5, 6, 4)),
    "size of a convolution": conv(X, weights(4, 3, 3, 3), (2, 5, 5, 4)),
    "weights without scales": conv_of(Input.of(np.ones((4, 3, 3, 3)), "int8")),
    "bias": ("FULLY_CONNECTED", [FLAT, weights(5, 6), weights(4)], [made(4, 5)], ("FullyConnectedOptions", {})),
    "batch of a pool": ("MAX_POOL_2D", [X], [made(3, 5, 6, 3)], pool("MAX", (), (1, 1), (1, 1), 0)[3]),
    "channels of a pool": ("MAX_POOL_2D", [X], [made(2, 5, 6, 4)], pool("MAX", (), (1, 1), (1, 1), 0)[3]),
    "batches of matrices": (
        "BATCH_MATMUL",
        [Input((2, 4, 5)), Input((1, 5, 6))],
        [made(3, 4, 6)],
        ("BatchMatMulOptions", {}),
    ),
    "elements of a reshape": ("RESHAPE", [X, ints(2, 90)], [made(2, 91)], None),
    "begin of a slice": ("SLICE", [X, ints(0, 4, 0, 0), ints(2, 3, 6, 3)], [made(2, 3, 6, 3)], None),
    "axis": ("CONCATENATION", [FLAT, FLAT], [made(8, 6)], ("ConcatenationOptions", {"axis": 2})),
    "permutation": ("TRANSPOSE", [FLAT, ints(0, 0)], [made(4, 4)], None),
    "paddings": ("PAD", [FLAT, ints([[0, 1], [0, 0]])], [made(4, 6)], None),
    "broadcast": ("MAXIMUM", [FLAT, Input((3, 6))], [made(4, 6)], None),
    "reduced": reduced("SUM", [0], (2, 6, 3), keep=False),
    "blocks": ("DEPTH_TO_SPACE", [Input((1, 2, 2, 6))], [made(1, 4, 4, 1)], ("DepthToSpaceOptions", {"blockSize": 2})),
    "index of a gather": ("GATHER", [FLAT, ints(3, 4)], [made(2, 6)], ("GatherOptions", {"axis": 0})),
    "size of a constant": ("ADD", [FLAT, Input((4, 6), "float32", np.ones(5, "<f4"))], [made(4, 6)], None),
    "no input": ("RELU", [], [made(4, 6)], None),
    "gather of no indices": (
        "GATHER",
        [X, Input.of(np.empty(0), "int32")],
        [made(2, 3, 6, 3)],
        ("GatherOptions", {"axis": 1}),
    ),
    "no channels": (
        "DEPTHWISE_CONV_2D",
        [Input((1, 4, 4, 0)), *depthwise(X, weights(1, 1, 1, 3), ())[1][1:]],
        [made(1, 4, 4, 3)],
        ("DepthwiseConv2DOptions", {"strideH": 1, "strideW": 1}),
    ),
    "tile of nothing": ("TILE", [Input((2, 0)), ints(1, 2)], [made(2, 4)], None),
    "step of nothing": sliced((2, 5, 6, 3), [0, 0, 0, 0], [2, 5, 6, 3], [1, 0, 1, 1]),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_files_that_contradict_themselves_are_errors(name: str) -> None:
    model = TfliteConverter.from_bytes(build(*CONTRADICTIONS[name]))
    with pytest.raises(ModelError) as caught:
        model.program()
    assert not isinstance(caught.value, UnsupportedError)
    assert "\n" not in str(caught.value)


def test_constants_that_are_made_of_each_other_are_an_error() -> None:
    """Each of two tensors is decompressed from the other; the graph counts both as constants."""
    tensors = [T("x"), T("a", "float16"), T("b"), T("c", "float16", data=bytes(8)), T("y")]
    ops = [O("DEQUANTIZE", (3,), (2,)), O("DEQUANTIZE", (2,), (1,)), O("DEQUANTIZE", (1,), (2,))]
    ops.append(O("ADD", (0, 2), (4,)))
    program = TfliteConverter.from_bytes(small(M([S(tensors, ops, (0,), (4,))]))).program()
    assert program.constants[2].tolist() == [[0.0] * 4]
    ops[0], ops[1] = O("DEQUANTIZE", (1,), (2,)), O("DEQUANTIZE", (3,), (2,))
    ops[2] = O("DEQUANTIZE", (2,), (1,))
    tensors[1] = T("a")
    with pytest.raises(ModelError):
        TfliteConverter.from_bytes(small(M([S(tensors, ops, (0,), (4,))]))).program()
