"""Memory that is reserved and not touched: the system gives its pages as they are written."""

from __future__ import annotations

import mmap
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ReservedMemory"]


class ReservedMemory:
    """Address space for `size` bytes, zero until it is written. It is released with the last reference to it.

    Raises RuntimeBindError where the system has no room for it.

    Attributes:
        size: bytes that were asked for.
        address: of the first byte, a multiple of the page size.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        try:
            self._map = _mapped(max(size, 1))
        except (OSError, OverflowError, ValueError) as e:
            raise RuntimeBindError(f"cannot reserve {size:,} bytes: {e}; ask for less") from None
        # A huge page would make rows resident that no token has been written to.
        with suppress(AttributeError, OSError):
            self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address = int(self._bytes.ctypes.data)

    def array(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array at the beginning of the memory, which stays for as long as the array."""
        count = prod(shape) * int(np.dtype(dtype).itemsize)
        made: NDArray[Any] = self._bytes[:count].view(dtype).reshape(shape)
        return made

    def release(self, begin: int = 0) -> None:
        """Give the pages behind `begin` (bytes, rounded up to a page) back to the system; they read as zero then."""
        start = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        length = len(self._map) - start
        if length <= 0:
            return
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start, length)
        else:
            self._bytes[start:] = 0


def _mapped(length: int) -> mmap.mmap:
    private = getattr(mmap, "MAP_PRIVATE", None)
    if private is None:  # Windows
        return mmap.mmap(-1, length)
    return mmap.mmap(-1, length, flags=private | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
