"""Tensors as kernels keep them: values to texels of four channels and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.model.texture_layout import SLICE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.texture_layout import Stored

__all__ = ["from_image", "pack", "to_image", "unpack"]


def pack(values: NDArray[np.generic], stored: Stored, fill: float = 0.0) -> NDArray[np.float32]:
    """Texels [slices, height, width, batch, 4] of a tensor; unused channels hold `fill`.

    `values` has the tensor's elements in the order of its own axes, in any shape.
    """
    batch, height, width, channels = stored.dims
    if stored.channels_first:
        own = values.reshape(batch, channels, height, width).transpose(1, 2, 3, 0)
    else:
        own = values.reshape(batch, height, width, channels).transpose(3, 1, 2, 0)
    padded = np.full((stored.slices * SLICE, height, width, batch), fill, np.float32)
    padded[:channels] = own
    return np.ascontiguousarray(padded.reshape(stored.slices, SLICE, height, width, batch).transpose(0, 2, 3, 4, 1))


def unpack(texels: NDArray[np.generic], stored: Stored) -> NDArray[np.float32]:
    """The tensor's elements, [batch, height, width, channels] or [batch, channels, height, width] as its own order is.

    `texels` are in the order of `pack`, in any shape.
    """
    batch, height, width, channels = stored.dims
    grid = texels.reshape(stored.slices, height, width, batch, SLICE).transpose(0, 4, 1, 2, 3)
    own = grid.reshape(stored.slices * SLICE, height, width, batch)[:channels].astype(np.float32)
    order = (3, 0, 1, 2) if stored.channels_first else (3, 1, 2, 0)
    return np.ascontiguousarray(own.transpose(order))


def to_image(texels: NDArray[np.float32], stored: Stored, row: int = 0) -> NDArray[np.float32]:
    """Texels as rows of a texture, [rows, texels of a row, 4]: of the 2-D form, or by index in rows of `row`.

    The last row by index is filled up with zeros.
    """
    if row:
        rows = -(-stored.texels // row)
        image = np.zeros((rows * row, SLICE), np.float32)
        image[: stored.texels] = texels.reshape(-1, SLICE)
        return image.reshape(rows, row, SLICE)
    moved = texels.reshape(stored.slices, stored.height, stored.width, stored.batch, SLICE).swapaxes(0, 1)
    return np.ascontiguousarray(moved).reshape(stored.height * stored.slices, stored.width * stored.batch, SLICE)


def from_image(image: NDArray[np.generic], stored: Stored, row: int = 0) -> NDArray[np.generic]:
    """The texels of `to_image`'s result."""
    if row:
        return image.reshape(-1, SLICE)[: stored.texels]
    grid = image.reshape(stored.height, stored.slices, stored.width, stored.batch, SLICE)
    return np.ascontiguousarray(grid.swapaxes(0, 1))
