"""Usage records as CSV.

Columns `tensor,first_op,last_op,size` (inclusive operator indices) or `id,lower,upper,size` (half-open). The last
column may be called `size_bytes`. A size is bytes, or `WxH` or `WxHxD` texels for shared objects on textures. One more
column, `offset`, may say where in the arena a record must be (bytes); an empty field leaves it free.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.problem import Problem

if TYPE_CHECKING:
    import _csv
    from pathlib import Path

    from edgemem.formats import Bindings

__all__ = ["CsvConverter"]

_INCLUSIVE = ("tensor", "first_op", "last_op", "size")
_HALF_OPEN = ("id", "lower", "upper", "size")
_OFFSET = re.compile(r"\d+")
_SIZE = re.compile(r"\d+(?:[xX]\d+){0,2}")


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
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = csv.reader(file)
                header = tuple(cell.strip() for cell in next(rows, ()))
                pinned = header[-1:] == ("offset",)
                columns = header[:-1] if pinned else header
                columns = (*columns[:-1], "size") if columns[-1:] == ("size_bytes",) else columns
                if columns not in (_INCLUSIVE, _HALF_OPEN):
                    raise ModelError(
                        f"{path.name}: the first line names the columns: {','.join(_INCLUSIVE)} (inclusive) "
                        f"or {','.join(_HALF_OPEN)} (half-open), and at most offset behind them, "
                        f"not {','.join(header)!r}"
                    )
                return cls(_problem(rows, path.name, half_open=columns == _HALF_OPEN, pinned=pinned))
        except (OSError, UnicodeDecodeError, csv.Error) as e:
            raise ModelError(f"cannot read {path}: {e}") from None


def _problem(rows: _csv.Reader, where: str, *, half_open: bool, pinned: bool) -> Problem:
    names: list[str] = []
    first: list[int] = []
    last: list[int] = []
    sizes: list[tuple[int, ...]] = []
    pins: list[int] = []
    for row in rows:
        if not row:
            continue
        line = f"{where}, line {rows.line_num}"
        if len(row) != len(_INCLUSIVE) + pinned:
            raise ModelError(f"{line}: {len(row)} fields, not {len(_INCLUSIVE) + pinned}")
        name, low, high, size, *offset = (cell.strip() for cell in row)
        if any(o and not _OFFSET.fullmatch(o) for o in offset):
            raise ModelError(f"{line}: offset {offset[0]!r} is no number of bytes")
        if not _SIZE.fullmatch(size):
            raise ModelError(f"{line}: size {size!r} is neither bytes nor WxH or WxHxD texels")
        try:
            begin, end = int(low), int(high) - half_open
        except ValueError:
            raise ModelError(f"{line}: {low!r} and {high!r} must be integers") from None
        if begin < 0 or end < begin:
            raise ModelError(f"{line}: {name!r} is alive from {low} to {high}, which is no interval")
        pins += [int(o) if o else -1 for o in offset]
        names.append(name)
        first.append(begin)
        last.append(end)
        sizes.append(tuple(map(int, size.lower().split("x"))))
        if len(sizes[-1]) != len(sizes[0]):
            raise ModelError(f"{line}: {size!r} has another rank than the sizes before it")
    try:
        columns = np.array(sizes, dtype=np.int64)
    except OverflowError:
        raise ModelError(f"{where}: a size does not fit in int64") from None
    bytes_or_texels = columns[:, 0] if columns.ndim == 2 and columns.shape[1] == 1 else columns
    return Problem.from_arrays(first, last, bytes_or_texels, names=names, pinned=pins if pinned else None)
