"""The text templates of android/template: which file goes where in a project, and what stands for its placeholders.

A placeholder is @@NAME@@, a name of capital letters, digits and underscores. Nothing else in a template has a meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from edgemem.android.sources import folder

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["filled", "template_files"]

_PLACEHOLDER: Final = re.compile(r"@@([A-Z0-9_]+)@@")
_COMMON: Final = "both"  # the folder of files that every project has
_HIDDEN: Final = {"gitignore": ".gitignore"}  # packers leave out files whose names begin with a dot


def template_files(runtime: str) -> dict[str, str]:
    """The templates of a project for `litert` or `onnxruntime`, by the path of the file in the project.

    Raises ToolError if this edgemem has none.
    """
    root = folder("android") / "template"
    found = {}
    for kind in (_COMMON, runtime):
        for file in sorted((root / kind).rglob("*")):
            if file.is_file():
                name = file.relative_to(root / kind).as_posix()
                found[_HIDDEN.get(name, name)] = file.read_text(encoding="utf-8")
    return found


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template's text with each placeholder replaced, once. Raises KeyError for one that has no value."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)
