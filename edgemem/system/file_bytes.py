"""The bytes of a file, read piece by piece: the pages of a mapped file would count as memory of the process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FileBytes"]

_NEAR: Final = 1 << 12  # bytes that are read for a short slice, because the next slice mostly follows it
# Bytes of a block. A larger one that is freed would raise the limit above which the C library maps blocks of their own,
# for whatever else the process loads meanwhile: 9 MiB of a session's peak (a transformer of 13 MB, glibc 2.36).
_BLOCK: Final = 1 << 16


class FileBytes:
    """A file as a sequence of bytes. Not safe for several threads at once.

    Args:
        descriptor: of an open file, which stays the caller's.
        size: bytes of the file; those behind them are not read.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size = descriptor, size
        self._begin, self._near = 0, b""  # what was read last, and where it stands

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice) -> bytes:
        """The bytes of a slice without a step. Raises OSError where the file is shorter by now."""
        begin, end, _ = place.indices(self._size)
        if self._begin <= begin and end <= self._begin + len(self._near):
            return self._near[begin - self._begin : end - self._begin]
        if end - begin >= _NEAR:
            return b"".join(self.blocks(begin, end))
        self._begin, self._near = begin, self._read(min(_NEAR, self._size - begin), begin)
        return self._near[: max(end - begin, 0)]

    def blocks(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes `begin` (inclusive) to `end` (exclusive), in blocks. Raises OSError as slices do."""
        while begin < end:
            block = self._read(min(_BLOCK, end - begin), begin)
            if not block:
                raise OSError(f"the file has become shorter than {end:,} bytes")
            yield block
            begin += len(block)

    def _read(self, size: int, begin: int) -> bytes:
        if hasattr(os, "pread"):  # Windows has none
            return os.pread(self._descriptor, size, begin)
        os.lseek(self._descriptor, begin, os.SEEK_SET)
        return os.read(self._descriptor, size)
