"""Writing files so that a failure loses nothing, and temporary files so that nothing of them is left.

Where the system has nameless files (`O_TMPFILE`), an unfinished output has no name until it takes the place of the old
file. Every other temporary file or folder is listed in this module before it exists, and `remove_unfinished` removes
those that still do: at the end of the process, and when a signal ends a command.
"""

from __future__ import annotations

import atexit
import errno
import os
import stat
import sys
import threading
import time
import weakref
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "KeptFolder",
    "atomic_write",
    "finished_last",
    "known_as",
    "known_names",
    "new_folder",
    "remove_after_signal",
    "remove_unfinished",
    "temporary_folder",
    "without_new_files",
    "write_entry",
]

T = TypeVar("T")

_PLAIN: Final = 0o777  # the bits of a mode that say who may read, write and execute: no set-ID bits, not sticky
_NEW: Final = 0o666  # of a new file; the system takes the umask from it
_HIDDEN: Final = ".edgemem-"  # begins the names of unfinished files
_PART: Final = 1 << 18  # bytes that are copied at once
_MOST_LINKS: Final = 40  # as many symbolic links as Linux follows

_TRIES: Final = 50  # to remove a folder that others still write in
_PAUSE_S: Final = 0.01  # between them
_PATIENCE_S: Final = 1.0  # a system call that makes a file takes longer only where the disk does not answer

# Temporary files and folders that exist, or are about to.
_unfinished: set[Path] = set()
_foreign: set[Path] = set()  # those of libraries
_final: dict[Path, Path] = {}  # what those of `finished_last` will be called
# Held by `_make`. That of a thread, so that one which was interrupted before it had the lock cannot release it.
_making = threading.RLock()


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the name `path` when the block ends, and vanishes if it fails.

    An existing regular file keeps its permissions, without set-user-ID, set-group-ID and sticky bits; a new one has
    those that the umask leaves. A symbolic link keeps pointing where it did. What is no regular file (a device, a
    FIFO) and what an open descriptor names (/dev/stdout, /dev/fd/5) is not replaced: the content is written to it when
    the block ends, and not if the block fails.

    Raises OSError with `path` as its `filename` if the file cannot be written.
    """
    try:
        descriptor = _descriptor(path)
        if descriptor is not None or _is_special(path):
            import tempfile  # rarely needed, and large

            with tempfile.TemporaryFile() as file:
                yield file
                _write_through(file, path, descriptor)
        else:
            with _replacement(_resolved(path)) as file:
                yield file
    except OSError as e:
        raise _known(e, path).with_traceback(e.__traceback__) from None


@contextmanager
def finished_last(path: Path) -> Iterator[Path]:
    """For a file that is written in several steps: a path beside `path`, whose file takes that name at the end.

    Until then there is at `path` what was there before. If the block fails, the unfinished file vanishes. `known_as`
    says what it will be called, for the names of other files that belong to it.

    Raises OSError where the file cannot take that name: `path` is a folder, a device or a FIFO, or a link to itself.
    """
    final = _resolved(path)
    if _is_special(path):
        raise OSError(errno.EINVAL, "it is no regular file; give the name of a file", str(path))
    unfinished = final.parent / f"{_HIDDEN}{os.urandom(8).hex()}{final.suffix}"
    _unfinished.add(unfinished)
    _final[unfinished] = path
    try:
        yield unfinished
        if final.exists():
            unfinished.chmod(final.stat().st_mode & _PLAIN)
        unfinished.replace(final)
    except OSError as e:
        raise _known(e, path) from None
    except Exception as e:
        e.args = tuple(known_names(value) if isinstance(value, str) else value for value in e.args)
        raise
    finally:
        _remove(unfinished)
        del _final[unfinished]


def known_as(path: Path) -> Path:
    """The path that an unfinished file of `finished_last` will have; that of any other file itself."""
    return _final.get(path, path)


def known_names(text: str) -> str:
    """A text for people in which unfinished files have the names that they will have."""
    for unfinished, path in _final.items():
        text = text.replace(str(unfinished), str(path)).replace(unfinished.name, path.name)
    return text


def write_entry(path: Path, content: bytes) -> None:
    """Write a file of a cache, which nobody but edgemem makes, whole or not at all; its folder is made.

    What else is in its place is removed and not written to: a link may lead anywhere, a FIFO waits for a reader. Raises
    OSError if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
    with atomic_write(path) as file:
        file.write(content)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends, and vanishes with its content if it fails.

    `path` may be an empty folder. Raises FileExistsError if it is anything else that exists, and OSError if the folder
    cannot be made.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    folder = path.parent / f"{_HIDDEN}{os.urandom(8).hex()}"
    try:
        _make(folder, folder.mkdir)
        yield folder
        folder.replace(path)
    except OSError as e:
        if _HIDDEN in f"{e.filename or _HIDDEN}":
            e.filename, e.filename2 = str(path), None
        raise
    finally:
        _remove(folder)


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder that only this user can read, and that vanishes with its content when the block ends.

    It lies in `parent`, by default in the system's folder for temporary files.
    """
    import tempfile  # only where a command or a child needs a folder

    name = f"edgemem-{os.urandom(8).hex()}"
    folder = Path(tempfile.gettempdir(), name) if parent is None else parent / f".{name}"
    try:
        _make(folder, lambda: folder.mkdir(mode=0o700))
        yield folder
    finally:
        _remove(folder)


class KeptFolder:
    """A `temporary_folder` that lasts as long as the object.

    Attributes:
        path: the folder.
    """

    def __init__(self) -> None:
        stack = ExitStack()
        self.path = stack.enter_context(temporary_folder())
        weakref.finalize(self, stack.close)


def remove_after_signal(path: Path) -> None:
    """Have `remove_unfinished` remove a folder of a library after a signal; else the library does it by itself."""
    _foreign.add(path)


def remove_unfinished(*, after_signal: bool = False) -> None:
    """Remove all temporary files and folders of this process. Blocks that still use them fail."""
    for path in (*_unfinished, *(_foreign if after_signal else ())):
        _remove(path)


@contextmanager
def without_new_files() -> Iterator[None]:
    """A block in which other threads wait before they make a temporary file or folder.

    What `remove_unfinished` removes in it is not made again by a thread that was about to.
    """
    lock = _making
    is_locked = lock.acquire(timeout=_PATIENCE_S)
    try:
        yield
    finally:
        if is_locked:
            lock.release()


def _forget() -> None:
    """In a forked child: the files are the parent's, and a thread that was making one is not there."""
    global _making  # noqa: PLW0603 - the lock may be held by a thread that the child does not have
    _making = threading.RLock()
    _unfinished.clear()
    _foreign.clear()


atexit.register(remove_unfinished)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _make(path: Path, make: Callable[[], T]) -> T:
    """List a temporary file or folder and make it, while no other thread does.

    A signal may raise at any call: from Python 3.14 on, between the lock and the block of a `with`, too.
    """
    try:
        _making.acquire()
        _unfinished.add(path)
        return make()
    finally:
        try:  # noqa: SIM105 - `suppress` is a call before the release
            _making.release()
        except RuntimeError:
            pass  # interrupted before it had the lock


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil  # only where there is a folder: it loads the libraries of archives

        # A thread or a child may still write into the folder while it is emptied.
        for _ in range(_TRIES):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                break
            time.sleep(_PAUSE_S)
    else:
        with suppress(OSError):
            path.unlink()
    _unfinished.discard(path)


def _resolved(path: Path) -> Path:
    """The path without symbolic links. Raises OSError for one that leads to itself."""
    resolved = Path(os.path.realpath(path))
    if resolved.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return resolved


def _known(error: OSError, path: Path) -> OSError:
    """The error, or one that names `path` in place of an unfinished file, whose name the user does not know."""
    if error.errno is not None and _HIDDEN in f"{error.filename or _HIDDEN}":
        return OSError(error.errno, error.strerror, str(known_as(path)))
    return error


def _descriptor(path: Path) -> int | None:
    """The number of the open descriptor that a path names, through any symbolic links; None if it names none."""
    folders = {os.path.realpath(name) for name in ("/dev/fd", "/proc/self/fd")}
    for _ in range(_MOST_LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) in folders:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _is_special(path: Path) -> bool:
    """Whether there is something at the path that is no regular file. Raises IsADirectoryError for a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return not stat.S_ISREG(mode)


def _write_through(content: IO[bytes], path: Path, descriptor: int | None) -> None:
    if descriptor is None:
        target = _opened(path)
    else:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what was printed before comes before
        target = os.dup(descriptor)
    content.seek(0)
    with open(target, "wb") as out:  # noqa: PTH123 - a descriptor
        _copy(content, out)


def _opened(path: Path) -> int:
    """A descriptor for writing to what is no regular file. Raises OSError for a FIFO that nobody reads."""
    flag = getattr(os, "O_NONBLOCK", 0)  # without it, opening waits for a reader
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            target = os.open(path, os.O_WRONLY | flag)
            break
        except OSError as e:
            if e.errno != errno.ENXIO or time.monotonic() > end:
                raise
            time.sleep(_PAUSE_S)
    if flag:
        os.set_blocking(target, True)
    return target


@contextmanager
def _replacement(path: Path) -> Iterator[IO[bytes]]:
    """A file that replaces `path`, which is a regular file or does not exist, when the block ends."""
    mode = path.stat().st_mode & _PLAIN if path.exists() else None
    temporary = path.parent / f"{_HIDDEN}{os.urandom(8).hex()}"  # short, however long the name of the file is
    try:
        with _nameless(path.parent, mode) or _named(temporary, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not temporary.exists():
                _name(file, temporary, mode)
        if mode is not None:
            temporary.chmod(mode)  # whatever the umask took from it
        temporary.replace(path)
    finally:
        _remove(temporary)


def _nameless(folder: Path, mode: int | None) -> IO[bytes] | None:
    """A new file without a name; None where the system or the file system has none, or cannot name it later."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - as one system call
        return None
    try:
        return open(os.open(folder, flag | os.O_RDWR, _NEW if mode is None else mode), "w+b")  # noqa: PTH123
    except OSError:
        return None


def _named(path: Path, mode: int | None) -> IO[bytes]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return _make(path, lambda: open(os.open(path, flags, _NEW if mode is None else mode), "w+b"))  # noqa: PTH123


def _name(file: IO[bytes], path: Path, mode: int | None) -> None:
    """Give a nameless file its first name, or where the file system cannot, copy it."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # With a folder given, Python calls linkat, which follows the link in /proc; link does not.
        name = f"/proc/self/fd/{file.fileno()}"
        _make(path, lambda: os.link(name, path.name, src_dir_fd=folder, dst_dir_fd=folder))
    except OSError:
        file.seek(0)
        with _named(path, mode) as copy:
            _copy(file, copy)
            copy.flush()
            os.fsync(copy.fileno())
    finally:
        os.close(folder)


def _copy(source: IO[bytes], to: IO[bytes]) -> None:
    while part := source.read(_PART):
        to.write(part)
