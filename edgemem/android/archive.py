"""ZIP archives for Android that strangers made: what is read of them, and what is refused before it is unpacked.

    file, file, ...   each a header with the name, then the bytes     one after the other from byte 0
    signing block     of an APK                                       before it, zeros up to a page
    directory         an entry a file: the same name and sizes again
    end               how many entries, and where the directory is    the last bytes

Readers differ where the parts overlap, leave gaps or contradict each other: one of them checks what another runs.
"""

from __future__ import annotations

import struct
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.system.text import short_repr
from edgemem.system.zip_errors import ZIP_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["check_layout", "check_listing", "check_manifest_bytes", "check_member", "read_member"]

_MOST_FILES: Final = 10_000
_MOST_SIGNATURE: Final = 1 << 20  # bytes of the signing block
_MOST_MANIFEST: Final = 1 << 20
_MOST_DEPTH: Final = 32  # elements of the manifest in one another
_BLOCK: Final = 1 << 20
_PAGE: Final = 4096  # apksigner fills up to a multiple of it

_END: Final = struct.Struct("<4s4H2IH")  # signature, disks, entries, size and begin of the directory, comment
_ENTRY: Final = struct.Struct("<4s4xHH4x3I3H8xI")  # signature, flags, method, checksum, sizes, lengths, begin
_LOCAL: Final = struct.Struct("<4s2xHH4x3I2H")  # signature, flags, method, checksum, sizes, lengths
_CHUNK: Final = struct.Struct("<HHI")  # of binary XML: type, bytes of the header, bytes of the chunk
_MAGIC: Final = b"APK Sig Block 42"
_DESCRIBED: Final = 8  # the flag of a file whose checksum and sizes stand behind it
_ENCRYPTED: Final = 1
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # that Android reads


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file as the directory has it; `about` are its method, checksum and sizes."""

    name: bytes
    flags: int
    about: tuple[int, int, int, int]
    begin: int

    def __str__(self) -> str:
        return short_repr(self.name.decode(errors="replace"))


def check_listing(listing: Sequence[zipfile.ZipInfo], most_bytes: int) -> None:
    """Raise ValueError for an archive that is too large, has a name twice, or is packed as Android reads none."""
    if len(listing) > _MOST_FILES:
        raise ValueError(f"it has more than {_MOST_FILES:,} files")
    if sum(entry.file_size for entry in listing) > most_bytes:
        raise ValueError(f"it unpacks to more than {most_bytes:,} bytes, which are not read")
    names: set[str] = set()
    for entry in listing:
        if entry.filename in names:
            raise ValueError(f"it has {short_repr(entry.filename)} twice")
        names.add(entry.filename)
        if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
            raise ValueError(f"{short_repr(entry.filename)} is packed in a way that Android does not read")


def check_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Raise ValueError for a file whose bytes do not unpack to what its checksum says."""
    with _naming(entry.filename), archive.open(entry) as file:
        while file.read(_BLOCK):
            pass


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a file. Raises ValueError as `check_member`."""
    with _naming(name):
        return archive.read(name)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Raises ValueError, which names the file, for what unpacking it raises."""
    try:
        yield
    except ZIP_ERRORS as e:
        raise ValueError(f"{short_repr(name)} is damaged ({e})") from None


def check_layout(data: bytes) -> None:
    """Raise ValueError for an APK in which two readers may see different files."""
    entries, begin = _directory(data)
    at = 0
    for entry in sorted(entries, key=lambda e: e.begin):
        if entry.begin != at:
            raise ValueError(f"{entry} begins at byte {entry.begin:,}, and what is before it ends at {at:,}")
        at = _end_of(data, entry)
    if at > begin:
        raise ValueError("its files reach into their directory")
    _check_signing_block(data[at:begin])


def _directory(data: bytes) -> tuple[list[_Entry], int]:
    """The entries of the directory, and where it begins."""
    end = len(data) - _END.size
    if end < 0:
        raise ValueError("it is too short")
    signature, disk, first, here, count, size, begin, comment = _END.unpack_from(data, end)
    if signature != b"PK\x05\x06" or comment or disk or first or here != count or begin + size != end:
        raise ValueError("it does not end with its directory")
    if count > _MOST_FILES:
        raise ValueError(f"it has more than {_MOST_FILES:,} files")
    entries, at = [], begin
    for _ in range(count):
        if at + _ENTRY.size > end:
            raise ValueError("its directory is cut short")
        signature, flags, method, checksum, packed, unpacked, *lengths, start = _ENTRY.unpack_from(data, at)
        if signature != b"PK\x01\x02":
            raise ValueError("its directory is damaged")
        name = data[at + _ENTRY.size : at + _ENTRY.size + lengths[0]]
        entries.append(_Entry(name, flags, (method, checksum, packed, unpacked), start))
        at += _ENTRY.size + sum(lengths)
    if at != end:
        raise ValueError("its directory has another size than the end says")
    return entries, begin


def _end_of(data: bytes, entry: _Entry) -> int:
    """The byte behind a file. Raises ValueError where its header is another one than the directory says."""
    if entry.begin + _LOCAL.size > len(data):
        raise ValueError(f"{entry} is cut short")
    signature, flags, *about, length, more = _LOCAL.unpack_from(data, entry.begin)
    name = data[entry.begin + _LOCAL.size : entry.begin + _LOCAL.size + length]
    told = entry.about
    if flags & _DESCRIBED and not any(about[1:]):
        about[1:] = told[1:]
    if signature != b"PK\x03\x04" or name != entry.name or tuple(about) != told or flags != entry.flags:
        raise ValueError(f"the header of {entry} contradicts the directory")
    at: int = entry.begin + _LOCAL.size + length + more + told[2]
    if flags & _DESCRIBED:
        described = struct.pack("<3I", *told[1:])
        at += 4 * (data[at : at + 4] == b"PK\x07\x08")
        if data[at : at + 12] != described:
            raise ValueError(f"what is said behind {entry} contradicts the directory")
        at += 12
    return at


def _check_signing_block(block: bytes) -> None:
    """Raise ValueError for bytes before the directory that are no signing block, with zeros before it."""
    if not block.endswith(_MAGIC):
        if block:
            raise ValueError(f"there are {len(block):,} bytes between its files and their directory")
        return
    size = 8 + int.from_bytes(block[-24:-16], "little") if len(block) >= 32 else 0  # the first number is of the rest
    before = len(block) - size
    if not 32 <= size <= _MOST_SIGNATURE or not 0 <= before < _PAGE or any(block[:before]):
        raise ValueError(f"its signing block is damaged, or larger than {_MOST_SIGNATURE:,} bytes")
    if block[before : before + 8] != block[-24:-16]:
        raise ValueError("its signing block is damaged")


def check_manifest_bytes(manifest: bytes) -> None:
    """Raise ValueError for a manifest in binary XML that is too large, or nested too deep."""
    if len(manifest) > _MOST_MANIFEST:
        raise ValueError(f"the manifest has more than {_MOST_MANIFEST:,} bytes")
    at, depth = 8, 0  # behind the header of the whole
    while at + _CHUNK.size <= len(manifest):
        kind, _, size = _CHUNK.unpack_from(manifest, at)
        depth += (kind == 0x0102) - (kind == 0x0103)  # an element begins, or ends
        if depth > _MOST_DEPTH:
            raise ValueError(f"the manifest has more than {_MOST_DEPTH} elements in one another")
        if size < _CHUNK.size:
            raise ValueError("the manifest is damaged")
        at += size
