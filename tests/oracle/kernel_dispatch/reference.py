"""The loops of TensorFlow Lite Micro's reference kernels, at commit 90b983c2.

Paths are below tensorflow/lite; KR stands for kernels/internal/reference, MK for micro/kernels. Reference kernels read
and write single elements, except where they call memcpy. A kernel that is dispatched on the dtype alone has the same
loops for all of its dtypes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tests.oracle.kernel_dispatch.case import Window, grid, span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.oracle.kernel_dispatch.case import Case, Shape
    from tests.oracle.kernel_dispatch.trace import Trace


def convolution(case: Case, trace: Trace) -> None:
    """KR/conv.h:62-107 (float32), KR/integer_ops/conv.h:72 (int8), :184 (int16).

    An output channel of a pixel is written before the next one reads the window again.
    """
    window = Window.of(case)
    depth, channels = case.shapes[1][3], case.made[3]
    groups = case.shape[3] // depth
    trace.branch("reference convolution, grouped" if groups > 1 else "reference convolution")
    for _, starts, to in window.pixels():
        for channel in range(channels):
            trace.read(grid(starts, channel // (channels // groups) * depth, depth))
            trace.write([to + channel])


def depthwise(case: Case, trace: Trace) -> None:
    """KR/depthwiseconv_float.h:57-97, KR/integer_ops/depthwise_conv.h:63 (int8), :160 (int16)."""
    window, depth = Window.of(case), case.shape[3]
    multiplier = case.made[3] // depth
    trace.branch("reference depthwise, multiplier" if multiplier > 1 else "reference depthwise")
    for _, starts, to in window.pixels():
        for channel in range(depth * multiplier):
            trace.read(starts + channel // multiplier)
            trace.write([to + channel])


def pool(case: Case, trace: Trace) -> None:
    """KR/pooling.h:42-81 (average), :209-247 (maximum), KR/integer_ops/pooling.h:42, :105, :160, :223."""
    trace.branch("reference pool")
    for _, starts, to in Window.of(case).pixels():
        for channel in range(case.shape[3]):
            trace.read(starts + channel)
            trace.write([to + channel])


def fully_connected(case: Case, trace: Trace) -> None:
    """KR/fully_connected.h:50-62, KR/integer_ops/fully_connected.h:57, :105, :160, :210: one output at a time."""
    trace.branch("reference fully connected")
    units, depth = case.shapes[1]
    for row in range(case.made_size // units):
        for unit in range(units):
            trace.read(slice(row * depth, (row + 1) * depth))
            trace.write([row * units + unit])


def elementwise(case: Case, trace: Trace) -> None:
    """One element in, one out.

    MK/activations_common.cc:68, :79 (RELU, RELU6), MK/elementwise.cc:151 (ABS, SIN, ...), MK/elu.cc:77, KR/elu.h:28,
    KR/exp.h:30, KR/ceil.h:30, KR/floor.h:31, KR/round.h:41, KR/neg.h:29, KR/tanh.h:34, KR/integer_ops/tanh.h:40, :83,
    KR/logistic.h:46, KR/integer_ops/logistic.h:37, :82, KR/leaky_relu.h:30, :56, KR/hard_swish.h:52, :68,
    KR/quantize.h:43, KR/dequantize.h:39, KR/requantize.h:47, :55.
    """
    trace.branch("reference element by element")
    every = np.arange(case.made_size)
    trace.each(every, every)


def binary(case: Case, trace: Trace) -> None:
    """Two inputs of one shape, or a broadcast of either.

    One shape: KR/add.h:38, :52, KR/mul.h:36, :62, :78, KR/integer_ops/add.h, KR/integer_ops/mul.h:35, :78,
    KR/sub.h:131, :248, KR/div.h:51, :225, KR/maximum_minimum.h:37, KR/binary_function.h:52, KR/prelu.h:71. Otherwise
    `BroadcastBinaryOpSimple`, KR/broadcast_loop.h:90-187; MK/prelu_common.cc:67-76 for PRELU of float32, which reads
    the alpha anew for each element.
    """
    shapes = case.shapes[:2]
    if shapes[0] == shapes[1]:
        trace.branch("reference binary")
        every = np.arange(case.made_size)
        trace.each(every, every)
        return
    if case.type == "PRELU" and case.dtype == "float32":
        trace.branch("reference prelu")
        read = np.broadcast_to(np.arange(case.read_size).reshape(case.shape), case.made).ravel()
        trace.each(read, np.arange(case.made_size))
        return
    _broadcast(case, trace)


def _broadcast(case: Case, trace: Trace) -> None:
    """KR/broadcast_loop.h: dimensions are fused from the innermost; a broadcast input is read once per inner loop."""
    own, other = _strides(case.shape, case.made), _strides(case.shapes[1 - case.position], case.made)
    loops: list[list[int]] = []  # extent, stride of the input, of the other, of the output; innermost first
    made_stride = 1
    for extent, a, b in zip(case.made[::-1], own[::-1], other[::-1], strict=True):
        fits = loops and all(
            extent == 1 or (step[0] == 0 if last == 0 else step[0] == step[1])
            for step, last in zip((a, b, (made_stride, made_stride)), loops[-1][1:], strict=True)
        )
        if fits:
            loops[-1][0] *= extent
        else:
            loops.append([extent, a[0], b[0], made_stride])
        made_stride *= extent
    inner, outer = loops[0], loops[:0:-1]
    is_fixed = inner[1] == 0
    trace.branch("reference broadcast of this input" if case.read_size < case.made_size else "reference broadcast")
    for place in np.ndindex(*(loop[0] for loop in outer)):
        start = sum(k * loop[1] for k, loop in zip(place, outer, strict=True))
        to = sum(k * loop[3] for k, loop in zip(place, outer, strict=True))
        if is_fixed:
            trace.read([start])
            trace.write(span(to, inner[0]))
        else:
            trace.each(span(start, inner[0]), span(to, inner[0]))


def _strides(shape: Shape, made: Shape) -> list[tuple[int, int]]:
    """Of each of the output's dimensions the input's stride, 0 where it is broadcast, and the stride that fuses."""
    shape = (1,) * (len(made) - len(shape)) + shape
    return [
        (0 if extent == 1 and out != 1 else prod(shape[k + 1 :]), prod(shape[k + 1 :]))
        for k, (extent, out) in enumerate(zip(shape, made, strict=True))
    ]


def pad(case: Case, trace: Trace) -> None:
    """KR/pad.h:92-117: one element of the output after the other, from the padding or from the input."""
    trace.branch("reference pad")
    inside = _inside(case)
    time = 0
    for element in range(case.made_size):
        if inside[element]:
            trace.copy(element, time, 1, block=1)
            time += 1
        else:
            trace.write([element])


def _inside(case: Case) -> NDArray[np.bool_]:
    paddings = case.numbers("paddings")
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    mask = np.zeros(case.made, bool)
    mask[tuple(slice(before, before + extent) for (before, _), extent in zip(pairs, case.shape, strict=True))] = True
    return mask.ravel()


def cut(case: Case, trace: Trace) -> None:
    """SLICE: KR/slice.h:103-113 with KR/../portable_tensor.h:128, one element after the other."""
    trace.branch("reference slice")
    begin = case.numbers("begin")
    whole = np.arange(case.read_size).reshape(case.shape)
    read = whole[tuple(slice(b, b + s) for b, s in zip(begin, case.made, strict=True))].ravel()
    for element, start in enumerate(read.tolist()):
        trace.copy(element, start, 1, block=1)


def concatenate(case: Case, trace: Trace) -> None:
    """KR/concatenation.h:62-72: of each outer index a memcpy from each input in turn."""
    trace.branch("reference concatenation")
    axis = case.number("axis")
    outer, sizes = prod(case.made[:axis]), [prod(shape[axis:]) for shape in case.shapes]
    to = 0
    for k in range(outer):
        for position, size in enumerate(sizes):
            if position == case.position:
                trace.copy(to, k * size, size)
            else:
                trace.write(span(to, size))
            to += size


def resize_nearest(case: Case, trace: Trace) -> None:
    """KR/resize_nearest_neighbor.h:27-99: a memcpy of the channels of each output pixel."""
    trace.branch("reference resize, nearest")
    n, height, width, depth = case.shape
    corners, half = (case.number(name) for name in ("align_corners", "half_pixel_centers"))
    ys = [_nearest(y, height, case.made[1], corners, half) for y in range(case.made[1])]
    xs = [_nearest(x, width, case.made[2], corners, half) for x in range(case.made[2])]
    to = 0
    for batch in range(n):
        for y in ys:
            for x in xs:
                trace.copy(to, ((batch * height + y) * width + x) * depth, depth)
                to += depth


def _nearest(value: int, given: int, made: int, corners: int, half: int) -> int:
    one = np.float32(1)
    scale = (given - 1) * one / np.float32(made - 1) if corners and made > 1 else given * one / np.float32(made)
    at = (np.float32(value) + np.float32(0.5 if half else 0)) * scale
    # TfLiteRound: halves away from zero, and no value is negative.
    found = min(int(np.floor(at + np.float32(0.5))) if corners else int(np.floor(at)), given - 1)
    return max(found, 0) if half else found


def resize_bilinear(case: Case, trace: Trace) -> None:
    """KR/resize_bilinear.h:91-122 (float32), :180-231 (int8).

    All four neighbours are read, but one with a weight of zero does not change the result.
    """
    trace.branch("reference resize, bilinear")
    n, height, width, depth = case.shape
    values = _between if case.dtype == "float32" else _between_integers
    corners, half = (case.number(name) for name in ("align_corners", "half_pixel_centers"))
    ys = [values(y, height, case.made[1], corners, half) for y in range(case.made[1])]
    xs = [values(x, width, case.made[2], corners, half) for x in range(case.made[2])]
    to = 0
    for batch in range(n):
        for rows in ys:
            for columns in xs:
                starts = np.array([((batch * height + y) * width + x) * depth for y in rows for x in columns])
                for channel in range(depth):
                    trace.read(starts + channel)
                    trace.write([to])
                    to += 1


def _between(value: int, given: int, made: int, corners: int, half: int) -> list[int]:
    """The neighbours with a weight, :27-43."""
    scale = np.float32(given) / np.float32(made)
    if corners and made > 1:
        scale = np.float32(given - 1) / np.float32(made - 1)
    at = (np.float32(value) + np.float32(0.5)) * scale - np.float32(0.5) if half else np.float32(value) * scale
    low, high = max(int(np.floor(at)), 0), min(int(np.ceil(at)), given - 1)
    return [k for k, weight in ((low, 1 - (at - low)), (high, at - low)) if weight != 0]


def _between_integers(value: int, given: int, made: int, corners: int, half: int) -> list[int]:
    """The neighbours with a weight, :125-138; divisions round towards zero."""
    scale = (1024 * given + made // 2) // made
    if corners and made > 1:
        scale = (1024 * (given - 1) + (made - 1) // 2) // (made - 1)
    at = value * scale + (scale // 2 - 512 if half else 0)
    low, high = max(int(at / 1024), 0), min(int((at + 1023) / 1024), given - 1)
    return [k for k, weight in ((low, 1024 - (at - 1024 * low)), (high, at - 1024 * low)) if weight != 0]
