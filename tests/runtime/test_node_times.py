"""Times of nodes are those of ONNX Runtime's profile, by the tensors that the nodes write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.errors import UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.runtime.onnxruntime.node_times import node_times
from tests.difference_models import Layers

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


def unlike(path: Path, *, rows: int | str = 512, external: bool = False) -> Path:
    """A product of large matrices between two small operators; nodes share one name, or have none."""
    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32), "w")
    names = ("same", "same", "")
    steps = (("Relu", ["x"], "a"), ("MatMul", ["a", "w"], "b"), ("ReduceMax", ["b"], "y"))
    nodes = [helper.make_node(t, i, [o], n) for (t, i, o), n in zip(steps, names, strict=True)]
    graph = helper.make_graph(
        nodes,
        "unlike",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path


@pytest.mark.parametrize("external", [False, True])
def test_every_node_has_a_time_and_the_product_has_the_most(tmp_path: Path, *, external: bool) -> None:
    times = node_times(unlike(tmp_path / "m.onnx", external=external))
    assert set(times.ns) == {"a", "b", "y"}
    # 134 million products of two numbers against 262,144 comparisons.
    assert times.ns["b"] > times.ns["a"]
    assert times.ns["b"] > times.ns["y"]


def test_nothing_is_fused(tmp_path: Path) -> None:
    # A session would make one node of each Conv and the Relu behind it.
    model = Layers(skip=(1, 4), extra=(2, 3)).save(tmp_path / "m.onnx")
    assert set(node_times(model).ns) == {node.output[0] for node in onnx.load(model).graph.node}


def test_the_page_has_them_by_operator(tmp_path: Path) -> None:
    model = unlike(tmp_path / "m.onnx")
    edgemem.save_report(model, tmp_path / "r.html", run=True)
    text = (tmp_path / "r.html").read_text()
    data = json.loads(text.split('id="edgemem-data">')[1].split("</script>")[0])
    times = data["report"]["times"]
    assert [data["operators"]["types"][k] for k in data["operators"]["type"]] == ["Relu", "MatMul", "ReduceMax"]
    assert max(range(3), key=times["ns"].__getitem__) == 1
    assert "nothing rewritten" in times["about"]
    edgemem.save_report(model, tmp_path / "r.html")
    assert '"times":null' in (tmp_path / "r.html").read_text()


def test_what_writes_a_constant_has_its_time_in_the_page(tmp_path: Path) -> None:
    model = onnx.load(unlike(tmp_path / "m.onnx"))
    model.graph.node[1].input[1] = "n"
    model.graph.node.insert(0, helper.make_node("Neg", ["w"], ["n"]))
    onnx.save(model, tmp_path / "m.onnx")
    edgemem.save_report(tmp_path / "m.onnx", tmp_path / "r.html", run=True)
    data = json.loads((tmp_path / "r.html").read_text().split('id="edgemem-data">')[1].split("</script>")[0])
    assert [data["operators"]["types"][k] for k in data["operators"]["type"]] == ["Neg", "Relu", "MatMul", "ReduceMax"]
    assert all(data["report"]["times"]["ns"])


def test_only_what_can_be_run_is_timed(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"m\.tflite: only \.onnx models are run"):
        edgemem.save_report(tmp_path / "m.tflite", tmp_path / "r.html", run=True)
    with pytest.raises(UnknownShapeError, match="rows"):
        node_times(unlike(tmp_path / "m.onnx", rows="rows"))
    assert node_times(unlike(tmp_path / "m.onnx", rows="rows"), Bindings({"rows": 4})).ns["b"] > 0
