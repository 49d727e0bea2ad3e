"""Pages of libraries' code that a process has mapped, and will hardly run again."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["leave_code"]

_DONTNEED: Final = 4  # of madvise, on Linux
_OF_A_FILE: Final = 1 << 61  # in an entry of /proc/self/pagemap: nothing has written to the page
_THERE: Final = 1 << 63 | 1 << 62  # in memory, or swapped out


def leave_code(modules: Collection[str]) -> None:
    """Unmap the code of these modules from this process; the system's cache of files keeps it for whoever runs it next.

    Nothing is lost: code that was written to, such as by a debugger, stays. Does nothing on other systems than Linux.
    """
    files = {os.path.realpath(getattr(sys.modules.get(name), "__file__", None) or "") for name in modules}
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123 - less memory
            ranges = [
                tuple(int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
                for line in lines
                if " r-xp " in line and line.rstrip("\n").split(maxsplit=5)[-1] in files
            ]
        page = os.sysconf("SC_PAGESIZE")
        with open("/proc/self/pagemap", "rb", buffering=0) as pages:  # noqa: PTH123
            for begin, end in ranges:
                pages.seek(begin // page * 8)
                entries = memoryview(pages.read((end - begin) // page * 8)).cast("Q")
                is_whole = len(entries) * page == end - begin
                if is_whole and all(entry & _OF_A_FILE or not entry & _THERE for entry in entries):
                    ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)
    except OSError:  # no /proc, or a system that hides it
        return
