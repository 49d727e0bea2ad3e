"""Sizes in memory: the one function for a tensor's bytes under a target, and the one that pads to the alignment."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeVar

from edgemem.model.dtypes import is_sub_byte

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Tensor
    from edgemem.targets import Target

__all__ = ["padded", "tensor_bytes"]

Bytes = TypeVar("Bytes", int, "NDArray[np.int64]")


def padded(size: Bytes, alignment: int) -> Bytes:
    """The least multiple of `alignment` that is `size` or more; bytes, of one size or elementwise of an array."""
    return -(-size // alignment) * alignment


def tensor_bytes(tensor: Tensor, target: Target) -> int:
    """The bytes that a tensor takes under a target, which says how elements narrower than a byte are kept.

    Raises UnsupportedError for a dtype without a fixed width.
    """
    if target.sub_byte == "unpacked" and is_sub_byte(tensor.dtype):
        return prod(tensor.shape)
    return tensor.size
