"""Traces in files: a ZIP archive of NumPy columns (`.npz`) without pickles.

The members are `size`, `request`, `time_ns`, `thread`, `stream`, `section` and `iteration`, a value for each event, and
for the sections `phase`, `dynamic`, and their names as UTF-8 in `names`, of which name i ends at `ends[i]`. All are
int64 but `names`, whose bytes are uint8. A column that is left out has the default of `Trace.from_columns`.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.files import atomic_write
from edgemem.reading import open_regular
from edgemem.trace.trace import Section, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["load_trace", "save_trace"]

_COLUMNS: Final = ("size", "request", "time_ns", "thread", "stream", "section", "iteration")
_SECTIONS: Final = ("names", "ends", "phase", "dynamic")
_MOST_BYTES: Final = 1 << 30  # of one member


def save_trace(trace: Trace, path: Path) -> None:
    """Write a trace, whole or not at all. Raises OSError if the file cannot be written."""
    names = [section.name.encode() for section in trace.sections]
    columns = {name: getattr(trace, name) for name in _COLUMNS} | {
        "names": np.frombuffer(b"".join(names), np.uint8),
        "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        "phase": np.array([section.phase for section in trace.sections], np.int64),
        "dynamic": np.array([section.is_dynamic for section in trace.sections], np.int64),
    }
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **columns)


def load_trace(path: Path) -> Trace:
    """The trace in a file.

    Raises ModelError if the file cannot be read, has columns of other types, or of more than 1 GiB, or is no trace.
    """
    try:
        with open_regular(path) as (file, _), zipfile.ZipFile(file) as archive:
            given = {info.filename: info for info in archive.infolist()}
            columns = {name: _column(archive, given.get(f"{name}.npy")) for name in (*_COLUMNS, *_SECTIONS)}
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as e:
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


def _column(archive: zipfile.ZipFile, info: zipfile.ZipInfo | None) -> NDArray[np.int64] | None:
    """One member; None if it is not there. Raises ValueError if it is no column."""
    if info is None:
        return None
    if info.file_size > _MOST_BYTES:
        raise ValueError(f"{info.filename} has more than {_MOST_BYTES:,} bytes")
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    header = io.BytesIO(data)
    shape, dtype = _header(header)
    kind = np.dtype(np.uint8) if info.filename == "names.npy" else np.dtype("<i8")
    values = memoryview(data)[header.tell() :]
    if dtype != kind or len(shape) != 1 or len(values) != shape[0] * kind.itemsize:
        raise ValueError(f"{info.filename} is no column of {kind}")
    return np.frombuffer(values, kind).astype(np.int64)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Shape and type of an array in a .npy file. Raises ValueError if it has another version than NumPy writes."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is of a version that NumPy does not write for columns")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


def _sections(columns: dict[str, NDArray[np.int64] | None]) -> tuple[Section, ...]:
    text, ends, phases, dynamic = (columns[name] for name in _SECTIONS)
    if text is None or ends is None or phases is None or dynamic is None:
        return ()
    lengths = np.diff(ends, prepend=0)
    if not len(ends) == len(phases) == len(dynamic) or (lengths < 0).any() or lengths.sum() != len(text):
        raise ModelError("the names of its sections do not fit together")
    joined = text.astype(np.uint8).tobytes()
    try:
        names = [joined[end - length : end].decode() for end, length in zip(ends, lengths, strict=True)]
    except UnicodeDecodeError:
        raise ModelError("a name of its sections is not UTF-8") from None
    return tuple(
        Section(name, phase, bool(is_dynamic))
        for name, phase, is_dynamic in zip(names, phases.tolist(), dynamic.tolist(), strict=True)
    )
