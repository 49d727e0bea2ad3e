"""Padding: the one function that rounds a size or an address up to the alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["padded"]

Bytes = TypeVar("Bytes", int, "NDArray[np.int64]")


def padded(size: Bytes, alignment: int) -> Bytes:
    """The least multiple of `alignment` that is `size` or more; bytes, of one size or elementwise of an array."""
    return -(-size // alignment) * alignment
