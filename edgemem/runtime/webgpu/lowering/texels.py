"""Affine maps of indices that move whole texels: found by writing them in batch, height, width and channels.

    output (b, y, x, c)  ->  the map's output index, by the output's own order    (_output_forms)
                         ->  the map's input index, where it is linear            (_linear)
                         ->  input (b, y, x, c), by the input's own order         (_coordinates)

A form is five numbers: a constant and the factors of the output's b, y, x and c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import AffineMap
    from edgemem.model.texture_layout import Stored

__all__ = ["TexelMap", "position_map", "texel_map"]

Form: TypeAlias = "NDArray[np.int64]"

_B, _Y, _X, _C = range(4)
_CHANNELS_FIRST: Final = (_B, _C, _Y, _X)
_CHANNELS_LAST: Final = (_B, _Y, _X, _C)


@dataclass(frozen=True, slots=True)
class TexelMap:
    """Where a texel of the output comes from.

    Attributes:
        batch, height, width: the input's, each as (constant, factor of b, of y, of x).
        channel: the input's channel for the output's channel 0; it moves on with the output's.
    """

    batch: tuple[int, ...]
    height: tuple[int, ...]
    width: tuple[int, ...]
    channel: int

    @property
    def is_identity(self) -> bool:
        """Whether each texel stays at its place."""
        return (self.batch, self.height, self.width, self.channel) == ((0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), 0)


def texel_map(op: AffineMap, source: Stored, result: Stored) -> TexelMap | None:
    """How the map moves texels, or None if it separates channels or is not linear in these coordinates."""
    outputs = _output_forms(op, result)
    if outputs is None:
        return None
    indices = _linear(op, outputs)
    if indices is None:
        return None
    found = _coordinates(op, indices, source, result)
    if found is None:
        return None
    channel = found[_C].copy()
    if result.channels > 1:
        channel[1 + _C] -= 1
        if any(form[1 + _C] for form in found[:_C]):
            return None
    if any(n for n, size in zip(channel[1:], result.dims, strict=True) if size > 1):
        return None
    b, y, x = (tuple(int(n) for n in form[: 1 + _C]) for form in found[:_C])
    # What is multiplied by an index that is always 0 is written as on the diagonal: the identity has one form.
    fixed = [
        tuple(n if d == 0 or result.dims[d - 1] > 1 else int(d == own + 1) for d, n in enumerate(form))
        for own, form in enumerate((b, y, x))
    ]
    return TexelMap(fixed[0], fixed[1], fixed[2], int(channel[0]))


def _axes(stored: Stored) -> list[tuple[int, int]]:
    """(coordinate, size) in the tensor's own order."""
    order = _CHANNELS_FIRST if stored.channels_first else _CHANNELS_LAST
    return [(axis, stored.dims[axis]) for axis in order]


def _groups(dims: tuple[int, ...], stored: Stored) -> list[list[tuple[int, int]]] | None:
    """For each dimension of a factoring the axes that it consists of; None if it divides one."""
    axes = _axes(stored)
    groups: list[list[tuple[int, int]]] = []
    for size in dims:
        group: list[tuple[int, int]] = []
        if size == 1 and axes and axes[0][1] == 1:
            group.append(axes.pop(0))
        while size > prod(n for _, n in group):
            if not axes:
                return None
            axis = axes.pop(0)
            if axis[1] > 1:
                group.append(axis)
        if prod(n for _, n in group) != size:
            return None
        groups.append(group)
    return groups if all(n == 1 for _, n in axes) else None


def _output_forms(op: AffineMap, result: Stored) -> list[Form] | None:
    """Each index of the map's output dimensions."""
    groups = _groups(op.out_dims, result)
    if groups is None:
        return None
    forms = []
    for group in groups:
        form = np.zeros(5, np.int64)
        for k, (axis, _) in enumerate(group):
            form[1 + axis] = prod(n for _, n in group[k + 1 :])
        forms.append(form)
    return forms


def _linear(op: AffineMap, outputs: list[Form]) -> list[Form] | None:
    """Each index of the map's input dimensions."""
    quotients, remainders = [], []
    for form, size, shift, split in zip(outputs, op.out_dims, op.shift, op.split, strict=True):
        moved = form.copy()
        moved[0] += shift
        nothing = np.zeros(5, np.int64)
        if split == 1:
            quotients.append(moved)
            remainders.append(nothing)
        elif shift // split == (shift + size - 1) // split:
            nothing[0] = shift // split
            moved[0] -= shift // split * split
            quotients.append(nothing)
            remainders.append(moved)
        else:
            return None
    found = []
    for offset, by_quotient, by_remainder in zip(op.offset, op.quotients, op.remainders, strict=True):
        form = np.zeros(5, np.int64)
        form[0] = offset
        for d in range(len(outputs)):
            form += by_quotient[d] * quotients[d] + by_remainder[d] * remainders[d]
        found.append(form)
    return found


def _coordinates(op: AffineMap, indices: list[Form], source: Stored, result: Stored) -> list[Form] | None:
    """The input's b, y, x and c; None where an axis is left that the border does not count as one."""
    groups = _groups(op.in_dims, source)
    if groups is None:
        return None
    found = [np.zeros(5, np.int64) for _ in range(4)]
    for form, group in zip(indices, groups, strict=True):
        if not group:
            if _span(form, result) != (0, 0):
                return None
            continue
        rest = form.copy()
        for k, (axis, size) in enumerate(group):
            inner = prod(n for _, n in group[k + 1 :])
            digit = np.sign(rest) * (np.abs(rest) // inner)
            digit[0] = rest[0] // inner
            rest = rest - digit * inner
            least, most = _span(digit, result)
            is_free = k == 0 and (op.border == "value" or axis != _C)
            if not is_free and (least < 0 or most >= size):
                return None
            found[axis] = digit
    return found


def _span(form: Form, result: Stored) -> tuple[int, int]:
    """The least and the largest number that a form gives."""
    ends = [(0, int(n) * (size - 1)) for n, size in zip(form[1:], result.dims, strict=True)]
    return int(form[0]) + sum(min(e) for e in ends), int(form[0]) + sum(max(e) for e in ends)


def position_map(op: AffineMap, source: Stored, result: Stored) -> AffineMap | None:
    """The map of positions that moves all their channels as this one moves elements; None if it separates channels.

    Positions are counted along batch, height and width, so that the channels must be the last axis of both tensors.
    """
    channels = result.channels
    if source.channels_first or result.channels_first or source.channels != channels:
        return None
    if op.shift[-1] or op.split[-1] != 1 or any(n % channels for n in (op.out_dims[-1], op.in_dims[-1], op.offset[-1])):
        return None
    if [row[-1] for row in op.quotients] != [0] * (len(op.in_dims) - 1) + [1]:
        return None
    if any(n % channels for n in (*op.quotients[-1][:-1], *op.remainders[-1][:-1])):
        return None
    return replace(
        op,
        out_dims=(*op.out_dims[:-1], op.out_dims[-1] // channels),
        in_dims=(*op.in_dims[:-1], op.in_dims[-1] // channels),
        offset=(*op.offset[:-1], op.offset[-1] // channels),
        quotients=(*op.quotients[:-1], (*(n // channels for n in op.quotients[-1][:-1]), 1)),
        remainders=(*op.remainders[:-1], (*(n // channels for n in op.remainders[-1][:-1]), 0)),
    )
