"""Where the fields of a protobuf message stand in its bytes, without a schema.

A message is a row of fields: a key (number and wire type), then the payload. Messages may be files, of which only the
parts that tell the layout are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from edgemem.errors import ModelError
from edgemem.system.file_bytes import FileBytes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LENGTH_DELIMITED", "Content", "Field", "encode_field", "encode_number", "fields", "pair"]

Content: TypeAlias = bytes | FileBytes

LENGTH_DELIMITED = 2  # the wire type of messages, strings and bytes
_VARINT, _FIXED64, _FIXED32 = 0, 1, 5
_VARINT_BYTES = 10  # of an int64 at most
_HEAD_BYTES = 2 * _VARINT_BYTES  # a key, and a length or a number behind it


class Field(NamedTuple):
    """Where a field of a message stands in the file, in bytes."""

    number: int
    wire: int
    start: int  # of the key
    body: int  # of the payload
    end: int


def fields(data: Content, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in bytes `start` (inclusive) to `end` (exclusive), in order.

    Raises ModelError for bytes that are no message, when the first wrong field is reached.
    """
    position = start
    while position < end:
        head = data[position : min(position + _HEAD_BYTES, end)]
        tag, read = _varint(head, 0, position)
        wire, body = tag & 7, position + read
        if wire == _VARINT:
            stop = position + _varint(head, read, position)[1]
        elif wire == LENGTH_DELIMITED:
            length, read = _varint(head, read, position)
            body = position + read
            stop = body + length
        elif wire in (_FIXED64, _FIXED32):
            stop = body + (8 if wire == _FIXED64 else 4)
        else:
            raise ModelError(f"the file has a protobuf group at byte {position}, which ONNX has none of")
        if stop > end:
            raise ModelError(f"the file is damaged: a field at byte {position} ends beyond its message")
        yield Field(tag >> 3, wire, position, body, stop)
        position = stop


def _varint(head: bytes, begin: int, position: int) -> tuple[int, int]:
    """The number at `begin`, and where it ends; `head` stands at byte `position` of the file."""
    value = 0
    for k, byte in enumerate(head[begin : begin + _VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, begin + k + 1
    raise ModelError(f"the file is damaged: no end of the number at byte {position + begin}")


def pair(data: Content, entry: Field) -> tuple[bytes, bytes]:
    """The fields 1 and 2 of a message that is a key and a value; the last ones count, b"" stands for absent."""
    found = {f.number: data[f.body : f.end] for f in fields(data, entry.body, entry.end) if f.wire == LENGTH_DELIMITED}
    return found.get(1, b""), found.get(2, b"")


def encode_field(number: int, payload: bytes) -> bytes:
    """A length-delimited field as bytes."""
    return _to_varint(number << 3 | LENGTH_DELIMITED) + _to_varint(len(payload)) + payload


def encode_number(number: int, value: int) -> bytes:
    """A field of an integer from 0 to 2**64 - 1 as bytes."""
    return _to_varint(number << 3 | _VARINT) + _to_varint(value)


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
