"""The zip archive of an APK: one way to write it, and a reader that takes nothing ambiguous.

    body       local header, data; local header, data; ...      data aligned by the extra field 0xd935
    block      the APK Signing Block, if it is signed           (see signing.py)
    directory  one header for each entry
    end        the end record, without a comment, the last 22 bytes

The same entries give the same bytes: times are 1980-01-01, and nothing of the machine is written.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from edgemem.errors import ApkError
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BLOCK_MAGIC",
    "MOST_BYTES",
    "MOST_ENTRIES",
    "PAGE",
    "Archive",
    "Entry",
    "Regions",
    "read_archive",
    "regions",
    "write_archive",
]

PAGE: Final = 16384  # bytes of the largest memory page of Android devices
MOST_BYTES: Final = 1 << 30  # of all entries together, and of an archive
MOST_ENTRIES: Final = 10_000
_MOST_NAME: Final = 1024  # bytes
_MOST_RATIO: Final = 1032  # of Deflate: 258 bytes from two bits

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<4sHHHHIIH")
_LOCAL_MAGIC: Final = b"PK\3\4"
_CENTRAL_MAGIC: Final = b"PK\1\2"
_END_MAGIC: Final = b"PK\5\6"
BLOCK_MAGIC: Final = b"APK Sig Block 42"  # ends a signing block
_ALIGNMENT_FIELD: Final = 0xD935  # of Android's tools: u16 alignment, then zeros
_UTF8: Final = 0x0800
_HARMLESS: Final = _UTF8 | 0x0006  # how thoroughly Deflate packed
_ALIGNMENTS: Final = tuple(1 << n for n in range(15))
_DAY: Final = 0x21  # 1980-01-01
_STORED: Final = 0
_DEFLATED: Final = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of an archive.

    `alignment` is that of a stored entry's data in the archive, a power of two up to 16384. Of an entry that was read,
    it is the largest one that its place has, and `offset` is where its data begin; a new entry has no `offset`.
    """

    name: str
    data: bytes
    stored: bool = True
    alignment: int = 4
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """What was written: the local headers with the data, and the central directory of `count` entries."""

    body: bytes
    directory: bytes
    count: int

    def end(self, directory_at: int) -> bytes:
        """The end record for a directory that begins at the offset. Raises ApkError if the archive is too large."""
        if directory_at + len(self.directory) + _END.size > MOST_BYTES:
            raise ApkError(f"the package would have more than {MOST_BYTES:,} bytes; take fewer ABIs or a smaller model")
        return _END.pack(_END_MAGIC, 0, 0, self.count, self.count, len(self.directory), directory_at, 0)

    def to_bytes(self) -> bytes:
        """The archive without a signature."""
        return b"".join((self.body, self.directory, self.end(len(self.body))))


@dataclass(frozen=True, slots=True)
class Regions:
    """Where the parts of an archive are, as byte offsets, and how many entries it has.

    The body ends at `body_end`, where a signing block begins if there is one. The central directory begins at
    `directory`, and the end record, which ends with the file, at `end`.
    """

    body_end: int
    directory: int
    end: int
    count: int


def write_archive(entries: Iterable[Entry]) -> Archive:
    """The archive of the entries, in their order.

    Raises ApkError for a name that is not allowed or given twice, an alignment that is none, and too many bytes.
    """
    body, directory, names, at = list[bytes](), list[bytes](), set[str](), 0
    for entry in entries:
        name = _name_to_write(entry, names)
        data = entry.data if entry.stored else _deflated(entry.data)
        extra = _padding(at + _LOCAL.size + len(name), entry.alignment) if entry.stored else b""
        method = _STORED if entry.stored else _DEFLATED
        flags = 0 if name.isascii() else _UTF8
        common = (flags, method, 0, _DAY, zlib.crc32(entry.data), len(data), len(entry.data), len(name))
        needed = 10 if entry.stored else 20
        body += [_LOCAL.pack(_LOCAL_MAGIC, needed, *common, len(extra)), name, extra, data]
        directory += [_CENTRAL.pack(_CENTRAL_MAGIC, 20, needed, *common, 0, 0, 0, 0, 0, at), name]
        at += _LOCAL.size + len(name) + len(extra) + len(data)
        if at > MOST_BYTES or len(names) > MOST_ENTRIES:
            raise ApkError(f"the package would have more than {MOST_BYTES:,} bytes or {MOST_ENTRIES:,} files")
    return Archive(b"".join(body), b"".join(directory), len(names))


def read_archive(data: bytes) -> tuple[Entry, ...]:
    """The entries of an archive, signed or not, in the order of the directory; the signature is not checked.

    Raises ApkError for what is cut short or followed by other bytes, names that are given twice or lead out of a
    folder, headers that do not agree, wrong checksums, and sizes above the limits of this module.
    """
    parts = regions(data)
    headers = _directory(data, parts)
    total = sum(h.size for h in headers)
    if total > MOST_BYTES:
        raise ApkError(
            f"the files of the package say they have {total:,} bytes; the most that is read is {MOST_BYTES:,}"
        )
    spans = sorted(h.span(data) for h in headers)
    if spans and spans[0][0] != 0:
        raise ApkError("the package begins with bytes of no file")
    for (_, end), (begin, _) in pairwise(spans):
        if end != begin:
            raise ApkError(f"files of the package overlap or leave a gap at byte {min(end, begin):,}")
    last = spans[-1][1] if spans else 0
    if last > parts.body_end or any(data[last : parts.body_end]) or parts.body_end - last >= PAGE:
        raise ApkError(f"the package has bytes of no file at byte {last:,}")
    return tuple(h.entry(data) for h in headers)


def regions(data: bytes) -> Regions:
    """Where the parts of an archive are. Raises ApkError if it is no archive, cut short, or followed by other bytes."""
    if len(data) > MOST_BYTES:
        raise ApkError(f"the package has {len(data):,} bytes; the most that is read is {MOST_BYTES:,}")
    end = len(data) - _END.size
    if end < 0 or data[end : end + 4] != _END_MAGIC:
        raise ApkError("this is no package: it does not end with a zip archive's end record; was the file cut short?")
    _, disk, first, here, count, size, directory, comment = _END.unpack_from(data, end)
    if disk or first or here != count or comment:
        raise ApkError("the package's end record has a comment, or is of an archive in several parts")
    if count > MOST_ENTRIES:
        raise ApkError(f"the package has {count:,} files; the most that are read are {MOST_ENTRIES:,}")
    if directory + size != end:
        raise ApkError("the package's central directory does not end where its end record begins")
    return Regions(_block_begin(data, directory), directory, end, count)


def _block_begin(data: bytes, directory: int) -> int:
    """Where a signing block before the directory begins; where the directory begins if there is none."""
    if directory < 32 or data[directory - 16 : directory] != BLOCK_MAGIC:
        return directory
    size = int.from_bytes(data[directory - 24 : directory - 16], "little")
    begin = directory - size - 8
    if size < 24 or begin < 0 or int.from_bytes(data[begin : begin + 8], "little") != size:
        raise ApkError("the sizes of the package's signing block do not agree")
    return begin


@dataclass(frozen=True, slots=True)
class _Header:
    """A header of the directory: `packed` bytes in the archive at `at` (of its local header), `size` when unpacked."""

    name: str
    raw: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    at: int
    body_end: int

    def _data_at(self, data: bytes) -> tuple[int, bytes]:
        """Where the data begin, and the extra field. Raises ApkError if the local header says something else."""
        begin = self.at + _LOCAL.size
        if begin > self.body_end:
            raise ApkError(f"{short_repr(self.name)} of the package begins outside of it")
        magic, _, flags, method, _, _, crc, packed, size, name, extra = _LOCAL.unpack_from(data, self.at)
        found = (magic, flags, method, crc, packed, size, data[begin : begin + name])
        if found != (_LOCAL_MAGIC, self.flags, self.method, self.crc, self.packed, self.size, self.raw):
            raise ApkError(f"the two headers of {short_repr(self.name)} in the package do not agree")
        at = begin + name + extra
        if at + self.packed > self.body_end:
            raise ApkError(f"{short_repr(self.name)} of the package is cut short")
        return at, data[begin + name : at]

    def span(self, data: bytes) -> tuple[int, int]:
        """From the local header to the end of the data."""
        return self.at, self._data_at(data)[0] + self.packed

    def entry(self, data: bytes) -> Entry:
        at, extra = self._data_at(data)
        content = data[at : at + self.packed]
        if self.method == _DEFLATED:
            content = _inflated(content, self.size, self.name)
        if zlib.crc32(content) != self.crc:
            raise ApkError(f"{short_repr(self.name)} of the package is damaged: its checksum is wrong")
        _check_extra(extra, at, self.name)
        return Entry(self.name, content, self.method == _STORED, max(a for a in _ALIGNMENTS if at % a == 0), at)


def _directory(data: bytes, parts: Regions) -> list[_Header]:
    headers, names, at = list[_Header](), set[str](), parts.directory
    for _ in range(parts.count):
        if at + _CENTRAL.size > parts.end:
            raise ApkError("the package's central directory is cut short")
        fields = _CENTRAL.unpack_from(data, at)
        magic, _, _, flags, method, _, _, crc, packed, size, length, extra, comment, disk, _, _, begin = fields
        at += _CENTRAL.size
        raw = data[at : at + length]
        at += length + extra
        if magic != _CENTRAL_MAGIC or disk or comment or at > parts.end:
            raise ApkError("the package's central directory is damaged")
        name = _name_read(raw, names)
        if flags & ~_HARMLESS or method not in (_STORED, _DEFLATED):
            raise ApkError(f"{short_repr(name)} of the package is encrypted, or packed in a way edgemem does not read")
        if (method == _STORED and packed != size) or size > packed * _MOST_RATIO:
            raise ApkError(f"the sizes of {short_repr(name)} in the package cannot be")
        headers.append(_Header(name, raw, flags, method, crc, packed, size, begin, parts.body_end))
    if at != parts.end:
        raise ApkError("the package's central directory has more bytes than its files need")
    return headers


def _why_no_name(name: str) -> str | None:
    """Why a name is not allowed; None if it is."""
    if not name or any(part in ("", ".", "..") for part in name.split("/")):
        return "it is empty, a folder, or leads out of its folder"
    if any(c in "\\:" or ord(c) < 0x20 or ord(c) == 0x7F for c in name):
        return "it has a character that not every system takes"
    return None


def _name_to_write(entry: Entry, names: set[str]) -> bytes:
    try:
        name = entry.name.encode("utf-8")
    except UnicodeEncodeError:
        raise ApkError(f"{short_repr(entry.name)} cannot be a name in a package: it is no Unicode text") from None
    why = _why_no_name(entry.name)
    if why is None and len(name) > _MOST_NAME:
        why = f"it has more than {_MOST_NAME} bytes"
    if why is None and entry.name in names:
        why = "another file has it"
    if why is not None:
        raise ApkError(f"{short_repr(entry.name)} cannot be a name in a package: {why}")
    if entry.alignment not in _ALIGNMENTS:
        raise ApkError(f"the alignment {short_repr(entry.alignment)} of {short_repr(entry.name)} is not 2**n <= 16384")
    names.add(entry.name)
    return name


def _name_read(raw: bytes, names: set[str]) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ApkError(f"a name in the package is no UTF-8: {short_repr(raw)}") from None
    if len(raw) > _MOST_NAME or (why := _why_no_name(name)):
        raise ApkError(
            f"the package has a file {short_repr(name)}: {why if len(raw) <= _MOST_NAME else 'its name is too long'}"
        )
    if name in names:
        raise ApkError(f"the package has two files {short_repr(name)}")
    names.add(name)
    return name


def _padding(at: int, alignment: int) -> bytes:
    """The extra field of an entry, which begins at `at`, so that the data after it are aligned."""
    if alignment == 1:
        return b""
    zeros = -(at + 6) % alignment
    return struct.pack("<HHH", _ALIGNMENT_FIELD, 2 + zeros, alignment) + bytes(zeros)


def _check_extra(extra: bytes, at: int, name: str) -> None:
    """Raises ApkError if the extra field promises an alignment that the data, which begin at `at`, do not have."""
    rest = memoryview(extra)
    while any(rest):  # zeros alone are what zipalign pads with
        if len(rest) < 4 or len(rest) < 4 + (size := int.from_bytes(rest[2:4], "little")):
            raise ApkError(f"the extra field of {short_repr(name)} in the package is damaged")
        alignment = int.from_bytes(rest[4:6], "little") if size >= 2 else 0
        if int.from_bytes(rest[:2], "little") == _ALIGNMENT_FIELD and (alignment == 0 or at % alignment):
            raise ApkError(f"{short_repr(name)} of the package is not aligned to {alignment} bytes, as its header says")
        rest = rest[4 + size :]


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflated(packed: bytes, size: int, name: str) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = unpacker.decompress(packed, size + 1)
    except zlib.error:
        raise ApkError(f"{short_repr(name)} of the package is damaged: it cannot be unpacked") from None
    if len(data) != size or not unpacker.eof or unpacker.unused_data:
        raise ApkError(f"{short_repr(name)} of the package does not have the {size:,} bytes that its header says")
    return data
