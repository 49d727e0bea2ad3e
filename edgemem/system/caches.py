"""Where edgemem keeps what it can make again: plans of recordings, what it knows of installed runtimes, build tools."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path | None:
    """The default folder of recorded plans; None if the user has no folder for caches."""
    if home := os.environ.get("EDGEMEM_CACHE"):
        return Path(home).absolute() / "plans"
    try:
        folder = _user_folder()
    except (RuntimeError, OSError):  # there is no home
        return None
    return folder / "plans" if folder.is_absolute() else None


def _user_folder() -> Path:
    """The folder for edgemem among the user's caches. Raises RuntimeError if the user has no home."""
    home = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA") or "~/AppData/Local"}
    system: str = sys.platform
    default = home.get(system) or os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(default, "edgemem").expanduser()
