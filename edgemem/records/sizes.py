"""Sizes in memory: the one function for a tensor's bytes under a target, and the one that pads to the alignment."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeVar

from edgemem.model.dtypes import is_sub_byte

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Layout, Tensor
    from edgemem.targets import Target

__all__ = ["padded", "tensor_bytes"]

Bytes = TypeVar("Bytes", int, "NDArray[np.int64]")


def padded(size: Bytes, alignment: int) -> Bytes:
    """The least multiple of `alignment` that is `size` or more; bytes, of one size or elementwise of an array."""
    return -(-size // alignment) * alignment


def tensor_bytes(tensor: Tensor, target: Target, layout: Layout) -> int:
    """The bytes that a tensor of a graph of a layout takes under a target.

    The target says how elements narrower than a byte are kept, and whether channels are kept in slices of four; then
    the dtype does not matter, and in an array of textures a tensor takes whole layers.

    Raises UnsupportedError for a dtype without a fixed width, unless it does not matter.
    """
    if target.storage == "phwc4":
        from edgemem.model.texture_layout import SLICE, stored  # sessions plan no textures, and load none of it

        size = stored(tensor.shape, layout).texels * SLICE * target.element_bytes
        return padded(size, target.layer_bytes or 1)
    if target.sub_byte == "unpacked" and is_sub_byte(tensor.dtype):
        return prod(tensor.shape)
    return tensor.size
