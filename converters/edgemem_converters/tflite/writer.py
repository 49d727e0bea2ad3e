"""Changes a .tflite file without changing its old bytes.

References in a FlatBuffer are relative and point forwards, so a file stays valid when a prefix is put in front
of it. What edgemem adds goes into such a prefix: a new root table that takes over every field of the old one, new
vectors of buffers and of metadata whose entries lead to the old ones, and the new metadata. The old file follows
byte for byte at a multiple of 64, so data that were aligned stay aligned. Only offsets that count from the start of
the file (data behind the flatbuffer) are raised by the length of the prefix.

    0   root reference, "TFL3"
    8   a mark that identifies the prefix
    16  its length
    24  the new tables, vectors and data; zeros up to the length
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.reader import IDENTIFIER, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem_converters.tflite.reader import FileModel

__all__ = ["permuted", "read_parts", "split", "write"]

_MARK: Final = b"edgemem\x01"
_BUFFERS, _METADATA = 4, 6
# What FlatBuffers can refer to.
_LIMIT: Final = 2**31 - 1
# The operator of files compiled for an accelerator; its options hold offsets from the start of the file.
_COMPILED: Final = "DISPATCH_OP"


def write(base: bytes, changes: Mapping[str, bytes | None], model: FileModel | None = None) -> bytes:
    """The file with metadata set (bytes) or removed (None); the file itself if that changes nothing.

    `model` is what `read` gives for the file, where that is known.

    Raises UnsupportedError for files that would break in another place: compiled for an accelerator, or too large.
    """
    model = model or read(base)
    kept = [m for m in model.metadata if m.name not in changes]
    added = {name: data for name, data in sorted(changes.items()) if data is not None}
    if not added and len(kept) == len(model.metadata):
        return base
    if any(operator.type == _COMPILED for subgraph in model.subgraphs for operator in subgraph.operators):
        raise UnsupportedError("the model is compiled for an accelerator; plan it before it is compiled")
    prefix = _Prefix()
    fields = sorted(({*model.references} - {_METADATA}) | {_BUFFERS} | ({_METADATA} if kept or added else set()))
    root = prefix.table({0: model.version, **dict.fromkeys(fields, 0)})
    slots = {field: root + 8 + 4 * i for i, field in enumerate(fields)}
    prefix.link(0, root)
    for field, target in model.references.items():
        if field not in (_BUFFERS, _METADATA):
            prefix.link(slots[field], target, old=True)
    entries = prefix.vector(slots[_BUFFERS], len(model.buffers) + len(added))
    for i, buffer in enumerate(model.buffers):
        prefix.link(entries + 4 * i, buffer.at, old=True)
    for i, data in enumerate(added.values(), start=len(model.buffers)):
        table = prefix.table({0: 0})
        prefix.link(entries + 4 * i, table)
        prefix.data(table + 4, data, 16)
    if _METADATA in slots:
        entries = prefix.vector(slots[_METADATA], len(kept) + len(added))
        for i, entry in enumerate(kept):
            prefix.link(entries + 4 * i, entry.at, old=True)
        for i, name in enumerate(added):
            table = prefix.table({0: 0, 1: len(model.buffers) + i})
            prefix.link(entries + 4 * (len(kept) + i), table)
            prefix.data(table + 4, name.encode() + b"\0", 4, count=len(name.encode()))
    head = prefix.done()
    return head + _shifted(base, model.absolute, len(head))


def split(data: bytes) -> tuple[bytes, dict[str, bytes | None]]:
    """The file without the prefix of `write`, and the changes in that prefix: `write` of both gives the file again.

    A file without a prefix, or one that another tool changed afterwards, is returned whole with no changes.
    """
    return read_parts(data)[:2]


def read_parts(data: bytes) -> tuple[bytes, dict[str, bytes | None], FileModel]:
    """As `split`, and what `read` gives for the file without the prefix. Raises as `read`."""
    length = int.from_bytes(data[16:24], "little")
    if data[8:16] != _MARK or length % 64 or data[length + 4 : length + 8] != IDENTIFIER:
        return data, {}, read(data)
    try:
        outer = read(data)
        base = _shifted(data[length:], [at - length for at in outer.absolute], -length)
        inner = read(base)
        names = {m.name for m in outer.metadata}
        changes: dict[str, bytes | None] = {m.name: None for m in inner.metadata if m.name not in names}
        for entry in outer.metadata:
            if entry.at < length:
                buffer = outer.buffers[entry.buffer]
                changes[entry.name] = data[buffer.start : buffer.start + buffer.size]
        if write(base, changes, inner) == data:
            return base, changes, inner
    except (ModelError, struct.error, OverflowError):
        pass
    return data, {}, read(data)


def permuted(base: bytes, order: Sequence[int]) -> bytes:
    """The file with the operators of its first subgraph in another order: their references change places."""
    model = read(base)
    first, *others = model.subgraphs
    if any(s.operators_at == first.operators_at for s in others):
        raise UnsupportedError("two subgraphs of the model share their operators, which cannot be reordered")
    slots = [first.operators_at + 4 * i for i in range(len(order))]
    targets = [slot + struct.unpack_from("<I", base, slot)[0] for slot in slots]
    out = bytearray(base)
    for slot, i in zip(slots, order, strict=True):
        if targets[i] <= slot:
            raise ModelError("damaged TFLite file: an operator stands within the vector that lists it")
        struct.pack_into("<I", out, slot, targets[i] - slot)
    return bytes(out)


def _shifted(base: bytes, absolute: Sequence[int], distance: int) -> bytes:
    if not absolute:
        return base
    out = bytearray(base)
    for at in absolute:
        struct.pack_into("<Q", out, at, struct.unpack_from("<Q", out, at)[0] + distance)
    return bytes(out)


class _Prefix:
    """A prefix under construction; references are filled in at the end, when its length is known."""

    def __init__(self) -> None:
        self._out = bytearray(4) + IDENTIFIER + _MARK + bytes(8)
        self._links: list[tuple[int, int, bool]] = []

    def link(self, slot: int, target: int, *, old: bool = False) -> None:
        """Let the reference at `slot` lead to `target`, a position here or in the old file."""
        self._links.append((slot, target, old))

    def table(self, fields: Mapping[int, int]) -> int:
        """A table of 32-bit fields, which stand 4 bytes after its start in the order given; its position."""
        positions = {field: 4 + 4 * i for i, field in enumerate(fields)}
        count = max(fields) + 1
        slots = [positions.get(field, 0) for field in range(count)]
        self._align(4)
        vtable = len(self._out)
        self._out += struct.pack(f"<{count + 2}H", 4 + 2 * count, 4 + 4 * len(fields), *slots)
        self._align(4)
        at = len(self._out)
        self._out += struct.pack(f"<i{len(fields)}I", at - vtable, *fields.values())
        return at

    def vector(self, slot: int, count: int) -> int:
        """A vector of references, linked from `slot`; the position of its first entry."""
        self.link(slot, len(self._out))
        self._out += struct.pack("<I", count) + bytes(4 * count)
        return len(self._out) - 4 * count

    def data(self, slot: int, data: bytes, alignment: int, *, count: int | None = None) -> None:
        """A vector of bytes, linked from `slot`, whose first byte is aligned."""
        self._out += bytes(-(len(self._out) + 4) % alignment)
        self.link(slot, len(self._out))
        self._out += struct.pack("<I", len(data) if count is None else count) + data
        self._align(4)

    def done(self) -> bytes:
        self._align(64)
        length = len(self._out)
        struct.pack_into("<Q", self._out, 16, length)
        for slot, target, old in self._links:
            distance = target + length * old - slot
            if distance > _LIMIT:
                raise UnsupportedError("the model is too large: FlatBuffers reaches 2 GiB")
            struct.pack_into("<I", self._out, slot, distance)
        return bytes(self._out)

    def _align(self, alignment: int) -> None:
        self._out += bytes(-len(self._out) % alignment)
