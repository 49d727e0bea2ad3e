"""Strict reading of an untrusted FlatBuffer.

Generated accessors trust every offset. Here each number is read inside the buffer and at its natural alignment, and
each byte of a table, vector or string is counted against a budget, the payload's length. A file that shares nothing
stays within the budget, while a small file with many offsets to one large vector exceeds it: time and memory stay
linear in the payload. Offsets point forwards only and the schema nests to a fixed depth, so there are no cycles.

Only PlanFileError is raised, saying what is wrong and where. Bytes are counted from the payload's start.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Table", "root"]

_IDENTIFIER = slice(4, 8)


def _double(bits: int) -> float:
    return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])


def root(payload: memoryview, identifier: bytes, slots: Mapping[str, int]) -> Table:
    """The root table of a payload with this file identifier."""
    buffer = _Buffer(payload)
    buffer.take(0, _IDENTIFIER.stop)
    if bytes(payload[_IDENTIFIER]) != identifier:
        raise PlanFileError(f"its file identifier is {bytes(payload[_IDENTIFIER])!r} instead of {identifier!r}")
    return Table(buffer, buffer.follow(0), slots)


class _Buffer:
    """The payload and how many of its bytes may still be used."""

    __slots__ = ("_budget", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._budget = len(data)

    def check(self, position: int, size: int) -> None:
        if not 0 <= position <= len(self.data) - size:
            raise PlanFileError(f"{size} bytes at byte {position} are outside of the {len(self.data)} bytes there are")

    def take(self, position: int, size: int) -> None:
        """Check that these bytes exist, and subtract them from the budget."""
        self.check(position, size)
        self._budget -= size
        if self._budget < 0:
            raise PlanFileError(f"the contents at byte {position} are used more than once")

    def number(self, position: int, size: int, *, signed: bool = False) -> int:
        self.check(position, size)
        if position % size:
            raise PlanFileError(f"the number at byte {position} is not aligned to {size} bytes")
        return int.from_bytes(self.data[position : position + size], "little", signed=signed)

    def follow(self, position: int) -> int:
        """Where the offset at `position` points."""
        offset = self.number(position, 4)
        if offset < 4:
            raise PlanFileError(f"the offset at byte {position} points into itself")
        return position + offset

    def vector(self, position: int, item: int) -> tuple[int, int]:
        """Where the items of the vector begin that the offset at `position` points to, and how many there are."""
        start = self.follow(position)
        count = self.number(start, 4)
        self.take(start, 4 + count * item)
        if (start + 4) % item:
            raise PlanFileError(f"the vector at byte {start} is not aligned to {item} bytes")
        return start + 4, count


class Table:
    """One table, read by field name; `slots` gives each field's place in the schema.

    An absent field is None where the schema gives no default; `required` ones raise.
    """

    __slots__ = ("_buffer", "_position", "_size", "_slots", "_vtable", "_vtable_size")

    def __init__(self, buffer: _Buffer, position: int, slots: Mapping[str, int]) -> None:
        self._buffer = buffer
        self._position = position
        self._slots = slots
        self._vtable = position - buffer.number(position, 4, signed=True)
        self._vtable_size = buffer.number(self._vtable, 2)
        self._size = buffer.number(self._vtable + 2, 2)
        if self._vtable_size < 4 or self._vtable_size % 2 or self._size < 4:
            raise PlanFileError(f"the table at byte {position} has an impossible layout")
        buffer.check(self._vtable, self._vtable_size)  # not counted: tables of one layout share it
        buffer.take(position, self._size)

    def integer(self, name: str, default: int = 0) -> int:
        """An int64."""
        position = self._field(name, 8)
        return default if position is None else self._buffer.number(position, 8, signed=True)

    def real(self, name: str, default: float = 0.0) -> float:
        """A double."""
        position = self._field(name, 8)
        return default if position is None else _double(self._buffer.number(position, 8))

    def boolean(self, name: str) -> bool:
        """A bool, which is 0 or 1 and nothing else."""
        position = self._field(name, 1)
        value = 0 if position is None else self._buffer.number(position, 1)
        if value > 1:
            raise PlanFileError(f"{name} is {value}, neither 0 nor 1")
        return value == 1

    def string(self, name: str) -> str | None:
        """A string; its terminating zero must be there, as C++ readers rely on it."""
        position = self._field(name, 4)
        if position is None:
            return None
        start, length = self._buffer.vector(position, 1)
        self._buffer.take(start + length, 1)
        if self._buffer.data[start + length] != 0:
            raise PlanFileError(f"{name} has no terminating zero")
        try:
            return str(self._buffer.data[start : start + length], "utf-8")
        except UnicodeDecodeError as e:
            raise PlanFileError(f"{name} is not UTF-8: {e.reason}") from None

    def int64s(self, name: str) -> NDArray[np.int64] | None:
        """A vector of int64 as a read-only array of its own."""
        position = self._field(name, 4)
        if position is None:
            return None
        start, count = self._buffer.vector(position, 8)
        array = np.frombuffer(self._buffer.data, "<i8", count, start).astype(np.int64)
        array.flags.writeable = False
        return array

    def doubles(self, name: str) -> NDArray[np.float64] | None:
        """A vector of double as an array of its own."""
        position = self._field(name, 4)
        if position is None:
            return None
        start, count = self._buffer.vector(position, 8)
        return np.frombuffer(self._buffer.data, "<f8", count, start).astype(np.float64)

    def octets(self, name: str) -> bytes | None:
        """A vector of bytes."""
        position = self._field(name, 4)
        if position is None:
            return None
        start, count = self._buffer.vector(position, 1)
        return bytes(self._buffer.data[start : start + count])

    def table(self, name: str, slots: Mapping[str, int]) -> Table | None:
        position = self._field(name, 4)
        return None if position is None else Table(self._buffer, self._buffer.follow(position), slots)

    def tables(self, name: str, slots: Mapping[str, int]) -> list[Table]:
        """A vector of tables; absent is empty."""
        position = self._field(name, 4)
        if position is None:
            return []
        start, count = self._buffer.vector(position, 4)
        return [Table(self._buffer, self._buffer.follow(start + 4 * i), slots) for i in range(count)]

    def _field(self, name: str, size: int) -> int | None:
        """Where a field's bytes are; None if it is absent."""
        entry = 4 + 2 * self._slots[name]
        if entry >= self._vtable_size:
            return None
        offset = self._buffer.number(self._vtable + entry, 2)
        if offset == 0:
            return None
        if not 4 <= offset <= self._size - size:
            raise PlanFileError(f"{name} is outside of its table at byte {self._position}")
        return self._position + offset
