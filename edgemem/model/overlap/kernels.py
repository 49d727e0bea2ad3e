"""Convolutions, poolings, matrices and resizing: which loops run over the window, for each kind of kernel."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.overlap.window import (
    by_channel,
    by_pixel,
    dense_starts,
    in_blocks,
    in_dense_blocks,
    in_one_go,
    resize_starts,
    window_starts,
)

if TYPE_CHECKING:
    from edgemem.model.overlap.case import Case, Shape

__all__ = [
    "conv",
    "conv_blocked",
    "conv_im2col",
    "depthwise",
    "depthwise_blocked",
    "fully_connected",
    "pool",
    "pool_in_place",
    "resize_bilinear",
    "resize_nearest",
]

_MVE_CHANNELS: Final = 124  # CH_IN_BLOCK_MVE of CMSIS-NN
_BLOCK: Final = 4  # pixels of a 1x1 convolution


def _weights(case: Case, rank: int) -> Shape | None:
    value = case.inputs[1] if len(case.inputs) > 1 else None
    return value.shape if value is not None and len(value.shape) == rank else None


def _groups(case: Case) -> tuple[int, int] | None:
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
    """Pixels in order; a pixel's window is read again for each output channel, in its group of channels."""
    starts, group = window_starts(case), _groups(case)
    return None if starts is None or group is None else by_pixel(case, starts, *group)


def conv_im2col(case: Case) -> int | None:
    """Windows are copied before their pixels are written, so that `conv` is enough; not with groups, or of 1x1."""
    group = _groups(case)
    if group is None or group[1] != case.input.shape[3] or _is_pointwise(case):
        return None
    return conv(case)


def conv_blocked(case: Case) -> int | None:
    """As `conv_im2col`; a 1x1 convolution reads the windows of four pixels again for each output channel.

    With a stride the blocks of four begin anew in each row. A convolution of one row reads without a copy: None.
    """
    starts, group = window_starts(case), _groups(case)
    if starts is None or group is None or group[1] != case.input.shape[3]:
        return None
    kernel = case.numbers("kernel", 2)
    if not _is_pointwise(case):
        return None if case.input.shape[1] == 1 and kernel and kernel[0] == 1 else conv(case)
    if any(case.numbers("pads", 4) or ()):
        return None
    if case.numbers("stride", 2) != (1, 1):
        return in_blocks(case, starts, _BLOCK)
    # One run of all pixels.
    return in_dense_blocks(case, prod(case.output.shape[:3]), case.input.shape[3], _BLOCK)


def _is_pointwise(case: Case) -> bool:
    """Whether CMSIS-NN takes its kernel for 1x1 convolutions: no padding, no dilation."""
    kernel, dilation, pads = case.numbers("kernel", 2), case.numbers("dilation", 2), case.numbers("pads", 4)
    return kernel == (1, 1) and dilation == (1, 1) and pads is not None and not any(pads[:2])


def depthwise(case: Case) -> int | None:
    """Pixels in order, then channels; each channel reads its own channel of the window."""
    starts, weights = window_starts(case), _weights(case, 4)
    if starts is None or weights is None or case.output.shape[-1] % case.input.shape[-1]:
        return None
    return by_channel(case, starts) if weights[3] == case.output.shape[-1] else None


def depthwise_blocked(case: Case) -> int | None:
    """As `depthwise`; of more than 124 channels the blocks of channels are the outer loop: None."""
    return depthwise(case) if case.output.shape[-1] <= _MVE_CHANNELS else None


def pool(case: Case) -> int | None:
    """Pixels in order, then channels; each channel reads its own channel of the window."""
    starts = window_starts(case)
    same = case.input.shape[-1] == case.output.shape[-1] and case.input.dtype == case.output.dtype
    return None if starts is None or not same else by_channel(case, starts)


def pool_in_place(case: Case) -> int | None:
    """Pixels in order; a pixel's output is written again and again while its window is read."""
    starts = window_starts(case)
    same = case.input.shape[-1] == case.output.shape[-1] and case.input.dtype == case.output.dtype
    return None if starts is None or not same else in_one_go(case, starts)


def fully_connected(case: Case) -> int | None:
    """Rows in order; a row of the input is read again for each output channel."""
    weights = _weights(case, 2)
    if weights is None or not all(weights) or case.output.shape[-1:] != weights[:1]:
        return None
    rows = case.output.count // weights[0]
    if rows * weights[1] != case.input.count:
        return None
    return by_pixel(case, dense_starts(rows, weights[1]), weights[0], weights[1])


def resize_bilinear(case: Case) -> int | None:
    """Pixels in order, then channels; each channel reads its own channel of four pixels."""
    starts = resize_starts(case)
    return None if starts is None or case.input.dtype != case.output.dtype else by_channel(case, starts)


def resize_nearest(case: Case) -> int | None:
    """Pixels in order, each copied at once; a copy must not overlap what it is copied from."""
    starts = resize_starts(case)
    return None if starts is None or case.input.dtype != case.output.dtype else in_one_go(case, starts)
