"""Columns of strings, groups and maps, read from tables of a plan file. docs/plan-file.md describes them."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from edgemem.errors import PlanFileError
from edgemem.planfile.conditions import check_ascending, check_length
from edgemem.planfile.schema import VALUE_TYPES, slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.planfile.reader import Table
    from edgemem.plans import OptionValue

__all__ = [
    "read_codes",
    "read_column",
    "read_groups",
    "read_map",
    "read_strings",
    "read_values",
    "required",
    "strings_of",
]

_Items = TypeVar("_Items", bytes, tuple[str, ...], tuple[int, ...])
_Value = TypeVar("_Value")


def read_values(table: Table, name: str) -> dict[str, OptionValue]:
    """The map in a field; absent is empty."""
    child = table.table(name, slots("Values"))
    return {} if child is None else read_map(child, name)


def read_map(table: Table, name: str) -> dict[str, OptionValue]:
    """The entries of a table `Values`."""
    keys, texts = read_strings(table, "keys"), read_strings(table, "texts")
    types, integers = read_codes(table, "types", len(VALUE_TYPES)), read_column(table, "integers")
    reals = table.doubles("reals")
    if reals is None:
        reals = np.zeros(len(keys))
    for column in (types, integers, texts, reals):
        check_length(f"a column of {name}", len(column), len(keys))
    check_ascending(f"keys of {name}", keys)
    entries: dict[str, OptionValue] = {}
    for key, code, integer, text, real in zip(keys, types, integers.tolist(), texts, reals.tolist(), strict=True):
        kind = VALUE_TYPES[code]
        others = [v for v, kinds in ((integer, (int, bool)), (text, (str,)), (real, (float,))) if kind not in kinds]
        if any(others) or (kind is bool and integer not in (0, 1)):
            raise PlanFileError(f"{key!r} in {name} has a value of two types")
        if not isfinite(real):
            raise PlanFileError(f"{key!r} in {name} is {real}")
        entries[key] = text if kind is str else real if kind is float else kind(integer)
    return entries


def read_strings(table: Table, name: str) -> tuple[str, ...]:
    """A column of strings; absent is empty."""
    child = table.table(name, slots("Strings"))
    return () if child is None else strings_of(child, name)


def strings_of(table: Table, name: str) -> tuple[str, ...]:
    """The strings in a table `Strings`, which is the field `name`."""
    try:
        pieces = read_groups(required(table.octets("text"), "text"), table.int64s("ends"), f"ends of {name}")
        return tuple(str(piece, "utf-8") for piece in pieces)
    except UnicodeDecodeError as e:
        raise PlanFileError(f"{name} has a string that is not UTF-8: {e.reason}") from None


def read_groups(items: _Items, ends: NDArray[np.int64] | None, name: str) -> list[_Items]:
    """The items cut at `ends`: group i is what lies before ends[i] and in no group before. Absent is no group."""
    cuts: list[int] = [] if ends is None else ends.tolist()
    bounds = [0, *cuts]
    if any(a > b for a, b in pairwise(bounds)) or bounds[-1] != len(items):
        raise PlanFileError(f"{name} do not cut {len(items)} items into consecutive pieces")
    return [items[a:b] for a, b in pairwise(bounds)]


def read_codes(table: Table, name: str, count: int) -> bytes:
    """A column of codes of an enumeration that has `count`; absent is empty."""
    codes = table.octets(name) or b""
    if codes and max(codes) >= count:
        raise PlanFileError(f"{name} has the code {max(codes)}; there are {count}")
    return codes


def read_column(table: Table, name: str) -> NDArray[np.int64]:
    """A vector of int64; absent is empty."""
    column = table.int64s(name)
    return np.zeros(0, np.int64) if column is None else column


def required(value: _Value | None, name: str) -> _Value:
    """The value of a field that must be there."""
    if value is None:
        raise PlanFileError(f"{name} is missing")
    return value
