"""What a .tflite file carries for a session, found without reading the rest: the encoded plan, and what it is for.

A file is walked in place, by the field numbers of its schema. Positions that lead out of it end the walk: such a file
counts as one without a plan here, and whoever reads it as a whole says what is wrong with it.

Every interpreter loads this module, so it imports nothing that LiteRT has not loaded: dataclasses take 0.14 MiB of a
process's memory, and pathlib 0.6 MiB.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ModelSource", "encoded_plan", "is_for_litert"]

_KEY: Final = b"edgemem.plan"
_MODEL_BUFFERS, _MODEL_METADATA = 4, 6  # fields of the tables of the TFLite schema
_METADATA_NAME, _METADATA_BUFFER = 0, 1
_BUFFER_DATA, _BUFFER_OFFSET, _BUFFER_SIZE = 0, 1, 2
_MOST_PLAN: Final = 1 << 28
# Of the tables in edgemem/planfile/plan.fbs, and the 16 bytes before them.
_HEADER: Final = 16
_PLANFILE_SETS, _PLANSET_TARGET, _PLANSET_RECORDING = 0, 6, 21
_VALUES_KEYS, _VALUES_TEXTS, _STRINGS_TEXT, _STRINGS_ENDS = 0, 3, 0, 1
_ROOT_IS_PLANFILE: Final = b"EMPF"


class ModelSource(NamedTuple):
    """Where a model is: a file's path, or the bytes of one."""

    path: str | None
    content: bytes | None

    def data(self) -> bytes:
        """The bytes of the file. Raises OSError if it cannot be read."""
        if self.content is not None:
            return self.content
        with self._open() as file:
            return file.read()

    def plan(self) -> bytes | None:
        """The encoded plan in the file; None if there is none, or the file cannot be read."""
        if self.content is not None:
            return encoded_plan(self.content)
        try:
            with self._open() as file:
                return encoded_plan(_FileBytes(file))
        except (OSError, ValueError):  # ValueError: a NUL in the path
            return None

    def _open(self) -> BinaryIO:
        assert self.path is not None
        return open(self.path, "rb")  # noqa: PTH123 - as above; callers close it


class _FileBytes:
    """The bytes of an open file, of which only the slices that are asked for are read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __getitem__(self, part: slice) -> bytes:
        self._file.seek(part.start)
        return self._file.read(part.stop - part.start)


def encoded_plan(data: bytes | _FileBytes) -> bytes | None:
    """The plan in the bytes of a .tflite file, as `edgemem.planfile` encodes it; None if it carries none."""
    try:
        model = _Table.root(data, 0)
        for entry in model.tables(_MODEL_METADATA):
            if entry.text(_METADATA_NAME) == _KEY:
                buffers = model.tables(_MODEL_BUFFERS)
                number = entry.scalar(_METADATA_BUFFER, "<I")
                buffer = next((b for k, b in enumerate(buffers) if k == number), None)
                return None if buffer is None else _content(buffer)
    except (struct.error, ValueError):
        return None
    return None


def is_for_litert(plan: bytes) -> bool:
    """Whether an encoded plan has LiteRT's workspace in it, as a plan needs that LiteRT is to run.

    It is a quick look, not a proof: whoever runs the plan decodes and proves it.
    """
    try:
        root = _Table.root(plan, _HEADER)
        is_file = plan[_HEADER + 4 : _HEADER + 8] == _ROOT_IS_PLANFILE
        plansets = root.tables(_PLANFILE_SETS) if is_file else iter((root,))
        return any(_has_workspace(p) for p in plansets if not p.reference(_PLANSET_RECORDING))
    except (struct.error, ValueError):
        return False


def _has_workspace(planset: _Table) -> bool:
    """Whether the rules of a plan set have `scratch` = "litert"."""
    target = planset.table(_PLANSET_TARGET)
    if target is None:
        return False
    keys, texts = (_strings(target.table(field)) for field in (_VALUES_KEYS, _VALUES_TEXTS))
    return dict(zip(keys, texts, strict=True)).get(b"scratch") == b"litert"


def _strings(column: _Table | None) -> list[bytes]:
    if column is None:
        return []
    text, ends = column.text(_STRINGS_TEXT), column.vector(_STRINGS_ENDS, 8)
    stops = struct.unpack(f"<{len(ends) // 8}q", ends)
    return [text[begin:end] for begin, end in zip((0, *stops), stops, strict=False)]


def _content(buffer: _Table) -> bytes | None:
    """The bytes of a buffer of the file, inside or behind the FlatBuffer."""
    inside = buffer.vector(_BUFFER_DATA, 1)
    if inside:
        return inside
    at, size = buffer.scalar(_BUFFER_OFFSET, "<Q"), buffer.scalar(_BUFFER_SIZE, "<Q")
    return bytes(buffer.data[at : at + size]) if at and size <= _MOST_PLAN else None


class _Table(NamedTuple):
    """A table of a FlatBuffer: its position in the data. Methods raise struct.error for positions outside."""

    data: bytes | _FileBytes
    at: int

    @classmethod
    def root(cls, data: bytes | _FileBytes, at: int) -> _Table:
        return cls(data, at + _unpack(data, at, "<I"))

    def field(self, number: int) -> int:
        """The position of a field's value; 0 if it is absent."""
        vtable = self.at - _unpack(self.data, self.at, "<i")
        slot = 4 + 2 * number
        if slot >= _unpack(self.data, vtable, "<H"):
            return 0
        offset = _unpack(self.data, vtable + slot, "<H")
        return self.at + offset if offset else 0

    def scalar(self, number: int, form: str) -> int:
        at = self.field(number)
        return _unpack(self.data, at, form) if at else 0

    def reference(self, number: int) -> int:
        """Where a field refers to; 0 if it is absent."""
        at = self.field(number)
        return at + _unpack(self.data, at, "<I") if at else 0

    def table(self, number: int) -> _Table | None:
        at = self.reference(number)
        return _Table(self.data, at) if at else None

    def vector(self, number: int, item: int) -> bytes:
        """The bytes of a vector of items of this size."""
        at = self.reference(number)
        if not at:
            return b""
        size = item * _unpack(self.data, at, "<I")
        if size > _MOST_PLAN:
            raise ValueError("a vector is longer than any plan")
        found = bytes(self.data[at + 4 : at + 4 + size])
        if len(found) != size:
            raise ValueError("a vector ends behind the file")
        return found

    def text(self, number: int) -> bytes:
        return self.vector(number, 1)

    def tables(self, number: int) -> Iterator[_Table]:
        at = self.reference(number)
        for k in range(_unpack(self.data, at, "<I") if at else 0):
            entry = at + 4 + 4 * k
            yield _Table(self.data, entry + _unpack(self.data, entry, "<I"))


def _unpack(data: bytes | _FileBytes, at: int, form: str) -> int:
    if at < 0:
        raise ValueError("a position before the file")
    (value,) = struct.unpack(form, data[at : at + struct.calcsize(form)])
    return int(value)
