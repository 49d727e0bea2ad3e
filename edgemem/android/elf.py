"""What the native libraries of a package say: which ABI they are for, what they need, and how their pages are aligned.

    header | program headers -> LOAD segments: what is mapped, where, and its alignment
                             -> DYNAMIC: soname, needed libraries, and where the tables below are
                                string table, symbol table, hash tables, versions of symbols

Addresses in the dynamic section are of the mapped library, and found in the file through the LOAD segments, as a loader
does it. Section headers are not read: a stripped library has none.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from edgemem.android.archive import PAGE
from edgemem.errors import ApkError, UnknownAbiError
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ABIS", "Elf", "Symbol", "check_abi", "read_elf"]

_MACHINES: Final = {183: "arm64-v8a", 62: "x86_64"}
ABIS: Final = tuple(_MACHINES.values())

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_DYNAMIC: Final = struct.Struct("<QQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_NEED: Final = struct.Struct("<HHIII")
_NEED_NAME: Final = struct.Struct("<IHHII")
_DEFINITION: Final = struct.Struct("<HHHHIII")
_SHARED: Final = 3  # ET_DYN
_ABSOLUTE: Final = 0xFFF1  # in place of a section
_LOAD, _DYNAMIC_SEGMENT = 1, 2
_MOST_SEGMENTS: Final = 64
_MOST_DYNAMIC: Final = 1024
_MOST_SYMBOLS: Final = 1 << 20
_MOST_VERSIONS: Final = 1024
_MOST_NAMES: Final = 1 << 26  # bytes of all names together: they may overlap in the string table

# Tags of the dynamic section.
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 1, 4, 5, 6, 10, 11, 14
_GNU_HASH, _VERSYM, _VERDEF, _VERDEFNUM, _VERNEED, _VERNEEDNUM = (
    0x6FFFFEF5,
    0x6FFFFFF0,
    0x6FFFFFFC,
    0x6FFFFFFD,
    0x6FFFFFFE,
    0x6FFFFFFF,
)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that a library needs or gives; `version` is such as `LIBC`, None if it has none."""

    name: str
    version: str | None = None
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class Elf:
    """A 64-bit shared library. `undefined` and `defined` are in the order of its symbol table.

    `needed` are the sonames of the libraries that it loads; `alignments` are bytes, one of each LOAD segment.
    """

    abi: str
    soname: str | None
    needed: tuple[str, ...]
    undefined: tuple[Symbol, ...]
    defined: tuple[Symbol, ...]
    alignments: tuple[int, ...]

    @property
    def fits_pages(self) -> bool:
        """Whether devices whose pages have 16 KiB can map it."""
        return all(alignment % PAGE == 0 for alignment in self.alignments)


def check_abi(name: str) -> None:
    """Raises UnknownAbiError if `name` is no ABI that edgemem packages libraries for (`ABIS`)."""
    if name not in ABIS:
        raise UnknownAbiError(f"there are no libraries for the ABI {short_repr(name)}; take {' or '.join(ABIS)}")


def read_elf(data: bytes) -> Elf:
    """What a 64-bit, little-endian shared library says.

    Raises ApkError if it is none, cut short, for another ABI than those of `ABIS`, or says what cannot be.
    """
    if data[:4] != b"\x7fELF":
        raise ApkError("this is no ELF library")
    if len(data) < _HEADER.size:
        raise _damaged("its header is cut short")
    identity, kind, machine, _, _, segments_at, _, _, _, size, count, *_ = _HEADER.unpack_from(data)
    if identity[4] != 2 or identity[5] != 1:
        raise ApkError(f"the library is not of 64 bits and little-endian; edgemem packages {' and '.join(ABIS)}")
    if machine not in _MACHINES:
        raise ApkError(f"the library is for the machine {machine} of ELF; edgemem packages {' and '.join(ABIS)}")
    if kind != _SHARED:
        raise ApkError("this ELF file is no shared library")
    if size != _SEGMENT.size or not 0 < count <= _MOST_SEGMENTS:
        raise _damaged("it has no program headers, or too many")
    library = _Library(data, segments_at, count)
    tags = library.tags()
    names = _Names(library, tags)
    undefined, defined = _symbols(library, tags, names)
    sonames = tags.get(_SONAME, [])
    return Elf(
        abi=_MACHINES[machine],
        soname=names.at(sonames[0]) if sonames else None,
        needed=tuple(names.at(n) for n in tags.get(_NEEDED, [])),
        undefined=undefined,
        defined=defined,
        alignments=tuple(s.alignment for s in library.loads),
    )


def _damaged(why: str) -> ApkError:
    return ApkError(f"the library is damaged: {why}")


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int
    memory: int
    alignment: int


class _Library:
    """The bytes of a library, by file offset and by address."""

    def __init__(self, data: bytes, at: int, count: int) -> None:
        self._data = data
        fields = [self.unpack(_SEGMENT, at + n * _SEGMENT.size) for n in range(count)]
        segments = [_Segment(f[0], f[2], f[3], f[5], f[6], f[7]) for f in fields]
        self.loads = tuple(s for s in segments if s.kind == _LOAD)
        self.dynamic = tuple(s for s in segments if s.kind == _DYNAMIC_SEGMENT)
        if not self.loads or len(self.dynamic) != 1:
            raise _damaged("it has no LOAD segment, or not one DYNAMIC segment")
        for load in self.loads:
            if load.offset + load.size > len(data) or load.size > load.memory:
                raise _damaged("a segment is longer than the file or its memory; was it cut short?")
            if load.alignment.bit_count() != 1 or (load.address - load.offset) % load.alignment:
                raise _damaged(f"a segment is not aligned to {load.alignment:,} bytes, as it says")

    def unpack(self, form: struct.Struct, at: int) -> tuple[int, ...]:
        """The fields at a file offset. Raises ApkError if they end outside of the file."""
        if at + form.size > len(self._data):
            raise _damaged("a table ends after the file; was it cut short?")
        return form.unpack_from(self._data, at)

    def offset(self, address: int, size: int) -> int:
        """The file offset of `size` bytes at an address. Raises ApkError if the file does not have them."""
        for load in self.loads:
            if load.address <= address and address + size <= load.address + load.size:
                return load.offset + address - load.address
        raise _damaged(f"there are no {size:,} bytes at the address {address:#x}; was it cut short?")

    def read(self, address: int, size: int) -> bytes:
        at = self.offset(address, size)
        return self._data[at : at + size]

    def fields(self, form: struct.Struct, address: int) -> tuple[int, ...]:
        return form.unpack(self.read(address, form.size))

    def words(self, address: int, count: int, size: int = 4) -> tuple[int, ...]:
        """Unsigned numbers of `size` bytes. Raises ApkError if there are too many, or the file does not have them."""
        if count > _MOST_SYMBOLS:
            raise _damaged(f"a table has {count:,} elements; the most that are read are {_MOST_SYMBOLS:,}")
        return struct.unpack(f"<{count}{'H' if size == 2 else 'I'}", self.read(address, count * size))

    def tags(self) -> dict[int, list[int]]:
        """The values of the dynamic section by their tags."""
        (segment,) = self.dynamic
        found: dict[int, list[int]] = {}
        for n in range(min(segment.size // _DYNAMIC.size, _MOST_DYNAMIC)):
            tag, value = self.unpack(_DYNAMIC, segment.offset + n * _DYNAMIC.size)
            if tag == 0:
                return found
            found.setdefault(tag, []).append(value)
        raise _damaged("its dynamic section has no end")


def _one(tags: dict[int, list[int]], tag: int, what: str) -> int:
    values = tags.get(tag, [])
    if len(values) != 1:
        raise _damaged(f"its dynamic section has {len(values)} {what}")
    return values[0]


class _Names:
    """The string table."""

    def __init__(self, library: _Library, tags: dict[int, list[int]]) -> None:
        self._text = library.read(_one(tags, _STRTAB, "string tables"), _one(tags, _STRSZ, "sizes of a string table"))
        self._known: dict[int, str] = {}
        self._bytes = 0

    def at(self, offset: int) -> str:
        """The name at an offset. Raises ApkError if it is outside, has no end, is no UTF-8, or all are too long."""
        if offset not in self._known:
            end = self._text.find(b"\0", offset) if offset < len(self._text) else -1
            if end < 0:
                raise _damaged("a name is outside of its string table, or has no end")
            self._bytes += end - offset
            if self._bytes > _MOST_NAMES:
                raise _damaged(f"its names have more than {_MOST_NAMES:,} bytes")
            try:
                self._known[offset] = self._text[offset:end].decode("utf-8")
            except UnicodeDecodeError:
                raise _damaged("a name is no UTF-8") from None
        return self._known[offset]


def _symbols(
    library: _Library, tags: dict[int, list[int]], names: _Names
) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
    """The symbols that the library needs, and those that it gives others."""
    if tags.get(_SYMENT, [_SYMBOL.size]) != [_SYMBOL.size]:
        raise _damaged("its symbols have another size than those of 64 bits")
    count = _symbol_count(library, tags)
    table = library.read(_one(tags, _SYMTAB, "symbol tables"), count * _SYMBOL.size)
    numbers = library.words(tags[_VERSYM][0], count, size=2) if _VERSYM in tags else (1,) * count
    versions = _versions(library, tags, names)
    undefined, defined = list[Symbol](), list[Symbol]()
    for (name, info, other, section, _, _), version in zip(_SYMBOL.iter_unpack(table), numbers, strict=True):
        binding, visibility = info >> 4, other & 3
        if name == 0 or binding not in (1, 2) or visibility not in (0, 3):  # global or weak; default or protected
            continue
        number = version & 0x7FFF  # the highest bit says that it is hidden from the link editor
        if number > 1 and number not in versions:
            raise _damaged(f"the version of {short_repr(names.at(name))} is not in its tables")
        # 0 and 1 are no versions, though the library itself is named as the first definition.
        symbol = Symbol(names.at(name), versions[number] if number > 1 else None, binding == 2)
        if section == _ABSOLUTE and symbol.name == symbol.version:
            continue  # the link editor's mark of a version
        (defined if section else undefined).append(symbol)
    return tuple(undefined), tuple(defined)


def _symbol_count(library: _Library, tags: dict[int, list[int]]) -> int:
    """How many symbols there are: only the hash tables say it."""
    if _HASH in tags:
        _, count = library.words(tags[_HASH][0], 2)
    else:
        count = _gnu_count(library, _one(tags, _GNU_HASH, "hash tables"))
    if count > _MOST_SYMBOLS:
        raise _damaged(f"it has {count:,} symbols; the most that are read are {_MOST_SYMBOLS:,}")
    return count


def _gnu_count(library: _Library, address: int) -> int:
    """The number of symbols by a GNU hash table: the last chain of it ends with the last symbol.

    Symbols before `first` are not in the table; those are the undefined ones.
    """
    buckets, first, bloom, _ = library.words(address, 4)
    if bloom > _MOST_SYMBOLS:
        raise _damaged("its hash table is too long")
    at = address + 16 + 8 * bloom
    last = max(library.words(at, buckets), default=0)
    if last < first:
        return first
    chains = at + 4 * buckets
    links = (library.words(chains + 4 * (n - first), 1)[0] for n in range(last, last + _MOST_SYMBOLS))
    return last + sum(1 for _ in takewhile(lambda link: not link & 1, links)) + 1


def _versions(library: _Library, tags: dict[int, list[int]], names: _Names) -> dict[int, str]:
    """The names of versions by their numbers in the table of symbols' versions."""
    found: dict[int, str] = {}
    if _VERNEED in tags:
        for at, (_, count, _, aux, _) in _chain(library, tags, _VERNEED, _VERNEEDNUM, _NEED):
            place = at + aux
            for _ in range(min(count, _MOST_VERSIONS)):
                _, _, number, name, step = library.fields(_NEED_NAME, place)
                found[number & 0x7FFF] = names.at(name)
                place += step
    if _VERDEF in tags:
        for at, (_, _, number, _, _, aux, _) in _chain(library, tags, _VERDEF, _VERDEFNUM, _DEFINITION):
            found[number & 0x7FFF] = names.at(library.words(at + aux, 1)[0])
    return found


def _chain(
    library: _Library, tags: dict[int, list[int]], first: int, number: int, form: struct.Struct
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The addresses and fields of the elements of a list; the last field is the step to the next."""
    at, count = tags[first][0], _one(tags, number, "numbers of versions")
    if count > _MOST_VERSIONS:
        raise _damaged(f"it has {count:,} lists of versions; the most that are read are {_MOST_VERSIONS:,}")
    for _ in range(count):
        fields = library.fields(form, at)
        yield at, fields
        at += fields[-1]
