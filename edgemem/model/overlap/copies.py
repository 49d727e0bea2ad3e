"""Operators that move elements without computing: they pad, cut out or put together.

`cc` is tensorflow/lite/micro/kernels and `ref` tensorflow/lite/kernels/internal/reference, of tflite-micro 90b983c2b.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.model.overlap.case import Case

__all__ = ["concatenate", "pad", "pad_rows", "slice_elements"]


def pad(case: Case) -> int | None:
    """Output elements are written in order, each from the next input element or the padding.

    Padding only adds to what is written before an element is read: the last element has the greatest distance.
    cc/pad.cc:48-95 call ref/pad.h:38 for all types, with PadImageStyle (line 148) and without.
    """
    before = _before(case)
    if before is None:
        return None
    at = 0
    for extent, padded, first in zip(case.input.shape, case.output.shape, before, strict=True):
        at = at * padded + first + extent - 1
    return (at - (case.input.count - 1)) * case.input.width


def pad_rows(case: Case) -> int | None:
    """As `pad` for up to four dimensions, but rows are copied with memcpy: none may overlap what it is copied from.

    A row has all elements of the last two dimensions, or only of the last one if that is padded. For int8
    cc/cmsis_nn/pad.cc:68 calls arm_pad_s8.c:70 of CMSIS-NN, for any compiler and feature: memcpy in line 82 for rows,
    in line 94 for pixels.
    """
    distance, rank = pad(case), len(case.input.shape)
    if distance is None or rank > 4:
        return None
    whole = case.input.shape[-1] == case.output.shape[-1]
    return distance + prod(case.input.shape[-2:] if whole else case.input.shape[-1:]) * case.input.width


def _before(case: Case) -> tuple[int, ...] | None:
    """The padding before each dimension; None if the parameters do not tell, or do not fit the shapes."""
    rank = len(case.input.shape)
    paddings = case.numbers("paddings", 2 * rank)
    if case.position or paddings is None or not 0 < rank <= 5 or len(case.output.shape) != rank:
        return None
    grown = tuple(d + a + b for d, a, b in zip(case.input.shape, paddings[::2], paddings[1::2], strict=True))
    return paddings[::2] if grown == case.output.shape and min(paddings) >= 0 else None


def slice_elements(case: Case) -> int | None:
    """Output elements are written in order; each is read right before, and lies further on in the input.

    What is skipped between two elements adds to the room: the second one that is read has the least.
    cc/slice.cc:116-144 call ref/slice.h:33 for all types.
    """
    rank = len(case.input.shape)
    begin, size = case.numbers("begin", rank), case.numbers("size", rank)
    if case.position or begin is None or size is None or case.output.shape != size or not 0 < rank <= 5:
        return None
    strides = [prod(case.input.shape[k + 1 :]) for k in range(rank)]
    first = sum(b * s for b, s in zip(begin, strides, strict=True))
    step = next((strides[k] for k in range(rank - 1, -1, -1) if size[k] > 1), None)
    return -case.input.size if step is None else -(first + step - 1) * case.input.width


def concatenate(case: Case) -> int | None:
    """For each outer index the inputs are copied one after the other, each with one call of memcpy.

    A copy must not overlap what it is copied from. What the other inputs add for each outer index adds up.
    cc/concatenation.cc:117 calls ref/concatenation.h:31 for all types.
    """
    axis, rank, made = case.number("axis"), len(case.output.shape), case.output.shape
    if axis is None or not 0 <= axis < rank or case.input.dtype != case.output.dtype:
        return None
    extents = []
    for value in case.inputs:
        if value is None or len(value.shape) != rank:
            return None
        if value.shape[:axis] != made[:axis] or value.shape[axis + 1 :] != made[axis + 1 :]:
            return None
        extents.append(value.shape[axis])
    if sum(extents) != made[axis]:
        return None
    outer, inner = prod(made[:axis]), prod(made[axis + 1 :]) * case.output.width
    own, row = extents[case.position] * inner, made[axis] * inner
    return (outer - 1) * (row - own) + sum(extents[: case.position]) * inner + own
