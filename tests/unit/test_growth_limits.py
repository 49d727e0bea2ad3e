"""A limit for growth is a decimal number: growth of exactly that share is within it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def records(path: Path, size: int) -> Path:
    path.write_text(f"tensor,first_op,last_op,size\na,0,2,{size}\n")
    return path


@pytest.mark.parametrize("base", [100, 1000, 4096 * 100, 1_000_000])
@pytest.mark.parametrize("percent", ["1", "2", "5", "10", "2.5"])
def test_growth_of_exactly_the_limit_passes(base: int, percent: str, tmp_path: Path) -> None:
    grown = base + round(base * float(percent) / 100)
    for size, code in ((grown, 0), (grown + 1, 1)):
        files = records(tmp_path / "a.csv", base), records(tmp_path / "b.csv", size)
        limit = f"{percent}%" if (grown - base) * 100 == float(percent) * base else f"{(grown - base) * 100 / base}%"
        done = CliRunner().invoke(main, ["diff", *map(str, files), "--fail-above", limit])
        assert done.exit_code == code, done.output
    assert edgemem.diff(tmp_path / "a.csv", records(tmp_path / "b.csv", base + base // 50)).exceeds(0.02) is False


@pytest.mark.parametrize(("before", "percent"), [(100, 10), (1_917_400, 57), (646_334_400, 13)])
def test_a_tolerance_of_exactly_the_growth_passes(before: int, percent: int, tmp_path: Path) -> None:
    grown = before * (100 + percent) // 100
    file = tmp_path / "models.toml"
    file.write_text(f"[[model]]\npath = 'm.csv'\ntolerance = '{percent}%'\n")
    records(tmp_path / "m.csv", before)
    edgemem.check(file, update=True)
    for size, is_right in ((grown, True), (grown + 1, False)):
        records(tmp_path / "m.csv", size)
        assert edgemem.check(file).is_right is is_right
