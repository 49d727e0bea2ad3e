"""Models that cannot be cut without a change of what they compute, or that their runtime then refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.errors import NumericDifferenceError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")


def _value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _constant(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.random.default_rng(5).standard_normal(shape).astype(np.float32), name)


def _saved(path: Path, graph: onnx.GraphProto) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


def test_a_scale_with_the_axis_that_is_cut_is_cut_with_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "s", "b"], ["y"], axis=-1),
    ]
    constants = [_constant("s", 2, 1, 8), _constant("b", 2, 1, 8)]
    graph = helper.make_graph(nodes, "norm", [_value("x", 2, 4, 8)], [_value("y", 2, 4, 8)], constants)
    path, out = _saved(tmp_path / "norm.onnx", graph), tmp_path / "out.onnx"
    edgemem.shrink(path, steps="optimize=basic,split=0:1:2/0", outputs="close").save(out)
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 4, 8)).astype(np.float32)}
    here, there = (
        ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, feeds)[0] for p in (path, out)
    )
    np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)


def test_a_constant_that_callers_may_replace_is_not_cut(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    inputs = [_value("x", 4, 8), _value("w", 8, 6)]
    graph = helper.make_graph(nodes, "fed", inputs, [_value("y", 4, 6)], [_constant("w", 8, 6)])
    path = _saved(tmp_path / "fed.onnx", graph)
    with pytest.raises(UnsupportedError, match="callers may replace the constant 'w'"):
        edgemem.shrink(path, steps="optimize=basic,split=0:1:2/1", outputs="close")


def test_what_onnx_runtime_does_not_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that gives a file which no session loads, while the model itself runs."""
    from edgemem.passes.order_pass import OrderOperators

    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "two", [_value("x", 4, 8)], [_value("y", 4, 8)])
    path = _saved(tmp_path / "two.onnx", graph)
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Concat", ["a", "a"], ["y"], axis=7)]
    broken = _saved(tmp_path / "broken.onnx", helper.make_graph(nodes, "two", [_value("x", 4, 8)], [_value("y", 4, 8)]))

    class Broken(type(edgemem.load(path))):  # type: ignore[misc]
        """The original's graph, and the bytes of another file."""

        def content(self) -> bytes:
            return broken.read_bytes()

        def save(self, file: Path) -> None:
            file.write_bytes(broken.read_bytes())

        def with_plan(self, *_: object) -> Broken:
            return self

    def lie(_self: OrderOperators, model: object, _context: object) -> object:
        made = object.__new__(Broken)
        made.__dict__.update(vars(model))
        return made

    monkeypatch.setattr(OrderOperators, "apply", lie)
    with pytest.raises(NumericDifferenceError, match="order: it does not run"):
        edgemem.shrink(path, steps="order")
