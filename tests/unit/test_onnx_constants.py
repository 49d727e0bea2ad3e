"""What follows from constants alone is computed when a model is loaded, and takes no place in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

import edgemem
from edgemem.formats import Model

if TYPE_CHECKING:
    from pathlib import Path


def _kinds(tmp_path: Path, *nodes: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> dict[str, str]:
    float4 = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", *outputs)]
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [4])
    graph = helper.make_graph(nodes, "g", float4[:1], float4[1:], [shape])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    model = edgemem.load(path)
    assert isinstance(model, Model)
    return {t.name: t.kind for t in model.graph().tensors}


def test_a_chain_from_constants_is_constant(tmp_path: Path) -> None:
    kinds = _kinds(
        tmp_path,
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Exp", ["zeros"], ["ones"]),
        helper.make_node("Add", ["x", "ones"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    )
    assert (kinds["zeros"], kinds["ones"], kinds["sum"]) == ("constant", "constant", "activation")


def test_random_numbers_and_outputs_are_not(tmp_path: Path) -> None:
    kinds = _kinds(
        tmp_path,
        helper.make_node("RandomNormal", [], ["noise"], shape=[4]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
        helper.make_node("ConstantOfShape", ["shape"], ["z"]),
        outputs=("y", "z"),
    )
    assert (kinds["noise"], kinds["z"]) == ("activation", "activation")
