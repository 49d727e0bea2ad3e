"""The files that an argument names: one file, a folder with all that is in it, or a glob."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath, PureWindowsPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["MODELS", "FoundFile", "found_files", "is_inside", "names_several"]

MODELS: Final = (".onnx", ".tflite")  # endings of files with models
_MAGIC: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that an argument names.

    Attributes:
        name: its path as the argument has it, with `/` between folders.
        path: of the file; None where the argument names none.
        inside: its path from the folder that was searched; of a file that is named itself, its name alone.
        why_none: why the argument names none; "" where it names one.
    """

    name: str
    path: Path | None
    inside: PurePath
    why_none: str = ""


def names_several(text: str, folder: Path = Path()) -> bool:
    """Whether an argument is a folder or a glob, and no file with such a name."""
    path = folder / text
    return bool(text) and not path.is_file() and (path.is_dir() or bool(_MAGIC & set(text)))


def is_inside(text: str) -> bool:
    """Whether a name that stands in a file leads to something below a folder, on every system."""
    windows = PureWindowsPath(text)
    return not (windows.drive or windows.root or ".." in windows.parts or "\0" in text)


def found_files(
    arguments: Iterable[str],
    suffixes: Collection[str] = MODELS,
    *,
    folder: Path = Path(),
    without: Path | None = None,
    inside: bool = False,
) -> tuple[FoundFile, ...]:
    """The files that arguments name, each once, those of a folder or a glob sorted.

    Args:
        arguments: files, folders and globs such as `models/**/*.onnx`.
        suffixes: endings, in lower case, of the files that a folder is searched for. Hidden files and folders in it are
            left out.
        folder: where relative arguments begin.
        without: a folder whose files are left out where it lies inside a searched one.
        inside: leave out what links lead to outside of `folder`; the arguments are `is_inside`.
    """
    found: dict[object, FoundFile] = {}
    within = folder.resolve() if inside else None
    for text in arguments:
        for file in _named(text, suffixes, folder, without, within):
            found.setdefault(file.path.resolve() if file.path else file.name, file)
    return tuple(found.values())


def _named(
    text: str, suffixes: Collection[str], folder: Path, without: Path | None, within: Path | None
) -> list[FoundFile]:
    path = folder / text
    if within is not None and not path.resolve().is_relative_to(within):
        return [FoundFile(text, None, PurePath(PurePath(text).name), "a link leads out of the folder")]
    why_none = "no model is in this folder" if path.is_dir() else "there is no such file"
    none = FoundFile(text, None, PurePath(PurePath(text).name), why_none)
    if not names_several(text, folder):
        return [FoundFile(text, path, none.inside) if path.is_file() else none]
    parts, is_folder = PurePath(text).parts, path.is_dir()
    first = len(parts) if is_folder else next(k for k, part in enumerate(parts) if _MAGIC & set(part))
    base = folder.joinpath(*parts[:first])
    steps = ("**", "*") if is_folder else parts[first:]
    try:
        matches = [p for p in _glob(base, steps, within) if p.is_file()]
    except ValueError:  # such as `**.onnx`, in which Python's globs have no meaning
        matches = []
    left_out = without.resolve() if without is not None else None
    if left_out is not None and base.resolve() in left_out.parents:
        matches = [p for p in matches if left_out not in p.resolve().parents]
    insides = sorted((p.relative_to(base), p) for p in matches)
    if is_folder:
        insides = [
            (inside, p)
            for inside, p in insides
            if p.suffix.lower() in suffixes and not any(part.startswith(".") for part in inside.parts)
        ]
    shown = PurePath(*parts[:first])
    return [FoundFile((shown / inside).as_posix(), p, inside) for inside, p in insides] or [none]


def _glob(base: Path, steps: Sequence[str], within: Path | None) -> Iterable[Path]:
    """What the steps of a glob lead to, from folder to folder; none of them is left by a link."""
    if within is None:
        return base.glob("/".join(steps))
    found = {base} if base.resolve().is_relative_to(within) else set()
    for step in steps:
        found = {p for b in found if b.is_dir() for p in b.glob(step) if p.resolve().is_relative_to(within)}
    return found
