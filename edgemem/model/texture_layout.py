"""How GPU kernels keep a tensor: batch, height, width, channels in slices of four (PHWC4, as TFLite's GPU delegate).

Any tensor is kept so. One of four dimensions is read by the graph's layout. Of other shapes the last dimension is the
channels, the one before the width, the first the batch, and what is between the height; a vector has channels alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Layout

__all__ = ["SLICE", "Stored", "is_same_storage", "stored"]

SLICE: Final = 4  # channels in one texel


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in memory.

    Attributes:
        batch, height, width, channels: its dimensions.
        channels_first: the tensor's own order is batch, channels, height, width; else batch, height, width, channels.
    """

    batch: int
    height: int
    width: int
    channels: int
    channels_first: bool = False

    @property
    def dims(self) -> tuple[int, int, int, int]:
        """Batch, height, width, channels."""
        return self.batch, self.height, self.width, self.channels

    @property
    def slices(self) -> int:
        """Texels that the channels of one position take."""
        return -(-self.channels // SLICE)

    @property
    def texels(self) -> int:
        """Texels of the whole tensor: batch * height * width * slices."""
        return self.batch * self.height * self.width * self.slices


def stored(shape: Sequence[int], layout: Layout) -> Stored:
    """How a tensor of a shape is kept in a graph of a layout."""
    rank = len(shape)
    if rank == 4 and layout == "nchw":
        batch, channels, height, width = shape
        return Stored(batch, height, width, channels, channels_first=True)
    if rank <= 1:
        return Stored(1, 1, 1, prod(shape))
    width = shape[-2] if rank > 2 else 1
    return Stored(shape[0], prod(shape[1:-2]), width, shape[-1])


def is_same_storage(a: Stored, b: Stored) -> bool:
    """Whether each element, counted in the tensor's own order, is at the same place in both."""
    if a.dims != b.dims:
        return False
    return a.channels_first == b.channels_first or a.channels == 1 or a.height * a.width == 1
