"""A file as a git commit has it: `REV:PATH`, as `git show` takes it."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.runtime.onnxruntime.file import opened, weight_files
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["file_of"]

_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_LINKS: Final = {"symlink", "dangling", "loop", "notdir"}  # what git says of a link out of the commit's files
_MOST_SAID: Final = 300  # characters of what git says


@contextmanager
def file_of(name: str) -> Iterator[Path]:
    """The file that a name means: a path, or for `REV:PATH` a copy of what git has there, for as long as the block.

    A name that exists is a path, whatever is in it. PATH counts from the top of the repository that the current folder
    is in, `./PATH` from the current folder. The weights that an ONNX model keeps in other files are copied with it,
    and a symbolic link is the file that it leads to.

    Raises ModelError if there is no such file or revision, or no git, or if Git LFS has the content.
    """
    revision, colon, path = name.partition(":")
    if os.path.lexists(name) or not colon:
        if not Path(name).exists():
            raise ModelError(f"no file {name}")
        yield Path(name)
        return
    if not revision or revision.startswith("-") or not PurePosixPath(path).name or "\0" in name:
        raise ModelError(f"no file {name}, and it is no REV:PATH either, such as HEAD~1:model.onnx")
    commit = _git(name, "rev-parse", "--verify", f"{revision}^{{commit}}").decode().strip()
    with temporary_folder() as folder:
        copy = folder / PurePosixPath(path).name
        _write(commit, path, copy, name)
        if copy.suffix.lower() == ".onnx":
            with opened(copy) as (data, _):
                outside = weight_files(data)
            for weights in outside:
                inside = PurePosixPath(weights)
                windows = PureWindowsPath(weights)
                if windows.drive or windows.root or ".." in windows.parts or "\0" in weights or not inside.name:
                    raise ModelError(f"{name} keeps weights in {weights!r}, which is no file in its folder")
                if (folder / inside).exists():
                    raise ModelError(f"{name} keeps weights in {weights!r}, which is a name of the model itself")
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                beside = f"{path[: -len(copy.name)]}{inside}"
                _write(commit, beside, folder / inside, f"{revision}:{beside}")
        yield copy


def _write(commit: str, path: str, copy: Path, name: str) -> None:
    found = f"{commit}:{path}"
    told = _git(name, "cat-file", "--batch-check", "--follow-symlinks", given=f"{found}\n".encode()).decode().split()
    if told[0] in _LINKS:
        raise ModelError(f"{name} is a symbolic link that leads to no file in that commit; name the file")
    if told[1:2] == ["blob"]:
        found = told[0]
    with copy.open("wb") as file:
        _git(name, "cat-file", "blob", found, into=file.fileno())
    with copy.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise ModelError(f"{name} is a pointer of Git LFS, not the file: check that commit out, and name the file")


def _git(name: str, *arguments: str, given: bytes = b"", into: int = subprocess.PIPE) -> bytes:
    """What git prints, which reads what is given. Raises ModelError with the name that was asked for if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and no argument from the user begins with a dash
            ["git", *arguments],  # noqa: S607 - the user's git
            input=given,
            stdout=into,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError:
        raise ModelError(f"no file {name}; where it is a revision and a path, git has to be installed") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").partition("\n")[0]
        raise ModelError(f"no file {name}, and git has none: {said[:_MOST_SAID]}")
    return done.stdout or b""
