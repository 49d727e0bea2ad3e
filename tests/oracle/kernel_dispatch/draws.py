"""Random operators of small shapes, drawn so that all branches of the kernels are hit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.oracle.kernel_dispatch.case import Case
from tests.oracle.kernel_dispatch.dispatch import BINARY, UNARY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from edgemem.model.graph import Attribute
    from tests.oracle.kernel_dispatch.case import Shape

_FLOAT_ONLY: Final = frozenset(["FLOOR", "CEIL", "ROUND", "EXP", "NEG", "SIN", "COS", "LOG", "SQRT", "SQUARE"])
_FLOAT_INT8: Final = frozenset(("HARD_SWISH", "ELU"))
_BLOCKED_CHANNELS: Final = 124  # CMSIS-NN's block of channels with Helium
_CONVERSIONS: Final = (
    *(("QUANTIZE", *pair) for pair in (("float32", "int8"), ("float32", "int16"), ("int8", "int8"), ("int8", "int16"))),
    *(("QUANTIZE", *pair) for pair in (("int16", "int8"), ("int16", "int16"), ("int16", "int32"), ("int8", "int32"))),
    *(("QUANTIZE", *pair) for pair in (("int32", "int8"), ("int32", "int16"), ("uint8", "int8"), ("int8", "uint8"))),
    *(("DEQUANTIZE", dtype, "float32") for dtype in ("int8", "int16", "uint8")),
)


def draw(rng: Random) -> Case:
    """A random operator."""
    families: list[tuple[Callable[[Random], Case | None], int]] = [
        (_convolution, 8),
        (_depthwise, 8),
        (_pool, 6),
        (_fully_connected, 2),
        (_unary, 2),
        (_conversion, 2),
        (_binary, 4),
        (_pad, 4),
        (_slice, 3),
        (_concatenation, 3),
        (_resize, 4),
        (_softmax, 1),
        (_rearranged, 3),
    ]
    while True:
        family = rng.choices([one for one, _ in families], [weight for _, weight in families])[0]
        case = family(rng)
        if case is not None and case.made_size and case.read_size:
            return case


def _dtype(rng: Random) -> str:
    return rng.choice(("int8", "int8", "int8", "int16", "float32"))


def _slid(
    rng: Random, shape: Shape, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[Shape, Mapping[str, Attribute]] | None:
    """Height and width of what a window makes of a shape, and the attributes; None if it does not fit."""
    is_same = rng.random() < 0.5
    made, before, after = [], [], []
    for k in range(2):
        reach, given = (kernel[k] - 1) * dilation[k] + 1, shape[1 + k]
        extent = -(-given // stride[k]) if is_same else (given - reach) // stride[k] + 1
        if extent < 1:
            return None
        padded = max((extent - 1) * stride[k] + reach - given, 0) if is_same else 0
        made.append(extent)
        before.append(padded // 2)
        after.append(padded - padded // 2)
    return tuple(made), {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": (*before, *after)}


def _window(rng: Random, *, is_dilated: bool) -> tuple[Shape, Shape, Shape]:
    kernel = (rng.choice((1, 1, 2, 3, 3, 5)), rng.choice((1, 2, 3, 3, 4, 5)))
    kernel = rng.choice((kernel, (1, 1), (3, 3), (1, kernel[1])))
    stride = rng.choice(((1, 1), (1, 1), (2, 2), (rng.randint(1, 4), rng.randint(1, 4))))
    dilation = (rng.randint(1, 3), rng.randint(1, 3)) if is_dilated and rng.random() < 0.25 else (1, 1)
    return kernel, stride, dilation


def _image(rng: Random, depth: int) -> Shape:
    most = 7 if depth < 20 else 4
    height = 1 if rng.random() < 0.25 else rng.randint(1, most)
    return (2 if rng.random() < 0.2 else 1, height, rng.randint(1, most + (5 if height == 1 else 0)), depth)


def _convolution(rng: Random) -> Case | None:
    groups = rng.choice((1, 1, 1, 2, 3))
    filter_depth = rng.choice((1, 2, 3, 4, 5, 8, 17))
    shape = _image(rng, filter_depth * groups)
    kernel, stride, dilation = _window(rng, is_dilated=True)
    if rng.random() < 0.15:  # what CMSIS-NN takes for a 1xN convolution: one row, steps of whole words
        shape, groups = (shape[0], 1, rng.randint(1, 12), filter_depth), 1
        kernel, stride, dilation = (1, rng.randint(1, 6)), (1, 4 if filter_depth % 2 else 2), (1, 1)
    slid = _slid(rng, shape, kernel, stride, dilation)
    if slid is None:
        return None
    channels = groups * rng.choice((1, 1, 2, 3, 4, 5, 6, 9))
    if rng.random() < 0.2:
        channels = shape[3]
    dtype = _dtype(rng)
    weights = (channels, *kernel, filter_depth)
    made = (shape[0], *slid[0], channels)
    return Case("CONV_2D", (shape, weights, (channels,)), made, dtype, dtype, 0, frozenset((1, 2)), slid[1])


def _depthwise(rng: Random) -> Case | None:
    depth = rng.choice((1, 1, 1, 2, 3, 4, 5, 7, 8, 17, _BLOCKED_CHANNELS + rng.randint(0, 6)))
    multiplier = rng.choice((1, 1, 1, 2, 3, 4, 8, 9)) if depth < 20 else 1
    shape = _image(rng, depth)
    kernel, stride, dilation = _window(rng, is_dilated=True)
    if depth == 1 and rng.random() < 0.3:
        kernel = (1, 1)
    slid = _slid(rng, shape, kernel, stride, dilation)
    if slid is None:
        return None
    channels, dtype = depth * multiplier, _dtype(rng)
    weights, made = (1, *kernel, channels), (shape[0], *slid[0], channels)
    return Case("DEPTHWISE_CONV_2D", (shape, weights, (channels,)), made, dtype, dtype, 0, frozenset((1, 2)), slid[1])


def _pool(rng: Random) -> Case | None:
    shape = _image(rng, rng.choice((1, 2, 3, 4, 5, 8, 15, 16, 17, 19, 32, 33)))
    kernel, stride, dilation = _window(rng, is_dilated=False)
    slid = _slid(rng, shape, kernel, stride, dilation)
    if slid is None:
        return None
    dtype = _dtype(rng)
    kind = rng.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
    return Case(kind, (shape,), (shape[0], *slid[0], shape[3]), dtype, dtype, attributes=slid[1])


def _fully_connected(rng: Random) -> Case:
    depth, units, dtype = rng.randint(1, 20), rng.randint(1, 20), _dtype(rng)
    rows = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
    inputs = ((*rows, depth), (units, depth), (units,))
    return Case("FULLY_CONNECTED", inputs, (*rows, units), dtype, dtype, 0, frozenset((1, 2)))


def _shape(rng: Random, least: int = 1) -> Shape:
    return tuple(rng.randint(1, 6) for _ in range(rng.randint(least, 4)))


def _unary(rng: Random) -> Case:
    kind = rng.choice([kind for kind in UNARY if not kind.endswith("QUANTIZE")])
    dtype = _dtype(rng)
    if kind == "LOGICAL_NOT":
        dtype = "bool"
    elif kind in _FLOAT_ONLY:
        dtype = "float32"
    elif kind in _FLOAT_INT8 and dtype == "int16":
        dtype = "int8"
    shape = _shape(rng)
    return Case(kind, (shape,), shape, dtype, dtype)


def _conversion(rng: Random) -> Case:
    shape = _shape(rng)
    kind, dtype, made = rng.choice(_CONVERSIONS)
    return Case(kind, (shape,), shape, dtype, made)


def _binary(rng: Random) -> Case:
    kind, dtype, shape = rng.choice(BINARY), _dtype(rng), _shape(rng)
    if kind.startswith("LOGICAL"):
        dtype = "bool"
    small = shape
    if rng.random() < 0.6:
        small = tuple(1 if rng.random() < 0.5 else extent for extent in shape)
        small = small[rng.randint(0, len(small) - 1) :] if rng.random() < 0.4 else small
    position = 0 if kind == "PRELU" else rng.randint(0, 1)
    shapes, own = (shape, small), 0
    if position == 1 or (kind != "PRELU" and rng.random() < 0.3):
        shapes = rng.choice(((shape, small), (small, shape)))
        own = position
    constants = frozenset((1 - own,)) if kind == "PRELU" or rng.random() < 0.5 else frozenset()
    return Case(kind, shapes, shape, dtype, dtype, own, constants)


def _pad(rng: Random) -> Case:
    shape, dtype = _shape(rng), _dtype(rng)
    paddings = [0 if rng.random() < 0.4 else rng.randint(0, 3) for _ in range(2 * len(shape))]
    if rng.random() < 0.4:
        paddings[-2:] = 0, 0
    made = tuple(extent + paddings[2 * k] + paddings[2 * k + 1] for k, extent in enumerate(shape))
    attributes: dict[str, Attribute] = {"paddings": tuple(paddings)}
    if rng.random() < 0.5:
        return Case("PAD", (shape, (len(shape), 2)), made, dtype, dtype, 0, frozenset((1,)), attributes)
    return Case("PADV2", (shape, (len(shape), 2), ()), made, dtype, dtype, 0, frozenset((1, 2)), attributes)


def _slice(rng: Random) -> Case:
    shape, dtype = _shape(rng), _dtype(rng)
    begin = tuple(0 if rng.random() < 0.4 else rng.randrange(extent) for extent in shape)
    made = tuple(
        extent - start if rng.random() < 0.4 else rng.randint(1, extent - start)
        for extent, start in zip(shape, begin, strict=True)
    )
    constants = ((len(shape),), (len(shape),))
    return Case("SLICE", (shape, *constants), made, dtype, dtype, 0, frozenset((1, 2)), {"begin": begin, "size": made})


def _concatenation(rng: Random) -> Case:
    shape, dtype = _shape(rng), _dtype(rng)
    axis = rng.randrange(len(shape))
    shapes = [(*shape[:axis], rng.randint(1, 5), *shape[axis + 1 :]) for _ in range(rng.randint(1, 4))]
    made = (*shape[:axis], sum(one[axis] for one in shapes), *shape[axis + 1 :])
    position = rng.randrange(len(shapes))
    return Case("CONCATENATION", tuple(shapes), made, dtype, dtype, position, attributes={"axis": axis})


def _resize(rng: Random) -> Case:
    kind = rng.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    dtype = _dtype(rng)
    if kind == "RESIZE_BILINEAR" and dtype == "int16":
        dtype = "int8"
    shape = (rng.randint(1, 2), rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 5))
    made = (shape[0], rng.randint(1, 9), rng.randint(1, 9), shape[3])
    if rng.random() < 0.3:
        made = (shape[0], 2 * shape[1], 2 * shape[2], shape[3])
    corners, half = rng.choice(((0, 0), (1, 0), (0, 1)))
    attributes: dict[str, Attribute] = {"align_corners": corners, "half_pixel_centers": half}
    return Case(kind, (shape, (2,)), made, dtype, dtype, 0, frozenset((1,)), attributes)


def _softmax(rng: Random) -> Case:
    shape, dtype = _shape(rng), _dtype(rng)
    return Case("SOFTMAX", (shape,), shape, dtype, "int16" if dtype == "int8" and rng.random() < 0.3 else dtype)


def _rearranged(rng: Random) -> Case:
    """Operators whose constants the planner is not told."""
    shape, dtype = _shape(rng), _dtype(rng)
    kind = rng.choice(("RESHAPE", "SQUEEZE", "TRANSPOSE", "STRIDED_SLICE", "MEAN"))
    made, hidden = tuple(extent for extent in shape if extent != 1) or (1,), {}
    if kind == "RESHAPE":
        made = (shape[0] * shape[-1], *shape[1:-1]) if len(shape) > 1 else (1, *shape)
    elif kind == "TRANSPOSE":
        permutation = rng.sample(range(len(shape)), len(shape))
        made, hidden = tuple(shape[k] for k in permutation), {"permutation": tuple(permutation)}
    elif kind == "STRIDED_SLICE":
        strides = tuple(rng.choice((1, 1, 2, 3)) for _ in shape)
        made, hidden = (
            tuple(-(-extent // step) for extent, step in zip(shape, strides, strict=True)),
            {"strides": strides},
        )
    elif kind == "MEAN":
        axes = (1, 2) if len(shape) == 4 else (rng.randrange(len(shape)),)
        made, hidden = tuple(1 if k in axes else extent for k, extent in enumerate(shape)), {"axes": axes}
    constants = ((len(shape),),) if kind != "SQUEEZE" else ()
    return Case(kind, (shape, *constants), made, dtype, dtype, 0, frozenset(range(1, 1 + len(constants))), {}, hidden)
