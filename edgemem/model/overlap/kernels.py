"""Convolutions, poolings, matrices and resizing: which loops run over the window, for each kind of kernel.

In the tables `cc` is tensorflow/lite/micro/kernels and `ref` tensorflow/lite/kernels/internal/reference, of
tflite-micro 90b983c2b. The rules hold for any compiler. Weights of four bits have no rule: they are no whole bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.model.overlap.window import by_channel, by_pixel, dense_starts, in_one_go, resize_starts, window_starts

if TYPE_CHECKING:
    from edgemem.model.overlap.case import Case, Shape

__all__ = [
    "conv",
    "depthwise",
    "fully_connected",
    "groups",
    "pool",
    "pool_in_place",
    "resize_bilinear",
    "resize_nearest",
]


def _weights(case: Case, rank: int) -> Shape | None:
    value = case.inputs[1] if len(case.inputs) > 1 else None
    return value.shape if value is not None and len(value.shape) == rank else None


def groups(case: Case) -> tuple[int, int] | None:
    """Output channels of a group of a convolution, and its input channels; None if the shapes do not fit."""
    weights = _weights(case, 4)
    if weights is None or len(case.input.shape) != 4 or not weights[3]:
        return None
    groups, rest = divmod(case.input.shape[3], weights[3])
    channels = case.output.shape[-1]
    if rest or not groups or channels % groups or weights[0] != channels:
        return None
    return channels // groups, weights[3]


def conv(case: Case) -> int | None:
    """Pixels in order; a pixel's window is read again for each output channel, in its group of channels.

    call                  types          kernel                     order
    cc/conv.cc:61         float32        ref/conv.h:66              pixels, output channels, window
    cc/conv.cc:93, 114    int16          ref/integer_ops/conv.h:184 the same
    cc/conv.cc:159        int8           ref/integer_ops/conv.h:72  the same
    """
    starts, group = window_starts(case), groups(case)
    return None if starts is None or group is None else by_pixel(case, starts, *group)


def depthwise(case: Case) -> int | None:
    """Pixels in order, then channels; each channel reads its own channel of the window.

    call                       types          kernel                               order
    cc/depthwise_conv.cc:69    float32        ref/depthwiseconv_float.h:56         pixels, channels, window
    cc/depthwise_conv.cc:112   int8           ref/integer_ops/depthwise_conv.h:63  the same
    cc/depthwise_conv.cc:145   int16          ref/integer_ops/depthwise_conv.h:160 the same
    """
    starts, weights = window_starts(case), _weights(case, 4)
    if starts is None or weights is None or case.output.shape[-1] % case.input.shape[-1]:
        return None
    return by_channel(case, starts) if weights[3] == case.output.shape[-1] else None


def pool(case: Case) -> int | None:
    """Pixels in order, then channels; each channel reads its own channel of the window.

    AVERAGE_POOL_2D and MAX_POOL_2D of the reference kernels:

    call                       types          kernel                           order
    cc/pooling_common.cc:112   float32        ref/pooling.h:42                 pixels, channels, window
    cc/pooling_common.cc:131   float32        ref/pooling.h:210                the same
    cc/pooling.h:78            int8, int16    ref/integer_ops/pooling.h:42,160 the same
    cc/pooling.h:108           int8, int16    ref/integer_ops/pooling.h:105,223 the same

    AVERAGE_POOL_2D of CMSIS-NN, int8, called by cc/cmsis_nn/pooling.cc:97, for any compiler:

    feature    kernel                order
    MVE        arm_avgpool_s8.c:105  pixels, 16 channels at once, window
    DSP        arm_avgpool_s8.c:275  pixels; the window is summed up in a buffer, then written
    neither    arm_avgpool_s8.c:339  pixels, channels, window
    """
    starts = window_starts(case)
    same = case.input.shape[-1] == case.output.shape[-1] and case.input.dtype == case.output.dtype
    return None if starts is None or not same else by_channel(case, starts)


def pool_in_place(case: Case) -> int | None:
    """Pixels in order; a pixel's output is written again and again while its window is read.

    MAX_POOL_2D of CMSIS-NN, int8, called by cc/cmsis_nn/pooling.cc:133, for any compiler and feature:
    arm_max_pool_s8.c:192 goes by pixels, copies the first pixel of the window to the output (memcpy, line 218), and
    compares the others with it there (line 223). Line 232 reads and writes the output of the whole image once more.
    """
    starts = window_starts(case)
    same = case.input.shape[-1] == case.output.shape[-1] and case.input.dtype == case.output.dtype
    return None if starts is None or not same else in_one_go(case, starts)


def fully_connected(case: Case) -> int | None:
    """Rows in order; a row of the input is read again for each output channel.

    call                          types     kernel                                     order
    cc/fully_connected.cc:141     float32   ref/fully_connected.h:50                   rows, output channels
    cc/fully_connected.cc:185-207 int8      ref/integer_ops/fully_connected.h:57 - 210 the same
    cc/fully_connected.cc:246-314 int16     ref/integer_ops/fully_connected.h:57 - 210 the same

    Of CMSIS-NN, int8 (cc/cmsis_nn/fully_connected.cc:324, 362) has output channels in the outer loop: no rule.
    """
    weights = _weights(case, 2)
    if weights is None or not all(weights) or case.output.shape[-1:] != weights[:1]:
        return None
    rows = case.output.count // weights[0]
    if rows * weights[1] != case.input.count:
        return None
    return by_pixel(case, dense_starts(rows, weights[1]), weights[0], weights[1])


def resize_bilinear(case: Case) -> int | None:
    """Pixels in order, then channels; each channel reads its own channel of four pixels.

    cc/resize_bilinear.cc:84 calls ref/resize_bilinear.h:90 for float32, and line 95 its line 182 for int8.
    """
    starts = resize_starts(case)
    return None if starts is None or case.input.dtype != case.output.dtype else by_channel(case, starts)


def resize_nearest(case: Case) -> int | None:
    """Pixels in order, each copied at once; a copy must not overlap what it is copied from.

    cc/resize_nearest_neighbor.cc:84, 92 and 100 call ref/resize_nearest_neighbor.h:82 for float32, int8 and int16.
    """
    starts = resize_starts(case)
    return None if starts is None or case.input.dtype != case.output.dtype else in_one_go(case, starts)
