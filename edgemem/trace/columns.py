"""Columns in files: a ZIP archive of NumPy arrays (`.npz`) without pickles; int64, but bytes in `names`."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from edgemem.errors import ModelError
from edgemem.system.files import atomic_write
from edgemem.system.regular_files import open_regular
from edgemem.system.zip_errors import ZIP_ERRORS
from edgemem.trace.budget import MOST_BYTES, MOST_ITEMS, ReadingBudget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Columns", "packed_names", "read_columns", "write_columns"]

_INT64: Final = np.dtype("<i8")
_UINT8: Final = np.dtype(np.uint8)
_Number = TypeVar("_Number", bound=np.integer[Any])
_MOST_TEXT: Final = 1 << 26  # bytes of all names
_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy writes members
# What NumPy writes before the values of an array of one dimension. Its own reader evaluates the header as Python does.
_MAGIC: Final = b"\x93NUMPY\x01\x00"
_HEADER: Final = re.compile(rb"\{'descr': '(.{3})', 'fortran_order': (?:False|True), 'shape': \((\d{1,15}),\), \} *\n")


def write_columns(path: Path, columns: Mapping[str, NDArray[np.int64] | NDArray[np.uint8]]) -> None:
    """Write columns, all or none. Raises OSError if the file cannot be written."""
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **columns)


@dataclass(frozen=True, slots=True)
class Columns:
    """What is in a file.

    Attributes:
        numbers: int64 columns by name, without those that the file does not have.
        names: the names; None if the file has none.
    """

    numbers: Mapping[str, NDArray[np.int64]]
    names: tuple[str, ...] | None


def read_columns(path: Path, names: Sequence[str]) -> Columns:
    """The columns of these names, and the names in the file.

    Raises ModelError if the file cannot be read, a column has another type, or they are beyond a `ReadingBudget`.
    """
    budget = ReadingBudget()
    try:
        with open_regular(path) as (file, size):
            if size > MOST_BYTES:
                raise ModelError(f"it has more than {MOST_BYTES:,} bytes, the most that is read")
            with zipfile.ZipFile(file) as archive:
                given = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                numbers = {name: _column(archive, given[name], _INT64, budget) for name in names if name in given}
                if not given.keys() >= {"names", "ends"}:
                    return Columns(numbers, None)
                if given["names"].file_size > _MOST_TEXT:
                    raise ModelError(f"its names have more than {_MOST_TEXT:,} bytes")
                text = _column(archive, given["names"], _UINT8, budget)
                return Columns(numbers, _unpacked_names(text, _column(archive, given["ends"], _INT64, budget)))
    except (OSError, *ZIP_ERRORS) as e:
        raise ModelError(str(e)) from None


def packed_names(names: Sequence[str]) -> dict[str, NDArray[np.int64] | NDArray[np.uint8]]:
    """Names as columns: UTF-8 in `names`, of which name i ends at `ends[i]`."""
    encoded = [name.encode() for name in names]
    return {
        "names": np.frombuffer(b"".join(encoded), np.uint8),
        "ends": np.cumsum([len(name) for name in encoded], dtype=np.int64),
    }


def _unpacked_names(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[str, ...]:
    """The names of two columns. Raises ModelError if the columns do not fit together, or are no UTF-8."""
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any() or lengths.sum() != len(text):
        raise ModelError("the names and their ends do not fit together")
    joined = text.tobytes()
    try:
        return tuple(joined[end - length : end].decode() for end, length in zip(ends, lengths, strict=True))
    except UnicodeDecodeError:
        raise ModelError("one of the names is not UTF-8") from None


def _column(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, kind: np.dtype[_Number], budget: ReadingBudget
) -> NDArray[_Number]:
    """One member. Raises ValueError if it is no column of this type."""
    if info.compress_type not in _PACKED:  # others raise errors of their own
        raise ValueError(f"{info.filename} is packed in another way than NumPy packs columns")
    budget.unpack(info.file_size)
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    if data[:8] != _MAGIC:
        raise ValueError("an array is of a version that NumPy does not write for columns")
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = _HEADER.fullmatch(data[10:begin])
    values = memoryview(data)[begin:]
    if header is None or header[1] != kind.str.encode() or len(values) != int(header[2]) * kind.itemsize:
        raise ValueError(f"{info.filename} is no column of {kind}")
    if kind == _INT64 and int(header[2]) > MOST_ITEMS:
        raise ValueError(f"{info.filename} has more than {MOST_ITEMS:,} entries; record fewer iterations")
    return np.frombuffer(values, kind)
