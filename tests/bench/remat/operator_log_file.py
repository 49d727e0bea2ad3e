"""Operator logs in files: a ZIP archive of NumPy columns (`.npz`) without pickles.

The members are `name`, `cost` and `takes`, a value for each call; `read_starts`, `read_items`, `write_starts` and
`write_items`, the values that calls read and write (`edgemem.trace.Ragged`); `size`, for each value; `event_kind` and
`event_index`, for each event; and the names as UTF-8 in `names`, of which name i ends at `ends[i]`. All are int64 but
`names`, whose bytes are uint8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.trace.columns import packed_names, read_columns, write_columns
from tests.bench.remat.operator_log import OperatorLog
from tests.bench.remat.ragged import Ragged

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_operator_log", "save_operator_log"]

_PLAIN: Final = ("name", "cost", "takes", "size", "event_kind", "event_index")
_RAGGED: Final = ("read_starts", "read_items", "write_starts", "write_items")


def save_operator_log(log: OperatorLog, path: Path) -> None:
    """Write an operator log, whole or not at all. Raises OSError if the file cannot be written."""
    columns = {name: getattr(log, name) for name in _PLAIN} | packed_names(log.names)
    columns |= {
        "read_starts": log.reads.starts,
        "read_items": log.reads.items,
        "write_starts": log.writes.starts,
        "write_items": log.writes.items,
    }
    write_columns(path, columns)


def load_operator_log(path: Path) -> OperatorLog:
    """The operator log in a file.

    Raises ModelError if the file cannot be read, is beyond a `ReadingBudget`, or is no log.
    """
    try:
        given = read_columns(path, (*_PLAIN, *_RAGGED))
    except ModelError as e:
        raise ModelError(f"{path.name} is no operator log that edgemem wrote: {e}") from None
    columns = given.numbers
    missing = sorted({*_PLAIN, *_RAGGED} - columns.keys()) + ["names"] * (given.names is None)
    if given.names is None or missing:
        raise ModelError(f"{path.name} is no operator log that edgemem wrote: it has no {missing[0]}")
    try:
        return OperatorLog.from_columns(
            names=given.names,
            reads=Ragged(columns["read_starts"], columns["read_items"]),
            writes=Ragged(columns["write_starts"], columns["write_items"]),
            **{name: columns[name] for name in _PLAIN},
        )
    except ModelError as e:
        raise ModelError(f"{path.name}: {e}") from None
