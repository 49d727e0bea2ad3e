"""Android's binary form of XML: a pool of strings, the numbers of attributes, and the nodes in their order.

    XML chunk
    ├── string pool      names of attributes that have a number come first, in the order of the numbers
    ├── resource map     those numbers
    └── nodes            begin of a namespace; begin of an element with its attributes, end of it; end of the namespace

Every chunk begins with u16 type, u16 size of its header, u32 size of all of it. From AOSP's ResourceTypes.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from edgemem.errors import ApkError
from edgemem.system.text import short_repr

__all__ = ["ANDROID", "MOST_BYTES", "MOST_DEPTH", "Attribute", "Node", "Value", "read", "write"]

ANDROID: Final = "http://schemas.android.com/apk/res/android"
MOST_BYTES: Final = 1 << 20
MOST_DEPTH: Final = 32

_CHUNK: Final = struct.Struct("<HHI")
_POOL: Final = struct.Struct("<IIIII")
_NODE: Final = struct.Struct("<II")
_NAMESPACE: Final = struct.Struct("<II")
_START: Final = struct.Struct("<IIHHHHHH")
_ATTRIBUTE: Final = struct.Struct("<IIIHBBI")
_STRINGS, _XML, _RESOURCES = 0x0001, 0x0003, 0x0180
_START_NAMESPACE, _END_NAMESPACE, _START_ELEMENT, _END_ELEMENT = 0x0100, 0x0101, 0x0102, 0x0103
_NONE: Final = 0xFFFFFFFF
_UTF8: Final = 0x100
_SORTED: Final = 0x1
_LONGEST: Final = 0x7FFF  # of a string: UTF-16 units, and bytes of UTF-8
_TEXT: Final = 0x03  # the type of a value that is a string


@dataclass(frozen=True, slots=True)
class Value:
    """A typed value: `kind` is a type of Android's Res_value, `data` its 32 bits, `text` the string of a string."""

    kind: int
    data: int = 0
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an element; `number` is Android's for one of its namespace, None for one without."""

    name: str
    value: Value
    number: int | None = None
    is_android: bool = False


@dataclass(slots=True)
class Node:
    """An element: `line` is where it stood in the text."""

    name: str
    attributes: tuple[Attribute, ...]
    children: list[Node]
    line: int = 0


class _Pool:
    """The strings of a file that is written. A name with a number and the same text without one are two strings."""

    def __init__(self, root: Node) -> None:
        named = {(a.name, a.number) for node in _all(root) for a in node.attributes if a.number is not None}
        in_order = sorted(named, key=lambda key: (key[1] or 0, key[0]))
        self._places: dict[tuple[str, int | None], int] = {key: n for n, key in enumerate(in_order)}
        self.numbers = [number or 0 for _, number in in_order]

    def place(self, text: str, number: int | None = None) -> int:
        return self._places.setdefault((text, number), len(self._places))

    def to_bytes(self) -> bytes:
        data, offsets = bytearray(), list[int]()
        for text, _ in self._places:
            offsets.append(len(data))
            data += _packed(text)
        data += bytes(-len(data) % 4)
        begin = _CHUNK.size + _POOL.size + 4 * len(offsets)
        fields = _POOL.pack(len(offsets), 0, _UTF8, begin, 0) + struct.pack(f"<{len(offsets)}I", *offsets)
        return _chunk(_STRINGS, fields + data, _CHUNK.size + _POOL.size)


def _all(node: Node) -> list[Node]:
    found = [node]
    for each in found:  # it grows meanwhile
        found += each.children
    return found


def _packed(text: str) -> bytes:
    """A string of the pool: its length in UTF-16 units and in bytes, the bytes, and a zero."""
    try:
        utf8, units = text.encode("utf-8"), len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        raise ApkError(f"a manifest cannot have the text {short_repr(text)}: it is no Unicode") from None
    if len(utf8) > _LONGEST or "\0" in text:
        raise ApkError(f"a manifest cannot have the text {short_repr(text)}: over {_LONGEST:,} bytes, or a zero")
    lengths = b"".join(bytes([n]) if n < 0x80 else bytes([0x80 | n >> 8, n & 0xFF]) for n in (units, len(utf8)))
    return lengths + utf8 + b"\0"


def _chunk(kind: int, content: bytes, header: int = _CHUNK.size) -> bytes:
    return _CHUNK.pack(kind, header, _CHUNK.size + len(content)) + content


def _node(kind: int, line: int, content: bytes) -> bytes:
    return _chunk(kind, _NODE.pack(line, _NONE) + content, _CHUNK.size + _NODE.size)


def write(root: Node) -> bytes:
    """The binary form of an element, with Android's namespace around it. Raises ApkError for text that cannot be."""
    pool = _Pool(root)
    namespace = _NAMESPACE.pack(pool.place("android"), pool.place(ANDROID))
    nodes = [_node(_START_NAMESPACE, root.line, namespace)]
    waiting: list[Node | bytes] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, bytes):
            nodes.append(node)
            continue
        name = pool.place(node.name)
        nodes.append(_node(_START_ELEMENT, node.line, _start(node, name, pool)))
        waiting.append(_node(_END_ELEMENT, node.line, struct.pack("<II", _NONE, name)))
        waiting += reversed(node.children)
    nodes.append(_node(_END_NAMESPACE, root.line, namespace))
    numbers = _chunk(_RESOURCES, struct.pack(f"<{len(pool.numbers)}I", *pool.numbers))
    content = pool.to_bytes() + numbers + b"".join(nodes)
    if len(content) + _CHUNK.size > MOST_BYTES:
        raise ApkError(f"the manifest would have more than {MOST_BYTES:,} bytes")
    return _chunk(_XML, content)


def _start(node: Node, name: int, pool: _Pool) -> bytes:
    # Android looks numbers up in their order; attributes without one come last.
    attributes = sorted(node.attributes, key=lambda a: (a.number is None, a.number or 0))
    records = []
    for a in attributes:
        namespace = pool.place(ANDROID) if a.is_android else _NONE
        raw = _NONE if a.value.text is None else pool.place(a.value.text)
        data = a.value.data if a.value.text is None else raw
        records.append(_ATTRIBUTE.pack(namespace, pool.place(a.name, a.number), raw, 8, 0, a.value.kind, data))
    fields = (_NONE, name, _START.size, _ATTRIBUTE.size, len(records), 0, 0, 0)
    return _START.pack(*fields) + b"".join(records)


def read(data: bytes) -> Node:
    """The element of a binary form. Raises ApkError if it is none, cut short, too large, or says what cannot be."""
    if len(data) > MOST_BYTES:
        raise ApkError(f"the manifest has {len(data):,} bytes; the most that is read is {MOST_BYTES:,}")
    if len(data) < _CHUNK.size or _CHUNK.unpack_from(data)[:2] != (_XML, _CHUNK.size):
        raise ApkError("this is no binary manifest")
    if _CHUNK.unpack_from(data)[2] != len(data):
        raise _damaged("it has another size than it says; was it cut short?")
    chunks = _chunks(data, _CHUNK.size, len(data))
    strings, numbers, reader = None, (), None
    for kind, header, begin, end in chunks:
        if kind == _STRINGS and strings is None:
            strings = _Strings(data[begin:end], header)
        elif kind == _RESOURCES and strings is not None and not numbers and reader is None:
            if header != _CHUNK.size or (end - begin - header) % 4:
                raise _damaged("the numbers of its attributes are cut short")
            numbers = struct.unpack(f"<{(end - begin - header) // 4}I", data[begin + header : end])
        elif strings is not None:
            reader = reader or _Nodes(strings, numbers)
            reader.take(kind, header, data[begin:end])
        else:
            raise _damaged("it does not begin with its strings")
    if reader is None:
        raise _damaged("it has no element")
    return reader.root()


def _damaged(why: str) -> ApkError:
    return ApkError(f"the manifest is damaged: {why}")


def _chunks(data: bytes, at: int, end: int) -> list[tuple[int, int, int, int]]:
    """Type, size of the header, begin and end of the chunks that fill the bytes from `at` to `end`."""
    found = []
    while at < end:
        if at + _CHUNK.size > end:
            raise _damaged("a part is cut short")
        kind, header, size = _CHUNK.unpack_from(data, at)
        if not _CHUNK.size <= header <= size <= end - at or size % 4:
            raise _damaged("a part is longer than what it is in, or shorter than its header; was it cut short?")
        found.append((kind, header, at, at + size))
        at += size
    return found


class _Strings:
    """The strings of a pool that is read. They do not overlap, so that all are at most as long as the file."""

    def __init__(self, chunk: bytes, header: int) -> None:
        if header != _CHUNK.size + _POOL.size:
            raise _damaged("the header of its strings has another size")
        count, styles, flags, begin, _ = _POOL.unpack_from(chunk, _CHUNK.size)
        if styles or flags & ~(_UTF8 | _SORTED) or begin > len(chunk) or count > (begin - header) // 4:
            raise _damaged("its table of strings is cut short, or has styles")
        offsets = struct.unpack_from(f"<{count}I", chunk, header)
        self._chunk, self._is_utf8 = chunk, bool(flags & _UTF8)
        places = sorted({begin + offset for offset in offsets})
        known = {place: self._string(place, end) for place, end in pairwise([*places, len(chunk)])}
        self._strings = [known[begin + offset] for offset in offsets]

    def at(self, place: int) -> str:
        if place >= len(self._strings):
            raise _damaged("it names a string that it does not have")
        return self._strings[place]

    def __len__(self) -> int:
        return len(self._strings)

    def _string(self, at: int, end: int) -> str:
        """The string that begins at `at` and ends with a zero at or before `end`."""
        if self._is_utf8:
            _, at = self._length(at, end, 1)
            size, at = self._length(at, end, 1)
        else:
            units, at = self._length(at, end, 2)
            size = 2 * units
        zero = 1 if self._is_utf8 else 2
        if not at + size + zero <= end <= len(self._chunk) or any(self._chunk[at + size : at + size + zero]):
            raise _damaged("a string is longer than its place")
        try:
            return self._chunk[at : at + size].decode("utf-8" if self._is_utf8 else "utf-16-le")
        except UnicodeDecodeError:
            raise _damaged("a string is no Unicode") from None

    def _length(self, at: int, end: int, width: int) -> tuple[int, int]:
        """A length in one or two units of `width` bytes, and where what follows begins."""
        if at + 2 * width > end:
            raise _damaged("a string is cut short")
        first = int.from_bytes(self._chunk[at : at + width], "little")
        top = 1 << (8 * width - 1)
        if not first & top:
            return first, at + width
        second = int.from_bytes(self._chunk[at + width : at + 2 * width], "little")
        return (first & (top - 1)) << (8 * width) | second, at + 2 * width


class _Nodes:
    """Puts elements together from the chunks of their begins and ends."""

    def __init__(self, strings: _Strings, numbers: tuple[int, ...]) -> None:
        if len(numbers) > len(strings):
            raise _damaged("it has more numbers of attributes than strings")
        self._strings, self._numbers = strings, numbers
        self._open: list[Node] = []
        self._namespaces: list[bytes] = []
        self._root: Node | None = None

    def take(self, kind: int, header: int, chunk: bytes) -> None:
        """The next chunk. Raises ApkError if it cannot follow."""
        if header != _CHUNK.size + _NODE.size:
            raise _damaged("the header of a node has another size")
        line, _ = _NODE.unpack_from(chunk, _CHUNK.size)
        content = chunk[header:]
        if kind == _START_ELEMENT:
            self._start(content, line)
        elif kind == _END_ELEMENT:
            if len(content) != 8 or not self._open or self._string(content[4:]) != self._open[-1].name:
                raise _damaged("an element ends that did not begin")
            self._open.pop()
        elif kind == _START_NAMESPACE and len(content) == _NAMESPACE.size:
            self._namespaces.append(content)
        elif kind == _END_NAMESPACE and self._namespaces and self._namespaces.pop() == content:
            pass
        else:
            raise _damaged(f"it has a part of the type {kind:#06x} where none can be")

    def root(self) -> Node:
        if self._root is None or self._open or self._namespaces:
            raise _damaged("an element does not end")
        return self._root

    def _string(self, place: bytes) -> str:
        return self._strings.at(int.from_bytes(place, "little"))

    def _start(self, content: bytes, line: int) -> None:
        if len(content) < _START.size:
            raise _damaged("an element is cut short")
        namespace, name, begin, size, count, *_ = _START.unpack_from(content)
        if (
            namespace != _NONE
            or begin != _START.size
            or size != _ATTRIBUTE.size
            or len(content) != begin + count * size
        ):
            raise _damaged("an element has attributes of another size, or more than it says")
        attributes = tuple(self._attribute(*f) for f in _ATTRIBUTE.iter_unpack(content[begin:]))
        if len({(a.name, a.is_android) for a in attributes}) < len(attributes):
            raise _damaged("an element has an attribute twice")
        node = Node(self._strings.at(name), attributes, [], line)
        if self._open:
            self._open[-1].children.append(node)
        elif self._root is None:
            self._root = node
        else:
            raise _damaged("it has two outermost elements")
        self._open.append(node)
        if len(self._open) > MOST_DEPTH:
            raise _damaged(f"its elements are nested more than {MOST_DEPTH} deep")

    def _attribute(self, space: int, name: int, raw: int, size: int, zero: int, kind: int, data: int) -> Attribute:
        if size != 8 or zero or (kind == _TEXT and raw not in (data, _NONE)):
            raise _damaged("the value of an attribute has another size, or two texts")
        if raw != _NONE:
            self._strings.at(raw)
        if space != _NONE and self._strings.at(space) != ANDROID:
            raise _damaged(f"it has an attribute of the namespace {short_repr(self._strings.at(space))}")
        number = self._numbers[name] if name < len(self._numbers) else 0
        value = Value(kind, 0, self._strings.at(data)) if kind == _TEXT else Value(kind, data)
        return Attribute(self._strings.at(name), value, number or None, space != _NONE)
