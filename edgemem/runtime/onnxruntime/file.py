"""What a session needs of an ONNX file's bytes: its digest, and the recorded plans in its metadata.

Nothing is parsed beyond the layout of ModelProto that never changes: `graph` is field 7, `metadata_props` 14; a
graph's `initializer` is 5, its `external_data` 13; entries have a key 1 and a value 2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import mmap
from typing import TYPE_CHECKING, TypeAlias

from edgemem.errors import ModelError, PlanFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["TRACE_KEY", "Content", "embedded", "model_digest", "with_embedded"]

TRACE_KEY = "edgemem.trace"
Content: TypeAlias = bytes | mmap.mmap

_OURS = b"edgemem."
_METADATA, _GRAPH, _INITIALIZER, _EXTERNAL = 14, 7, 5, 13
_LENGTH = 2
_FIXED = {1: 8, 5: 4}
_VARINT_BYTES = 10


def model_digest(data: Content, folder: Path | None = None) -> str:
    """sha256 of a model without what edgemem wrote into its metadata, and of its weight files' names and sizes.

    `folder` is where the file lies, None for a model without a file. Bytes that are no ONNX model count whole.
    """
    digest = hashlib.sha256()
    try:
        ours = [(key, end) for key, start, end in _entries(data) if _pair(data, start, end)[0].startswith(_OURS)]
        external = sorted(set(_external(data)))
    except ModelError:
        return hashlib.sha256(data).hexdigest()
    with memoryview(data) as view:
        position = 0
        for start, end in (*ours, (len(data), 0)):
            with view[position:start] as kept:
                digest.update(kept)
            position = end
    for name in external:
        path = folder / name if folder is not None else None
        size = path.stat().st_size if path is not None and path.is_file() else -1
        digest.update(f"\0{name}\0{size}".encode())
    return digest.hexdigest()


def embedded(data: Content) -> bytes | None:
    """The recorded plans in the metadata, or None. Raises PlanFileError if they are no base64."""
    found = None
    try:
        for _, start, end in _entries(data):
            name, value = _pair(data, start, end)
            if name == TRACE_KEY.encode():
                found = value
    except ModelError:
        return None
    if found is None:
        return None
    try:
        return base64.b64decode(found, validate=True)
    except binascii.Error as e:
        raise PlanFileError(f"the recorded plan in the model is damaged: {e}; record it again") from None


def with_embedded(data: bytes, plans: bytes) -> bytes:
    """The model with recorded plans as its last entry, replacing older ones; every other byte stays.

    Raises ModelError for bytes that are no ONNX model.
    """
    parts, position = [], 0
    for key, start, end in _entries(data):
        if _pair(data, start, end)[0] == TRACE_KEY.encode():
            parts.append(data[position:key])
            position = end
    entry = _field(1, TRACE_KEY.encode()) + _field(2, base64.b64encode(plans))
    return b"".join((*parts, data[position:], _field(_METADATA, entry)))


def _entries(data: Content) -> Iterator[tuple[int, int, int]]:
    return ((key, start, end) for number, key, start, end in _fields(data, 0, len(data)) if number == _METADATA)


def _external(data: Content) -> Iterator[str]:
    if data.find(b"location") < 0:
        return
    for number, _, start, end in _fields(data, 0, len(data)):
        if number != _GRAPH:
            continue
        for inner, _, tensor, tensor_end in _fields(data, start, end):
            if inner != _INITIALIZER:
                continue
            for field, _, entry, entry_end in _fields(data, tensor, tensor_end):
                key, value = _pair(data, entry, entry_end) if field == _EXTERNAL else (b"", b"")
                if key == b"location":
                    yield value.decode(errors="surrogateescape")


def _pair(data: Content, start: int, end: int) -> tuple[bytes, bytes]:
    found = {number: data[a:b] for number, _, a, b in _fields(data, start, end)}
    return found.get(1, b""), found.get(2, b"")


def _fields(data: Content, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, start, start of the payload, end) of every length-delimited field."""
    position = start
    while position < end:
        tag, body = _varint(data, position, end)
        wire = tag & 7
        if wire == 0:
            _, stop = _varint(data, body, end)
        elif wire == _LENGTH:
            length, body = _varint(data, body, end)
            stop = body + length
        elif wire in _FIXED:
            stop = body + _FIXED[wire]
        else:
            raise ModelError(f"no ONNX model: a group at byte {position}")
        if stop > end:
            raise ModelError(f"no ONNX model: a field at byte {position} ends beyond its message")
        if wire == _LENGTH:
            yield tag >> 3, position, body, stop
        position = stop


def _varint(data: Content, position: int, end: int) -> tuple[int, int]:
    value = 0
    for k in range(min(_VARINT_BYTES, end - position)):
        byte = data[position + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, position + k + 1
    raise ModelError(f"no ONNX model: no end of the number at byte {position}")


def _field(number: int, payload: bytes) -> bytes:
    return _varint_bytes(number << 3 | _LENGTH) + _varint_bytes(len(payload)) + payload


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
