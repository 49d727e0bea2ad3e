"""Where edgemem keeps what it can make again: plans of recordings, what it knows of installed runtimes, build tools."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["cache_folder", "last_used", "prune"]

MOST_DAYS: Final = 90  # since the last use of a file


def cache_folder(name: str = "plans") -> Path | None:
    """The default folder of recorded plans, or of something else; None if the user has no folder for caches."""
    if home := os.environ.get("EDGEMEM_CACHE"):
        return Path(home).absolute() / name
    try:
        folder = _user_folder()
    except (RuntimeError, OSError):  # there is no home
        return None
    return folder / name if folder.is_absolute() else None


def _user_folder() -> Path:
    """The folder for edgemem among the user's caches. Raises RuntimeError if the user has no home."""
    home = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA") or "~/AppData/Local"}
    system: str = sys.platform
    default = home.get(system) or os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(default, "edgemem").expanduser()


def last_used(folder: Path, pattern: str) -> list[Path]:
    """The files of this name in a folder, the last used first."""
    found = []
    with suppress(OSError):
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):  # another process has removed it
                found.append((path.lstat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def prune(folder: Path, pattern: str, most_files: int, most_bytes: int) -> None:
    """Remove the files of this name that were not used for 90 days, and the oldest of too many.

    Raises OSError for one that cannot be removed.
    """
    oldest = time.time() - MOST_DAYS * 86400
    total = 0
    for number, path in enumerate(last_used(folder, pattern)):
        with suppress(FileNotFoundError):  # as in last_used
            status = path.lstat()
            total += status.st_size
            if number >= most_files or total > most_bytes or status.st_mtime < oldest:
                path.unlink()
