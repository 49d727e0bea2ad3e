"""Where the sources of what runs on a device are: beside the package in a checkout, inside it where a wheel was installed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import edgemem
from edgemem.errors import ToolError

__all__ = ["folder", "native_sources"]

_PACKAGE: Final = Path(edgemem.__file__).resolve().parent
_LISTED: Final = "native/sources.txt"


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
    """The C and C++ files of libedgemem.so and all that they include, as `kernels/arena/arena.cpp`: relative and sorted.

    They stand under the parent of `folder("kernels")`; the CMake project that compiles them is among them. Raises
    ToolError if the sources are not there.
    """
    android, kernels = folder("android"), folder("kernels")
    fixed = ("CMakeLists.txt", "exports.map", "bionic/compat.c", "bionic/symbols.txt")
    found = {f"android/{_LISTED}", *(f"android/native/{name}" for name in fixed)}
    for pattern in patterns():
        found |= {_relative(f, kernels) for f in kernels.parent.glob(pattern)}
    # Headers are found by the compiler: all of the folders that are compiled, and what they include of others.
    parents = {kernels.parent / Path(f).parent for f in found if f.startswith("kernels/")}
    headers = {h for p in parents for h in p.rglob("*.h")}
    queue = [kernels.parent / f for f in found if f.startswith("kernels/")] + sorted(headers)
    seen = set(queue)
    while queue:
        for line in queue.pop().read_text(encoding="utf-8").splitlines():
            if line.startswith('#include "'):
                named = kernels / line.split('"')[1]
                if named.is_file() and named not in seen:
                    seen.add(named)
                    queue.append(named)
    found |= {_relative(f, kernels) for f in seen}
    if not (android / "native" / "CMakeLists.txt").is_file():
        raise ToolError("this edgemem has no CMake project for Android; install a wheel or a checkout that has it")
    return tuple(sorted(found))


def patterns() -> tuple[str, ...]:
    """The lines of android/native/sources.txt: paths below the root, with `*` for any part of a file's name."""
    text = (folder("android") / _LISTED).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def _relative(file: Path, kernels: Path) -> str:
    return file.relative_to(kernels.parent).as_posix()
