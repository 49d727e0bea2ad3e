"""A note in the user's cache that the layout of an installed LiteRT is right, so that the next process starts faster.

It is of one installation: its content is the library's files (name, size and time of change) and the structures as
edgemem knows them, and its name a checksum of that. A note that is not exactly this counts as absent; that a layout is
wrong is not noted. The folder may be deleted at any time.
"""

from __future__ import annotations

import platform
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.runtime.litert import structs
from edgemem.system.caches import cache_folder
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    import ctypes

__all__ = ["installation", "is_noted", "write_note"]

_LIBRARIES: Final = (".so", ".dylib", ".pyd", ".dll")
_STRUCTURES: Final[tuple[type[ctypes.Structure], ...]] = (
    *(structs.NativeContext, structs.NativeTensor, structs.NativeNode, structs.NativeDelegate, structs.Registration),
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
    from edgemem.system.files import write_entry  # a process that finds a note needs none of it

    with suppress(OSError, ValueError):
        path, content = _note(package)
        write_entry(path, content)


def installation(package: str) -> str:
    """What edgemem knows a loaded package of LiteRT by. Raises ValueError if there is no library."""
    loaded = sys.modules[package].__file__
    home = Path(loaded).parent if loaded is not None else None
    files = sorted(f for f in home.iterdir() if any(e in f.suffixes for e in _LIBRARIES)) if home else []
    if not files:
        raise ValueError("no library")
    parts = [package, str(home), platform.machine(), sys.version]
    parts += [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return "\n".join(parts)


def _note(package: str) -> tuple[Path, bytes]:
    """Where the note of a package is, and what it says. Raises ValueError if there is no folder or no library."""
    folder = cache_folder()
    if folder is None:
        raise ValueError("no folder for caches")
    structures = [f"{structure.__name__} {structure._fields_}" for structure in _STRUCTURES]
    content = "\n".join([installation(package), *structures]).encode()
    return folder.parent / "litert" / f"{zlib.crc32(content):08x}{zlib.adler32(content):08x}", content
