"""Lines of JSON from a file, which may be compressed with gzip; a file that grows without end is refused."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import IO, TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.system.regular_files import open_regular
from edgemem.system.text import short_repr
from edgemem.trace.budget import ReadingBudget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Line", "json_lines"]

_MOST_IN_LINE: Final = 1 << 20  # bytes
_LARGEST: Final = 2**62


class Line:
    """One object, whose entries are asked for by name and type. Errors name the number of the line."""

    def __init__(self, number: int, entries: Mapping[str, Any], budget: ReadingBudget) -> None:
        self.number = number
        self._entries = entries
        self.budget = budget

    def error(self, text: str) -> ModelError:
        """An error that names the line."""
        return ModelError(f"line {self.number:,}: {text}")

    def text(self, key: str) -> str:
        """A text. Raises ModelError if there is none under the key."""
        value = self._entries.get(key)
        if type(value) is not str:
            raise self.error(f"{key} is {short_repr(value)}, not a text")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts. Raises ModelError if there is none under the key."""
        values = self._entries.get(key)
        if type(values) is not list or any(type(value) is not str for value in values):
            raise self.error(f"{key} is {short_repr(values)}, not a list of texts")
        self.budget.make(len(values))
        return values

    def integer(self, key: str, *, least: int = 0) -> int:
        """A number, or a text of one. Raises ModelError if it is below `least` or above 2**62."""
        value = self._entries.get(key)
        if type(value) is str and len(value) <= 20 and value.removeprefix("-").isdecimal():
            value = int(value)
        return self._bounded(key, value, least)

    def integers(self, key: str) -> list[int]:
        """A list of numbers from 0 up. Raises ModelError if there is none under the key."""
        values = self._entries.get(key)
        if type(values) is not list:
            raise self.error(f"{key} is {short_repr(values)}, not a list of numbers")
        self.budget.make(len(values))
        return [self._bounded(key, value, 0) for value in values]

    def _bounded(self, key: str, value: object, least: int) -> int:
        if type(value) is not int or not least <= value <= _LARGEST:
            raise self.error(f"{key} is {short_repr(value)}, not a number from {least} up")
        return value


def json_lines(path: Path) -> Iterator[Line]:
    """The objects of a file, one a line; empty lines are left out.

    Raises ModelError if the file cannot be read, a line is no JSON object or longer than 1 MiB, or they are beyond a
    `ReadingBudget`: lines, and names and numbers in lists, are its items.
    """
    budget = ReadingBudget()
    try:
        with open_regular(path) as (file, _):
            compressed = path.suffix.lower() == ".gz"
            stream: IO[bytes] = gzip.GzipFile(fileobj=file) if compressed else file  # type: ignore[assignment]
            number = 0
            while data := stream.readline(_MOST_IN_LINE + 1):
                number += 1
                if len(data) > _MOST_IN_LINE:
                    raise ModelError(f"line {number:,} has more than {_MOST_IN_LINE:,} bytes")
                budget.make(1)
                budget.unpack(len(data))
                if data.strip():
                    yield Line(number, _parsed(number, data), budget)
    except (OSError, EOFError, zlib.error) as e:
        raise ModelError(f"cannot be read: {e}") from None


def _parsed(number: int, data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError(f"line {number:,} is no JSON") from None
    if type(value) is not dict:
        raise ModelError(f"line {number:,} is no JSON object")
    return value
