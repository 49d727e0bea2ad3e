"""A command that writes leaves the old file or the finished one, wherever it ends, and the same bytes each time."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem.cli.main import main
from edgemem.runtime.onnxruntime.file import plans_in
from tests import extent
from tests.ended_writes import COMMANDS, SIGNALS, end_at, has_strace, make_inputs, places_of
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")
needs_strace = pytest.mark.skipif(not has_strace(), reason="no strace here, or none that may trace")
_LAYERS = 4
_CHANNELS = 16
_SIZE = 12


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Convolutions with other operators between: ONNX Runtime inserts a conversion of layouts at each border."""
    draw = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for k in range(_LAYERS):
        values = (draw.standard_normal((_CHANNELS, _CHANNELS, 3, 3)) / 12).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{k}"))
        nodes.append(helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Sin", [f"c{k}"], [f"s{k}"]))
        nodes.append(helper.make_node("Mul", [f"s{k}", f"c{k}"], [f"m{k}"]))
        last = f"m{k}"
    shape = [1, _CHANNELS, _SIZE, _SIZE]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", last)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    path = tmp_path / "blocked.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _twice(tmp_path: Path, *arguments: object) -> list[dict[str, bytes]]:
    """What each of two processes leaves in OUT."""
    made = []
    for number in ("1", "2"):
        out = tmp_path / f"out{number}" / "out"
        out.mkdir(parents=True)
        command = [sys.executable, "-m", "edgemem", *(str(a).replace("OUT", str(out)) for a in arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": number}
        )
        assert done.returncode == 0, done.stderr
        made.append({str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()})
    assert made[0]
    return made


@pytest.mark.parametrize(
    "command",
    [
        "plan MODEL -o OUT/planned.onnx",
        "shrink MODEL --steps optimize=all -o OUT/shrunk.onnx",
        pytest.param("shrink MODEL -o OUT/shrunk.onnx", marks=pytest.mark.full),
        pytest.param("plan MODEL --weights mapped -o OUT/planned.onnx", marks=pytest.mark.full),
        pytest.param("plan MODEL -o OUT/plan.edgemem", marks=pytest.mark.full),
        pytest.param("report MODEL -o OUT/report.html", marks=pytest.mark.full),
        pytest.param("report MODEL -o OUT/report.json", marks=pytest.mark.full),
    ],
)
def test_a_command_gives_the_same_bytes_in_two_processes(command: str, blocked: Path, tmp_path: Path) -> None:
    first, second = _twice(tmp_path, *command.replace("MODEL", str(blocked)).split())
    assert first == second


@pytest.mark.full
@pytest.mark.parametrize("form", ["json", "csv", "c-header", "svg", "web"])
def test_an_export_gives_the_same_bytes_in_two_processes(form: str, blocked: Path, tmp_path: Path) -> None:
    planned = tmp_path / "planned.onnx"
    target = ["-t", "gpu-buffer", "--no-record"] if form == "web" else []
    with pytest.raises(SystemExit, match="0"):
        main(["plan", str(blocked), *target, "-o", str(planned)])
    first, second = _twice(tmp_path, "export", planned, "-f", form, "-o", "OUT/out")
    assert first == second


@pytest.mark.full
@pytest.mark.parametrize("form", ["", "c-array", "arduino", "espidf", "zephyr", "tflm-bufferplan", "tflm-metadata"])
def test_a_tflite_model_gives_the_same_bytes_in_two_processes(form: str, tmp_path: Path) -> None:
    model, planned = tmp_path / "model.tflite", tmp_path / "planned.tflite"
    model.write_bytes(build(M([S([T(n) for n in "xyz"], [O("ABS", (0,), (1,)), O("NEG", (1,), (2,))], (0,), (2,))])))
    if not form:
        first, second = _twice(tmp_path, "plan", model, "-o", "OUT/planned.tflite")
    else:
        with pytest.raises(SystemExit, match="0"):
            main(["plan", str(model), "-o", str(planned)])
        first, second = _twice(tmp_path, "export", planned, "-f", form, "-o", "OUT/out")
    assert first == second


@pytest.mark.full
def test_a_table_is_the_same_but_for_what_its_rows_took(blocked: Path, tmp_path: Path) -> None:
    made = _twice(tmp_path, "plan", blocked.parent / "*.onnx", "--cache", "none", "-o", "OUT/rows.csv")
    tables = [list(csv.DictReader(files["rows.csv"].decode().splitlines())) for files in made]
    for row in (*tables[0], *tables[1]):
        assert float(row.pop("cpu_s")) > 0
        row.pop("peak_rss")
    assert tables[0] == tables[1]


def test_no_name_that_onnx_runtime_draws_is_in_a_file(blocked: Path, tmp_path: Path) -> None:
    planned, shrunk = tmp_path / "planned.onnx", tmp_path / "shrunk.onnx"
    for arguments in (["plan", blocked, "-o", planned], ["shrink", blocked, "--steps", "optimize=all", "-o", shrunk]):
        with pytest.raises(SystemExit, match="0"):
            main([str(a) for a in arguments])
    names = [
        n for file in (planned, shrunk) for p in plans_in(file.read_bytes()) if p.recording for n in p.problem.names
    ]
    assert names
    assert not [name for name in names if "_token_" in name]
    nodes = [node.name for node in onnx.load(shrunk).graph.node]
    assert len(set(nodes)) == len(nodes)
    assert not [name for name in nodes if "_token_" in name.partition("/")[0]]


def test_several_models_are_shrunk_into_a_folder(blocked: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    blocked.rename(tmp_path / "models" / "a.onnx")
    arguments = ["shrink", tmp_path / "models", "--allow", "order", "--cache", "none", "-o", tmp_path / "out"]
    command = [sys.executable, "-m", "edgemem", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "1 of 1 shrunk" in done.stdout
    assert plans_in((tmp_path / "out" / "a.onnx").read_bytes())


@needs_strace
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "plan" else pytest.mark.exhaustive) for name in COMMANDS],
)
def test_the_final_name_has_the_old_file_or_the_finished_one(name: str, tmp_path: Path) -> None:
    """With `--exhaustive` a command is ended at each call by each signal, else at some, and at its last ones."""
    writing, inputs, out = COMMANDS[name], tmp_path / "in", tmp_path / "out"
    make_inputs(inputs)
    finished, places = places_of(writing, out, inputs)
    assert len(places) > 2
    some = [*places[-3:-1], *(places[:: len(places) // 4 + 1] if extent.full else ())]
    ends = [(place, SIGNALS[k % len(SIGNALS)]) for k, place in enumerate(some)]
    if extent.exhaustive:
        ends = [(place, signal) for place in places for signal in SIGNALS]
    wrong = {
        (*place, signal): found
        for place, signal in ends
        if (found := end_at(writing, out, inputs, place, signal, finished))
    }
    assert not wrong
