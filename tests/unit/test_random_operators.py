"""Operators that draw random numbers where an input says so are never run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, helper

import edgemem
from edgemem.formats import Model
from edgemem.remat.operators import repeatable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("trains", "random"), [(True, True), (False, False)])
def test_dropout_that_trains_is_not_run_again(tmp_path: Path, *, trains: bool, random: bool) -> None:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in "xy"]
    given = ["a", "ratio", "training"] if trains else ["a", "ratio"]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Dropout", given, ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    numbers = [helper.make_tensor("ratio", TensorProto.FLOAT, [], [0.5])]
    numbers += [helper.make_tensor("training", TensorProto.BOOL, [], [True])] if trains else []
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    source = edgemem.load(tmp_path / "m.onnx")
    assert isinstance(source, Model)
    loaded = source.graph()
    place = next(k for k, op in enumerate(loaded.ops) if op.type == "Dropout")
    assert (place not in repeatable(loaded)) == random
