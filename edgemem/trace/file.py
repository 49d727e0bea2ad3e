"""Traces in files: a ZIP archive of NumPy columns (`.npz`) without pickles.

The members are `size`, `request`, `time_ns`, `thread`, `stream`, `section` and `iteration`, a value for each event, and
for the sections `phase`, `dynamic`, and their names as UTF-8 in `names`, of which name i ends at `ends[i]`. All are
int64 but `names`, whose bytes are uint8. A column that is left out has the default of `Trace.from_columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.trace.columns import packed_names, read_columns, write_columns
from edgemem.trace.trace import Section, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.trace.columns import Columns

__all__ = ["load_trace", "save_trace"]

_COLUMNS: Final = ("size", "request", "time_ns", "thread", "stream", "section", "iteration")
_SECTIONS: Final = ("phase", "dynamic")


def save_trace(trace: Trace, path: Path) -> None:
    """Write a trace, whole or not at all. Raises OSError if the file cannot be written."""
    columns = {name: getattr(trace, name) for name in _COLUMNS} | packed_names([s.name for s in trace.sections])
    columns |= {
        "phase": np.array([section.phase for section in trace.sections], np.int64),
        "dynamic": np.array([section.is_dynamic for section in trace.sections], np.int64),
    }
    write_columns(path, columns)


def load_trace(path: Path) -> Trace:
    """The trace in a file.

    Raises ModelError if the file cannot be read, is beyond a `ReadingBudget`, or is no trace.
    """
    try:
        columns = read_columns(path, (*_COLUMNS, *_SECTIONS))
    except ModelError as e:
        raise ModelError(f"{path.name} is no trace that edgemem wrote: {e}") from None
    given = columns.numbers
    if not given.keys() >= {"size", "request"}:
        raise ModelError(f"{path.name} is no trace that edgemem wrote: it has no sizes or requests")
    try:
        return Trace.from_columns(
            given["size"],
            given["request"],
            given.get("time_ns"),
            given.get("thread"),
            stream=given.get("stream"),
            section=given.get("section"),
            iteration=given.get("iteration"),
            sections=_sections(columns),
        )
    except ModelError as e:
        raise ModelError(f"{path.name}: {e}") from None


def _sections(columns: Columns) -> tuple[Section, ...]:
    names, given = columns.names, columns.numbers
    if names is None or not given.keys() >= set(_SECTIONS):
        return ()
    phases, dynamic = (given[name].tolist() for name in _SECTIONS)
    if not len(names) == len(phases) == len(dynamic):
        raise ModelError("the columns of its sections do not fit together")
    return tuple(map(Section, names, phases, map(bool, dynamic)))
