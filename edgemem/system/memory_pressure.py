"""Whether tasks of this process's control group, or of the system, wait for memory, as Linux tells it (PSI).

Read, not waited for: a container may read these files, and mostly must not write the triggers that could be waited for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["MemoryPressure", "control_group"]

_SYSTEM: Final = Path("/proc/pressure/memory")
_LEAST_S: Final = 1.0  # between two readings that are compared
_MOST_WAITING: Final = 0.1  # of that time


class MemoryPressure:
    """Looks at `memory.pressure` of a control group, else at that of the system.

    Args:
        group: the group's folder; None for that of this process.
    """

    def __init__(self, group: Path | None = None) -> None:
        group = group or control_group()
        files = (*((group / "memory.pressure",) if group is not None else ()), _SYSTEM)
        self._file = next((file for file in files if _waited(file) is not None), None)
        self._waited_s = self._read_at = 0.0

    def is_high(self, now: float) -> bool:
        """Whether a task waited for memory in more than a tenth of the time since the reading before.

        Readings are a second apart or more: False in between, and at the first one. `now`: seconds of a clock.
        """
        if self._file is None or now - self._read_at < _LEAST_S:
            return False
        waited_s = _waited(self._file)
        if waited_s is None:  # the group is gone
            return False
        is_first = not self._read_at
        share = (waited_s - self._waited_s) / (now - self._read_at)
        self._waited_s, self._read_at = waited_s, now
        return share > _MOST_WAITING and not is_first


def control_group() -> Path | None:
    """The folder of this process's control group (version 2); None where there is none."""
    try:
        path = next(line[3:] for line in _lines("/proc/self/cgroup") if line.startswith("0::"))
        mount = next(line.split()[4] for line in _lines("/proc/self/mountinfo") if " - cgroup2 " in line)
    except (OSError, StopIteration):
        return None
    # In a container that does not see the groups outside, the mount may be the group itself.
    folders = (Path(mount + path), Path(mount))
    return next((folder for folder in folders if _waited(folder / "memory.pressure") is not None), None)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()


def _waited(file: Path) -> float | None:
    """Seconds in which some task waited, since the group began; None if the file does not tell."""
    try:
        some = file.read_text(encoding="ascii").partition("\n")[0]
        return int(some.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):  # Linux without PSI, or with it switched off
        return None
