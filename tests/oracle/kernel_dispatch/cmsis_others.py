"""Kernels in CMSIS-NN 99f736a besides CONV_2D, for cores with the DSP extension and for cores with Helium (MVE).

Paths are below Source; MK stands for tflite-micro's micro/kernels/cmsis_nn.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.oracle.kernel_dispatch import reference
from tests.oracle.kernel_dispatch.case import Window, grid, span
from tests.oracle.kernel_dispatch.cmsis_convolution import multiply_one_row, run_convolution, run_one_by_one_fast

if TYPE_CHECKING:
    from tests.oracle.kernel_dispatch.case import Case
    from tests.oracle.kernel_dispatch.cmsis_convolution import Core
    from tests.oracle.kernel_dispatch.trace import Trace

_CHANNEL_BLOCK: Final = 124  # CH_IN_BLOCK_MVE, Include/arm_nnsupportfunctions.h:65
_VECTOR: Final = 16  # bytes


def depthwise(case: Case, trace: Trace, core: Core) -> None:
    """ConvolutionFunctions/arm_depthwise_conv_wrapper_s8.c:95-182: the dispatch on shapes.

    With Helium, one input channel with more output channels than a threshold is an ordinary convolution (:110-122);
    the threshold depends on the compiler, Include/arm_nnsupportfunctions.h:80-87. Of int16, MK/depthwise_conv.cc:363:
    arm_depthwise_conv_s16.c:262, element by element.
    """
    window, depth = Window.of(case), case.shape[3]
    channels, is_int8 = case.made[3], case.dtype == "int8"
    if is_int8 and core.has_helium and depth == 1 and channels > (8 if core.compiler == "armclang" else 1):
        trace.branch("depthwise as convolution")
        run_convolution(window, 1, trace, core)
    elif is_int8 and channels == depth and case.shape[0] == 1 and window.dilation == (1, 1):
        if not core.has_helium and window.kernel == (3, 3) and max(window.pads[:2]) <= 1:
            _depthwise_3x3(window, trace)
        elif core.has_helium:
            _depthwise_blocks(window, trace)
        else:
            _depthwise_columns(window, trace)
    elif is_int8 and channels // depth % 4 == 0 and case.shape[0] == 1 and window.dilation == (1, 1):
        _depthwise_by_four(window, trace)
    else:
        trace.branch("depthwise, generic")  # arm_depthwise_conv_s8.c:192-283: element by element
        for _, starts, to in window.pixels():
            for channel in range(channels):
                trace.read(starts + channel // (channels // depth))
                trace.write([to + channel])


def _depthwise_3x3(window: Window, trace: Trace) -> None:
    """ConvolutionFunctions/arm_depthwise_conv_3x3_s8.c:107-337: four channels at a time, those left over one by one."""
    trace.branch("depthwise 3x3")
    depth = window.given[3]
    for _, starts, to in window.pixels():
        channel = 0
        while channel < depth:
            count = 4 if channel <= depth - 4 else 1
            trace.read(grid(starts, channel, count))
            trace.write(span(to + channel, count))
            channel += count


def _depthwise_columns(window: Window, trace: Trace) -> None:
    """ConvolutionFunctions/arm_depthwise_conv_s8_opt.c:229-410 (DSP): copies a window, then computes all channels."""
    trace.branch("depthwise, optimised")
    depth = window.given[3]
    for _, starts, to in window.pixels():
        trace.read(grid(starts, 0, depth))
        trace.write(span(to, depth))


def _depthwise_blocks(window: Window, trace: Trace) -> None:
    """ConvolutionFunctions/arm_depthwise_conv_s8_opt.c:91-226 (MVE): blocks of channels, outermost; four pixels each.

    Four windows are copied to a buffer and computed; those left over at the end of a block of channels likewise.
    """
    depth, pixels = window.given[3], window.pixels()
    trace.branch("depthwise, optimised, blocks" if depth > _CHANNEL_BLOCK else "depthwise, optimised")
    for channel in range(0, depth, _CHANNEL_BLOCK):
        count = min(_CHANNEL_BLOCK, depth - channel)
        for first in range(0, len(pixels), 4):
            some = pixels[first : first + 4]
            for _, starts, _ in some:
                trace.read(grid(starts, channel, count))
            trace.write(grid([to for _, _, to in some], channel, count))


def _depthwise_by_four(window: Window, trace: Trace) -> None:
    """ConvolutionFunctions/arm_depthwise_conv_s8.c:46-190: of each channel in turn four of its outputs at a time."""
    trace.branch("depthwise, multiple of four")
    multiplier = window.made[3] // window.given[3]
    for _, starts, to in window.pixels():
        for channel in range(window.given[3]):
            for tile in range(0, multiplier, 4):
                trace.read(starts + channel)
                trace.write(span(to + channel * multiplier + tile, 4))


def average_pool(case: Case, trace: Trace, core: Core) -> None:
    """PoolingFunctions/arm_avgpool_s8.c, arm_avgpool_s16.c: a vector of channels at a time (MVE, :76-211 of int8), or a
    pixel's window added up in a buffer before all its channels are written (DSP, :240-304)."""
    trace.branch("average pool")
    depth = case.shape[3]
    block = _VECTOR // case.widths[0] if core.has_helium else depth
    for _, starts, to in Window.of(case).pixels():
        for channel in range(0, depth, block):
            count = min(block, depth - channel)
            trace.read(grid(starts, channel, count))
            trace.write(span(to + channel, count))


def maximum_pool(case: Case, trace: Trace, core: Core) -> None:
    """PoolingFunctions/arm_max_pool_s8.c:156-222: the first pixel of a window is copied to the output, with
    `arm_memcpy_s8`, and each further one is compared with what is there (:36-98), 16 (MVE) or 4 channels at a time,
    those left over of 4 one by one. Of int16, arm_max_pool_s16.c: memcpy, and 8 or 2 channels."""
    trace.branch("maximum pool")
    depth, width = case.shape[3], case.widths[0]
    block = (_VECTOR if core.has_helium else 4) // width
    upwards = _VECTOR if core.has_helium and case.dtype == "int8" else 0
    has_more = False
    for _, starts, to in Window.of(case).pixels():
        trace.copy(to, int(starts[0]), depth, block=upwards)
        for start in starts[1:].tolist():
            has_more = True
            in_blocks(span(start, depth), span(to, depth), trace, block, core)
    if has_more:
        trace.forget_copies()


def in_blocks(read: np.ndarray, made: np.ndarray, trace: Trace, block: int, core: Core) -> None:
    """Blocks of elements; the rest under a predicate (MVE) or one by one."""
    if core.has_helium:
        trace.each(read, made, block)
        return
    whole = len(read) // block * block
    trace.each(read[:whole], made[:whole], block)
    trace.each(read[whole:], made[whole:])


def binary(case: Case, trace: Trace, core: Core) -> None:
    """ADD and MUL: BasicMathFunctions/arm_elementwise_add_s8.c, arm_elementwise_mul_s8.c: four elements at a time.

    Of int16, arm_elementwise_add_s16.c, arm_elementwise_mul_s16.c: four (MVE) or two (DSP).
    With a broadcast, the reference kernels: MK/add.cc:136, MK/mul.cc:50.
    """
    if case.shapes[0] != case.shapes[1]:
        reference.binary(case, trace)
        return
    trace.branch("binary")
    every = np.arange(case.made_size)
    in_blocks(every, every, trace, 4 if core.has_helium or case.dtype == "int8" else 2, core)


def pad(case: Case, trace: Trace, core: Core) -> None:
    """PadFunctions/arm_pad_s8.c:41-110, MK/pad.cc:47-68: rows, or pixels if channels are padded, with `arm_memcpy_s8`.

    What a memset fills next to them is filled before or after, in the output's order.
    """
    trace.branch("pad")
    rank = 4 - len(case.shape)
    shape, made = (1,) * rank + case.shape, (1,) * rank + case.made
    paddings = (0, 0) * rank + case.numbers("paddings")
    unit = shape[3] if paddings[6] or paddings[7] else shape[2] * shape[3]
    copies = {}
    for number, place in enumerate(np.ndindex(*shape[:3])):
        start = number * shape[3]
        if start % unit == 0:
            at = [*(k + paddings[2 * axis] for axis, k in enumerate(place)), paddings[6]]
            copies[int(np.ravel_multi_index(at, made))] = start
    element = 0
    while element < prod(made):
        if element in copies:
            trace.copy(element, copies[element], unit, block=_VECTOR if core.has_helium else 0)
            element += unit
        else:
            trace.write([element])
            element += 1


def fully_connected(case: Case, trace: Trace, core: Core) -> None:
    """MK/fully_connected.cc:290-375, :400: rows one after the other, arm_fully_connected_s8.c:65-86 in
    FullyConnectedFunctions, arm_fully_connected_s16.c:72-90. Of int8 a convolution 1x1 of rows, if the output has more
    than two dimensions and rows are of whole words."""
    units, depth = case.shapes[1]
    rows = case.made_size // units
    if case.dtype == "int8" and len(case.made) > 2 and depth % 4 == 0:
        run_one_by_one_fast((rows, 1, 1, depth), units, trace, core)
        return
    trace.branch("fully connected")
    for row in range(rows):
        multiply_one_row(span(row * depth, depth), row * units, units, trace, core)


def maximum(case: Case, trace: Trace, core: Core) -> None:
    """MAXIMUM and MINIMUM: BasicMathFunctions/arm_maximum_s8.c, arm_minimum_s8.c.

    The output is made in pieces, as large as neither input is broadcast, or one of them from a single element: all of
    it, batches, rows or pixels. A piece goes 16 elements at a time (MVE) or one by one.
    """
    own, other = ((1,) * (4 - len(shape)) + shape for shape in (case.shape, case.shapes[1 - case.position]))
    made = (1,) * (4 - len(case.made)) + case.made
    trace.branch("maximum" if own == other else "maximum, broadcast")
    read = np.broadcast_to(np.arange(case.read_size).reshape(own), made).ravel()
    inner = next(k for k in range(5) if own[k:] == other[k:] or 1 in (prod(own[k:]), prod(other[k:])))
    size, is_fixed = prod(made[inner:]), own[inner:] != other[inner:] and prod(own[inner:]) == 1
    for start in range(0, case.made_size, size):
        if is_fixed:
            trace.read([int(read[start])])
            trace.write(span(start, size))
        else:
            trace.each(read[start : start + size], span(start, size), _VECTOR if core.has_helium else 1)


def softmax(case: Case, trace: Trace, core: Core) -> None:
    """SoftmaxFunctions/arm_softmax_s8.c:101-207 (MVE), arm_nn_softmax_common_s8.c:70-138.

    As in the reference kernel the last pass over a row reads what it then writes, with Helium four elements at a time;
    GCC 12.2 takes the other one there too. Of int16, arm_softmax_s16.c: the pass before the last writes it.
    """
    trace.branch("softmax")
    depth = case.shape[-1]
    for start in range(0, case.read_size, depth):
        row = span(start, depth)
        trace.read(row)
        in_rest = core.has_helium and core.compiler == "armclang" and case.dtype == "int8"
        whole = depth // 4 * 4 if in_rest else 0
        trace.each(row[:whole], row[:whole], 4)
        trace.each(row[whole:], row[whole:])
