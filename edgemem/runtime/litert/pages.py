"""Pages that are in memory although no further run reads them.

LiteRT maps the file of a model. While it prepares and first runs a model, it reads all of it: kernels decompress
weights, and delegates pack them into a form of their own. Later runs read what they read of the file from the
mapping again. So the mapping's pages are given back after the first run: those that are needed return with the next
one, from the system's cache of files, and the others do not. The C heap keeps what the preparation has freed; it is
given back as well.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

__all__ = ["give_back"]

_DONTNEED: Final = 4  # MADV_DONTNEED; the same number wherever Linux runs
_MAPS: Final = "/proc/self/maps"


def give_back(path: str) -> None:
    """Give back the pages of the mappings of a file, and what is free on the C heap; only Linux does anything."""
    if sys.platform != "linux":
        return
    try:
        library = ctypes.CDLL(None)
        for begin, end in _mappings(path):
            library.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)
        library.malloc_trim(ctypes.c_size_t(0))
    except (OSError, AttributeError, ValueError):
        return  # another C library: the pages stay


def _mappings(path: str) -> list[tuple[int, int]]:
    """Where LiteRT has mapped the file, shared and to be read alone: begin and end of each range of addresses."""
    status = os.stat(path)  # noqa: PTH116 - a path of LiteRT's is a string
    identity = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino)
    found = []
    with open(_MAPS, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - pathlib alone takes 0.6 MiB
        for line in lines:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[1] == "r--s" and (fields[3], fields[4]) == identity:
                begin, _, end = fields[0].partition("-")
                found.append((int(begin, 16), int(end, 16)))
    return found
