"""The memory of this process, as Linux tells it.

Imports nothing that an interpreter has not loaded by itself, so that measuring changes little of what is measured.
"""

from __future__ import annotations

__all__ = [
    "anonymous_bytes",
    "begin_peak",
    "mapped_bytes",
    "peak_bytes",
    "proportional_bytes",
    "resident_bytes",
    "trim_heap",
]


def resident_bytes() -> int | None:
    """Resident memory now, in bytes; None where the system does not tell it (Linux does)."""
    return _status("VmRSS:")


def peak_bytes() -> int | None:
    """The most that was resident at once since the process began, in bytes; None where the system does not tell it.

    Not ru_maxrss, which starts at the parent's resident memory at the fork.
    """
    return _status("VmHWM:")


def anonymous_bytes() -> int | None:
    """Resident memory now that no file backs: heaps, stacks, arenas; bytes, or None as above."""
    return _status("RssAnon:")


def proportional_bytes() -> int | None:
    """Resident memory now where a page that n processes share counts as 1/n (PSS); bytes, or None as above."""
    return _status("Pss:", "smaps_rollup")


def mapped_bytes(folder: str) -> tuple[int, int]:
    """How many bytes of the files in a folder are mapped, and how many of them are resident; (0, 0) where no one tells.

    Args:
        folder: an absolute path without links. Folders in it count, too, shared libraries do not.
    """
    sizes = {"Size:": 0, "Rss:": 0}
    is_there = False
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123 - as below
            for line in lines:
                key, _, rest = line.partition(" ")
                if "-" in key:  # BEGIN-END permissions offset device inode path
                    path = line.rstrip("\n").split(maxsplit=5)[-1]
                    is_there = path.startswith(f"{folder}/") and ".so" not in path[path.rindex("/") :]
                elif is_there and key in sizes:
                    sizes[key] += int(rest.split()[0]) * 1024
    except OSError:
        pass
    return sizes["Size:"], sizes["Rss:"]


def begin_peak() -> None:
    """Let `peak_bytes` tell the peak from now on, where the system permits that; since the beginning otherwise."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("5")
    except OSError:
        pass


def trim_heap() -> None:
    """Give what the C library holds free back to the system, where it is glibc: what a careful user does by hand."""
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # Windows, where None names no library, raises TypeError
        return


def _status(key: str, file: str = "status") -> int | None:
    try:
        with open(f"/proc/self/{file}", encoding="ascii") as lines:  # noqa: PTH123 - pathlib alone takes 0.6 MiB
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)
    except OSError:
        return None
