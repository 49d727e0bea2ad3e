"""Columns in files: a ZIP archive of NumPy arrays (`.npz`) without pickles; int64, but bytes in `names`."""

from __future__ import annotations

import re
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.files import atomic_write
from edgemem.reading import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["packed_names", "read_columns", "unpacked_names", "write_columns"]

_MOST_BYTES: Final = 1 << 30  # of one member
# What NumPy writes before the values of an array of one dimension. Its own reader evaluates the header as Python does.
_MAGIC: Final = b"\x93NUMPY\x01\x00"
_HEADER: Final = re.compile(rb"\{'descr': '(.{3})', 'fortran_order': (?:False|True), 'shape': \((\d{1,15}),\), \} *\n")


def write_columns(path: Path, columns: Mapping[str, NDArray[np.int64] | NDArray[np.uint8]]) -> None:
    """Write columns, all or none. Raises OSError if the file cannot be written."""
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **columns)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, NDArray[np.int64] | None]:
    """The columns of these names; None for what the file does not have.

    Raises ModelError if the file cannot be read, or a column has another type, or more than 1 GiB.
    """
    try:
        with open_regular(path) as (file, _), zipfile.ZipFile(file) as archive:
            given = {info.filename: info for info in archive.infolist()}
            return {name: _column(archive, given.get(f"{name}.npy")) for name in names}
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as e:
        raise ModelError(str(e)) from None


def packed_names(names: Sequence[str]) -> dict[str, NDArray[np.int64] | NDArray[np.uint8]]:
    """Names as columns: UTF-8 in `names`, of which name i ends at `ends[i]`."""
    encoded = [name.encode() for name in names]
    return {
        "names": np.frombuffer(b"".join(encoded), np.uint8),
        "ends": np.cumsum([len(name) for name in encoded], dtype=np.int64),
    }


def unpacked_names(text: NDArray[np.int64], ends: NDArray[np.int64]) -> list[str]:
    """The names of two columns. Raises ModelError if the columns do not fit together, or are no UTF-8."""
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any() or lengths.sum() != len(text):
        raise ModelError("the names and their ends do not fit together")
    joined = text.astype(np.uint8).tobytes()
    try:
        return [joined[end - length : end].decode() for end, length in zip(ends, lengths, strict=True)]
    except UnicodeDecodeError:
        raise ModelError("one of the names is not UTF-8") from None


def _column(archive: zipfile.ZipFile, info: zipfile.ZipInfo | None) -> NDArray[np.int64] | None:
    """One member; None if it is not there. Raises ValueError if it is no column."""
    if info is None:
        return None
    if info.file_size > _MOST_BYTES:
        raise ValueError(f"{info.filename} has more than {_MOST_BYTES:,} bytes")
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    if data[:8] != _MAGIC:
        raise ValueError("an array is of a version that NumPy does not write for columns")
    kind = np.dtype(np.uint8) if info.filename == "names.npy" else np.dtype("<i8")
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = _HEADER.fullmatch(data[10:begin])
    values = memoryview(data)[begin:]
    if header is None or header[1] != kind.str.encode() or len(values) != int(header[2]) * kind.itemsize:
        raise ValueError(f"{info.filename} is no column of {kind}")
    return np.frombuffer(values, kind).astype(np.int64)
