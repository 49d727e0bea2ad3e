"""Inputs that nobody gives are made up, at the sizes of those that are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from edgemem.cli.main import main
from edgemem.commands.measure import measure
from edgemem.runtime.onnxruntime.file import plans_in

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")

SHAPE = (2, 300)


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(params=["fixed", "open"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    dims = list(SHAPE) if request.param == "fixed" else ["b", "n"]
    values = {name: helper.make_tensor_value_info(name, 1, dims) for name in ("x", "s", "y")}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Mul", ["r", "s"], ["t"]),
        helper.make_node("Exp", ["t"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [values["x"], values["s"]], [values["y"]])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "s.npy", np.zeros(SHAPE, np.float32))
    return tmp_path / "m.onnx"


def test_one_of_two_inputs_is_enough(model: Path) -> None:
    planned, given = model.with_name("p.onnx"), ("--input", f"s={model.with_name('s.npy')}")
    said = run("plan", model, *given, "-o", planned)
    assert said.startswith("recorded arena ")
    assert [p.recording is not None for p in plans_in(planned.read_bytes())] == [False, True]
    for file, options in ((model, ()), (planned, ()), (planned, ("--executor", "io-binding"))):
        results = model.with_name("results")
        run("run", file, *given, *options, "--compare", "-o", results)
        assert np.array_equal(np.load(results / "y.npy"), np.ones(SHAPE, np.float32))
    said = run("verify", "--run", planned, *given)
    assert "io-binding: ran" in said
    assert "replay: ran" in said


@pytest.mark.full
def test_measure_makes_up_the_rest(model: Path) -> None:
    given = [{"s": np.zeros(SHAPE, np.float32)}]
    for row in measure(model, given, repeats=1, rounds=1, configurations=("default", "edgemem")):
        assert (row.unavailable, row.outputs) == ("", SHAPE[0] * SHAPE[1] * 4)


def test_a_recording_of_given_values_that_fails_is_an_error(model: Path) -> None:
    np.save(model.with_name("s.npy"), np.zeros(SHAPE, np.float64))
    planned = model.with_name("p.onnx")
    said = run("plan", model, "--input", f"s={model.with_name('s.npy')}", "-o", planned, code=1)
    assert "ONNX Runtime cannot run" in said
    assert not planned.exists()


def test_strings_that_are_given_are_in_each_recorded_run(tmp_path: Path) -> None:
    """No other values of them can be made, and nobody is asked for those that are there."""
    keys = [f"w{k}" for k in range(4)]
    values: dict[str, Any] = {"keys_strings": keys, "values_floats": [0.0, 1.0, 2.0, 3.0], "domain": "ai.onnx.ml"}
    nodes = [helper.make_node("LabelEncoder", ["s"], ["ids"], **values), helper.make_node("Exp", ["ids"], ["y"])]
    texts = helper.make_tensor_value_info("s", onnx.TensorProto.STRING, ["n"])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph(nodes, "g", [texts], [result])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "s.npy", np.array(keys * 100))
    planned = tmp_path / "p.onnx"
    run("plan", tmp_path / "m.onnx", "--input", f"s={tmp_path / 's.npy'}", "-o", planned)
    assert [p.recording is not None for p in plans_in(planned.read_bytes())] == [False, True]


def test_size_names_no_option_that_it_lacks(tmp_path: Path) -> None:
    texts = helper.make_tensor_value_info("texts", onnx.TensorProto.STRING, [2])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [2])
    graph = helper.make_graph([helper.make_node("Identity", ["texts"], ["y"])], "g", [texts], [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    said = run("size", tmp_path / "m.onnx", code=1)
    assert "no values can be made; give them to a command that has --input texts=FILE.npy" in said
