"""Regular files inside a folder: what a model may name. Links, devices, FIFOs and folders are refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath
from typing import IO

from edgemem.errors import ModelError

__all__ = ["open_inside"]

# Opening a FIFO for reading waits for a writer without O_NONBLOCK.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_HAS_FOLDERS = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd


def open_inside(folder: Path, name: str) -> IO[bytes]:
    """A regular file in a folder, or in folders in it, opened for reading; no symbolic link below `folder` is followed.

    Args:
        folder: may be a symbolic link itself.
        name: a relative path without `..`.

    Raises:
        ModelError: it is no regular file, or a link leads to it.
        FileNotFoundError: there is no such file. OSError: it cannot be opened.
    """
    path = folder / name
    try:
        return _opened(folder, PurePosixPath(name).parts)
    except ValueError:  # a null character
        raise ModelError(f"{str(path)!r} is no file's name; save the model anew with its weights beside it") from None
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _link(path) from None
        raise OSError(e.errno, e.strerror, str(path)) from None


def _opened(folder: Path, parts: tuple[str, ...]) -> IO[bytes]:
    path = folder.joinpath(*parts)
    if not _HAS_FOLDERS:
        if any(folder.joinpath(*parts[: k + 1]).is_symlink() for k in range(len(parts))):
            raise _link(path)
        _check_regular(path.lstat().st_mode, path)
        return path.open("rb")
    at = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER | _NO_LINK, dir_fd=at)
            os.close(at)
            at = inner
        _check_regular(os.stat(parts[-1], dir_fd=at, follow_symlinks=False).st_mode, path)
        descriptor = os.open(parts[-1], _READ | _NO_LINK, dir_fd=at)
    finally:
        os.close(at)
    file = os.fdopen(descriptor, "rb")
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
    except ModelError:
        file.close()
        raise
    return file


def _check_regular(mode: int, path: Path) -> None:
    if stat.S_ISLNK(mode):
        raise _link(path)
    if not stat.S_ISREG(mode):
        raise ModelError(f"{path} is no regular file; copy the content into one")


def _link(path: Path) -> ModelError:
    return ModelError(
        f"{path} is reached through a symbolic link, and links are not followed to a model's weights; "
        "put a copy of the file in its place"
    )
