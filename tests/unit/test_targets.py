from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.errors import ModelError, PlanError
from edgemem.targets import BUILT_IN, Region, Target, find_target, from_table, match_states, parse_size, to_table

if TYPE_CHECKING:
    from pathlib import Path


def test_a_toml_file_changes_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('alignment = 16\ninputs = "until_last_use"\n[[region]]\nname = "sram"\ncapacity = "256KiB"\n')
    board = find_target(str(file))
    assert (board.name, board.alignment, board.inputs) == ("board", 16, "until_last_use")
    assert board.region == Region("sram", 256 * 1024)
    assert board.outputs == BUILT_IN["generic"].outputs


def test_a_region_reserves_ranges_in_the_units_of_sizes(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('[[region]]\nname = "sram"\nreserved = ["0..4KiB", "64KiB .. 66560"]\n')
    board = find_target(str(file))
    assert board.region == Region("sram", None, ((0, 4096), (65536, 66560)))
    assert from_table(to_table(board), where="here") == board


def test_there_may_be_several_regions_and_rules_for_single_tensors(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(
        '[[region]]\nname = "sram"\ncapacity = "256KiB"\n[[region]]\nname = "psram"\n'
        '[pins]\n"net/x:0" = "4KiB"\ny = 64\n[states]\n"past.*" = "present.*"\n'
    )
    board = find_target(str(file))
    assert board.regions == (Region("sram", 256 * 1024), Region("psram"))
    assert board.region == board.regions[0]
    assert board.pins == {"net/x:0": 4096, "y": 64}
    assert board.states == {"past.*": "present.*"}
    assert from_table(to_table(board), where="here") == board
    assert hash(board) == hash(replace(board, pins={}))
    assert len({board, find_target(str(file))}) == 1


def test_a_target_does_not_change_with_the_mapping_it_was_made_from() -> None:
    pins = {"x": 0}
    board = Target("board", pins=pins)
    pins["x"] = 64
    assert board.pins == {"x": 0}
    with pytest.raises(ModelError, match="'x' is pinned at -1"):
        Target("board", pins={"x": -1})
    with pytest.raises(ModelError, match="has no region"):
        Target("board", regions=())


@pytest.mark.parametrize(
    ("states", "pairs"),
    [
        ({"past.0": "out"}, (("past.0", "out"),)),
        ({"past.*": "present.*"}, (("past.0", "present.0"), ("past.1", "present.1"))),
        ({"*.1": "present.1*"}, "no operator writes 'present.1past'"),
        ({"past.*": "out"}, "one \\* on both sides"),
        ({"lost.*": "present.*"}, "no graph input matches the state 'lost.*'"),
        ({"past.2": "out"}, "'past.2' is no graph input; near names: 'past.1', 'past.0'"),
        ({"past.*": "presents.*"}, "no operator writes 'presents.0'.*near names: 'present"),
        ({"past.0": "out", "past.1": "out"}, "is in two states"),
    ],
)
def test_states_are_pairs_of_an_input_and_a_value(states: dict[str, str], pairs: object) -> None:
    inputs, written = ["past.0", "past.1", "x"], ["present.0", "present.1", "out"]
    if isinstance(pairs, tuple):
        assert match_states(states, inputs, written) == pairs
    else:
        with pytest.raises(ModelError, match=str(pairs)):
            match_states(states, inputs, written)


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
        ("sub_byte = 'half'", "sub_byte is one of packed, unpacked"),
        ("[[region]]\nname='a'\n[[region]]\nname='a'", "two regions have one name"),
        ("region = 'sram'", "written as"),
        ("pins = 4", "pins is a table"),
        ("[pins]\nx = 'much'", "tensor 'x' is pinned at 'much'"),
        ("[pins]\nx = -4", "tensor 'x' is pinned at -4"),
        ("[pins]\nx = '9999999999GiB'", "beyond int64"),
        ("states = ['x']", "states is a table"),
        ("[states]\nx = 4", "states is a table"),
        ("[[region]]\nspeed=3", "a region has a name, a capacity"),
        ("[[region]]\nreserved='0..4KiB'", "reserved is a list"),
        ("[[region]]\nreserved=['4KiB']", "'4KiB' is no range"),
        ("[[region]]\nreserved=['0..much']", "'0..much' is no range"),
        ("[[region]]\nreserved=['2KiB..1KiB']", "is no range of bytes"),
        ("[[region]]\nreserved=['0..9999999999GiB']", "is no range of bytes"),
        ("alignment = ", "cannot read target"),
        (f"alignment = {2**2000}", r"alignment \d+\.\.\. is not a power of two up to 2\*\*62"),
        (f"alignment = {2**63}", r"is not a power of two up to 2\*\*62"),
        (f"alignment = 0x{'3' * 5000}", "alignment a value too long to show is not a power of two"),
        (f"alignment = {'9' * 5000}", "cannot read target .* more digits than any size"),
        (f"pins = {'[' * 5000}", "cannot read target .* nested too deep"),
        (f"inputs = '{'x' * 5000}'", r"(?m)inputs is one of .*, not 'x+\.\.\.$"),
        (f"{'x' * 5000} = 1", r"unknown key 'x+\.\.\.;"),
        (f"[pins]\nx = 0x{'f' * 5000}", "tensor 'x' is pinned at a value too long to show, beyond int64"),
        (f"[[region]]\ncapacity = 0x{'f' * 5000}", "capacity a value too long to show, beyond int64"),
        ("[[region]]\ncapacity = '9999999999GiB'", "beyond int64"),
        ("[[region]]\ncapacity = '1 mile'", "board.toml: capacity '1 mile': '1 mile' is no size"),
        ("[[region]]\ncapacity = true", "capacity True, which is no number of bytes"),
        ("[[region]]\ncapacity = 1979-05-27", "which is no number of bytes"),
        (f"[[region]]\nreserved = [0x{'f' * 5000}]", "reserved a value too long to show is no range"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "board.toml"
    file.write_text(text)
    with pytest.raises(ModelError, match=what):
        find_target(str(file))


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"generic, .*, litert, tflm, gpu-buffer, .*, pytorch"):
        find_target("esp32")
    with pytest.raises(ModelError, match="cannot read target"):
        find_target(str(tmp_path / "missing.toml"))


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


def test_a_letter_alone_is_a_binary_unit() -> None:
    assert [parse_size(text) for text in ("256K", "2m", "1.5 G")] == [256 << 10, 2 << 20, 3 << 29]
