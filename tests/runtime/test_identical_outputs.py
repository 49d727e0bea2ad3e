"""`shrink` says "identical" of the outputs that a default session of the model gives, and of no others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")
CHANNELS, UNITS = 48, 257
SIZES = ["--dim", "b=2", "--dim", "t=40"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers whose rows are open: ONNX Runtime computes other last bits where it knows their number."""
    rng = np.random.default_rng(0)
    shapes = {"w": (CHANNELS, UNITS), "b1": (UNITS,), "v": (UNITS, CHANNELS), "b2": (CHANNELS,)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["q"]),
        helper.make_node("MatMul", ["q", "v"], ["n"]),
        helper.make_node("Add", ["n", "b2"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=-1),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "t", CHANNELS]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = tmp_path_factory.mktemp("identical") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def are_same(network: Path, changed: Path) -> bool:
    """Whether a default session of the model and one of the changed file give the same bits on other inputs."""
    plain = ort.InferenceSession(network, providers=["CPUExecutionProvider"])
    session = edgemem.InferenceSession(changed)
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.standard_normal((2, 40, CHANNELS)).astype(np.float32)} for _ in range(4)]
    pairs = itertools.chain(*(zip(plain.run(None, f), session.run(None, f), strict=True) for f in feeds))
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


@pytest.mark.parametrize("rule", [(), ("--identical",)])
def test_identical_is_said_of_a_default_session(rule: tuple[str, ...], network: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    arguments = ["shrink", str(network), *SIZES, "-o", str(out), *rule]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    is_said = "outputs identical to those of a default session of the model as it was" in said
    assert is_said or "outputs differ by at most" in said or "the model is as it was" in said
    assert not is_said or are_same(network, out)
    note = " ".join(CliRunner().invoke(main, ["show", str(out)]).output.split())
    assert ("outputs identical" in note) <= is_said


def test_run_and_verify_say_what_the_other_side_was(network: Path, tmp_path: Path) -> None:
    planned = tmp_path / "planned.onnx"
    assert CliRunner().invoke(main, ["plan", str(network), *SIZES, "-o", str(planned)]).exit_code == 0
    for executor, side in (("replay", "with its default options"), ("io-binding", "without optimisations")):
        done = CliRunner().invoke(main, ["run", str(planned), "--executor", executor, "--compare"])
        assert f"identical to a plain run of planned.onnx in onnxruntime {ort.__version__} {side}" in " ".join(
            done.output.split()
        )
    said = " ".join(CliRunner().invoke(main, ["verify", "--run", str(planned)]).output.split())
    assert "outputs identical to those of the same nodes where no tensors share memory" in said
    assert "outputs identical to those of a plain session of planned.onnx" in said
