"""The loops of TensorFlow Lite Micro's reference kernels that move elements, at commit 90b983c2.

Paths are below tensorflow/lite; KR stands for kernels/internal/reference, MK for micro/kernels.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tests.oracle.kernel_dispatch.case import span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.oracle.kernel_dispatch.case import Case
    from tests.oracle.kernel_dispatch.trace import Trace


def reshape(case: Case, trace: Trace) -> None:
    """MK/reshape.cc:47, MK/squeeze.cc:108: one memcpy, none if the output lies just on the input."""
    trace.branch("reference reshape")
    trace.copy(0, 0, case.read_size)


def transpose(case: Case, trace: Trace) -> None:
    """KR/transpose.h: `TransposeImpl`, one element of the output after the other."""
    trace.branch("reference transpose")
    whole = np.arange(case.read_size).reshape(case.shape)
    _one_by_one(whole.transpose(case.hidden["permutation"]).ravel(), trace)


def strided_slice(case: Case, trace: Trace) -> None:
    """KR/strided_slice.h with KR/../portable_tensor.h:128, one element after the other."""
    trace.branch("reference strided slice")
    whole = np.arange(case.read_size).reshape(case.shape)
    _one_by_one(whole[tuple(slice(None, None, step) for step in case.hidden["strides"])].ravel(), trace)


def _one_by_one(read: NDArray[np.int64], trace: Trace) -> None:
    for element, start in enumerate(read.tolist()):
        trace.copy(element, start, 1, block=1)


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
    _one_by_one(whole[tuple(slice(b, b + s) for b, s in zip(begin, case.made, strict=True))].ravel(), trace)


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
