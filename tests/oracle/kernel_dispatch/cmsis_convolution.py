"""CONV_2D in CMSIS-NN 99f736a, for cores with the DSP extension and for cores with Helium (MVE).

Paths are below Source/ConvolutionFunctions; NN stands for Source/NNSupportFunctions. tflite-micro builds commit
4ab83cc3, whose convolutions are the same. The kernel of tflite-micro, micro/kernels/cmsis_nn/conv.cc:208-213, calls
`arm_convolve_wrapper_s8` for every int8 convolution, and `arm_convolve_wrapper_s16` for int16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from tests.oracle.kernel_dispatch.case import Window, grid, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.oracle.kernel_dispatch.case import Case, Shape
    from tests.oracle.kernel_dispatch.trace import Trace

# The kernel computes nothing, or something else with each memory: then no distance is right or wrong.
REFUSED: Final = "convolution 1xN, refused"
PAST_INPUT: Final = "convolution 1xN, reads past the input"
GROUPED_INT16: Final = "convolution of int16, grouped"
WRONG: Final = frozenset((REFUSED, PAST_INPUT, GROUPED_INT16))

Rows: TypeAlias = "Sequence[NDArray[np.int64]]"


@dataclass(frozen=True)
class Core:
    """What the library is built for.

    Attributes:
        has_helium: whether it has Helium (MVE); otherwise it has the DSP extension.
        compiler: `armclang` is Arm Compiler 6.10 or later, which takes other branches in some places; `gnu` stands for
            GCC and for Clang.
    """

    has_helium: bool
    compiler: Literal["gnu", "armclang"]


def convolution(case: Case, trace: Trace, core: Core) -> None:
    """arm_convolve_wrapper_s8.c:52-115: the dispatch on shapes.

    Of int16: arm_convolve_s16.c:99-296 whatever the shapes. It goes as the general kernel of int8 does, but takes a
    grouped convolution for one of whole depth, with weights that are not there (:79).
    """
    window, depth = Window.of(case), case.shapes[1][3]
    if case.dtype == "int8":
        run_convolution(window, depth, trace, core)
        return
    if window.given[3] != depth:
        trace.branch(GROUPED_INT16)
    _general(window, window.given[3], trace, core)


def run_convolution(window: Window, filter_depth: int, trace: Trace, core: Core) -> None:
    """arm_convolve_wrapper_s8.c:52-115, with the conditions of Include/arm_nnsupportfunctions.h:125-159."""
    depth, strides = window.given[3], window.stride
    is_whole = depth == filter_depth
    if is_whole and window.pads[:2] == (0, 0) and window.kernel == (1, 1) and window.dilation == (1, 1):
        if strides == (1, 1):
            run_one_by_one_fast(window.given, window.made[3], trace, core)
        else:
            _one_by_one(window, trace, core)
    elif (
        is_whole
        and window.given[1] == 1
        and window.kernel[0] == 1
        and window.dilation[1] == 1
        and strides[1] * depth % 4 == 0
        and core.has_helium
    ):
        _one_by_many(window, trace, core)
    else:  # without Helium the 1xN kernel calls the general one: arm_convolve_1_x_n_s8.c:205-217
        _general(window, filter_depth, trace, core)


def run_one_by_one_fast(given: Shape, channels: int, trace: Trace, core: Core) -> None:
    """arm_convolve_1x1_s8_fast.c: one matrix product over all pixels of all batches (:176-190).

    Arm Compiler on a core without Helium copies two pixels to a buffer and computes them (:74-171); it goes on from one
    row to the next, and ends with each batch.
    """
    n, height, width, depth = given
    if not core.has_helium and core.compiler == "armclang":
        trace.branch("convolution 1x1, buffered pairs")
        for batch in range(n):
            first, end = batch * height * width, (batch + 1) * height * width
            for pixel in range(first, end, 2):
                count = min(2, end - pixel)
                trace.read(span(pixel * depth, count * depth))
                trace.write(span(pixel * channels, count * channels))
        return
    trace.branch("convolution 1x1")
    pixels = range(n * height * width)
    reads = [span(pixel * depth, depth) for pixel in pixels]
    multiply(reads, [pixel * channels for pixel in pixels], channels, trace, core)


def _one_by_one(window: Window, trace: Trace, core: Core) -> None:
    """arm_convolve_1x1_s8.c:80-108: a matrix product for each row of the output."""
    trace.branch("convolution 1x1, strided")
    n, height, width, depth = window.given
    _, rows, columns, channels = window.made
    for batch in range(n):
        for y in range(rows):
            start = (batch * height + y * window.stride[0]) * width
            reads = [span((start + x * window.stride[1]) * depth, depth) for x in range(columns)]
            first = (batch * rows + y) * columns
            multiply(reads, [(first + x) * channels for x in range(columns)], channels, trace, core)


def _one_by_many(window: Window, trace: Trace, core: Core) -> None:
    """arm_convolve_1_x_n_s8.c:69-203: pixels at the left edge, inside, and at the right edge.

    Those at the edges are computed from a buffer, those inside straight from the input. Counts only bytes of the
    buffer that a result depends on. Where the last pixel needs more padding than there are pixels at the right edge
    times the stride, the buffer is filled with what follows the row (:177), be it behind the input.
    """
    n, _, width, depth = window.given
    columns, channels = window.made[2:]
    kernel, stride, pad = window.kernel[1], window.stride[1], window.pads[1]
    total = (columns - 1) * stride + kernel - width
    odd = total - int(total / 2) * 2  # the remainder in C has the sign of the dividend
    if pad * 2 + odd != total:  # :83: an error, and nothing is computed
        trace.branch(REFUSED)
        return
    right = max(1, int((pad + odd + stride - 1) / stride)) if pad + odd else 0
    left = max(1, (pad + stride - 1) // stride) if pad else 0
    inside = max(columns - (right + left), 0)
    if left + inside + right != columns:  # :99
        _general(window, depth, trace, core)
        return
    trace.branch("convolution 1xN")
    for batch in range(n):
        origin, to = batch * width, batch * columns
        if left:
            used = min((left - 1) * stride + kernel - pad, kernel)
            _read_columns(origin, used, window, trace)
            trace.write(span(to * channels, left * channels))
        start = origin + stride * left - pad
        reads = [span((start + x * stride) * depth, kernel * depth) for x in range(inside)]
        multiply(reads, [(to + left + x) * channels for x in range(inside)], channels, trace, core)
        if right:
            _read_columns(origin + stride * (left + inside) - pad, kernel - 1, window, trace)
            trace.write(span((to + left + inside) * channels, right * channels))


def _read_columns(first: int, count: int, window: Window, trace: Trace) -> None:
    """Pixels of all images in one row, as far as the input goes."""
    n, _, width, depth = window.given
    if first + count > n * width:
        trace.branch(PAST_INPUT)
        count = n * width - first
    trace.read(span(first * depth, count * depth))


def _general(window: Window, filter_depth: int, trace: Trace, core: Core) -> None:
    """arm_convolve_s8.c:118-434: windows are copied to a buffer, 4 with Helium and 2 without, and then computed.

    The outermost loop but the batch is the group (:146), so that all groups but the first read the input after the
    first has been written. A block goes on from one row to the next, and ends with its group.
    """
    groups = window.given[3] // filter_depth
    trace.branch("general convolution, grouped" if groups > 1 else "general convolution")
    made_depth = window.made[3] // groups
    block = 4 if core.has_helium else 2
    pixels = window.pixels()
    for batch in range(window.given[0]):
        own = [(starts, to) for number, starts, to in pixels if number == batch]
        for group in range(groups):
            for first in range(0, len(own), block):
                some = own[first : first + block]
                for starts, _ in some:
                    trace.read(grid(starts, group * filter_depth, filter_depth))
                trace.write(grid([to for _, to in some], group * made_depth, made_depth))


def multiply(rows: Rows, to: Sequence[int], channels: int, trace: Trace, core: Core) -> None:
    """NN/arm_nn_mat_mult_nt_t_s8.c: rows of the input by all rows of the weights.

    Args:
        rows: elements of the input.
        to: of each row, the first element of the output.
        channels: rows of the weights.
        trace: what it is added to.
        core: Helium (:65-224) computes a channel of four rows at a time; rows left over one by one, written four
            channels at a time. The DSP extension (:225-623) computes two channels of two rows at a time, all rows
            before the next two channels.
    """
    if core.has_helium:
        _multiply_by_four_rows(rows, to, channels, trace)
    else:
        _multiply_by_two_channels(rows, to, channels, trace)


def _multiply_by_four_rows(rows: Rows, to: Sequence[int], channels: int, trace: Trace) -> None:
    whole = len(rows) // 4 * 4
    for first in range(0, whole, 4):
        reads = np.concatenate(rows[first : first + 4])
        for channel in range(channels):
            trace.read(reads)
            trace.write([start + channel for start in to[first : first + 4]])
    for row, start in zip(rows[whole:], to[whole:], strict=True):
        for channel in range(channels):
            trace.read(row)
            if channel % 4 == 3:
                trace.write(span(start + channel - 3, 4))
        trace.write(span(start + channels // 4 * 4, channels % 4))


def multiply_one_row(row: NDArray[np.int64], to: int, channels: int, trace: Trace, core: Core) -> None:
    """NN/arm_nn_vec_mat_mult_t_s8.c, arm_nn_vec_mat_mult_t_per_ch_s8.c, arm_nn_vec_mat_mult_t_s16.c: four outputs (MVE)
    or two (DSP) after each pass over the row, those left over one by one."""
    step, channel = 4 if core.has_helium else 2, 0
    while channel < channels:
        count = step if channel + step <= channels else 1
        trace.read(row)
        trace.write(span(to + channel, count))
        channel += count


def _multiply_by_two_channels(rows: Rows, to: Sequence[int], channels: int, trace: Trace) -> None:
    for channel in range(0, channels - 1, 2):
        for first in range(0, len(rows), 2):
            for row in rows[first : first + 2]:
                trace.read(row)
            trace.write(grid(to[first : first + 2], channel, 2))
    if channels % 2:
        for row, start in zip(rows, to, strict=True):
            trace.read(row)
            trace.write([start + channels - 1])
