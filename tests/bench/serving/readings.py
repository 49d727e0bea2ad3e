"""The memory of this process, on a system that tells it."""

from __future__ import annotations

from edgemem.system.process_memory import anonymous_bytes, peak_bytes, resident_bytes

__all__ = ["anonymous", "peak", "resident"]


def resident() -> int:
    """Resident bytes now."""
    return _told(resident_bytes())


def anonymous() -> int:
    """Resident bytes now that no file backs."""
    return _told(anonymous_bytes())


def peak() -> int:
    """The most resident bytes so far."""
    return _told(peak_bytes())


def _told(size: int | None) -> int:
    if size is None:
        raise SystemExit("this system does not tell the memory of a process: run it on Linux")
    return size
