"""Where the shared data sets lie: beside the checkout, or where EDGEMEM_SHARED says. They are not part of it."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

__all__ = ["shared_data", "shared_records"]


def shared_data() -> Path:
    """The data directory; skips the test when there is none."""
    beside = Path(__file__).parents[1].parent / "shared"
    data = Path(os.environ.get("EDGEMEM_SHARED", beside)) / "data"
    if not data.is_dir():
        pytest.skip(f"no data sets at {data}; set EDGEMEM_SHARED")
    return data


def shared_records(name: str) -> list[tuple[int, int, int]]:
    """The usage records of `records/NAME.csv` as (first_op, last_op, size in bytes)."""
    path = shared_data() / "records" / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"no {path.name} among the data sets")
    with path.open(newline="") as rows:
        return [(int(r["first_op"]), int(r["last_op"]), int(r["size_bytes"])) for r in csv.DictReader(rows)]
