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


def softmax(case: Case, trace: Trace) -> None:
    """KR/softmax.h:41-62 (float32), :87-149 (int8), :180-231 (int16): a row is read once or twice, then written.

    The last pass that reads the row writes an element after it has read it.
    """
    trace.branch("reference softmax")
    depth = case.shape[-1]
    for start in range(0, case.read_size, depth):
        row = span(start, depth)
        trace.read(row)
        trace.each(row, row)


def mean(case: Case, trace: Trace) -> None:
    """MK/reduce_common.cc:304-345.

    Of float32 along height and width, with the dimensions kept: KR/reduce.h:354-364, an output after the other.
    Everything else: KR/reduce.h:286, :402, which set the whole output to zero before they read.
    """
    axes = case.hidden["axes"]
    rank = len(case.shape)
    if case.dtype == "float32" and rank == len(case.made) == 4 and axes == (1, 2):
        trace.branch("reference mean of pixels")
        pixels, depth = case.shape[1] * case.shape[2], case.shape[3]
        for batch in range(case.shape[0]):
            for channel in range(depth):
                trace.read(span(batch * pixels, pixels) * depth + channel)
                trace.write([batch * depth + channel])
        return
    trace.branch("reference mean")
    trace.write(span(0, case.made_size))
    trace.read(span(0, case.read_size))
    trace.write(span(0, case.made_size))
