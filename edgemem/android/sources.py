"""Where the sources of what runs on a device are: beside the package in a checkout, inside an installed wheel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import edgemem
from edgemem.errors import ToolError

__all__ = ["folder", "native_sources"]

_PACKAGE: Final = Path(edgemem.__file__).resolve().parent
_LISTED: Final = "native/sources.txt"
_INCLUDE: Final = re.compile(r'^ *# *include "([^"]+)"', re.MULTILINE)


def folder(name: str) -> Path:
    """The folder `android` or `kernels`, as they stand in a checkout. Raises ToolError if this edgemem lacks it."""
    carried = _PACKAGE / "android" / "files"  # a wheel has it, a checkout has not
    root = carried if carried.is_dir() else _PACKAGE.parent
    found = root / name
    if name not in ("android", "kernels") or not (root / "android" / _LISTED).is_file() or not found.is_dir():
        raise ToolError(
            f"this edgemem has no sources for Android ({name}); install a wheel or a checkout that has them"
        )
    return found


def native_sources() -> tuple[str, ...]:
    """What libedgemem.so is built from, with or without the NDK, as `kernels/arena/arena.cpp`: relative and sorted.

    The files stand under the parent of `folder("kernels")`; headers and the CMake project are among them. Raises
    ToolError if they are not there.
    """
    kernels = folder("kernels")
    fixed = ("CMakeLists.txt", "exports.map", "bionic/compat.c", "bionic/symbols.txt")
    found = {f"android/{_LISTED}", *(f"android/native/{name}" for name in fixed)}
    for pattern in patterns():
        found |= {_relative(f, kernels) for f in kernels.parent.glob(pattern)}
    seen = {kernels.parent / f for f in found if f.endswith((".cpp", ".h"))}
    queue = sorted(seen)
    while queue:
        file = queue.pop()
        for named in _INCLUDE.findall(file.read_text(encoding="utf-8")):
            for place in (file.parent, kernels, kernels / "replay", kernels / "android"):
                header = place / named
                if header.is_file() and header not in seen:
                    seen.add(header)
                    queue.append(header)
    found |= {_relative(f, kernels) for f in seen}
    return tuple(sorted(found))


def patterns() -> tuple[str, ...]:
    """The lines of android/native/sources.txt: paths below the root, with `*` for any part of a file's name."""
    text = (folder("android") / _LISTED).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def _relative(file: Path, kernels: Path) -> str:
    return file.relative_to(kernels.parent).as_posix()
