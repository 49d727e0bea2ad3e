"""Operators that slide a window over [batch, height, width, channels].

All of them write their output pixel by pixel in raster order. What differs is what they still read of a pixel's window
after a part of the pixel has been written:

    input   ───────┬──────────────┬─────────     later reads are at `first` of a later pixel or above,
                   ^ first[p]     ^ first[p+1]   and in this pixel's window at `first[p] + again(k)`
    output  ──┬─────┬──────
              p·c   ^ k channels of pixel p are written

A distance d is safe if for every such moment: end of what is written <= lowest byte that is still read + d. Of all
that is written before pixel q is read, what comes last reaches furthest. So the distance is a maximum over single
pixels, and as place and window of a pixel are sums over batch, row and column, the loops are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.overlap.case import Case

__all__ = [
    "Starts",
    "WindowLoop",
    "by_channel",
    "by_pixel",
    "dense_starts",
    "in_blocks",
    "in_dense_blocks",
    "in_one_go",
    "resize_starts",
    "window_starts",
]

_NEVER: Final = np.int64(1 << 60)  # the address of what is not read
_LONGEST: Final = 1 << 16  # rows or columns; nothing is known of larger images, so that no file takes all memory
_LARGEST: Final = 1 << 50  # bytes of input and output, as far below `_NEVER` as sums of a few addresses need


@dataclass(frozen=True, slots=True, eq=False)
class WindowLoop:
    """One of the loops over output pixels.

    Attributes:
        place: pixels from the loop's first one to the one at each of its steps.
        start: elements of the input from the start of the loop's first window to that at each step, with what the
            padding cuts off; _NEVER for a window that is padding alone.
    """

    place: NDArray[np.int64]
    start: NDArray[np.int64]


# The loops from the outermost to the innermost. A pixel's place and the lowest element of its window are the sums over
# all loops. Of a loop with equal steps the first, the second and the last one are enough.
Starts: TypeAlias = "tuple[WindowLoop, ...]"


def window_starts(case: Case) -> Starts | None:
    """For every output pixel the lowest element of the input that its window covers.

    Elements are counted from the start of the input, for channel 0. None if the case is no such operator: four
    dimensions, one batch size, and the parameters `kernel`, `stride`, `dilation` and `pads` are needed. So it is for
    images of more than 65536 rows or columns.
    """
    given, made = case.input.shape, case.output.shape
    kernel, stride, dilation = (case.numbers(key, 2) for key in ("kernel", "stride", "dilation"))
    pads = case.numbers("pads", 4)
    if kernel is None or stride is None or dilation is None or pads is None:
        return None
    if len(given) != 4 or len(made) != 4 or given[0] != made[0] or not _is_measured(case):
        return None
    axes = [_first_taps(made[1 + k], given[1 + k], kernel[k], stride[k], dilation[k], pads[k]) for k in range(2)]
    return _raster(axes[0], axes[1], given, made[0])


def _first_taps(made: int, given: int, kernel: int, stride: int, dilation: int, before: int) -> NDArray[np.int64]:
    """Along one axis: the first element inside the input that each output element's window covers."""
    origin = np.arange(made, dtype=np.int64) * stride - before
    skipped = np.maximum(
        -(origin // dilation), 0
    )  # taps before the input: the smallest k with origin + k·dilation >= 0
    first = origin + skipped * dilation
    return np.where((skipped >= kernel) | (first >= given), _NEVER, first)


def resize_starts(case: Case) -> Starts | None:
    """As `window_starts`, for RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""
    given, made = case.input.shape, case.output.shape
    align, half = case.number("align_corners"), case.number("half_pixel_centers")
    if align is None or half is None or (align and half and case.type == "RESIZE_BILINEAR"):
        return None
    if len(given) != 4 or len(made) != 4 or given[0] != made[0] or given[3] != made[3]:
        return None
    if not _is_measured(case):
        return None
    if case.type == "RESIZE_NEAREST_NEIGHBOR":
        axes = [_nearest(given[k], made[k], bool(align), bool(half)) for k in (1, 2)]
    elif case.input.dtype == "float32":
        axes = [_lower(given[k], made[k], bool(align), bool(half)) for k in (1, 2)]
    else:
        axes = [_lower_fixed(given[k], made[k], bool(align), bool(half)) for k in (1, 2)]
    return _raster(axes[0], axes[1], given, made[0])


def _lower(given: int, made: int, align: bool, half: bool) -> NDArray[np.int64]:
    """The lower neighbour in floating point.

    A compiler may round once where the source rounds twice: the lower one of both results is taken.
    """
    scale = np.float32(given - 1) / np.float32(made - 1) if align and made > 1 else np.float32(given) / np.float32(made)
    shift = np.float32(0.5 if half else 0.0)
    twice = (np.arange(made).astype(np.float32) + shift) * scale - shift
    once = (np.arange(made) + float(shift)) * float(scale) - float(shift)
    return np.asarray(np.maximum(np.floor(np.minimum(twice, once)), 0), np.int64)


def _lower_fixed(given: int, made: int, align: bool, half: bool) -> NDArray[np.int64]:
    """The lower neighbour as the integer kernel finds it, with ten bits of fraction."""
    scale = ((given << 10) + made // 2) // made
    if align and made > 1:
        scale = (((given - 1) << 10) + (made - 1) // 2) // (made - 1)
    at = np.arange(made, dtype=np.int64) * scale + (scale // 2 - (1 << 9) if half else 0)
    return np.asarray(np.maximum(at, 0) >> 10, np.int64)


def _nearest(given: int, made: int, align: bool, half: bool) -> NDArray[np.int64]:
    scale = np.float32(given - 1) / np.float32(made - 1) if align and made > 1 else np.float32(given) / np.float32(made)
    at = (np.arange(made, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * np.float32(scale)
    at = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    return np.asarray(np.clip(at, 0, given - 1), np.int64)


def dense_starts(rows: int, depth: int) -> Starts:
    """As `window_starts`, for rows of a matrix that are read one after the other."""
    return (_evenly(rows, 1, depth),)


def _is_measured(case: Case) -> bool:
    """Whether the images are small enough to be gone through."""
    sides = (*case.input.shape[1:3], *case.output.shape[1:3])
    return max(sides) <= _LONGEST and max(case.input.size, case.output.size) <= _LARGEST


def _evenly(count: int, place: int, start: int) -> WindowLoop:
    """A loop whose steps are equal: what is furthest is at an end of it."""
    at = sorted({0, min(1, count - 1), count - 1})
    return WindowLoop(np.array([k * place for k in at], np.int64), np.array([k * start for k in at], np.int64))


def _raster(rows: NDArray[np.int64], columns: NDArray[np.int64], given: tuple[int, ...], batch: int) -> Starts:
    _, height, width, channels = given
    loops = [_evenly(batch, len(rows) * len(columns), height * width * channels)]
    for first, place, start in ((rows, len(columns), width * channels), (columns, 1, channels)):
        starts = np.where(first == _NEVER, _NEVER, first * start)
        loops.append(WindowLoop(np.arange(len(first), dtype=np.int64) * place, starts))
    return tuple(loops)


def _furthest(starts: Starts, pixel: int, read: int) -> int:
    """The most bytes from the lowest one of a window to the place of its pixel; pixels and elements of these sizes."""
    apart = (pixel * loop.place - np.where(loop.start == _NEVER, _NEVER, read * loop.start) for loop in starts)
    return sum(int(far.max()) for far in apart)


def _furthest_behind_the_first(starts: Starts, pixel: int, read: int) -> int:
    """As `_furthest`, without the very first pixel."""
    found = [-int(_NEVER)]
    for k, loop in enumerate(starts):
        if len(loop.place) > 1:
            outer = [WindowLoop(one.place[:1], one.start[:1]) for one in starts[:k]]
            found.append(_furthest((*outer, WindowLoop(loop.place[1:], loop.start[1:]), *starts[k + 1 :]), pixel, read))
    return max(found)


def by_pixel(case: Case, starts: Starts, fan: int, depth: int) -> int:
    """Each output channel reads the window again: the `depth` channels that it shares with `fan` output channels.

    Once channel k of pixel p is written, the window is still read from channel (k + 1) // fan · depth on, and then the
    windows of later pixels. Depthwise operators are the case of depth 1. The number of channels is a multiple of `fan`.
    """
    channels, made, read = case.output.shape[-1], case.output.width, case.input.width
    worst = _furthest_behind_the_first(starts, channels * made, read)
    if channels > 1:
        # Within a group of channels the last one is furthest, and of groups the first or the last.
        ends = {1, fan - 1, channels - 1} - {0}
        within = max(k * made - k // fan * depth * read for k in ends)
        worst = max(worst, _furthest(starts, channels * made, read) + within)
    return worst


def by_channel(case: Case, starts: Starts) -> int:
    """Each output channel reads its own channel of the window, and nothing else of it."""
    return by_pixel(case, starts, max(case.output.shape[-1] // case.input.shape[-1], 1), 1)


def in_one_go(case: Case, starts: Starts) -> int:
    """A pixel may be written in any order while its window is read: all of it must stay below the window."""
    pixel = case.output.shape[-1] * case.output.width
    return _furthest(starts, pixel, case.input.width) + pixel


def in_blocks(case: Case, starts: Starts, length: int) -> int:
    """Each output channel reads a block of so many pixels of the innermost loop again; the last may be shorter.

    When a block is read for the last time, all of its output is written but the last channel of its last pixel. There
    are two output channels or more. The pixels of that loop are all listed.
    """
    *outer, columns = starts
    ends = np.minimum((columns.place // length + 1) * length, len(columns.place))
    pixel = case.output.shape[-1] * case.output.width
    return _furthest((*outer, replace(columns, place=ends)), pixel, case.input.width) - case.output.width


def in_dense_blocks(case: Case, rows: int, depth: int, length: int) -> int:
    """As `in_blocks` for the rows of a matrix, as `dense_starts` has them."""
    last = (rows - 1) // length
    # Of equal blocks the first and the last one are enough, and the one that may be cut short.
    first = np.array(sorted({0, max(last - 1, 0), last}), np.int64) * length
    blocks = WindowLoop(np.minimum(first + length, rows), first * depth)
    return _furthest((blocks,), case.output.shape[-1] * case.output.width, case.input.width) - case.output.width
