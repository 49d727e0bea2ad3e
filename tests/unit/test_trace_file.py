"""Traces in files come back as they were; what is no trace is refused."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import ModelError
from edgemem.trace import Section, Trace
from edgemem.trace.budget import ReadingBudget
from edgemem.trace.file import load_trace, save_trace

if TYPE_CHECKING:
    from pathlib import Path

TRACE = Trace.from_columns(
    [100, 8, 0],
    [0, 1, 0],
    [1, 2, 3],
    [4, 5, -1],
    stream=[0, 9, 0],
    section=[0, -1, 1],
    iteration=[-1, 0, 0],
    sections=(Section("Schicht 1 vorwärts", 3), Section("", -1, is_dynamic=True)),
)
COLUMNS = ("size", "request", "time_ns", "thread", "stream", "section", "iteration")


def _npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(values), allow_pickle=True)
    return file.getvalue()


def _archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_members_packed_as_numpy_never_packs_them_are_refused(tmp_path: Path, method: int) -> None:
    """Their readers raise errors of their own for damaged data, such as lzma.LZMAError."""
    path = tmp_path / "run.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in ("size", "request"):
            archive.writestr(f"{name}.npy", _npy(np.zeros(4000, np.int64)))
    data = bytearray(path.read_bytes())
    data[60:90] = bytes(30)
    path.write_bytes(data)
    with pytest.raises(ModelError, match="packed in another way than NumPy packs columns"):
        load_trace(path)


def test_a_small_file_does_not_unpack_into_much_memory(tmp_path: Path) -> None:
    zeros = np.zeros(1 << 26, np.uint8)
    members = {**GOOD, **_sections([0], [1], [0], [0]), "names": _npy(zeros)}
    path = _archive(tmp_path / "run.npz", **members)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ModelError, match="its names have more than 67,108,864 bytes"):
        load_trace(path)
    path = _archive(path, **{**GOOD, "thread": _npy(zeros.view(np.int64))})
    with pytest.raises(ModelError, match=r"thread.npy has more than 5,000,000 entries; record fewer iterations"):
        load_trace(path)


@pytest.mark.parametrize("trace", [TRACE, Trace.from_stream([]), Trace.from_stream([5, -1])])
def test_a_trace_comes_back(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    save_trace(trace, path)
    back = load_trace(path)
    for name in COLUMNS:
        assert getattr(back, name).tolist() == getattr(trace, name).tolist()
    assert back.sections == trace.sections


def test_columns_that_are_left_out_have_their_defaults(tmp_path: Path) -> None:
    path = _archive(tmp_path / "run.npz", size=_npy([8, 0]), request=_npy([0, 0]))
    assert load_trace(path).section.tolist() == [-1, -1]


def _sections(names: list[int], ends: list[int], phase: list[int], dynamic: list[int]) -> dict[str, bytes]:
    columns = {"ends": ends, "phase": phase, "dynamic": dynamic}
    return {name: _npy(np.array(values, np.int64)) for name, values in columns.items()} | {
        "names": _npy(np.array(names, np.uint8))
    }


GOOD = {"size": _npy([8, 0]), "request": _npy([0, 0])}


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({}, "it has no sizes or requests"),
        ({**GOOD, "size": _npy([8.5, 0])}, "size.npy is no column of int64"),
        ({**GOOD, "size": _npy([[8], [0]])}, "size.npy is no column"),
        ({**GOOD, "size": _npy(np.array([8, None]))}, "size.npy is no column"),
        ({**GOOD, "size": _npy([8, 0])[:-1]}, "size.npy is no column"),
        ({**GOOD, "size": b"no array"}, "is no trace that edgemem wrote"),
        ({**GOOD, "size": _npy([8, 0]).replace(b"(2,)", b"(9,)")}, "size.npy is no column"),
        ({**GOOD, "size": _npy([8, 0]).replace(b"(2,)", b"(2, ")}, "size.npy is no column"),
        ({**GOOD, "size": _npy([8, 0]).replace(b"NUMPY\x01", b"NUMPY\x02")}, "of a version that NumPy does not write"),
        ({**GOOD, "request": _npy([0, 1])}, "frees request 1, which is not alive"),
        ({**GOOD, "thread": _npy([0])}, "differ in length"),
        (GOOD | _sections([255], [1], [0], [0]), "one of the names is not UTF-8"),
        (GOOD | _sections([65], [2], [0], [0]), "do not fit together"),
        (GOOD | _sections([65], [1], [], [0]), "do not fit together"),
        (GOOD | _sections([65, 65], [2, 1], [0, 0], [0, 0]), "do not fit together"),
    ],
)
def test_what_is_no_trace_is_refused(members: dict[str, bytes], says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load_trace(_archive(tmp_path / "run.npz", **members))
    assert says in str(caught.value)


def test_a_member_that_grows_without_end_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemem.trace.columns.ReadingBudget", lambda: ReadingBudget(unpacked=1 << 20))
    path = _archive(tmp_path / "run.npz", **{**GOOD, "size": bytes((1 << 20) + 1)})
    assert path.stat().st_size < 1 << 14
    with pytest.raises(ModelError, match="unpacks into more than"):
        load_trace(path)


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"text")
    for name in ("a.npz", "none.npz"):
        with pytest.raises(ModelError, match="is no trace that edgemem wrote"):
            load_trace(tmp_path / name)
