"""Operators of .tflite files in few words: inputs, outputs and options of `tests.tflite_operators.build`.

`CASES` has one of every kind that the converter knows, for numbers of either sign; `POSITIVE` those for positive ones.
"""

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


CASES: dict[str, Case] = {
    "conv same stride": conv(X, weights(4, 3, 3, 3), (2, 3, 3, 4), strideH=2, strideW=2, padding=SAME),
    "conv valid dilated": conv(
        X, weights(4, 2, 3, 3), (2, 3, 2, 4), dilationHFactor=2, dilationWFactor=2, padding=VALID
    ),
    "conv uneven stride": conv(X, weights(5, 1, 1, 3), (2, 5, 3, 5), strideW=2),
    "conv relu6": conv(X, weights(4, 3, 3, 3), (2, 5, 6, 4), fusedActivationFunction=3),
    "conv relu": conv(X, weights(4, 3, 3, 3), (2, 5, 6, 4), fusedActivationFunction=1),
    "conv relu_n1_to_1": conv(X, weights(4, 3, 3, 3), (2, 5, 6, 4), fusedActivationFunction=2),
    "conv even kernel": conv(X, weights(4, 4, 2, 3), (2, 3, 6, 4), strideH=2, padding=SAME),
    "conv groups": conv(Input((1, 4, 4, 6)), weights(4, 3, 3, 3), (1, 4, 4, 4)),
    "depthwise": depthwise(X, weights(1, 3, 3, 3), (2, 5, 6, 3), depthMultiplier=1),
    "depthwise multiplier": depthwise(X, weights(1, 3, 2, 6), (2, 3, 3, 6), depthMultiplier=2, strideH=2, strideW=2),
    "depthwise dilated": depthwise(X, weights(1, 3, 3, 3), (2, 5, 6, 3), dilationHFactor=2, dilationWFactor=2),
    "depthwise valid": depthwise(X, weights(1, 3, 3, 3), (2, 3, 4, 3), padding=VALID, fusedActivationFunction=3),
    "transposed same": transposed(X, weights(4, 3, 3, 3), (2, 10, 12, 4), (2, 2), SAME),
    "transposed same odd": transposed(X, weights(4, 4, 4, 3), (2, 9, 11, 4), (2, 2), SAME),
    "transposed valid": transposed(X, weights(4, 3, 2, 3), (2, 11, 12, 4), (2, 2), VALID),
    "transposed stride 3": transposed(X, weights(2, 2, 2, 3), (2, 15, 18, 2), (3, 3), SAME),
    "transposed bias relu": transposed(X, weights(4, 2, 2, 3), (2, 10, 12, 4), (2, 2), SAME, fusedActivationFunction=1),
    "max pool": pool("MAX", (2, 3, 3, 3), (3, 3), (2, 2), SAME),
    "max pool valid": pool("MAX", (2, 2, 5, 3), (3, 2), (2, 1), VALID),
    "average pool": pool("AVERAGE", (2, 3, 3, 3), (3, 3), (2, 2), SAME),
    "average pool valid": pool("AVERAGE", (2, 1, 1, 3), (5, 6), (1, 1), VALID),
    "bilinear": resize("BILINEAR", (7, 13)),
    "bilinear smaller": resize("BILINEAR", (3, 4)),
    "bilinear align": resize("BILINEAR", (9, 1), align=True),
    "bilinear half": resize("BILINEAR", (10, 9), half=True),
    "bilinear half smaller": resize("BILINEAR", (2, 4), half=True),
    "nearest": resize("NEAREST_NEIGHBOR", (7, 13)),
    "nearest smaller": resize("NEAREST_NEIGHBOR", (3, 4)),
    "nearest align": resize("NEAREST_NEIGHBOR", (9, 11), align=True),
    "nearest half": resize("NEAREST_NEIGHBOR", (10, 9), half=True),
    "nearest half smaller": resize("NEAREST_NEIGHBOR", (2, 4), half=True),
    "softmax": unary("SOFTMAX", ("SoftmaxOptions", {"beta": 1.5})),
    "softmax of rows": ("SOFTMAX", [FLAT], [made(4, 6)], ("SoftmaxOptions", {"beta": 1.0})),
    "log softmax": unary("LOG_SOFTMAX"),
    "leaky relu": unary("LEAKY_RELU", ("LeakyReluOptions", {"alpha": 0.3})),
    "gelu": unary("GELU", ("GeluOptions", {"approximate": False})),
    "gelu tanh": unary("GELU", ("GeluOptions", {"approximate": True})),
    **{
        name: unary(name)
        for name in (
            *("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "EXP", "ABS"),
            *("NEG", "SIN", "COS", "SQUARE", "FLOOR", "CEIL", "ROUND", "SIGN"),
        )
    },
    "not": ("LOGICAL_NOT", [BOOL], [made(2, 5, 6, 3, dtype="bool")], None),
    **{f"{name} {a}": fused(name, a) for name in ("ADD", "SUB", "MUL", "DIV") for a in (0, 1, 3)},
    "add relu_n1_to_1": fused("ADD", 2),
    "add channels": fused("ADD", 0, X, weights(3)),
    "mul columns": fused("MUL", 0, Input((2, 5, 1, 1)), Input((1, 1, 6, 3))),
    "sub ranks": fused("SUB", 0, Input((3,)), X),
    "add scalar": fused("ADD", 0, X, Input.of(0.5)),
    "sub whole": binary("SUB", WHOLE, WHOLE, ("SubOptions", {}), "int32"),
    "maximum": binary("MAXIMUM", X, Input((1, 5, 1, 3))),
    "minimum": binary("MINIMUM", X, weights(3)),
    "squared difference": binary("SQUARED_DIFFERENCE"),
    "prelu": binary("PRELU", X, weights(1, 1, 3)),
    **{
        name: binary(name, WHOLE, Input((2, 5, 6, 3), "int32"), None, "bool")
        for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    },
    "less of floats": binary("LESS", X, weights(3), None, "bool"),
    "and": binary("LOGICAL_AND", BOOL, Input((2, 5, 6, 3), "bool"), None, "bool"),
    "or": binary("LOGICAL_OR", BOOL, Input((2, 5, 6, 3), "bool"), None, "bool"),
    "mean keep": reduced("MEAN", [1, 2], (2, 1, 1, 3), keep=True),
    "mean": reduced("MEAN", [-1], (2, 5, 6), keep=False),
    "sum": reduced("SUM", [0, 2], (5, 3), keep=False),
    "sum of whole": reduced("SUM", [3], (2, 5, 6), keep=False, x=WHOLE),
    "max": reduced("REDUCE_MAX", [3, 1], (2, 1, 6, 1), keep=True),
    "min": reduced("REDUCE_MIN", [0, 1, 2, 3], (), keep=False),
    "prod": reduced("REDUCE_PROD", [1], (2, 6, 3), keep=False),
    "any": reduced("REDUCE_ANY", [1], (2, 6, 3), keep=False, x=BOOL),
    "arg max": ("ARG_MAX", [X, ints(-1)], [made(2, 5, 6, dtype="int32")], ("ArgMaxOptions", {"outputType": 2})),
    "arg min": ("ARG_MIN", [X, scalar(1)], [made(2, 6, 3, dtype="int32")], ("ArgMinOptions", {"outputType": 2})),
    "arg max of equals": (
        "ARG_MAX",
        [WHOLE, ints(2)],
        [made(2, 5, 3, dtype="int32")],
        ("ArgMaxOptions", {"outputType": 2}),
    ),
    "fully connected": (
        "FULLY_CONNECTED",
        [FLAT, weights(5, 6), weights(5)],
        [made(4, 5)],
        ("FullyConnectedOptions", {"fusedActivationFunction": 1}),
    ),
    "fully connected, rows of the image": (
        "FULLY_CONNECTED",
        [X, weights(4, 3), Input()],
        [made(2, 5, 6, 4)],
        ("FullyConnectedOptions", {"keepNumDims": True}),
    ),
    "fully connected, flattened": (
        "FULLY_CONNECTED",
        [X, weights(4, 90), weights(4)],
        [made(2, 4)],
        ("FullyConnectedOptions", {}),
    ),
    "matmul": ("BATCH_MATMUL", [Input((2, 1, 4, 5)), Input((3, 5, 6))], [made(2, 3, 4, 6)], ("BatchMatMulOptions", {})),
    "matmul transposed": (
        "BATCH_MATMUL",
        [Input((3, 5, 4)), weights(3, 6, 5)],
        [made(3, 4, 6)],
        ("BatchMatMulOptions", {"adjX": True, "adjY": True}),
    ),
    "l2": unary("L2_NORMALIZATION", ("L2NormOptions", {})),
    "local response": unary(
        "LOCAL_RESPONSE_NORMALIZATION",
        ("LocalResponseNormalizationOptions", {"radius": 1, "bias": 0.7, "alpha": 0.3, "beta": 0.6}),
    ),
    "concat": ("CONCATENATION", [X, Y, X], [made(2, 5, 6, 9)], ("ConcatenationOptions", {"axis": 3})),
    "concat rows": (
        "CONCATENATION",
        [X, weights(2, 2, 6, 3)],
        [made(2, 7, 6, 3)],
        ("ConcatenationOptions", {"axis": -3}),
    ),
    "split": ("SPLIT", [scalar(2), X], [made(2, 5, 2, 3)] * 3, ("SplitOptions", {"numSplits": 3})),
    "split_v": (
        "SPLIT_V",
        [X, ints(1, 3, 1), scalar(-3)],
        [made(2, 1, 6, 3), made(2, 3, 6, 3), made(2, 1, 6, 3)],
        ("SplitVOptions", {"numSplits": 3}),
    ),
    "slice": ("SLICE", [X, ints(0, 1, 2, 1), ints(-1, 3, 3, 2)], [made(2, 3, 3, 2)], ("SliceOptions", {})),
    "strided slice": sliced((1, 2, 3, 3), [0, 1, 1, 0], [1, 4, 6, 3], [1, 2, 2, 1]),
    "strided slice backwards": sliced((2, 3, 2, 3), [0, -1, 4, 0], [2, -6, 0, 3], [1, -2, -2, 1], beginMask=1),
    "strided slice masks": sliced((2, 4, 6, 2), [9, 1, 3, 0], [0, 0, 0, 2], [1, 1, 1, 1], beginMask=5, endMask=7),
    "strided slice shrinks": sliced((6, 3), [1, -1], [2, 0], [1, 1], shrinkAxisMask=3),
    "strided slice shrinks under a mask": sliced((6, 3), [1, 2], [2, 3], [1, 1], shrinkAxisMask=3, beginMask=1),
    "strided slice ellipsis": sliced((2, 5, 6, 1), [0, -1], [0, 3], [1, 1], ellipsisMask=1),
    "strided slice new axis": sliced((1, 2, 5, 6, 2), [0, 0, 0], [0, 0, 2], [1, 1, 1], newAxisMask=1, ellipsisMask=2),
    "pack": ("PACK", [FLAT, Input((4, 6)), FLAT], [made(4, 3, 6)], ("PackOptions", {"axis": 1, "valuesCount": 3})),
    "pack last": ("PACK", [FLAT, Input((4, 6))], [made(4, 6, 2)], ("PackOptions", {"axis": -1, "valuesCount": 2})),
    "pack one": ("PACK", [FLAT], [made(1, 4, 6)], ("PackOptions", {"axis": 0, "valuesCount": 1})),
    "unpack": ("UNPACK", [Input((2, 3, 4))], [made(2, 4)] * 3, ("UnpackOptions", {"axis": 1, "num": 3})),
    "pad": ("PAD", [X, ints([[0, 0], [1, 2], [0, 1], [2, 0]])], [made(2, 8, 7, 5)], ("PadOptions", {})),
    "padv2": ("PADV2", [FLAT, ints([[1, 0], [0, 2]]), Input.of(3.5)], [made(5, 8)], ("PadV2Options", {})),
    "reflect": ("MIRROR_PAD", [FLAT, ints([[1, 3], [5, 0]])], [made(8, 11)], ("MirrorPadOptions", {"mode": 0})),
    "symmetric": ("MIRROR_PAD", [FLAT, ints([[4, 1], [0, 6]])], [made(9, 12)], ("MirrorPadOptions", {"mode": 1})),
    "reshape": ("RESHAPE", [X, ints(2, 90)], [made(2, 90)], ("ReshapeOptions", {"newShape": [2, 90]})),
    "squeeze": ("SQUEEZE", [Input((1, 4, 1, 3))], [made(4, 3)], ("SqueezeOptions", {"squeezeDims": [0, 2]})),
    "expand dims": ("EXPAND_DIMS", [FLAT, scalar(1)], [made(4, 1, 6)], ("ExpandDimsOptions", {})),
    "transpose": ("TRANSPOSE", [X, ints(3, 0, 2, 1)], [made(3, 2, 6, 5)], ("TransposeOptions", {})),
    "tile": ("TILE", [Input((2, 1, 3)), ints(1, 4, 2)], [made(2, 4, 6)], ("TileOptions", {})),
    "broadcast to": ("BROADCAST_TO", [Input((5, 1, 3)), ints(2, 5, 6, 3)], [made(2, 5, 6, 3)], None),
    "space to depth": (
        "SPACE_TO_DEPTH",
        [Input((2, 4, 6, 3))],
        [made(2, 2, 3, 12)],
        ("SpaceToDepthOptions", {"blockSize": 2}),
    ),
    "depth to space": (
        "DEPTH_TO_SPACE",
        [Input((2, 3, 2, 8))],
        [made(2, 6, 4, 2)],
        ("DepthToSpaceOptions", {"blockSize": 2}),
    ),
    "space to batch": (
        "SPACE_TO_BATCH_ND",
        [X, ints(3, 2), ints([[1, 0], [0, 2]])],
        [made(12, 2, 4, 3)],
        ("SpaceToBatchNDOptions", {}),
    ),
    "batch to space": (
        "BATCH_TO_SPACE_ND",
        [Input((12, 2, 4, 3)), ints(3, 2), ints([[1, 0], [0, 2]])],
        [made(2, 5, 6, 3)],
        ("BatchToSpaceNDOptions", {}),
    ),
    "batch to space, three dimensions": (
        "BATCH_TO_SPACE_ND",
        [Input((4, 3, 2)), ints([2]), ints([[1, 1]])],
        [made(2, 4, 2)],
        ("BatchToSpaceNDOptions", {}),
    ),
    "gather": ("GATHER", [X, ints(4, 2, 0)], [made(2, 3, 6, 3)], ("GatherOptions", {"axis": 1})),
    "gather one": ("GATHER", [X, scalar(4)], [made(2, 5, 3)], ("GatherOptions", {"axis": -2})),
    "gather the same": ("GATHER", [FLAT, ints([[3, 3], [3, 3]])], [made(2, 2, 6)], ("GatherOptions", {"axis": 0})),
    "reverse": ("REVERSE_V2", [X, ints([2])], [made(2, 5, 6, 3)], ("ReverseV2Options", {})),
    "cast to whole": (
        "CAST",
        [X],
        [made(2, 5, 6, 3, dtype="int32")],
        ("CastOptions", {"inDataType": 0, "outDataType": 2}),
    ),
    "cast of bool": ("CAST", [BOOL], [made(2, 5, 6, 3)], ("CastOptions", {"inDataType": 6, "outDataType": 0})),
    "cast of bytes": (
        "CAST",
        [Input((4, 6), "uint8")],
        [made(4, 6)],
        ("CastOptions", {"inDataType": 3, "outDataType": 0}),
    ),
    "add_n": ("ADD_N", [FLAT, Input((4, 6))], [made(4, 6)], ("AddNOptions", {})),
    "dequantize float16": ("DEQUANTIZE", [Input((4, 6), "float16")], [made(4, 6)], ("DequantizeOptions", {})),
}
POSITIVE: dict[str, Case] = {
    **{name: unary(name) for name in ("LOG", "SQRT", "RSQRT")},
    "pow": binary("POW", X, weights(3), ("PowOptions", {})),
    "l2 of small numbers": ("L2_NORMALIZATION", [Input((4, 6))], [made(4, 6)], ("L2NormOptions", {})),
}
