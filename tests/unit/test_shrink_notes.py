"""The note of how a model was made: as it was written, and as strangers write it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from edgemem.errors import PlanFileError
from edgemem.formats import Model, Noted, load_model
from edgemem.shrinking.note import ShrinkNote, decode_notes, encode_notes, notes_in, with_notes
from models.tflite_networks import mobilenet_v2
from tests.unit.test_plan_schema import errors

if TYPE_CHECKING:
    from pathlib import Path

ONE = ShrinkNote("order,stream=0:5:8", "tflm", 900, 1200, 1.0, 12, 8, 1.5, "identical", "tflite-micro 1", "0.1.0")
TWO = ShrinkNote("optimize=all", "generic", 1, 2, 1, 3, 4, None, "", "", "0.2.0")


@pytest.fixture(scope="module", params=[".tflite", ".onnx"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("models") / f"small{request.param}"
    if request.param == ".tflite":
        path.write_bytes(mobilenet_v2(alpha=0.3, size=32, int8=True, classes=2))
    else:
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in "xy")
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y])), path)
    return path


def test_a_note_stays_in_the_file_through_plans_and_orders(file: Path, tmp_path: Path) -> None:
    """The plan is right with the note and without; planning the file again keeps the note."""
    assert notes_in(load_model(file)) == ()
    planset = edgemem.plan(load_model(file))
    made, again = tmp_path / f"made{file.suffix}", tmp_path / f"again{file.suffix}"
    edgemem.save(with_notes(load_model(file), (ONE, TWO)), planset, made)
    assert notes_in(load_model(made)) == (ONE, TWO)
    assert edgemem.verify(made) == ()
    assert CliRunner().invoke(main, ["plan", str(made), "-o", str(again), "--no-record"]).exit_code == 0
    assert notes_in(load_model(again)) == (ONE, TWO)
    replaced = with_notes(load_model(again), (TWO,))
    assert notes_in(replaced) == (TWO,)
    assert replaced.plan() == load_model(again).plan() is not None


def test_show_prints_the_note(file: Path, tmp_path: Path) -> None:
    made = tmp_path / f"made{file.suffix}"
    edgemem.save(with_notes(load_model(file), (ONE,)), edgemem.plan(load_model(file)), made)
    said = CliRunner().invoke(main, ["show", str(made)])
    assert said.exit_code == 0
    assert "made by shrink --steps order,stream=0:5:8: 900 B instead of at least 1.17 KiB" in said.output
    assert "1.50x the time" in said.output
    assert "edgemem 0.1.0 and tflite-micro 1" in said.output
    told = json.loads(CliRunner().invoke(main, ["show", str(made), "--json"]).output)
    assert told["shrunk"] == [asdict(ONE)]
    assert errors(told) == []
    plain = tmp_path / f"plain{file.suffix}"
    edgemem.save(load_model(file), edgemem.plan(load_model(file)), plain)
    assert "shrunk" not in json.loads(CliRunner().invoke(main, ["show", str(plain), "--json"]).output)


def test_what_only_a_device_reads_has_no_note(tmp_path: Path) -> None:
    file, lean = tmp_path / "small.tflite", tmp_path / "lean.tflite"
    file.write_bytes(mobilenet_v2(alpha=0.3, size=32, int8=True, classes=2))
    model = with_notes(load_model(file), (ONE,))
    edgemem.save(model, edgemem.plan(model), lean, offsets_only=True)
    assert b"edgemem.shrunk" in model.content()
    assert b"edgemem.shrunk" not in lean.read_bytes()


def test_the_latest_changes_are_kept(file: Path) -> None:
    made = with_notes(load_model(file), [ONE] * 5 + [TWO] * 7)
    assert notes_in(made) == (ONE, *[TWO] * 7)


def changed(**fields: object) -> bytes:
    return json.dumps([{**asdict(ONE), **fields}]).encode()


def test_fields_of_later_versions_are_left_out() -> None:
    assert decode_notes(changed(colour="red")) == (ONE,)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"{}",
        b"[]",
        b"[1]",
        b"[" * 100_000,
        b'[{"steps": "order"}]',
        b"9" * 10_000,
        encode_notes([ONE] * 9),
        changed(steps="a\x1b[2J"),
        changed(outputs="\u202etxt.exe"),
        changed(runtime="x" * 5_000),
        changed(memory=-1),
        changed(memory=True),
        changed(memory=2**70),
        changed(macs="1"),
        changed(macs=float("nan")),
        changed(latency=float("inf")),
        changed(edgemem=None),
        changed(colour="x" * 200_000),
    ],
)
def test_damaged_notes_are_refused(data: bytes, file: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match=r"edgemem\.shrunk is damaged.*shrink the model"):
        decode_notes(data)
    if b"\xff" in data or not data:  # no UTF-8, or no entry
        return
    model = load_model(file)
    assert isinstance(model, Noted)
    path = tmp_path / f"hostile{file.suffix}"
    noted: Model = model.with_note("edgemem.shrunk", data)
    edgemem.save(noted, edgemem.plan(load_model(file)), path)
    said = CliRunner().invoke(main, ["show", str(path)])
    assert said.exit_code == 4
    assert "edgemem.shrunk is damaged" in said.output
    assert len(planfile.decode_all(load_model(path).plan() or b"")) == 1
