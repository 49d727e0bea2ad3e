"""Texel extents: the size of a tensor that is kept in a GPU texture of four channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.model.graph import Layout, Tensor
    from edgemem.records.problem import Extent

__all__ = ["texel_extent"]


def texel_extent(tensor: Tensor, layout: Layout) -> Extent | str:
    """Texels of four channels as (width * batch, height * slices); or why the tensor is no texture."""
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
