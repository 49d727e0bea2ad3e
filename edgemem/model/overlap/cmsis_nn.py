"""The rules of CMSIS-NN: which kernel tensorflow/lite/micro/kernels/cmsis_nn sends an operator to, and its order.

In the tables `cc` is a file of that folder in tflite-micro 90b983c2b, and .c and .h are CMSIS-NN 99f736a6. 4ab83cc3, at
which tflite-micro builds CMSIS-NN, differs in arm_transpose_conv_s8.c alone, which has no rule. "any" is every compiler
and every processor of the profile: with the DSP extension or without for `cmsis-nn-dsp`, with MVE for `cmsis-nn-mve`.

All rules are for int8, and the reference kernels run for float32 (`edgemem.model.overlap.profiles`). Nothing is known
of int16, which has kernels of its own, nor of weights of four bits (arm_*_s4.c): their elements are no whole bytes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.overlap.kernels import conv, depthwise, groups
from edgemem.model.overlap.window import in_blocks, in_dense_blocks, window_starts

if TYPE_CHECKING:
    from edgemem.model.overlap.case import Case

__all__ = ["conv_dsp", "conv_mve", "depthwise_dsp", "depthwise_mve"]

_CHANNELS: Final = 124  # CH_IN_BLOCK_MVE, Include/arm_nnsupportfunctions.h:65
_BLOCK: Final = 4  # rows that arm_nn_mat_mult_nt_t_s8 takes at once with MVE


def conv_dsp(case: Case) -> int | None:
    """CONV_2D: windows are copied before their pixels are written, so that the distance of `conv` is enough.

    cc/conv.cc:202 calls arm_convolve_wrapper_s8.c:

    line  shape                                       kernel                        order
    67    1x1, one group, stride 1; GCC, Clang        arm_convolve_1x1_s8_fast:176  channels, then pixels: None
    67    the same with DSP; armclang                 arm_convolve_1x1_s8_fast:74   two windows copied, then written
    81    1x1, one group, another stride; any         arm_convolve_1x1_s8:86        channels, then pixels: None
    96    one row, 1xN, stride_w*channels%4=0; any    arm_convolve_1_x_n_s8:214     as arm_convolve_s8
    110   other, one group; any                       arm_convolve_s8:145           two windows copied, then written
    110   several groups; any                         arm_convolve_s8:142           groups, then pixels: None

    1x1 is without padding before the image and without dilation.
    """
    group = groups(case)
    return None if group is None or group[1] != case.input.shape[3] or _is_pointwise(case) else conv(case)


def depthwise_dsp(case: Case) -> int | None:
    """DEPTHWISE_CONV_2D: pixels, then channels in order, as `depthwise`.

    cc/depthwise_conv.cc:293 calls arm_depthwise_conv_wrapper_s8.c, for any compiler:

    line  shape                                       kernel                        order
    133   multiplier 1, 1 image, no dilation, 3x3,    arm_depthwise_conv_3x3_s8:95  pixels, four channels at once
          padding <=1
    148   multiplier 1, 1 image, no dilation; DSP     arm_depthwise_conv_s8_opt:220 a window copied, then written
    148   the same without DSP                        arm_depthwise_conv_s8_opt:407 arm_depthwise_conv_s8
    163   multiplier 4, 8, ..., 1 image,              arm_depthwise_conv_s8:76      pixels, channels, four output
          no dilation                                                               channels at once
    163   other                                       arm_depthwise_conv_s8:186     pixels, then channels
    """
    return depthwise(case)


def conv_mve(case: Case) -> int | None:
    """CONV_2D with MVE: as `conv_dsp`, but a 1x1 convolution reads four pixels again for each output channel.

    cc/conv.cc:202 calls arm_convolve_wrapper_s8.c, for any compiler:

    line  shape                                       kernel                        order
    67    1x1, one group, stride 1                    arm_convolve_1x1_s8_fast:176  blocks of four of all pixels
    81    1x1, one group, another stride              arm_convolve_1x1_s8:86        blocks of four of each row
    96    one row, 1xN, no dilation,                  arm_convolve_1_x_n_s8:158     blocks of four, the first of which
          stride_w*channels%4=0                                                     begins behind the padding: None
    110   other, one group                            arm_convolve_s8:145           four windows copied, then written
    110   several groups                              arm_convolve_s8:142           groups, then pixels: None

    A block is the loop of arm_nn_mat_mult_nt_t_s8.c:67: channels, then four pixels, both in assembly and with
    ARM_MATH_AUTOVECTORIZE; the last pixels go one by one.
    """
    group = groups(case)
    return None if group is None or group[1] != case.input.shape[3] else _wrapper_mve(case, conv(case))


def depthwise_mve(case: Case) -> int | None:
    """DEPTHWISE_CONV_2D with MVE: pixels, then channels, but for many channels or a single one.

    cc/depthwise_conv.cc:293 calls arm_depthwise_conv_wrapper_s8.c:

    line  shape                                       kernel                        order
    112   1 input channel, >1 output channels;        line 73:                      as `conv_mve`
          GCC, Clang                                  arm_convolve_wrapper_s8
    112   1 input channel, >8; armclang               the same                      as `conv_mve`
    148   multiplier 1, 1 image, no dilation,         arm_depthwise_conv_s8_opt:113 four windows copied, then written
          <=124 channels; any
    148   the same with >124 channels; any            arm_depthwise_conv_s8_opt:108 124 channels, then pixels: None
    163   multiplier 4, 8, ..., 1 image,              arm_depthwise_conv_s8:76      pixels, channels, four output
          no dilation; any                                                          channels at once
    163   other; any                                  arm_depthwise_conv_s8:186     pixels, then channels

    Line 112 depends on the compiler (Include/arm_nnsupportfunctions.h:83). The distance of `conv_mve` is the greater
    one, so that it holds for all of them.
    """
    least, channels = depthwise(case), case.output.shape[-1]
    if least is None:
        return None
    if case.input.shape[-1] == 1 and channels > 1:
        return _wrapper_mve(case, least)
    is_copied = channels == case.input.shape[-1] and case.input.shape[0] == 1 and case.numbers("dilation", 2) == (1, 1)
    return None if is_copied and channels > _CHANNELS else least


def _wrapper_mve(case: Case, by_pixel: int | None) -> int | None:
    """arm_convolve_wrapper_s8.c with MVE for one group; `by_pixel` is the distance of a kernel that goes by pixels."""
    starts, stride = window_starts(case), case.numbers("stride", 2)
    if starts is None or stride is None or by_pixel is None:
        return None
    if not _is_pointwise(case):
        return None if _is_one_row(case) else by_pixel
    if any(case.numbers("pads", 4) or ()):
        return None
    if case.output.shape[-1] == 1:
        return by_pixel  # nothing of a block is read after its one channel is written
    if stride != (1, 1):
        return in_blocks(case, starts, _BLOCK)
    if case.input.shape[:3] != case.output.shape[:3]:
        return None
    return in_dense_blocks(case, prod(case.output.shape[:3]), case.input.shape[3], _BLOCK)


def _is_pointwise(case: Case) -> bool:
    """arm_nn_is_convolve_1x1 of Include/arm_nnsupportfunctions.h:125, for one group."""
    kernel, dilation, pads = case.numbers("kernel", 2), case.numbers("dilation", 2), case.numbers("pads", 4)
    return kernel == (1, 1) and dilation == (1, 1) and pads is not None and not any(pads[:2])


def _is_one_row(case: Case) -> bool:
    """arm_nn_is_convolve_1_x_n of Include/arm_nnsupportfunctions.h:153, for one group."""
    kernel, dilation, stride = (case.numbers(key, 2) or (0, 0) for key in ("kernel", "dilation", "stride"))
    _, height, _, channels = case.input.shape
    return height == 1 and dilation[1] == 1 and kernel[0] == 1 and stride[1] * channels % 4 == 0
