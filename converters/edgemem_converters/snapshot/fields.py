"""Reading entries of a snapshot: each value has the type that PyTorch documents, or the snapshot is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.system.text import short_repr
from edgemem.trace.budget import MOST_ITEMS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["integer", "mapping", "rows", "text"]

_LARGEST: Final = 2**63 - 1


def mapping(value: object, what: str) -> Mapping[str | int, Any]:
    """A dictionary."""
    if type(value) is not dict:
        raise ModelError(f"{what} of the snapshot is no dictionary; write it with torch.cuda.memory._dump_snapshot")
    return value


def rows(value: object, what: str) -> list[Any]:
    """A list of at most so many entries as a snapshot may have."""
    if type(value) is not list:
        raise ModelError(f"{what} of the snapshot is no list; write it with torch.cuda.memory._dump_snapshot")
    if len(value) > MOST_ITEMS:
        raise ModelError(f"{what} of the snapshot has {len(value):,} entries; {MOST_ITEMS:,} are read at most")
    return value


def integer(entry: Mapping[str | int, Any], key: str, default: int | None = None, *, most: int = _LARGEST) -> int:
    """A number from 0 up to `most`; the default where the key is absent, if there is one."""
    value = entry.get(key, default)
    if type(value) is not int or not 0 <= value <= most:
        known = f"is {short_repr(value)}" if type(value) in (int, str) else "is missing or no integer"
        raise ModelError(f"{key!r} of an entry of the snapshot {known}; it is a number from 0 up")
    return value


def text(entry: Mapping[str | int, Any], key: str, default: str = "") -> str:
    """A text; the default where the key is absent."""
    value = entry.get(key, default)
    if type(value) is not str:
        raise ModelError(f"{key!r} of an entry of the snapshot is no text")
    return value
