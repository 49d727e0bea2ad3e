"""Traces in files: a ZIP archive of NumPy columns (`.npz`) without pickles.

The members are `size`, `request`, `time_ns`, `thread`, `stream`, `section` and `iteration`, a value for each event, and
for the sections `phase`, `dynamic`, and their names as UTF-8 in `names`, of which name i ends at `ends[i]`. All are
int64 but `names`, whose bytes are uint8. A column that is left out has the default of `Trace.from_columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.trace.columns import packed_names, read_columns, unpacked_names, write_columns
from edgemem.trace.trace import Section, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["load_trace", "save_trace"]

_COLUMNS: Final = ("size", "request", "time_ns", "thread", "stream", "section", "iteration")
_SECTIONS: Final = ("names", "ends", "phase", "dynamic")


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

    Raises ModelError if the file cannot be read, has columns of other types, or of more than 1 GiB, or is no trace.
    """
    try:
        columns = read_columns(path, (*_COLUMNS, *_SECTIONS))
    except ModelError as e:
        raise ModelError(f"{path.name} is no trace that edgemem wrote: {e}") from None
    size, request = columns["size"], columns["request"]
    if size is None or request is None:
        raise ModelError(f"{path.name} is no trace that edgemem wrote: it has no sizes or requests")
    try:
        return Trace.from_columns(
            size,
            request,
            columns["time_ns"],
            columns["thread"],
            stream=columns["stream"],
            section=columns["section"],
            iteration=columns["iteration"],
            sections=_sections(columns),
        )
    except ModelError as e:
        raise ModelError(f"{path.name}: {e}") from None


def _sections(columns: dict[str, NDArray[np.int64] | None]) -> tuple[Section, ...]:
    text, ends, phases, dynamic = (columns[name] for name in _SECTIONS)
    if text is None or ends is None or phases is None or dynamic is None:
        return ()
    if not len(ends) == len(phases) == len(dynamic):
        raise ModelError("the columns of its sections do not fit together")
    return tuple(
        Section(name, phase, bool(is_dynamic))
        for name, phase, is_dynamic in zip(unpacked_names(text, ends), phases.tolist(), dynamic.tolist(), strict=True)
    )
