"""Notes in the user's cache of the places that were found for a model, so that the next process needs no planner.

A note is a small JSON file. It is no more than a guess: whoever reads it proves the places. A damaged one counts as
absent, the oldest are removed, and the folder may be deleted at any time.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from edgemem.system.caches import cache_folder
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["read_layout", "write_layout"]

_MOST_BYTES: Final = 1 << 24
_MOST_NOTES: Final = 256


def read_layout(key: str) -> dict[str, Any] | None:
    """The note of a key, as it is in the file; None if there is none."""
    path = _path(key)
    try:
        note = None if path is None else json.loads(read_bounded(path, _MOST_BYTES, follow=False))
    except (OSError, ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


def write_layout(key: str, data: Mapping[str, Any]) -> None:
    """Note it under a key; nothing happens where that cannot be written."""
    from edgemem.system.files import write_entry  # a process that finds its note needs none of it

    path = _path(key)
    if path is None:
        return
    with suppress(OSError, ValueError):
        write_entry(path, json.dumps(dict(data)).encode())
        notes = sorted(path.parent.glob("*.json"), key=lambda note: note.stat().st_mtime_ns)
        for note in notes[:-_MOST_NOTES]:
            note.unlink()


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder.parent / "litert-layouts" / f"{key}.json"
