"""A strict reader of the TFLite schema, version 3, by field numbers.

Every position is checked against the end of the file before it is read, and the work is bounded by the file's length,
so that a damaged or hostile file ends in ModelError. What edgemem does not need (quantisation, many options) is not
read at all.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.names import BODIES, BODIES2, CUSTOM, OPERATORS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FileBuffer",
    "FileMetadata",
    "FileModel",
    "FileOperator",
    "FileSubgraph",
    "FileTensor",
    "read",
    "read_custom_options",
    "read_options",
    "read_variable",
]

IDENTIFIER: Final = b"TFL3"
# The fields of Model that version 3 has had so far: all are references except the first.
MODEL_FIELDS: Final = 10
_CASE: Final = 23  # StablehloCaseOptions, the one with a vector of subgraphs
_VAR_HANDLE: Final = 111  # VarHandleOptions
_MOST_DIMENSIONS: Final = 64  # of a tensor; no kernel takes more than 8


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of the file; `type` and `buffer` are the file's numbers."""

    name: str
    type: int
    shape: tuple[int, ...]
    has_shape: bool
    signature: tuple[int, ...]
    buffer: int
    variable: bool
    external: bool  # its data are in another file
    scales: int  # how many its quantisation has; 0 without zero points, where no runtime counts it as quantised


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator: its type's name, tensor indices (-1 for absent), the subgraphs it runs, and options by name.

    `at` is the position of its table, for `read_options`.
    """

    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bodies: tuple[int, ...]
    options: Mapping[str, int]
    at: int


@dataclass(frozen=True, slots=True)
class FileSubgraph:
    """A subgraph; `operators_at` is the position of the first entry of its vector of operators."""

    name: str
    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators_at: int


@dataclass(frozen=True, slots=True)
class FileBuffer:
    """Where a buffer's table and its data are; `size` 0 for none."""

    at: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """A named buffer."""

    at: int
    name: str
    buffer: int


@dataclass(frozen=True, slots=True)
class FileModel:
    """The contents of a file, with the positions that the writer needs.

    Attributes:
        version: the schema's.
        references: field number of Model -> position of what it refers to, for the fields that are present.
        absolute: positions of the 64-bit fields that count from the start of the file.
        data: the file.
    """

    version: int
    subgraphs: tuple[FileSubgraph, ...]
    buffers: tuple[FileBuffer, ...]
    metadata: tuple[FileMetadata, ...]
    references: dict[int, int]
    absolute: tuple[int, ...]
    data: bytes = field(repr=False)


class _Reader:
    """Bounds-checked little-endian reads, and a budget of items that valid files stay within."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = len(data)

    def number(self, layout: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(layout) > len(self.data):
            raise ModelError(f"damaged TFLite file: byte {at} is beyond its end ({len(self.data)} bytes)")
        value: int = struct.unpack_from(layout, self.data, at)[0]
        return value

    def reference(self, at: int) -> int:
        """The position that the reference at this position points to; references point forwards."""
        distance = self.number("<I", at)
        if not 4 <= distance <= len(self.data) - 4 - at:
            raise ModelError(f"damaged TFLite file: the reference at byte {at} leads outside the file")
        return at + distance

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """First item and count of a vector whose items have this many bytes."""
        count = self.number("<I", at)
        if count * width > len(self.data) - 4 - at:
            raise ModelError(f"damaged TFLite file: the vector at byte {at} is longer than the file")
        return at + 4, count

    def spend(self, items: int) -> None:
        """Count items. Valid files share few tables, so they cannot have more items than bytes."""
        self._left -= items
        if self._left < 0:
            raise ModelError(
                "damaged TFLite file: its parts overlap so often that it cannot be read; it lists more than "
                f"{len(self.data):,} items, one for each of its bytes"
            )

    def text(self, at: int) -> str:
        start, count = self.vector(at, 1)
        self.spend(count // 4 + 1)
        return self.data[start : start + count].decode(errors="backslashreplace")

    def ints(self, at: int) -> tuple[int, ...]:
        start, count = self.vector(at, 4)
        self.spend(count + 1)
        return struct.unpack_from(f"<{count}i", self.data, start)

    def tables(self, at: int) -> list[_Table]:
        start, count = self.vector(at, 4)
        self.spend(count + 1)
        return [_Table(self, self.reference(start + 4 * i)) for i in range(count)]


class _Table:
    """A table's fields by number; a field that is absent has its default."""

    __slots__ = ("_fields", "_reader", "_slots", "at")

    def __init__(self, reader: _Reader, at: int) -> None:
        self.at = at
        self._reader = reader
        vtable = at - reader.number("<i", at)
        length, size = reader.number("<H", vtable), reader.number("<H", vtable + 2)
        if length < 4 or length % 2 or vtable + length > len(reader.data) or size < 4 or at + size > len(reader.data):
            raise ModelError(f"damaged TFLite file: the table at byte {at} has no layout")
        self._fields = (length - 4) // 2
        self._slots = vtable + 4

    def where(self, field: int) -> int:
        """Position of a field, or 0."""
        slot = self._reader.number("<H", self._slots + 2 * field) if field < self._fields else 0
        return self.at + slot if slot else 0

    def present(self) -> tuple[int, ...]:
        """The numbers of the fields it has."""
        return tuple(f for f in range(self._fields) if self.where(f))

    def number(self, field: int, layout: str, default: int = 0) -> int:
        at = self.where(field)
        return self._reader.number(layout, at) if at else default

    def reference(self, field: int) -> int:
        at = self.where(field)
        return self._reader.reference(at) if at else 0

    def text(self, field: int) -> str:
        at = self.reference(field)
        return self._reader.text(at) if at else ""

    def ints(self, field: int) -> tuple[int, ...]:
        at = self.reference(field)
        return self._reader.ints(at) if at else ()

    def count(self, field: int, inner: int) -> int:
        """How many items of four bytes a vector has that is a field of the table in a field."""
        at = self.reference(field)
        vector = _Table(self._reader, at).reference(inner) if at else 0
        return self._reader.vector(vector, 4)[1] if vector else 0

    def tables(self, field: int) -> list[_Table]:
        at = self.reference(field)
        return self._reader.tables(at) if at else []


def read(data: bytes) -> FileModel:
    """Read a whole .tflite file. Raises ModelError if it is damaged or none, UnsupportedError for a newer schema."""
    reader = _Reader(data)
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise ModelError("not a TFLite file: it lacks the identifier TFL3")
    model = _Table(reader, reader.reference(0))
    version = model.number(0, "<I")
    if version != 3 or model.present()[-1] >= MODEL_FIELDS:
        raise UnsupportedError(f"a TFLite file of schema version {version}, which edgemem does not know")
    codes = [_code(t) for t in model.tables(1)]
    absolute: dict[int, None] = {}
    buffers = tuple(_buffer(reader, t, absolute) for t in model.tables(4))
    tables = model.tables(2)
    subgraphs = tuple(_subgraph(reader, t, codes, len(buffers), len(tables), absolute) for t in tables)
    if not subgraphs:
        raise ModelError("the TFLite file has no subgraph")
    metadata = tuple(FileMetadata(t.at, t.text(0), t.number(1, "<I")) for t in model.tables(6))
    for entry in metadata:
        if entry.buffer >= len(buffers):
            raise ModelError(f"damaged TFLite file: metadata {entry.name!r} is in buffer {entry.buffer}, not there")
    references = {field: model.reference(field) for field in model.present() if field}
    return FileModel(version, subgraphs, buffers, metadata, references, tuple(absolute), data)


def read_options(
    data: bytes, operator: FileOperator, code: int, fields: Mapping[str, tuple[int, str, float]]
) -> dict[str, Any]:
    """The options of an operator; what the file does not have are the defaults.

    Args:
        data: the file.
        operator: of that file, as `read` gives it.
        code: the type of the options; of another type counts as absent.
        fields: their names, and the field, layout and default of each.
    """
    reader = _Reader(data)
    table = _Table(reader, operator.at)
    at = table.reference(4) if table.number(3, "<B") == code else 0
    if not at:
        return {name: default for name, (_, _, default) in fields.items()}
    options = _Table(reader, at)
    places = {name: (options.where(number), layout, default) for name, (number, layout, default) in fields.items()}
    return {name: reader.number(layout, at) if at else default for name, (at, layout, default) in places.items()}


def read_variable(data: bytes, operator: FileOperator) -> tuple[str, str]:
    """The container and the name of the variable that a VAR_HANDLE of the file stands for; ("", "") without options."""
    table = _Table(_Reader(data), operator.at)
    at = table.reference(4) if table.number(3, "<B") == _VAR_HANDLE else 0
    options = _Table(_Reader(data), at) if at else None
    return (options.text(0), options.text(1)) if options else ("", "")


def read_custom_options(data: bytes, operator: FileOperator) -> bytes:
    """The options of a custom operator, which only it can read; empty if it has none, or has them elsewhere."""
    reader = _Reader(data)
    at = _Table(reader, operator.at).reference(5)
    start, size = reader.vector(at, 1) if at else (0, 0)
    return data[start : start + size]


def _code(table: _Table) -> tuple[int, str]:
    # Codes above 127 did not fit the first field; writers fill both, old ones the first alone.
    code = max(table.number(0, "<b"), table.number(3, "<i"))
    if code == CUSTOM:
        return code, table.text(1) or "CUSTOM"
    return code, OPERATORS[code] if 0 <= code < len(OPERATORS) else f"BUILTIN_{code}"


def _outside(reader: _Reader, table: _Table, fields: tuple[int, int], absolute: dict[int, None]) -> tuple[int, int]:
    """Start and size of data behind the flatbuffer. A start of 0 or 1 means that there are none."""
    start, size = (table.number(field, "<Q") for field in fields)
    if start <= 1 or not size:
        return 0, 0
    if start + size > len(reader.data):
        raise ModelError(f"damaged TFLite file: {size} bytes at {start} are beyond its end ({len(reader.data)} bytes)")
    absolute[table.where(fields[0])] = None
    return start, size


def _buffer(reader: _Reader, table: _Table, absolute: dict[int, None]) -> FileBuffer:
    at = table.reference(0)
    start, size = reader.vector(at, 1) if at else (0, 0)
    if not size:
        start, size = _outside(reader, table, (1, 2), absolute)
    return FileBuffer(table.at, start, size)


def _subgraph(
    reader: _Reader,
    table: _Table,
    codes: list[tuple[int, str]],
    buffers: int,
    subgraphs: int,
    absolute: dict[int, None],
) -> FileSubgraph:
    tensors = tuple(_tensor(t, buffers) for t in table.tables(0))
    at = table.reference(3)
    operators = tuple(_operator(reader, t, codes, len(tensors), subgraphs, absolute) for t in table.tables(3))
    inputs, outputs = (_indices(table.ints(field), len(tensors)) for field in (1, 2))
    return FileSubgraph(table.text(4), tensors, operators, inputs, outputs, at + 4 if at else 0)


def _tensor(table: _Table, buffers: int) -> FileTensor:
    shape_at = table.where(0)
    tensor = FileTensor(
        table.text(3),
        table.number(1, "<b"),
        table.ints(0),
        bool(shape_at),
        table.ints(7),
        table.number(2, "<I"),
        bool(table.number(5, "<B")),
        bool(table.number(10, "<I")),
        table.count(4, 2) if table.count(4, 3) else 0,
    )
    rank = max(len(tensor.shape), len(tensor.signature))
    if rank > _MOST_DIMENSIONS:
        raise ModelError(f"damaged TFLite file: a tensor has {rank:,} dimensions; the limit is {_MOST_DIMENSIONS}")
    if tensor.buffer >= buffers and tensor.buffer:
        raise ModelError(f"damaged TFLite file: tensor {tensor.name!r} is in buffer {tensor.buffer}, not there")
    return tensor


def _operator(
    reader: _Reader,
    table: _Table,
    codes: list[tuple[int, str]],
    tensors: int,
    subgraphs: int,
    absolute: dict[int, None],
) -> FileOperator:
    index = table.number(0, "<I")
    if index >= len(codes):
        raise ModelError(f"damaged TFLite file: an operator has code {index}, not there")
    _outside(reader, table, (9, 10), absolute)
    bodies = _bodies(reader, table)
    if any(not 0 <= b < subgraphs for b in bodies):
        raise ModelError(f"damaged TFLite file: an operator runs subgraphs {bodies} of {subgraphs}")
    kind = codes[index][1]
    inputs, outputs = (_indices(table.ints(field), tensors) for field in (1, 2))
    return FileOperator(kind, inputs, outputs, bodies, _options(reader, table, kind), table.at)


def _options(reader: _Reader, table: _Table, kind: str) -> Mapping[str, int]:
    """The options that edgemem reads of an operator of this type; {} if the file has none of the right type."""
    if kind not in OPTIONS:
        return {}
    code, fields = OPTIONS[kind]
    at = table.reference(4)
    if table.number(3, "<B") != code or not at:
        return {}
    options = _Table(reader, at)
    return {name: options.number(number, layout, default) for name, number, layout, default in fields}


def _bodies(reader: _Reader, table: _Table) -> tuple[int, ...]:
    for kind_field, layout in ((3, BODIES), (11, BODIES2)):
        kind = table.number(kind_field, "<B")
        at = table.reference(kind_field + 1)
        if kind == _CASE and layout is BODIES2 and at:
            return _Table(reader, at).ints(0)
        if kind in layout and at:
            options = _Table(reader, at)
            return tuple(options.number(field, "<i") for field in layout[kind])
    return ()


def _indices(indices: tuple[int, ...], tensors: int) -> tuple[int, ...]:
    for index in indices:
        if not -1 <= index < tensors:
            raise ModelError(f"damaged TFLite file: tensor {index} is named, but there are {tensors}")
    return indices
