"""Makers of .tflite operators in few words: inputs, outputs and options of `tests.tflite_operators.build`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tflite_operators import Input

if TYPE_CHECKING:
    from collections.abc import Sequence

RNG = np.random.default_rng(7)
SAME, VALID = 0, 1
X, Y = Input((2, 5, 6, 3)), Input((2, 5, 6, 3))


def weights(*shape: int) -> Input:
    return Input.of(RNG.uniform(-1, 1, shape))


def ints(*values: Any, dtype: str = "int32") -> Input:
    return Input.of(values[0] if len(values) == 1 and isinstance(values[0], list) else values, dtype)


def scalar(value: int) -> Input:
    return Input.of(value, "int32")


def made(*shape: int, dtype: str = "float32") -> tuple[tuple[int, ...], str]:
    return shape, dtype


Case = tuple[str, "Sequence[Input]", "Sequence[tuple[tuple[int, ...], str]]", Any]


def conv(x: Input, w: Input, out: tuple[int, ...], **options: Any) -> Case:
    bias = Input.of(RNG.uniform(-1, 1, (w.shape or ())[0]))
    filled = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, **options}
    return "CONV_2D", [x, w, bias], [made(*out)], ("Conv2DOptions", filled)


def conv_of(w: Input) -> Case:
    """A convolution of X with these weights, right or wrong."""
    return "CONV_2D", [X, w, weights(4)], [made(2, 5, 6, 4)], ("Conv2DOptions", {"strideH": 1, "strideW": 1})


def depthwise(x: Input, w: Input, out: tuple[int, ...], **options: Any) -> Case:
    bias = Input.of(RNG.uniform(-1, 1, (w.shape or ())[3]))
    filled = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, **options}
    return "DEPTHWISE_CONV_2D", [x, w, bias], [made(*out)], ("DepthwiseConv2DOptions", filled)


def transposed(x: Input, w: Input, out: tuple[int, ...], stride: tuple[int, int], padding: int, **options: Any) -> Case:
    filled = {"strideH": stride[0], "strideW": stride[1], "padding": padding, **options}
    inputs = [ints(list(out)), w, x]
    if options:
        inputs.append(Input.of(RNG.uniform(-1, 1, out[3])))
    return "TRANSPOSE_CONV", inputs, [made(*out)], ("TransposeConvOptions", filled)


def pool(kind: str, out: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int], padding: int) -> Case:
    filled = {"filterHeight": kernel[0], "filterWidth": kernel[1], "strideH": stride[0], "strideW": stride[1]}
    return f"{kind}_POOL_2D", [X], [made(*out)], ("Pool2DOptions", {**filled, "padding": padding})


def resize(kind: str, size: tuple[int, int], *, align: bool = False, half: bool = False, x: Input = X) -> Case:
    table = "ResizeBilinearOptions" if kind == "BILINEAR" else "ResizeNearestNeighborOptions"
    n, _, _, c = x.shape or ()
    out = [made(n, *size, c)]
    return f"RESIZE_{kind}", [x, ints(*size)], out, (table, {"alignCorners": align, "halfPixelCenters": half})


def sliced(out: tuple[int, ...], begin: list[int], end: list[int], step: list[int], **masks: Any) -> Case:
    return "STRIDED_SLICE", [X, ints(begin), ints(end), ints(step)], [made(*out)], ("StridedSliceOptions", masks)


def unary(kind: str, options: Any = None) -> Case:
    return kind, [X], [made(2, 5, 6, 3)], options


def binary(kind: str, a: Input = X, b: Input = Y, options: Any = None, dtype: str = "float32") -> Case:
    shape = np.broadcast_shapes(a.shape or (), b.shape or ())
    return kind, [a, b], [made(*shape, dtype=dtype)], options


def fused(kind: str, activation: int, a: Input = X, b: Input = Y) -> Case:
    table = f"{kind.title()}Options"
    return binary(kind, a, b, (table, {"fusedActivationFunction": activation}))


def reduced(kind: str, axes: list[int], out: tuple[int, ...], *, keep: bool, x: Input = X) -> Case:
    return kind, [x, ints(axes)], [made(*out, dtype=x.dtype)], ("ReducerOptions", {"keepDims": keep})


BOOL, WHOLE = Input((2, 5, 6, 3), "bool"), Input((2, 5, 6, 3), "int32")
FLAT = Input((4, 6))
