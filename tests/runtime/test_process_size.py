"""`size` of an .onnx model: its parts are what is known of the model, and what processes then take."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto
from onnx import helper as make

from edgemem.cli.main import main
from edgemem.commands.measure import measure
from edgemem.commands.process_size import ProcessSize, SizePoint, check_processes, process_size
from edgemem.errors import BudgetExceededError, ModelError
from edgemem.formats import Bindings
from edgemem.runtime.onnxruntime.file import weight_bytes
from edgemem.runtime.onnxruntime.file_recording import add_recording
from models.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.commands.process_parts import MemoryPart

pytest.importorskip("onnxruntime")
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc")

FLOAT, COLUMNS, WIDTH = 4, 1 << 15, 96
MIB = 1 << 20


def model_with(path: Path, *, external: bool) -> int:
    """Writes a model of two Muls by constants, so that nothing is packed; the bytes of the constants."""
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.random((WIDTH, COLUMNS), np.float32), f"w{k}") for k in (0, 1)]
    nodes = [make.make_node("Mul", [f"t{k}", f"w{k}"], [f"t{k + 1}"]) for k in (0, 1)]
    nodes += [make.make_node("ReduceMean", ["t2"], ["mean"], axes=[1, 2], keepdims=0)]
    x = make.make_tensor_value_info("t0", TensorProto.FLOAT, ["batch", 1, COLUMNS])
    y = make.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch"])
    model = make.make_model(
        make.make_graph(nodes, "muls", [x], [y], weights), opset_imports=[make.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return 2 * WIDTH * COLUMNS * FLOAT


def parts(point: SizePoint) -> dict[str, MemoryPart]:
    return {part.name: part for part in point.parts}


def edgemem(*arguments: Any) -> Any:
    return CliRunner().invoke(main, [str(a) for a in arguments], terminal_width=80)


@pytest.mark.parametrize("external", [False, True])
def test_weights_are_counted_in_the_file_and_beside_it(tmp_path: Path, external: bool) -> None:
    known = model_with(tmp_path / "m.onnx", external=external)
    assert known <= weight_bytes((tmp_path / "m.onnx").read_bytes()) < known + 100
    assert weight_bytes(b"no model") == 0


@linux
@pytest.mark.full
def test_mapped_weights_are_shared_and_others_are_not(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    known = model_with(inside, external=False)
    model_with(outside, external=True)
    (own,), (mapped,) = (process_size(path, [{"batch": 1}], processes=4).points for path in (inside, outside))
    assert parts(own)["weights, anonymous"].size == pytest.approx(known, rel=0.01)
    assert parts(own)["weights, mapped"].size == 0
    assert parts(mapped)["weights, mapped"].size == parts(mapped)["weights, mapped"].shared == known
    assert parts(mapped)["weights, anonymous"].size == 0
    # Three of four copies are saved, whatever the libraries take.
    assert own.together(4) - mapped.together(4) == pytest.approx(3 * known, rel=0.05)
    (row,) = measure(
        outside, bindings=Bindings({"batch": 1}), configurations=["edgemem"], repeats=2, rounds=1, processes=4
    )
    assert row.resident == pytest.approx(mapped.resident, rel=0.05)
    assert row.anonymous is not None
    assert row.anonymous < mapped.resident - known
    # Pages of libraries count less where other processes of the system have them, too; the four alone have the weights.
    assert row.proportional is not None
    assert 0.95 * (4 * row.anonymous + known) <= row.proportional <= 1.05 * mapped.together(4)


@linux
@pytest.mark.full
def test_the_arena_grows_with_the_batch_and_is_that_of_a_recording(tmp_path: Path) -> None:
    """Mul writes into its input where that is no input of the graph: one result of the batch is alive."""
    path = tmp_path / "m.onnx"
    model_with(path, external=False)
    one, two = process_size(path, [{"batch": 1}, {"batch": 2}]).points
    # The first result, and the second one beside it, because a session plans without ONNX Runtime's own reuse.
    assert parts(one)["arena, workspace"].size in (WIDTH * COLUMNS * FLOAT, 2 * WIDTH * COLUMNS * FLOAT)
    assert parts(two)["arena, workspace"].size == pytest.approx(2 * parts(one)["arena, workspace"].size, rel=0.01)
    assert parts(two)["inputs"].size == 2 * COLUMNS * FLOAT
    assert parts(one)["left by runs"] == parts(two)["left by runs"]
    assert parts(two)["outputs, in the pool"].size == 2 * FLOAT
    assert two.resident - one.resident == pytest.approx(
        parts(one)["arena, workspace"].size + COLUMNS * FLOAT + FLOAT, rel=0.01
    )
    (row,) = measure(path, bindings=Bindings({"batch": 2}), configurations=["edgemem"], repeats=2, rounds=1)
    assert row.planned == parts(two)["arena, workspace"].size
    assert row.resident == pytest.approx(two.resident, rel=0.05)


@linux
@pytest.mark.full
def test_values_that_do_not_run_leave_out_what_runs_leave(tmp_path: Path) -> None:
    """The file's recording, made with indices that are right, tells the arena; made-up ones are out of range."""
    path = tmp_path / "m.onnx"
    nodes = [make.make_node("Gather", ["x", "i"], ["g"], axis=0), make.make_node("Softmax", ["g"], ["y"], axis=-1)]
    x = make.make_tensor_value_info("x", TensorProto.FLOAT, [1, COLUMNS])
    i = make.make_tensor_value_info("i", TensorProto.INT64, [64])
    y = make.make_tensor_value_info("y", TensorProto.FLOAT, [64, COLUMNS])
    graph = make.make_graph(nodes, "indices", [x, i], [y])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    add_recording(path, {"x": np.ones((1, COLUMNS), np.float32), "i": np.zeros(64, np.int64)})
    (point,) = process_size(path).points
    assert "left by runs" not in parts(point)
    assert parts(point)["arena, workspace"].known == "recorded, in the file"


@linux
@pytest.mark.full
def test_a_recording_in_the_file_is_used_for_its_sizes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(build("resnet50", size="small", batch="batch"), path)
    assert edgemem("plan", path, "--dim", "batch=1..4", "--no-record", "-o", path).exit_code == 0
    (recorded,) = add_recording(path)
    assert recorded.best_offsets is not None
    points = process_size(path, [{"batch": 1}, {"batch": 4}, {"batch": 8}]).points
    arenas = [parts(point)["arena, workspace"] for point in points]
    assert [arena.size for arena in arenas[:2]] == [recorded.best_offsets.size] * 2
    assert arenas[0].known == "recorded, in the file"
    assert arenas[2].size > arenas[1].size


def test_a_budget_is_for_all_processes_and_their_load() -> None:
    from edgemem.commands.process_parts import MemoryPart

    point = SizePoint({}, (MemoryPart("a", 100, "", 40), MemoryPart("b", 10, "")))
    size = ProcessSize((point,), processes=3, threads=1, load_peak=105)
    assert (point.resident, point.together(3), size.largest) == (110, 250, 250)
    check_processes(size, 250)
    with pytest.raises(BudgetExceededError, match="250 bytes, 249"):
        check_processes(size, 249)
    assert ProcessSize((point,), processes=3, threads=1, load_peak=140).largest == 340


@linux
@pytest.mark.full
def test_the_command_prints_a_table_and_json(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(build("dynamic", size="small", batch=1), path)
    done = edgemem("size", path, "--dim", "T=4,8,16,32", "--processes", 2)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("2 processes take ")
    assert max(len(line.rstrip()) for line in done.output.splitlines()) <= 80
    data = json.loads(edgemem("size", path, "--dim", "T=4,8", "--processes", 2, "--json").output)
    assert [point["dims"] for point in data["points"]] == [{"T": 4}, {"T": 8}]
    for point in data["points"]:
        assert point["resident"] == sum(part["size"] for part in point["parts"])
        assert point["resident"] < point["together"] < 2 * point["resident"]
    assert edgemem("size", path, "--dim", "T=4", "--budget", "1MiB").exit_code == 3
    assert edgemem("size", path, "--dim", "T=4,x").exit_code == 2


@linux
@pytest.mark.full
def test_a_model_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    x = make.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = make.make_graph([make.make_node("Strange", ["x"], ["y"], domain="strange")], "g", [x], [x])
    graph.output[0].name = "y"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("strange", 1)], ir_version=8), path)
    with pytest.raises(ModelError):
        process_size(path)
