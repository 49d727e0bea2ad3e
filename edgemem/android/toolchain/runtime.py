"""ONNX Runtime for Android: an Android archive (AAR), which is a zip with classes.jar and jni/<ABI>/*.so.

The pinned archive comes from an npm package that carries Microsoft's build; nobody compared it with the one on Maven
Central. An archive of the user's is read with limits: it may be damaged or made to harm.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from edgemem.android.elf import ABIS
from edgemem.android.toolchain.store import Package, download, entry
from edgemem.errors import ToolError

if TYPE_CHECKING:
    from io import BufferedReader

__all__ = ["ABIS", "PINNED", "Runtime", "runtime"]

PINNED: Final = Package("npm", "com.github.asus4.onnxruntime", "0.4.9", "MIT")

_ARCHIVE: Final = "package/Plugins/Android/onnxruntime.aar"
_NOTICES: Final = ("package/LICENSE", "package/ThirdPartyNotices.txt")
_SHA256: Final = {
    _ARCHIVE: "98cddbac92640b4a6af72a03c42e0491851f366d3da66bbaeb5dd66310946cf2",
    _NOTICES[0]: "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c",
    _NOTICES[1]: "4c5b864d8974c94b37461f38163facef79a1bb5dea461667ee9e5be6a8e73f83",
}
_LIBRARIES: Final = ("libonnxruntime.so", "libonnxruntime4j_jni.so")
_CLASSES: Final = "classes.jar"
_MOST_ARCHIVE: Final = 1 << 30  # bytes
_MOST_MEMBERS: Final = 10_000
_MOST_BYTES: Final = 512 << 20  # of one member; the largest library of ONNX Runtime 1.29 has 38 MB
# The linker script of ONNX Runtime names its version of symbols after the release.
_VERSION: Final = re.compile(rb"\0VERS_(\d{1,4}\.\d{1,4}\.\d{1,4})\0")


@dataclass(frozen=True, slots=True)
class Runtime:
    """ONNX Runtime for Android.

    Attributes:
        version: as `1.29.0`.
        licence: its licence and the notices of what it contains, as text.
        sha256: of the archive, in hexadecimal digits.
        archive: the archive.
        classes: its Java classes (classes.jar).
        abis: those that it has libraries for, sorted.
    """

    version: str
    licence: str
    sha256: str
    archive: Path
    classes: Path
    abis: tuple[str, ...]

    def libraries(self, abi: str) -> dict[str, bytes]:
        """File name -> content of the shared libraries for an ABI.

        Raises ToolError if the archive has none for it, or has been replaced or damaged since it was read.
        """
        if abi not in self.abis:
            raise ToolError(f"{self.archive.name} has no libraries for {abi}, it has: {', '.join(self.abis)}")
        with _opened(self.archive) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != self.sha256:
                raise ToolError(f"{self.archive.name} was replaced while it was used; try again")
            members = _members(file, self.archive)
            return {n: _read(members, f"jni/{abi}/{n}", self.archive) for n in _LIBRARIES}


def runtime(aar: Path | None = None) -> Runtime:
    """As `edgemem.android.toolchain.runtime`."""
    if aar is not None:
        with _opened(aar) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return _read_archive(aar, sha256, None)
    downloaded: dict[str, bytes] = {}
    paths = {name: _pinned(name, downloaded) for name in _SHA256}
    licence = "\n\n".join(paths[name].read_text(encoding="utf-8") for name in _NOTICES)
    return _read_archive(paths[_ARCHIVE], _SHA256[_ARCHIVE], f"{licence}\n")


def _pinned(name: str, downloaded: dict[str, bytes]) -> Path:
    """A file of the pinned package in the cache; `downloaded` are the package's files, filled by one download."""

    def make() -> bytes:
        if not downloaded:
            downloaded.update(download(PINNED, tuple(_SHA256)))
        return downloaded[name]

    return entry(f"onnxruntime-{PINNED.version}/{Path(name).name}", make, sha256=_SHA256[name])


def _read_archive(path: Path, sha256: str, licence: str | None) -> Runtime:
    with _opened(path) as file:
        members = _members(file, path)
        classes = _read(members, _CLASSES, path)
        abis = tuple(a for a in ABIS if all(f"jni/{a}/{n}" in members.names for n in _LIBRARIES))
        if not abis:
            raise ToolError(f"{path.name} has ONNX Runtime for none of {', '.join(ABIS)}")
        versions = {_version(_read(members, f"jni/{a}/{_LIBRARIES[0]}", path), path) for a in abis}
        if len(versions) != 1:
            raise ToolError(f"{path.name} holds several versions of ONNX Runtime: {', '.join(sorted(versions))}")
        notices = [_read(members, n, path) for n in ("LICENSE", "ThirdPartyNotices.txt") if n in members.names]
    said = b"\n\n".join(notices).decode(errors="replace") or (
        f"{path.name} (sha256 {sha256}) carries no licence text; ONNX Runtime is under the MIT licence.\n"
    )
    stored = entry(f"classes/{hashlib.sha256(classes).hexdigest()}.jar", lambda: classes)
    return Runtime(versions.pop(), licence or said, sha256, path, stored, abis)


def _version(library: bytes, path: Path) -> str:
    found = _VERSION.search(library)
    if found is None:
        raise ToolError(f"{path.name} has a libonnxruntime.so that is no ONNX Runtime")
    return found[1].decode()


@dataclass(frozen=True, slots=True)
class _Members:
    zip: zipfile.ZipFile
    names: dict[str, zipfile.ZipInfo]


def _opened(path: Path) -> BufferedReader:
    try:
        if not path.is_file():
            raise ToolError(f"there is no file {path}; give an ONNX Runtime archive for Android (.aar)")
        if path.stat().st_size > _MOST_ARCHIVE:
            raise ToolError(f"{path.name} is larger than {_MOST_ARCHIVE >> 20} MiB, no ONNX Runtime for Android is")
        return path.open("rb")
    except OSError as e:
        raise ToolError(f"cannot read {path}: {e.strerror or e}") from e


def _members(file: IO[bytes], path: Path) -> _Members:
    """The members of a zip by name. Raises ToolError for what is no zip, and for one with two members of a name."""
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as e:
        raise ToolError(f"{path.name} is no Android archive: {e}; give the .aar of ONNX Runtime") from e
    listed = archive.infolist()
    if len(listed) > _MOST_MEMBERS:
        raise ToolError(f"{path.name} lists {len(listed)} files, no ONNX Runtime for Android has so many")
    names = {m.filename: m for m in listed}
    if len(names) != len(listed):
        raise ToolError(f"{path.name} lists a file twice; it is damaged")
    return _Members(archive, names)


def _read(members: _Members, name: str, path: Path) -> bytes:
    """A member's bytes, at most as many as it says and as are allowed."""
    member = members.names.get(name)
    if member is None:
        raise ToolError(f"{path.name} has no {name}; give the .aar of ONNX Runtime")
    if member.file_size > _MOST_BYTES:
        raise ToolError(f"{name} in {path.name} says {member.file_size} bytes, more than {_MOST_BYTES} are not read")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ToolError(f"{name} in {path.name} is packed by another method than Deflate; get the archive again")
    try:
        with members.zip.open(member) as file:
            content = file.read(member.file_size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as e:
        raise ToolError(f"{name} in {path.name} cannot be read ({e}); get the archive again") from e
    if len(content) != member.file_size:
        raise ToolError(f"{name} in {path.name} has not the {member.file_size} bytes that it says")
    return content
