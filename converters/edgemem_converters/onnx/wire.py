"""Where things stand in the bytes of an ONNX file, so that a change touches those bytes and no others.

A protobuf message is a row of fields: a key (number and wire type), then the payload. Only the layout of ModelProto
that never changes is used here: `graph` is field 7, `metadata_props` 14; a graph's `node` is 1, its `initializer` 5,
the `external_data` of an initializer 13; an entry's `key` is 1 and its `value` 2.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Content",
    "Field",
    "external_files",
    "metadata",
    "metadata_entries",
    "permute_nodes",
    "with_metadata",
    "without_metadata",
]

# A file's bytes, read or mapped: a large file is not copied to look at its layout.
Content: TypeAlias = bytes | mmap.mmap

_GRAPH, _METADATA_PROPS, _NODE, _KEY, _VALUE, _INITIALIZER, _EXTERNAL = 7, 14, 1, 1, 2, 5, 13
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_INT64_BYTES = 10  # of a varint


class Field(NamedTuple):
    """Where a field of a message stands in the file, in bytes."""

    number: int
    wire: int
    start: int  # of the key
    body: int  # of the payload
    end: int


def metadata(data: Content, key: str) -> bytes | None:
    """The value of a `metadata_props` entry as it stands in the file; the last one counts. None if there is none."""
    found = [value for _, _, value in metadata_entries(data, key)]
    return found[-1] if found else None


def with_metadata(data: bytes, key: str, value: bytes) -> bytes:
    """The file with the entry at its end, and none of that key before; nothing else changes.

    Repeated fields of protobuf messages that follow one another concatenate, so an entry that was not there is
    simply appended, and the file is a verbatim prefix of the result.
    """
    entry = _field(_KEY, key.encode()) + _field(_VALUE, value)
    return without_metadata(data, key) + _field(_METADATA_PROPS, entry)


def without_metadata(data: bytes, key: str) -> bytes:
    """The file without the entries of that key; nothing else changes."""
    parts, position = [], 0
    for field, _, _ in metadata_entries(data, key):
        parts.append(data[position : field.start])
        position = field.end
    return b"".join((*parts, data[position:])) if parts else data


def permute_nodes(data: bytes, order: tuple[int, ...]) -> bytes:
    """The file whose node k is what was node `order[k]`; every byte outside the nodes stays.

    Raises ModelError if the file holds its graph in pieces, which no exporter writes.
    """
    graphs = [f for f in _fields(data, 0, len(data)) if f.number == _GRAPH and f.wire == _LENGTH]
    if len(graphs) != 1:
        raise ModelError(f"the file holds its graph in {len(graphs)} pieces; save it anew with onnx first")
    nodes = [f for f in _fields(data, graphs[0].body, graphs[0].end) if f.number == _NODE and f.wire == _LENGTH]
    if sorted(order) != list(range(len(nodes))):
        raise ModelError(f"an order is a permutation of the {len(nodes)} nodes")
    parts, position = [], 0
    for slot, source in zip(nodes, order, strict=True):
        parts.append(data[position : slot.start])
        parts.append(data[nodes[source].start : nodes[source].end])
        position = slot.end
    return b"".join((*parts, data[position:]))


def metadata_entries(data: Content, key: str | None = None) -> Iterator[tuple[Field, bytes, bytes]]:
    """The entries of `metadata_props` as (field, key, value); with a key only the entries of that key."""
    for field in _fields(data, 0, len(data)):
        if field.number != _METADATA_PROPS or field.wire != _LENGTH:
            continue
        inner = {f.number: data[f.body : f.end] for f in _fields(data, field.body, field.end) if f.wire == _LENGTH}
        found = inner.get(_KEY, b"")
        if key is None or found == key.encode():
            yield field, found, inner.get(_VALUE, b"")


def external_files(data: Content) -> Iterator[str]:
    """The names of the weight files that the graph's initializers lie in, once for every initializer.

    Raises ModelError for bytes that are no ONNX model.
    """
    if data.find(b"location") < 0:
        return
    for graph in _fields(data, 0, len(data)):
        if graph.number != _GRAPH or graph.wire != _LENGTH:
            continue
        for tensor in _fields(data, graph.body, graph.end):
            if tensor.number != _INITIALIZER or tensor.wire != _LENGTH:
                continue
            for entry in _fields(data, tensor.body, tensor.end):
                if entry.number == _EXTERNAL and entry.wire == _LENGTH:
                    pair = {f.number: data[f.body : f.end] for f in _fields(data, entry.body, entry.end)}
                    if pair.get(_KEY) == b"location":
                        yield pair.get(_VALUE, b"").decode(errors="surrogateescape")


def _fields(data: Content, start: int, end: int) -> Iterator[Field]:
    position = start
    while position < end:
        tag, body = _varint(data, position, end)
        wire = tag & 7
        if wire == _VARINT:
            _, stop = _varint(data, body, end)
        elif wire == _LENGTH:
            length, body = _varint(data, body, end)
            stop = body + length
        elif wire in (_FIXED64, _FIXED32):
            stop = body + (8 if wire == _FIXED64 else 4)
        else:
            raise ModelError(f"the file has a protobuf group at byte {position}, which ONNX has none of")
        if stop > end:
            raise ModelError(f"the file is damaged: a field at byte {position} ends beyond its message")
        yield Field(tag >> 3, wire, position, body, stop)
        position = stop


def _varint(data: Content, position: int, end: int) -> tuple[int, int]:
    value = 0
    for k in range(_INT64_BYTES):
        if position + k >= end:
            break
        byte = data[position + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, position + k + 1
    raise ModelError(f"the file is damaged: no end of the number at byte {position}")


def _field(number: int, payload: bytes) -> bytes:
    return _to_varint(number << 3 | _LENGTH) + _to_varint(len(payload)) + payload


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
