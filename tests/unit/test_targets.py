from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgemem.errors import ModelError, PlanError
from edgemem.targets import BUILT_IN, Region, from_table, parse_size, target, to_table

if TYPE_CHECKING:
    from pathlib import Path


def test_a_toml_file_changes_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('alignment = 16\ninputs = "until_last_use"\n[[region]]\nname = "sram"\ncapacity = "256KiB"\n')
    board = target(str(file))
    assert (board.name, board.alignment, board.inputs) == ("board", 16, "until_last_use")
    assert board.region == Region("sram", 256 * 1024)
    assert board.outputs == BUILT_IN["generic"].outputs


def test_a_region_reserves_ranges_in_the_units_of_sizes(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('[[region]]\nname = "sram"\nreserved = ["0..4KiB", "64KiB .. 66560"]\n')
    board = target(str(file))
    assert board.region == Region("sram", None, ((0, 4096), (65536, 66560)))
    assert from_table(to_table(board), where="here") == board


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_tables_round_trip(name: str) -> None:
    assert from_table(to_table(BUILT_IN[name]), where="here") == BUILT_IN[name]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("alignment = 3", "power of two"),
        ("alignment = '16'", "alignment is int"),
        ("inputs = 'somewhere'", "inputs is one of outside"),
        ("colour = 'red'", "unknown key 'colour'"),
        ("aliasing = 'all'", "aliasing is one of none"),
        ("[[region]]\nname='a'\n[[region]]\nname='b'", "one \\[\\[region\\]\\]"),
        ("[[region]]\nspeed=3", "a region has a name, a capacity"),
        ("[[region]]\nreserved='0..4KiB'", "reserved is a list"),
        ("[[region]]\nreserved=['4KiB']", "'4KiB' is no range"),
        ("[[region]]\nreserved=['0..much']", "'0..much' is no range"),
        ("[[region]]\nreserved=['2KiB..1KiB']", "is no range of bytes"),
        ("[[region]]\nreserved=['0..9999999999GiB']", "is no range of bytes"),
        ("alignment = ", "cannot read target"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "board.toml"
    file.write_text(text)
    with pytest.raises(ModelError, match=what):
        target(str(file))


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="generic, onnxruntime, litert, tflm, gpu-buffer, gpu-texture"):
        target("esp32")
    with pytest.raises(ModelError, match="cannot read target"):
        target(str(tmp_path / "missing.toml"))


@pytest.mark.parametrize(
    ("text", "size"),
    [("262144", 262144), ("256KiB", 262144), ("1.5 MiB", 1572864), ("2MB", 2_000_000), ("1gib", 2**30), ("7b", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1", "1 MiB extra", "1e6", "KiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(PlanError, match="is no size"):
        parse_size(text)
