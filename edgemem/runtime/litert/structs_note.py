"""A note in the user's cache that the layout of an installed LiteRT is right, so that the next process starts faster.

It is of one installation: its name and its content are a digest of the library's files (name, size and time of change)
and of the structures as edgemem knows them. A note that is not exactly this counts as absent; that a layout is wrong is
not noted. The folder may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.files import write_entry
from edgemem.reading import read_bounded
from edgemem.replay.cache import cache_folder
from edgemem.runtime.litert import structs

if TYPE_CHECKING:
    import ctypes

__all__ = ["is_noted", "write_note"]

_LIBRARIES: Final = (".so", ".dylib", ".pyd", ".dll")
# Without waiting for a FIFO's writer, and not through a symbolic link; Windows has neither.
_STRUCTURES: Final[tuple[type[ctypes.Structure], ...]] = (
    *(structs.Context, structs.TensorStruct, structs.Node, structs.NativeDelegate, structs.Registration),
)


def is_noted(package: str) -> bool:
    """Whether the layout of a package of LiteRT, which is loaded, was found right before."""
    try:
        path, content = _note(package)
        return read_bounded(path, len(content), follow=False) == content
    except (OSError, ValueError):
        return False


def write_note(package: str) -> None:
    """Note that the layout of a package of LiteRT is right; nothing happens where that cannot be written."""
    with suppress(OSError, ValueError):
        path, content = _note(package)
        write_entry(path, content)


def _note(package: str) -> tuple[Path, bytes]:
    """Where the note of a package is, and what it says. Raises ValueError if there is no folder or no library."""
    folder, loaded = cache_folder(), sys.modules[package].__file__
    if folder is None or loaded is None:
        raise ValueError("no folder for caches")
    home = Path(loaded).parent
    files = sorted(file for file in home.iterdir() if any(end in file.suffixes for end in _LIBRARIES))
    if not files:
        raise ValueError("no library")
    parts = [package, str(home), platform.machine(), sys.version]
    parts += [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    parts += [f"{structure.__name__} {structure._fields_}" for structure in _STRUCTURES]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return folder.parent / "litert" / digest[:40], digest.encode()
