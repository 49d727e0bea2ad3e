"""Where GPU kernels keep each element of a value, one by one: no formula is about whole tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from edgemem import Target
    from tests.oracle.memory_plans.program import Value

__all__ = ["extent_of", "places_of", "size_of"]

_FORMAT = 4  # floats in a texel


@lru_cache(maxsize=8)  # arrays of all elements: a weight of VGG takes 90 MB
def _texels(shape: tuple[int, ...], form: str) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """Of each element, in order, its batch, y, x, slice and lane [elements, 5]; and the size of the first four."""
    full = shape if len(shape) > 1 else (1, int(np.prod(shape)))
    if len(shape) == 4 and form == "onnx":
        axes = (0, 2, 3, 1)
    else:
        # Batch, height, width, channels; dimensions between the first and the last two are one height.
        full = (full[0], int(np.prod(full[1:-2])), full[-2] if len(full) > 2 else 1, full[-1])
        axes = (0, 1, 2, 3)
    index = np.indices(full).reshape(4, -1)
    b, y, x, c = (index[axis] for axis in axes)
    sizes = [full[axis] for axis in axes]
    places = np.stack((b, y, x, c // _FORMAT, c % _FORMAT), axis=1)
    return places, (sizes[0], sizes[1], sizes[2], -(-sizes[3] // _FORMAT))


@lru_cache(maxsize=8)
def _spots(shape: tuple[int, ...], form: str, row: int, side: int) -> np.ndarray:
    """Of each element its x and y in a texture and its lane; `row` -1: x is the texel in a buffer, and y is 0."""
    places, (batch, height, width, slices) = _texels(shape, form)
    b, y, x, s, lane = places.T
    linear = ((s * height + y) * width + x) * batch + b
    if row < 0:
        return np.stack((linear, 0 * linear, lane), axis=1)
    if not row and width * batch <= side and height * slices <= side:
        return np.stack((x * batch + b, y * slices + s, lane), axis=1)
    texels = batch * height * width * slices
    row = row or 1024
    while row < side and texels > row * side:
        row = 2 * row
    row = min(row, side)
    return np.stack((linear % row, linear // row, lane), axis=1)


@lru_cache(maxsize=4096)
def _last(shape: tuple[int, ...], form: str, row: int, side: int) -> tuple[int, int]:
    """The largest x and y of all elements."""
    x, y, _ = _spots(shape, form, row, side).max(axis=0).tolist()
    return x, y


def _key(value: Value, form: str, target: Target) -> tuple[tuple[int, ...], str, int, int]:
    return value.shape, form, target.texel_row if target.texels else -1, target.texture_side


def places_of(value: Value, form: str, target: Target) -> object:
    """Equal for two values that have each element at the same place."""
    return _spots(*_key(value, form, target)).tobytes()


def extent_of(value: Value, form: str, target: Target) -> tuple[int, int] | None:
    """Width and height in texels; None for an empty value, and for one that is larger than a texture."""
    if not value.elements:
        return None
    x, y = _last(*_key(value, form, target))
    return (x + 1, y + 1) if max(x, y) < target.texture_side else None


def size_of(value: Value, form: str, target: Target) -> int:
    """Bytes in a buffer, up to the last texel that has an element; in an array of textures to the end of its layer."""
    if not value.elements:
        return 0
    texels = _last(*_key(value, form, target))[0] + 1
    if target.layer_rows:
        layers = (texels - 1) // (target.texel_row * target.layer_rows) + 1
        texels = layers * target.texel_row * target.layer_rows
    return texels * _FORMAT * (2 if target.precision == "fp16" else 4)
