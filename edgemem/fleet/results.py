"""Tables of rows in files: Parquet, CSV or JSON, by the ending of the name."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError
from edgemem.fleet.secrets import is_url
from edgemem.fleet.sources import file_system, write_url
from edgemem.report.csv import cell_text
from edgemem.system.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.fleet.task import FleetRow

__all__ = ["check_writable", "table_of", "write_results"]


def table_of(rows: Sequence[FleetRow]) -> list[dict[str, Any]]:
    """The rows with the same columns in each; null for a figure that a row does not have."""
    figures = list(dict.fromkeys(name for row in rows for name in row.figures))
    return [
        {
            "name": _unicode(row.name),
            "options": row.label,
            "digest": row.digest,
            "status": row.status,
            "message": _unicode(row.message),
            "code": row.code,
            **{name: row.figures.get(name) for name in figures},
            "cpu_s": row.cpu_s,
            "peak_rss": row.peak,
        }
        for row in rows
    ]


def _unicode(text: str) -> str:
    """Without the bytes of file names that are no characters."""
    return text.encode(errors="backslashreplace").decode()


def check_writable(where: str) -> None:
    """Raise for a file that cannot be written, before there is anything to write.

    Raises MissingDependencyError if pyarrow, which writes Parquet, is not installed, or fsspec for a URL, ModelError
    for a URL that nothing here opens, and OSError where there is no folder for the file.
    """
    if is_url(where):
        file_system(where)
    elif not (folder := Path(where).absolute().parent).is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    if where.lower().endswith(".parquet"):
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise MissingDependencyError(purpose="a file of results as Parquet", package="pyarrow") from None


def write_results(where: str, rows: Sequence[FleetRow]) -> None:
    """Write a file of results, whole or not at all, at a path or a URL.

    Raises OSError if it cannot be written; an older file is then as it was.
    """
    content = _WRITERS[Path(where).suffix.lower()](table_of(rows))
    if is_url(where):
        system, path = file_system(where)
        write_url(system, path, content)
    else:
        with atomic_write(Path(where)) as file:
            file.write(content)


def _parquet(table: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: pa.array([row[name] for row in table]) for name in table[0]} if table else {}
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream)
    return stream.getvalue()


def _csv(table: list[dict[str, Any]]) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(table[0]) if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "name": cell_text(row["name"])} for row in table)
    return stream.getvalue().encode()


def _json(table: list[dict[str, Any]]) -> bytes:
    return (json.dumps(table, indent=1) + "\n").encode()


_WRITERS: Final = {".parquet": _parquet, ".csv": _csv, ".json": _json}
