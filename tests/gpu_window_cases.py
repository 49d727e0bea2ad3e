"""Random tensor operations that tell channels apart: convolutions, pools, resizes."""

from __future__ import annotations

from fractions import Fraction

from edgemem.model.tensor_ops import (
    Convolution,
    LineConvolution,
    LocalResponse,
    Pool,
    Resize,
    TransposedConvolution,
)
from tests.gpu_draws import AFTER, OUTPUT, Case, Draw
from tests.oracle.positions import position

__all__ = ["convolution", "line_convolution", "local_response", "pool", "resize", "transposed"]


def _channels(draw: Draw) -> tuple[int, int, int]:
    """In, out, groups."""
    if draw.chance(0.35):
        groups = draw.one_of((1, 2, 3, 4, 5, 8, 13, 16, 33))
        return groups, groups * draw.one_of((1, 1, 1, 2, 3)), groups
    groups = draw.one_of((1, 1, 1, 2, 3))
    each = draw.one_of((1, 2, 3, 4, 5, 8, 17, 32))
    return groups * each, groups * draw.one_of((1, 2, 3, 4, 6, 8, 21, 32)), groups


def line_convolution(draw: Draw) -> Case:
    """Along the last of three dimensions."""
    channels, out_channels, groups = _channels(draw)
    width, kernel, stride, dilation = (
        draw.below(1, 40),
        draw.one_of((1, 2, 3, 5, 10)),
        draw.below(1, 5),
        draw.below(1, 3),
    )
    pad, batch = draw.below(0, (kernel - 1) * dilation), draw.one_of((1, 2, 3))
    op = LineConvolution(
        input=0,
        output=OUTPUT,
        weights=draw.values(out_channels, kernel, channels // groups),
        bias=draw.values(out_channels) if draw.chance(0.7) else None,
        stride=stride,
        dilation=dilation,
        pad=pad,
        groups=groups,
        function=draw.one_of(AFTER),
    )
    made = draw.below(max(1, (width + pad - (kernel - 1) * dilation - 1) // stride), (width + pad - 1) // stride + 1)
    return Case(op, {0: draw.values(batch, channels, width)}, (batch, out_channels, made), draw.layout)


def convolution(draw: Draw) -> Case:
    channels, out_channels, groups = _channels(draw)
    kernel = draw.one_of(((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (2, 3)))
    stride = draw.one_of(((1, 1), (1, 1), (2, 2), (2, 1), (3, 2)))
    dilation = draw.one_of(((1, 1), (1, 1), (2, 2), (3, 1)))
    batch, (height, width) = draw.one_of((1, 1, 2, 3)), draw.two(1, 19)
    pads = tuple(draw.below(0, (k - 1) * d) for k, d in zip(kernel, dilation, strict=True))
    out_height, out_width = (
        draw.below(max(1, (n + p - (k - 1) * d - 1) // s), (n + p - 1) // s + 1)
        for n, p, k, d, s in zip((height, width), pads, kernel, dilation, stride, strict=True)
    )
    shape = draw.image(batch, out_height, out_width, out_channels)
    values = {0: draw.values(*draw.image(batch, height, width, channels))}
    added = -1
    if draw.chance(0.25):
        added = 0 if values[0].shape == shape and draw.chance() else 1
        values.setdefault(added, draw.values(*shape))
    op = Convolution(
        input=0,
        output=OUTPUT,
        weights=draw.values(out_channels, *kernel, channels // groups),
        bias=draw.values(out_channels) if draw.chance(0.7) else None,
        stride=stride,
        dilation=dilation,
        pads=(pads[0], pads[1]),
        groups=groups,
        added=added,
        function=draw.one_of(AFTER),
    )
    return Case(op, values, shape, draw.layout)


def transposed(draw: Draw) -> Case:
    channels, out_channels, groups = _channels(draw)
    kernel, stride = draw.one_of(((1, 1), (2, 2), (3, 3), (4, 4), (3, 2), (5, 1))), draw.two(1, 3)
    dilation = draw.one_of(((1, 1), (1, 1), (1, 1), (2, 1), (2, 3)))
    batch, (height, width) = draw.one_of((1, 1, 2)), draw.two(1, 9)
    whole = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip((height, width), stride, kernel, dilation, strict=True)
    ]
    pads = tuple(draw.below(0, min(2, n - 1)) for n in whole)
    sizes = [draw.below(max(1, n - p - 2), n - p + 1) for n, p in zip(whole, pads, strict=True)]
    op = TransposedConvolution(
        input=0,
        output=OUTPUT,
        weights=draw.values(out_channels, *kernel, channels // groups),
        bias=draw.values(out_channels) if draw.chance(0.7) else None,
        stride=stride,
        dilation=dilation,
        pads=(pads[0], pads[1]),
        groups=groups,
        function=draw.one_of(AFTER),
    )
    values = {0: draw.values(*draw.image(batch, height, width, channels))}
    return Case(op, values, draw.image(batch, sizes[0], sizes[1], out_channels), draw.layout)


def pool(draw: Draw) -> Case:
    batch, (height, width), channels = draw.below(1, 2), draw.two(1, 14), draw.one_of((1, 3, 4, 6, 9, 16))
    kernel, stride, dilation = draw.two(1, 4), draw.two(1, 3), draw.one_of(((1, 1), (1, 1), (2, 1)))
    if draw.chance(0.2):
        kernel, stride, dilation = (height, width), (1, 1), (1, 1)
    tops = [draw.below(0, k - 1) for k in kernel]
    ends = [draw.below(0, k - 1) for k in kernel]
    sizes = []
    for n, before, after, k, d, s in zip((height, width), tops, ends, kernel, dilation, stride, strict=True):
        span = max(n + before + after - (k - 1) * d - 1, 0)
        size = span // s + 1
        if span % s and draw.chance() and size * s < n + before:
            size += 1
        sizes.append(size)
    op = Pool(
        kind=draw.one_of(("max", "average")),
        input=0,
        output=OUTPUT,
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        pads=(tops[0], tops[1], ends[0], ends[1]),
        counts_padding=draw.chance(),
        function=draw.one_of(AFTER),
    )
    values = {0: draw.values(*draw.image(batch, height, width, channels))}
    return Case(op, values, draw.image(batch, sizes[0], sizes[1], channels), draw.layout)


def resize(draw: Draw) -> Case:
    batch, (height, width), channels = draw.below(1, 2), draw.two(1, 9), draw.one_of((1, 3, 4, 7))
    sizes = draw.two(1, 17)
    mode = draw.one_of(("nearest", "linear"))
    known = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
    coordinates = draw.one_of([*known, "tf_half_pixel"] if mode == "nearest" else known)
    rounding = draw.one_of(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    while mode == "nearest" and any(
        _is_close(rounding, coordinates, a, b) for a, b in zip((height, width), sizes, strict=True)
    ):
        sizes = draw.two(1, 17)
    op = Resize(mode=mode, input=0, output=OUTPUT, coordinates=coordinates, rounding=rounding)
    values = {0: draw.values(*draw.image(batch, height, width, channels))}
    return Case(op, values, draw.image(batch, *sizes, channels), draw.layout)


def _is_close(rounding: str, coordinates: str, size_in: int, size_out: int) -> bool:
    """Whether a position is where its rounding depends on the last bit of a float that is no fraction of two."""
    scale = Fraction(size_in, size_out)
    places = [position(coordinates, o, scale, size_in, size_out) for o in range(size_out)]
    if coordinates == "align_corners" and size_out > 1:
        scale = Fraction(size_in - 1, size_out - 1)
    half = Fraction(1, 2) if rounding.startswith("round") else 0
    return scale.denominator & (scale.denominator - 1) != 0 and any((p + half).denominator == 1 for p in places[1:])


def local_response(draw: Draw) -> Case:
    shape = draw.image(draw.below(1, 2), *draw.two(1, 5), draw.one_of((1, 3, 4, 5, 8, 11)))
    op = LocalResponse(
        input=0,
        output=OUTPUT,
        before=draw.below(0, 5),
        after=draw.below(0, 5),
        alpha=draw.one_of((1e-4, 0.3)),
        beta=draw.one_of((0.5, 0.75)),
        bias=draw.one_of((1.0, 2.0)),
    )
    return Case(op, {0: draw.values(*shape)}, shape, draw.layout)
