"""How GPU kernels keep a tensor, worked out for the proof from the words of the rules alone.

A texel holds four channels. The dimensions of a tensor are batch, height, width and channels: four of them are read by
the graph's layout, of fewer the last one is the channels, the one before the width and the first the batch (a vector
has channels alone), and of more all between the batch and the width are the height.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.model.graph import Tensor
    from edgemem.targets import Target

__all__ = ["gpu_bytes", "has_same_places", "texture_of"]


def _axes(shape: tuple[int, ...], layout: str) -> list[tuple[str, int]]:
    """The dimensions in the tensor's own order, each with its name: B, H, W or C."""
    if len(shape) == 4:
        return list(zip("BCHW" if layout == "nchw" else "BHWC", shape, strict=True))
    if len(shape) < 2:
        return [("C", prod(shape))]
    batch, *middle, channels = shape
    width = middle.pop() if middle else 1
    return [("B", batch), ("H", prod(middle)), ("W", width), ("C", channels)]


def _dims(tensor: Tensor, layout: str) -> tuple[int, int, int, int]:
    """(batch, height, width, texels of the channels)."""
    sizes = {"B": 1, "H": 1, "W": 1, **dict(_axes(tensor.shape, layout))}
    return sizes["B"], sizes["H"], sizes["W"], (sizes["C"] + 3) // 4


def gpu_bytes(tensor: Tensor, layout: str, target: Target) -> int:
    """Bytes of a tensor in a buffer, or in whole layers of an array of textures: texels of four floats."""
    texels = prod(_dims(tensor, layout))
    if target.layer_rows:
        layer = target.texel_row * target.layer_rows
        texels = (texels + layer - 1) // layer * layer
    return texels * 4 * {"fp32": 4, "fp16": 2}[target.precision]


def texture_of(tensor: Tensor, layout: str, target: Target) -> tuple[int, int] | None:
    """The texels (width, height) that a tensor takes of a texture under the target; None: it has none, or too many.

    Width and batch lie side by side, slices of four channels below each other. Where the target wants rows, or a side
    would be too long, texels follow each other in rows of the target's or of 1024 texels, twice as long as often as
    needed.
    """
    batch, height, width, slices = _dims(tensor, layout)
    texels = batch * height * width * slices
    side = target.texture_side
    if not texels:
        return None
    if not target.texel_row and max(batch * width, height * slices) <= side:
        return batch * width, height * slices
    row = target.texel_row or 1024
    while row * side < texels and row < side:
        row *= 2
    row = min(row, side)
    rows = (texels + row - 1) // row
    return (min(texels, row), rows) if rows <= side else None


def has_same_places(one: tuple[int, ...], other: tuple[int, ...], layout: str) -> bool:
    """Whether two shapes of one graph have each element, counted in the tensor's order, at one place in memory.

    So it is where both have the same dimensions, and those that are longer than 1 in the same order.
    """
    orders = [[axis for axis in _axes(shape, layout) if axis[1] != 1] for shape in (one, other)]
    return orders[0] == orders[1]
