"""What commands say about files that they do not take, and what they leave when they fail."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from edgemem.cli.main import main
from edgemem.system.files import finished_last, known_names
from models.build import build
from tests.tflite_models import M, O, S, T
from tests.tflite_models import build as build_tflite

if TYPE_CHECKING:
    from pathlib import Path


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x [batch, 8] -> Abs -> Neg."""
    nodes = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in "xz"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    ops = [O("ABS", (0,), (1,)), O("NEG", (1,), (2,))]
    path.write_bytes(build_tflite(M([S([T(n) for n in "xyz"], ops, (0,), (2,))])))
    return path


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".edgemem", ".csv", ""])
@pytest.mark.parametrize("command", ["plan", "show", "verify", "export -f json", "run", "measure", "size"])
def test_a_missing_file_is_told_in_the_same_words(command: str, suffix: str, tmp_path: Path) -> None:
    missing = tmp_path / f"missing{suffix}"
    result = edgemem(*command.split(), missing)
    assert (result.exit_code, result.output) == (1, f"edgemem: no file {missing} [E101]\n")


@pytest.mark.parametrize(
    ("command", "name", "says"),
    [
        ("run", "plan.edgemem", "plan.edgemem is a plan without its model, .*edgemem plan MODEL.onnx -o PLANNED.onnx"),
        ("measure", "plan.edgemem", "plan.edgemem is a plan without its model, .*edgemem plan MODEL.onnx"),
        ("size", "plan.edgemem", "plan.edgemem is a plan without its model"),
        ("plan", "plan.edgemem", "plan.edgemem is a plan without its model"),
        ("run", "records.csv", "no model that run takes; give an .onnx or .tflite file"),
        ("measure", "records.csv", "no model that measure takes; give an .onnx file"),
    ],
)
def test_another_file_is_refused_with_what_to_do(
    command: str, name: str, says: str, model: Path, tflite: Path, tmp_path: Path
) -> None:
    (tmp_path / "records.csv").write_text("tensor,first_op,last_op,size\na,0,1,16\n")
    assert edgemem("plan", model, "--dim", "batch=1", "-o", tmp_path / "plan.edgemem").exit_code == 0
    assert tflite.exists()
    result = edgemem(command, tmp_path / name)
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert re.search(says, result.output), result.output


def test_a_plan_of_shared_objects_alone_gives_one_exit_code(model: Path, tflite: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for source, options in ((model, ["--executor", "io-binding"]), (tflite, [])):
        planned = tmp_path / f"planned{source.suffix}"
        dims = ["--dim", "batch=1"] if source is model else []
        assert edgemem("plan", source, *dims, "-s", "shared_objects/naive", "-o", planned).exit_code == 0
        result = edgemem("run", planned, *options)
        assert result.exit_code == 1, result.output
        assert "the file has no offset plan of its graph" in result.output
        assert "make one with: edgemem plan --strategy auto" in result.output


def test_a_dimension_of_zero_is_planned(tmp_path: Path) -> None:
    """Views of empty tensors have no place either, and the plan says so of each."""
    path = tmp_path / "model.onnx"
    onnx.save(build("mobilenet_v2", size="small", batch="N"), path)
    result = edgemem("plan", path, "--dim", "N=0", "-o", tmp_path / "planned.onnx")
    assert result.exit_code == 0, result.output
    assert edgemem("verify", tmp_path / "planned.onnx").exit_code == 0


def test_a_value_of_another_shape_than_the_plan_is_not_recorded(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    np.save(tmp_path / "two.npy", np.zeros((2, 8), np.float32))
    planned = tmp_path / "planned.onnx"
    given = ["--record", "--input", f"x={tmp_path / 'two.npy'}", "-o", planned]
    result = edgemem("plan", model, "--dim", "batch=3", *given)
    assert result.exit_code == 1
    assert "'x' is 2x8, but the plan is for 3x8; bind the same with --dim" in result.output
    assert not planned.exists()
    assert edgemem("plan", model, "--dim", "batch=2", *given).exit_code == 0
    before = planned.read_bytes()
    assert edgemem("plan", model, "--dim", "batch=3", *given).exit_code == 1
    assert planned.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "planned.onnx", "two.npy"]


def test_a_file_of_several_steps_has_its_name_last(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    old.chmod(0o640)

    def fail(path: Path) -> None:
        with finished_last(path) as file:
            file.write_bytes(b"half")
            assert known_names(f"{file}, {file.name}") == f"{path}, {path.name}"
            assert not path.exists() or path.read_bytes() == b"old"
            raise KeyboardInterrupt

    for path in (old, new):
        with pytest.raises(KeyboardInterrupt):
            fail(path)
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_bytes() == b"old"
    for path in (old, new):
        with finished_last(path) as file:
            file.write_bytes(b"whole")
        assert path.read_bytes() == b"whole"
    assert old.stat().st_mode & 0o777 == 0o640
    assert len(list(tmp_path.iterdir())) == 2


def test_an_output_does_not_replace_the_models_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    weights = np.ones((8, 8), np.float32)
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in "xz"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], [onnx.numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, data = tmp_path / "model.onnx", tmp_path / "data.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location=data.name, size_threshold=0)
    before = data.read_bytes()
    monkeypatch.chdir(tmp_path)
    for output in (data, data.name):
        result = edgemem("plan", path, "-o", output)
        assert result.exit_code == 1
        assert f"{output} is the name of a file with the model's weights" in result.output
        assert data.read_bytes() == before
    assert edgemem("plan", path, "-o", tmp_path / "planned.onnx").exit_code == 0
