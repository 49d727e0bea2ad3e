"""Texel extents: the size of a tensor that is kept in a GPU texture of four channels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.model.texture_layout import stored

if TYPE_CHECKING:
    from edgemem.model.graph import Layout, Tensor
    from edgemem.model.texture_layout import Stored
    from edgemem.records.problem import Extent
    from edgemem.targets import Target

__all__ = ["TexelPlace", "texel_extent", "texel_place"]

_LEAST_ROW: Final = 1024  # of texels that follow each other, where the target names none


@dataclass(frozen=True, slots=True)
class TexelPlace:
    """How a tensor lies in a texture.

    Attributes:
        width, height: of what it takes, from the texture's corner; texels.
        linear: texel i, in the order of a buffer, is at (i % row, i / row). Else texel (b, y, x, slice) is at
            (x * batch + b, y * slices + slice).
        row: texels in a row; 0 where it is not linear.
        layers: how many layers of an array of textures it takes, of `height` rows each; 0: no array. Row r of the
            texels is row r % height of layer r / height.
    """

    width: int
    height: int
    linear: bool
    row: int
    layers: int = 0


def texel_place(stored: Stored, target: Target) -> TexelPlace:
    """How a tensor lies in a texture, which any texture that covers it may be, or in layers of an array of them.

    By dimensions, unless the target asks for rows or a side is longer than textures have. Rows are as long as the
    target asks, 1024 texels if it does not, and twice as long as often as there would be too many.

    Raises UnsupportedError for more texels than a texture has.
    """
    if target.layer_rows:
        layers = -(-stored.texels // (target.texel_row * target.layer_rows))
        return TexelPlace(target.texel_row, target.layer_rows, linear=True, row=target.texel_row, layers=layers)
    width, height, side = stored.width * stored.batch, stored.height * stored.slices, target.texture_side
    if not target.texel_row and width <= side and height <= side:
        return TexelPlace(width, height, linear=False, row=0)
    row = target.texel_row or min(_LEAST_ROW, side)
    while -(-stored.texels // row) > side and row < side:
        row = min(row * 2, side)
    rows = -(-stored.texels // row)
    if rows > side:
        raise UnsupportedError(f"its {stored.texels} texels are more than the {side} x {side} of a texture")
    return TexelPlace(min(row, stored.texels), rows, linear=True, row=row)


def texel_extent(tensor: Tensor, layout: Layout, target: Target) -> Extent | str:
    """Texels of four channels as (width, height); or why the tensor has no place.

    With the storage `plain` that is (width * batch, height * slices) of a tensor of floats and up to four dimensions;
    with `phwc4` see `texel_place`.

    Raises UnsupportedError for a tensor that is too large for a texture.
    """
    if target.storage == "phwc4":
        if not prod(tensor.shape):
            return "empty"
        try:
            place = texel_place(stored(tensor.shape, layout), target)
        except UnsupportedError as e:
            raise UnsupportedError(f"tensor {tensor.name!r}: {e}; plan for gpu-buffer") from None
        return place.width, place.height
    if tensor.dtype not in ("float32", "float16"):
        return f"{tensor.dtype}, not a texture format"
    if len(tensor.shape) > 4:
        return f"rank {len(tensor.shape)}, a texture holds four"
    shape = tensor.shape
    if layout == "nchw" and len(shape) == 4:
        batch, channels, height, width = shape
    else:
        # Shorter shapes are batch and channels first, as TFLite GPU's BHWC reads them.
        batch, height, width, channels = {
            4: shape,
            3: (shape[0], 1, *shape[1:]) if len(shape) == 3 else (),
            2: (shape[0], 1, 1, *shape[1:]) if len(shape) == 2 else (),
            1: (1, 1, 1, *shape),
            0: (1, 1, 1, 1),
        }[len(shape)]
    if not all(shape):
        return "empty"
    return width * batch, height * ((channels + 3) // 4)
