"""Usage records as CSV.

The first columns are `tensor,first_op,last_op,size` (inclusive operator indices) or `id,lower,upper,size` (half-open);
the last of them may be called `size_bytes`. A size is bytes, or `WxH` or `WxHxD` texels for shared objects on textures.
Any of these columns may follow, in any order; an empty field means the default:

    offset      bytes from the start of the arena where the record must be
    kind        tensor, input, output, variable, scratch or state
    regions     indices of the regions it may lie in, ascending, such as 0|1
    traffic     bytes that operators read and write in it
    overlap     NAME@DISTANCE: the row's record is an input that dies in the operator that makes the record NAME, and
                may share bytes with it where it begins DISTANCE bytes above it, or more. Several are separated by
                spaces
    within      NAME@DELTA: the row's record lies inside the record NAME, DELTA bytes above its begin
    object      ignored; `edgemem export -f csv` writes it

In NAME, white space and % are written as %XX (UTF-8), a space as %20. An apostrophe before a
name that begins as a formula of a spreadsheet or as a command of a log is taken away, in all columns.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import TYPE_CHECKING, ClassVar, Self, get_args
from urllib.parse import unquote

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.csv_names import name_of_cell
from edgemem.records.problem import Kind, Problem, UsageRecord
from edgemem.system.regular_files import open_regular
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    import _csv
    from pathlib import Path

    from edgemem.formats import Bindings
    from edgemem.records.problem import Size

__all__ = ["CsvConverter"]

_INCLUSIVE = ("tensor", "first_op", "last_op", "size")
_HALF_OPEN = ("id", "lower", "upper", "size")
_MORE = ("offset", "kind", "regions", "traffic", "overlap", "within", "object")
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
_NUMBER = re.compile(r"[0-9]{1,30}")
_OPERATOR = re.compile(r"-?[0-9]{1,30}")
_SIZE = re.compile(r"[0-9]{1,30}(?:[xX][0-9]{1,30}){0,2}")
_REGIONS = re.compile(r"[0-9]{1,3}(?:\|[0-9]{1,3})*")
_RELATED = re.compile(r"(\S+)@(-?[0-9]{1,30})")


class CsvConverter:
    """A file of usage records."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def problem(self) -> Problem:
        """The records, in the order of the file, unaligned."""
        return self._problem

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file; `bindings` do not apply. Raises ModelError naming the line that is wrong."""
        if bindings.dims or bindings.input_shapes:
            raise ModelError(f"{path.name}: usage records have no symbols or inputs to bind")
        try:
            with open_regular(path) as (content, _), TextIOWrapper(content, "utf-8-sig", newline="") as file:
                rows = csv.reader(file)
                header = tuple(cell.strip() for cell in next(rows, ()))
                columns, more = header[:4], header[4:]
                columns = (*columns[:-1], "size") if columns[-1:] == ("size_bytes",) else columns
                if columns not in (_INCLUSIVE, _HALF_OPEN) or set(more) - set(_MORE) or len(set(more)) < len(more):
                    raise ModelError(
                        f"{path.name}: the first line names the columns: {','.join(_INCLUSIVE)} (inclusive) "
                        f"or {','.join(_HALF_OPEN)} (half-open), and behind them any of {', '.join(_MORE)}, "
                        f"not {short_repr(','.join(header))}"
                    )
                return cls(_Reader(path.name, more, half_open=columns == _HALF_OPEN).problem(rows))
        except (OSError, UnicodeDecodeError, csv.Error) as e:
            raise ModelError(f"cannot read {path}: {e}") from None


@dataclass(slots=True)
class _Reader:
    """The columns of the rows read so far."""

    file: str
    more: tuple[str, ...]  # columns behind the first four
    half_open: bool
    names: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    sizes: list[tuple[int, ...]] = field(default_factory=list)
    pins: list[int | None] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    regions: list[tuple[int, ...]] = field(default_factory=list)
    traffic: list[int] = field(default_factory=list)
    overlap: list[tuple[int, str, int, str]] = field(default_factory=list)  # record, the other's name, number, line
    within: list[tuple[int, str, int, str]] = field(default_factory=list)

    def problem(self, rows: _csv.Reader) -> Problem:
        for row in rows:
            if row:
                self._row(row, f"{self.file}, line {rows.line_num}")
        indices: dict[str, int] = {}
        for i, name in enumerate(self.names):
            indices[name] = -1 if name in indices else i
        overlap, within = self._resolved(self.overlap, indices), self._resolved(self.within, indices)
        try:
            if not (set(self.more) - {"offset", "object"}):
                sizes = np.array(self.sizes, dtype=np.int64)
                first, last = [a for a, _ in self.spans], [b for _, b in self.spans]
                pinned = [-1 if p is None else p for p in self.pins] if "offset" in self.more else None
                flat = sizes[:, 0] if sizes.ndim == 2 and sizes.shape[1] == 1 else sizes
                return Problem.from_arrays(first, last, flat, names=self.names, pinned=pinned)
            columns = zip(
                self.names, self.spans, self.sizes, self.kinds, self.pins, self.regions, self.traffic, strict=True
            )
            records = [
                UsageRecord(name, a, b, _size(size), kind, (), pin, regions, moved)
                for name, (a, b), size, kind, pin, regions, moved in columns
            ]
            return Problem(records, overlap=overlap, within=within)
        except OverflowError:
            raise ModelError(f"{self.file}: a size does not fit in int64") from None
        except ModelError as e:
            raise ModelError(f"{self.file}: {e}") from None

    def _row(self, row: list[str], line: str) -> None:
        if len(row) != 4 + len(self.more):
            raise ModelError(f"{line}: {len(row)} fields, not {4 + len(self.more)}")
        name, low, high, size, *cells = (cell.strip() for cell in row)
        name = name_of_cell(name)
        given = dict(zip(self.more, cells, strict=True))
        if not _SIZE.fullmatch(size):
            raise ModelError(f"{line}: size {short_repr(size)} is neither bytes nor WxH or WxHxD texels")
        if not _OPERATOR.fullmatch(low) or not _OPERATOR.fullmatch(high):
            raise ModelError(f"{line}: {short_repr(low)} and {short_repr(high)} must be integers")
        begin, end = int(low), int(high) - self.half_open
        if begin < 0 or end < begin:
            raise ModelError(f"{line}: {short_repr(name)} is alive from {low} to {high}, which is no interval")
        self.sizes.append(tuple(map(int, size.lower().split("x"))))
        if len(self.sizes[-1]) != len(self.sizes[0]):
            raise ModelError(f"{line}: {short_repr(size)} has another rank than the sizes before it")
        self.names.append(name)
        self.spans.append((begin, end))
        offset = _matched(_NUMBER, given.get("offset", ""), f"{line}: offset", "no number of bytes")
        self.pins.append(int(offset) if offset else None)
        kind = given.get("kind") or "tensor"
        if kind not in _KINDS:
            raise ModelError(f"{line}: kind {short_repr(kind)} is none of {', '.join(_KINDS)}")
        self.kinds.append(_KINDS[kind])
        regions = _matched(_REGIONS, given.get("regions", ""), f"{line}: regions", "no indices such as 0|1")
        self.regions.append(tuple(map(int, regions.split("|"))) if regions else ())
        moved = _matched(_NUMBER, given.get("traffic", ""), f"{line}: traffic", "no whole number")
        self.traffic.append(int(moved or 0))
        index = len(self.names) - 1
        for what, found in (("overlap", self.overlap), ("within", self.within)):
            entries = given.get(what, "").split()
            if what == "within" and len(entries) > 1:
                raise ModelError(f"{line}: within names {len(entries)} records; a record lies inside one at most")
            for entry in entries:
                match = _RELATED.fullmatch(entry)
                if not match:
                    raise ModelError(f"{line}: {what} {short_repr(entry)} is not NAME@NUMBER; a space in NAME is %20")
                found.append((index, name_of_cell(unquote(match[1])), int(match[2]), f"{line}: {what}"))

    def _resolved(self, rows: list[tuple[int, str, int, str]], indices: dict[str, int]) -> list[tuple[int, int, int]]:
        resolved = []
        for i, name, number, where in rows:
            if indices.get(name, -1) < 0:
                many = "two records have" if name in indices else "no record has"
                raise ModelError(f"{where}: {many} the name {short_repr(name)}")
            resolved.append((i, indices[name], number))
        return resolved


def _matched(pattern: re.Pattern[str], text: str, what: str, otherwise: str) -> str:
    if text and not pattern.fullmatch(text):
        raise ModelError(f"{what} {short_repr(text)} is {otherwise}")
    return text


def _size(sides: tuple[int, ...]) -> Size:
    if len(sides) == 1:
        return sides[0]
    return (sides[0], sides[1]) if len(sides) == 2 else (sides[0], sides[1], sides[2])
