"""What a session needs of an ONNX file's bytes: its digest, and the plans in its metadata.

Nothing is parsed beyond the layout of ModelProto that never changes: `graph` is field 7, `metadata_props` 14; a
graph's `initializer` is 5, its `external_data` 13; entries have a key 1 and a value 2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import mmap
from typing import TYPE_CHECKING, TypeAlias

from edgemem import planfile
from edgemem.errors import ModelError, PlanFileError
from edgemem.planfile import legacy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["OLD_TRACE_KEY", "PLAN_KEY", "Content", "model_digest", "plans_in", "with_plans"]

PLAN_KEY = "edgemem.plan"
OLD_TRACE_KEY = "edgemem.trace"  # of recordings, in edgemem 0.1
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


def plans_in(data: Content, *, old: bool = True) -> tuple[PlanSet, ...]:
    """The plan sets in the metadata: at most one of the graph, and those of recordings; () without any.

    Recordings that edgemem 0.1 wrote, under a key of their own, come last if `old` ones are wanted. Nothing is proved.
    Raises PlanFileError if what is there is damaged.
    """
    found = _values(data, (PLAN_KEY, OLD_TRACE_KEY))
    plansets = planfile.decode_all(_decoded(found[PLAN_KEY])) if PLAN_KEY in found else ()
    if old and OLD_TRACE_KEY in found:
        known = [p.recording.fingerprint for p in plansets if p.recording is not None]
        recorded = legacy.decode_recordings(_decoded(found[OLD_TRACE_KEY]))
        plansets += tuple(p for p in recorded if p.recording is not None and p.recording.fingerprint not in known)
    return plansets


def with_plans(data: bytes, plansets: Sequence[PlanSet]) -> bytes:
    """The model with these plan sets as the last entry of its metadata instead of all it had; every other byte stays.

    Raises ModelError for bytes that are no ONNX model, PlanFileError for plan sets that one file cannot hold.
    """
    ours = (PLAN_KEY.encode(), OLD_TRACE_KEY.encode())
    parts, position = [], 0
    for key, start, end in _entries(data):
        if _pair(data, start, end)[0] in ours:
            parts.append(data[position:key])
            position = end
    entry = _field(1, PLAN_KEY.encode()) + _field(2, base64.b64encode(planfile.encode_all(plansets)))
    return b"".join((*parts, data[position:], _field(_METADATA, entry)))


def _values(data: Content, keys: Sequence[str]) -> dict[str, bytes]:
    """The values of these keys in the metadata; none for what is no ONNX model."""
    found: dict[str, bytes] = {}
    try:
        for _, start, end in _entries(data):
            name, value = _pair(data, start, end)
            if (key := name.decode(errors="replace")) in keys:
                found[key] = value
    except ModelError:
        return {}
    return found


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise PlanFileError(f"the plan in the model is damaged: {e}; plan the model again") from None


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
