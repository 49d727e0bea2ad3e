"""Logs of what a program ran: what is right, what is refused, and files of them."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import ModelError
from tests.bench.remat.log_files import load_operator_log
from tests.bench.remat.operator_log import OperatorLog
from tests.bench.remat.operator_log_file import save_operator_log
from tests.bench.remat.ragged import Ragged
from tests.operator_logs import LogBuilder, chain, flat, random_log

if TYPE_CHECKING:
    from pathlib import Path

# x = constant; y = f(x); y.g_() makes z; del z
GOOD: dict[str, Any] = {
    "names": ("f", "g_"),
    "name": [0, 1],
    "cost": [5, 7],
    "reads": [[0], [1]],
    "writes": [[1], [2]],
    "takes": [-1, 1],
    "size": [4, 8, 8],
    "event_kind": [1, 0, 0, 2],
    "event_index": [0, 0, 1, 2],
}


def test_a_log_has_what_it_was_given() -> None:
    log = OperatorLog.from_columns(**GOOD)
    assert (log.total_cost, log.constants.tolist(), log.reads.rows()) == (12, [0], ((0,), (1,)))
    assert repr(log) == "OperatorLog(2 calls, 3 values, 0.0 ms, 20 bytes made)"


def test_the_peak_counts_memory_that_is_taken_over_once() -> None:
    assert OperatorLog.from_columns(**GOOD).peak == 12
    made = LogBuilder()
    x = made.constant(100)
    (y,) = made.call(1, (x,), 50)
    made.let_go(x)
    made.call(1, (y,), 70)
    assert made.log().peak == 150


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": [0]}, "differ in length"),
        ({"takes": [-1]}, "differ in length"),
        ({"event_kind": [1, 0, 0]}, "differ in length"),
        ({"name": [0, 2]}, "not among the names"),
        ({"cost": [5, -1]}, "a cost is negative"),
        ({"size": [4, -8, -8]}, "a size is negative"),
        ({"size": [1 << 61, 8, 8]}, "the sizes add up to more than"),
        ({"cost": [1 << 50, 1]}, "the costs add up to more than"),
        ({"reads": [[3], [1]]}, "a value that the log does not have"),
        ({"writes": [[1], [-1]]}, "a value that the log does not have"),
        ({"takes": [-1, -2]}, "a value that the log does not have"),
        ({"event_kind": [1, 0, 0, 5]}, "event 3 is none"),
        ({"event_index": [0, 0, 1, 3]}, "event 3 is none"),
        ({"event_index": [0, 1, 0, 2]}, "call 0 is the next one"),
        ({"event_kind": [1, 0, 0, 1]}, "appears at event 3, but it is there"),
        ({"event_index": [0, 0, 1, 1]}, "lets go of value 1, which the program does not hold"),
        ({"event_kind": [1, 0, 2], "event_index": [0, 0, 1]}, "call 1 never runs"),
        ({"size": [4, 8, 8, 8]}, "value 3 is never made"),
        ({"event_kind": [1, 0, 2, 0], "event_index": [0, 0, 1, 1]}, "call 1 reads value 1, which the program does not"),
        ({"reads": [[0, 0], [1]]}, "names a value twice"),
        ({"writes": [[1], [1]]}, "writes value 1, which is there already"),
        ({"takes": [-1, 0]}, "takes the memory of value 0; it must read it"),
        ({"size": [4, 8, 9]}, "must be as large"),
        ({"cost": [[5, 7]]}, "more than one dimension"),
        ({"cost": ["a", 7]}, "no integer of 64 bits"),
        ({"cost": [1 << 70, 7]}, "no integer of 64 bits"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        OperatorLog.from_columns(**(GOOD | change))


def test_columns_are_copies_that_nobody_changes() -> None:
    cost = np.array([5, 7])
    log = OperatorLog.from_columns(**(GOOD | {"cost": cost}))
    cost[0] = 0
    assert log.total_cost == 12
    with pytest.raises(ValueError, match="read-only"):
        log.cost[0] = 1


@pytest.mark.parametrize("starts", [[], [1, 2], [0, 1], [0, 3, 2], [0, 2, 1, 2]])
def test_rows_that_do_not_divide_their_items_are_refused(starts: list[int]) -> None:
    with pytest.raises(ModelError, match="do not divide"):
        Ragged(np.array(starts, np.int64), np.array([7, 8], np.int64))


def test_rows_come_back() -> None:
    rows = ((1, 2), (), (3,))
    assert Ragged.from_rows(rows).rows() == rows
    assert len(Ragged.from_rows(rows)) == 3
    assert Ragged.from_rows([]).rows() == ()


@pytest.mark.parametrize("log", [chain(3), random_log(1), LogBuilder().log(), OperatorLog.from_columns(**GOOD)])
def test_a_log_comes_back_from_a_file(log: OperatorLog, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    save_operator_log(log, path)
    assert flat(load_operator_log(path)) == flat(log)


def _rewritten(path: Path, **changes: Any) -> Path:
    """The file with other columns; None leaves one out."""
    save_operator_log(OperatorLog.from_columns(**GOOD), path)
    with np.load(path) as archive:
        columns = dict(archive) | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, column in columns.items():
            if column is not None:
                file = io.BytesIO()
                np.lib.format.write_array(file, np.asarray(column))
                archive.writestr(f"{name}.npy", file.getvalue())
    return path


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cost": None}, "it has no cost"),
        ({"cost": [0.5, 1.5]}, "cost.npy is no column"),
        ({"ends": [1, 9]}, "do not fit together"),
        ({"read_starts": [0, 3, 2]}, "do not divide"),
        ({"event_index": [0, 0, 1, 1]}, "lets go of value 1"),
    ],
)
def test_files_that_hold_no_log_are_refused(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = _rewritten(tmp_path / "run.npz", **changes)
    with pytest.raises(ModelError, match=told):
        load_operator_log(path)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.npz").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no operator log that edgemem wrote"):
        load_operator_log(tmp_path / "run.npz")


def test_a_name_that_no_format_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"ends in \.log, \.log\.gz or \.npz"):
        load_operator_log(tmp_path / "run.txt")
