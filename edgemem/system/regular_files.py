"""Reading files that strangers may have made: regular ones alone, and no more bytes than such a file can have."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["open_regular", "read_bounded"]

# Without waiting for a FIFO's writer; Windows has neither.
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def open_regular(path: Path, *, follow: bool = True) -> Iterator[tuple[IO[bytes], int]]:
    """A regular file, open for reading, and how many bytes it has.

    `follow` says whether a symbolic link is followed (where the system has them). Raises OSError for anything else: a
    device, a FIFO, a folder. Nothing is read from them, and nothing waits for them.
    """
    flags = _READ | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening some devices changes their state
            raise OSError(f"{path} is no regular file")
        descriptor = os.open(path, flags)
    except ValueError as e:  # a NUL in the path
        raise OSError(f"{str(path)!r} is no file: {e}") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - Path.open takes no flags
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no regular file")
        yield file, status.st_size


def read_bounded(path: Path, most: int, *, follow: bool = True) -> bytes:
    """The bytes of a regular file that has at most `most` of them. Raises OSError otherwise, as `open_regular`."""
    with open_regular(path, follow=follow) as (file, size):
        if size > most:
            raise OSError(f"{path} has more than {most:,} bytes, the most that is read")
        data = file.read(size + 1)  # Python makes room for as many as are asked for, whatever there is
        if len(data) > size:
            raise OSError(f"{path} grows while it is read")
        return data
