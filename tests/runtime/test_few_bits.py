"""Elements for which numpy has no type, or has it in other bytes: `verify --run` compares their bytes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "BFLOAT16", "INT4"])
def test_elements_between_two_operators(name: str, tmp_path: Path) -> None:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 5, 7]) for name in "xy"]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=getattr(TensorProto, name)),
        helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    for words in (("plan", "m.onnx", "--no-record", "-o", "p.onnx"), ("verify", "--run", "p.onnx")):
        done = subprocess.run(
            [sys.executable, "-m", "edgemem", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
