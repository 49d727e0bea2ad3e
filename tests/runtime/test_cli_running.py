"""`edgemem run`, `measure`, `plan --record`, `plan --optimize` and `verify --run` on real files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.replay.library import library
from edgemem.runtime.onnxruntime.baked_file import baked_note
from models.build import build

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "randwire.onnx"
    onnx.save(build("randwire", size="small"), path)
    return path


@pytest.mark.full
def test_a_recorded_plan_is_replayed(tmp_path: Path) -> None:
    # A chain of blocks: where branches are free to go first, sessions of ONNX Runtime may differ in their order.
    model, planned = tmp_path / "model.onnx", tmp_path / "planned.onnx"
    onnx.save(build("resnet18", size="small"), model)
    done = edgemem("plan", model, "--record", "-o", planned)
    assert done.exit_code == 0, done.output
    assert "recorded arena" in done.output
    assert edgemem("verify", planned).exit_code == 0, "the static plan is still there"
    report = json.loads(edgemem("run", planned, "--compare", "--json", "--runs", 2).output)
    assert report["identical"] is True
    assert report["memory"]["mode"] == "replay"
    assert report["memory"]["replayed"] == 2, "nothing had to be recorded again"
    assert ": right\n" in edgemem("verify", "--run", planned).output


@pytest.mark.full
@pytest.mark.parametrize("level", ["basic", "all"])
def test_an_optimised_graph_is_planned_in_its_order(model: Path, tmp_path: Path, level: str) -> None:
    planned = tmp_path / "planned.onnx"
    done = edgemem("shrink", model, "--steps", f"optimize={level},order", "--close", "-o", planned)
    assert done.exit_code == 0, done.output
    note = baked_note(planned)
    assert note is not None
    assert note.level == level
    assert ": right\n" in edgemem("verify", "--run", planned).output
    report = json.loads(edgemem("run", planned, "--compare", "--json").output)
    assert report["identical"] is True
    assert report["memory"]["bails"] == 0


@pytest.mark.full
def test_both_executors_and_outputs_to_files(model: Path, tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((1, 3, 64, 64)).astype(np.float32)
    graph = onnx.load(model).graph
    shape = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    values = np.resize(values, shape).astype(np.float32)
    np.save(tmp_path / "in.npy", values)
    feed = f"{graph.input[0].name}={tmp_path / 'in.npy'}"
    planned = tmp_path / "planned.onnx"
    assert edgemem("shrink", model, "--steps", "optimize=all", "-o", planned).exit_code == 0
    written = []
    for executor in ("replay", "io-binding"):
        folder = tmp_path / executor
        done = edgemem("run", planned, "--input", feed, "--executor", executor, "--compare", "-o", folder)
        assert done.exit_code == 0, done.output
        assert done.output.startswith("arena ")
        assert "identical to a plain run" in done.output
        written.append(np.load(folder / f"{graph.output[0].name}.npy"))
    assert np.array_equal(*written)


@pytest.mark.full
def test_measure_prints_a_line_a_configuration(model: Path) -> None:
    rows = json.loads(edgemem("measure", model, "--rounds", 1, "--repeats", 2, "--json").output)
    named = {row["configuration"]: row for row in rows}
    assert list(named) == ["default", "tuned", "trimmed", "no_arena", "recording", "edgemem"]
    assert all(not row["unavailable"] for row in rows)
    assert all(named[name]["exact"] for name in ("tuned", "trimmed", "no_arena", "recording", "edgemem"))
    assert named["edgemem"]["activation"] <= named["tuned"]["activation"] <= named["default"]["activation"]


@pytest.mark.exhaustive
def test_measure_fits_a_terminal(model: Path) -> None:
    text = edgemem("measure", model, "--rounds", 1, "--repeats", 1, "--processes", 2).output
    assert "PSS of 2" in text
    assert max(map(len, text.splitlines())) <= 80
    for configuration in ("default", "tuned", "recording", "edgemem"):
        lines = [line for line in text.splitlines() if line.split()[:1] == [configuration]]
        assert len(lines) == 3, text  # plan, process, time


@pytest.mark.exhaustive
def test_measure_takes_several_files_of_an_input(model: Path, tmp_path: Path) -> None:
    (entry,) = onnx.load(model).graph.input
    shape = [d.dim_value or 1 for d in entry.type.tensor_type.shape.dim]
    files = [tmp_path / f"{k}.npy" for k in range(3)]
    for k, file in enumerate(files):
        np.save(file, np.full(shape, k, np.float32))
    given = [part for file in files for part in ("--input", f"{entry.name}={file}")]
    done = edgemem("measure", model, *given, "--rounds", 1, "--repeats", 1, "--json")
    assert done.exit_code == 0, done.output
    assert all(row["exact"] for row in json.loads(done.output)[1:4])


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("--vary", "batch=5..2"), "is not NAME=FIRST..LAST"),
        (("--vary", "batch=3"), "is not NAME=FIRST..LAST"),
        (("--vary", "batch=1..2", "--input", "x=x.npy"), "--vary makes up inputs"),
        (("--input", "x=1.npy", "--input", "x=2.npy", *("--input", "y=1.npy") * 3), "'x' has 2 files"),
    ],
)
def test_measure_refuses(model: Path, args: tuple[str, ...], what: str) -> None:
    done = edgemem("measure", model, *args)
    assert done.exit_code == 2
    assert what in done.output


@pytest.mark.parametrize(
    ("args", "code", "what"),
    [
        (("--record",), 2, "give -o PLANNED.onnx"),
        (("--record", "--input", "nobody=x.npy", "-o", "out.onnx"), 1, "cannot read input 'nobody'"),
    ],
)
def test_what_does_not_go_together(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], code: int, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = edgemem("plan", model, *args)
    assert done.exit_code == code, done.output
    assert what in done.output
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.full
def test_what_ran_outside_every_plan_is_not_called_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Node by node refuses sizes that depend on data; and there is no recording to replay.
    values = [
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4]),
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, None]),
    ]
    nodes = [
        onnx.helper.make_node("NonZero", ["x"], ["i"]),
        onnx.helper.make_node("Cast", ["i"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    source, planned = tmp_path / "m.onnx", tmp_path / "p.onnx"
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=99)
    onnx.save(made, source)
    done = edgemem("run", source)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), "what ONNX Runtime refuses is one line"
    assert "ONNX Runtime cannot run m.onnx" in done.output
    made.ir_version = 8
    onnx.save(made, source)
    done = edgemem("plan", source, "--dim", "i.1=4", "--no-record", "-o", planned)
    assert done.exit_code == 0, done.output
    done = edgemem("verify", "--run", planned)
    assert done.exit_code == 1
    assert "nothing is verified: io-binding: not run: p.onnx" in done.output
    assert "the size of 'i' depends on the data (NonZero)" in done.output
    assert "replay: not run: no recording in the file; add one with: edgemem plan p.onnx --record" in done.output
    assert edgemem("plan", source, "--dim", "i.1=4", "--record", "-o", planned).exit_code == 0
    done = edgemem("verify", "--run", planned)
    assert done.exit_code == 0, done.output
    assert "replay: ran, arena" in done.output
    monkeypatch.setattr("edgemem.replay.library.find_library", lambda: None)
    library.cache_clear()
    try:
        done = edgemem("verify", "--run", planned)
    finally:
        monkeypatch.undo()
        library.cache_clear()
    assert done.exit_code == 1
    assert "nothing is verified" in done.output
    assert "NonZero" in done.output


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path, model: Path) -> None:
    planned = tmp_path / "p.onnx"
    assert edgemem("plan", model, "--record", "-o", planned).exit_code == 0
    done = edgemem("verify", "--run", "--timeout", "0.01", planned)
    assert done.exit_code == 1
    assert "did not end within 0.01 s" in done.output
    assert edgemem("verify", "--timeout", "9", planned).exit_code == 2


@pytest.mark.full
def test_a_run_apart_says_the_same_as_one_here(tmp_path: Path) -> None:
    model, planned = tmp_path / "m.onnx", tmp_path / "p.onnx"
    onnx.save(build("mobilenet_v1", size="small"), model)  # without branches, whose order differs from run to run
    assert edgemem("plan", model, "--record", "-o", planned).exit_code == 0
    here, apart = edgemem("verify", "--run", planned), edgemem("verify", "--run", "--timeout", 600, planned)
    assert (here.exit_code, apart.exit_code) == (0, 0), apart.output
    assert apart.output == here.output
    told = edgemem("verify", "--run", "--timeout", 600, model)
    assert told.exit_code == 4
    assert "carries no plan" in told.output


@pytest.mark.full
def test_what_differs_in_a_run_apart_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.onnx"
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in "xy"]
    nodes = [onnx.helper.make_node("Exp", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    assert edgemem("plan", path, "-o", path).exit_code == 0
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    done = edgemem("verify", "--run", "--timeout", 600, "--input", f"x={tmp_path / 'x.npy'}", path)
    assert done.exit_code == 1
    assert "'x' is fed with the shape (3,), planned as (4,)" in done.output
