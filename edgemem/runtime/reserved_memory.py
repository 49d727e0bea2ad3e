"""Memory that is reserved and not touched: the system gives its pages as they are written."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FrozenMemory", "ReservedMemory"]


class FrozenMemory:
    """Memory that any number of others begin with, and share: a page that one writes to becomes its own.

    It is zero until `copy` fills it, and is released with the last memory that began with it.

    Raises RuntimeBindError where the system has no room for it.
    """

    def __init__(self, size: int) -> None:
        try:
            made = os.memfd_create("edgemem") if hasattr(os, "memfd_create") else None
            self._file: Any = tempfile.TemporaryFile(buffering=0) if made is None else open(made, "r+b", buffering=0)  # noqa: PTH123, SIM115
            finalize(self, self._file.close)
            self._file.truncate(max(size, 1))
        except OSError as e:
            raise RuntimeBindError(f"cannot reserve {size:,} bytes: {e}; ask for less") from None

    def copy(self, memory: ReservedMemory, spans: NDArray[Any]) -> None:
        """Copy bytes [n, (first, behind the last)] of a memory to where they are there. Raises as the constructor."""
        source = memory.array((memory.size,), np.uint8)
        try:
            for first, end in np.minimum(spans, memory.size).tolist():
                self._file.seek(first)
                begin = first
                while begin < end:
                    begin += self._file.write(source[begin:end])
        except OSError as e:
            raise RuntimeBindError(f"cannot copy {memory.size:,} bytes: {e}; free some memory") from None

    def fileno(self) -> int:
        """The file whose pages these are."""
        return int(self._file.fileno())


class ReservedMemory:
    """Address space for `size` bytes, zero until it is written. It is released with the last reference to it.

    With `frozen`, which is of this size, it begins with its bytes.

    Raises RuntimeBindError where the system has no room for it.

    Attributes:
        size: bytes that were asked for.
        address: of the first byte, a multiple of the page size.
    """

    def __init__(self, size: int, frozen: FrozenMemory | None = None) -> None:
        self.size = size
        try:
            self._map = _mapped(max(size, 1), frozen)
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


def _mapped(length: int, frozen: FrozenMemory | None) -> mmap.mmap:
    private = getattr(mmap, "MAP_PRIVATE", None)
    if private is None:  # Windows
        return mmap.mmap(-1, length) if frozen is None else mmap.mmap(frozen.fileno(), length, access=mmap.ACCESS_COPY)
    flags = private | getattr(mmap, "MAP_NORESERVE", 0)
    if frozen is None:
        return mmap.mmap(-1, length, flags=flags | mmap.MAP_ANONYMOUS)
    return mmap.mmap(frozen.fileno(), length, flags=flags)
