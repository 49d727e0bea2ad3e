"""Where the sources of what runs on a device are: beside the package in a checkout, inside an installed wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import edgemem
from edgemem.errors import ToolError

__all__ = ["find_sources"]

_PACKAGE: Final = Path(edgemem.__file__).resolve().parent


def find_sources() -> Path:
    """The folder in which `android` and `kernels` lie. Raises ToolError if this edgemem lacks them."""
    carried = _PACKAGE / "android" / "files"  # a wheel has it, a checkout has not
    root = carried if carried.is_dir() else _PACKAGE.parent
    if not (root / "android" / "native" / "sources.txt").is_file() or not (root / "kernels" / "android").is_dir():
        raise ToolError("this edgemem has no sources for Android; install a wheel or a checkout that has them")
    return root
