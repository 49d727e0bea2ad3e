"""Traces in columns (`.npz`): damaged archives, and columns that contradict each other."""

from __future__ import annotations

import atexit
import io
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgemem.trace import Section, Trace
from edgemem.trace.file import load_trace, save_trace
from tests.fuzz.cases import Target
from tests.fuzz.mutation import edge, mutate_bytes
from tests.fuzz.snapshot_files import use_trace

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _run(data: bytes) -> None:
    path = _PLACE / "run.npz"
    path.write_bytes(data)
    use_trace(load_trace(path))


def _seeds() -> list[bytes]:
    trace = Trace.from_columns(
        [8, 4, 0, 0, 8, 4, 0, 0],
        [0, 1, 0, 1, 2, 3, 2, 3],
        iteration=[0] * 4 + [1] * 4,
        section=[0, 1, -1, -1] * 2,
        sections=(Section("a", 1), Section("experts", is_dynamic=True)),
    )
    path = _PLACE / "seed.npz"
    save_trace(trace, path)
    return [path.read_bytes()]


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if chance.random() < 0.3:
        return mutate_bytes(chance, data, others)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # noqa: BLE001 - the archive is damaged
        return mutate_bytes(chance, data, others)
    name = chance.choice(list(members))
    if chance.random() < 0.7:
        members[name] = _changed(chance, members[name])
    elif chance.random() < 0.5:
        members[name] = mutate_bytes(chance, members[name], list(members.values()))
    else:
        del members[name]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", chance.choice(_METHODS)) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return file.getvalue()


def _changed(chance: random.Random, member: bytes) -> bytes:
    """Another value in a column, or another length."""
    try:
        column = np.lib.format.read_array(io.BytesIO(member))
    except ValueError:
        return member
    if len(column) and chance.random() < 0.6:
        value = edge(chance, int(np.iinfo(column.dtype).max))
        column[chance.randrange(len(column))] = value if chance.random() < 0.5 else min(value, len(column))
    else:
        column = np.resize(column, chance.choice((0, 1, len(column) + 1, 2 * len(column), 5_000_001)))
    file = io.BytesIO()
    np.lib.format.write_array(file, column)
    return file.getvalue()


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-columns-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, _seeds, _mutate)
