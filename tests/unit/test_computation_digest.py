"""The digest of what a graph computes: names of results and the order of nodes do not count, everything else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem.errors import ModelError
from edgemem.formats import onnx_editor
from tests.onnx_sessions import branching, small

if TYPE_CHECKING:
    from collections.abc import Callable


def digest(model: onnx.ModelProto) -> str:
    return onnx_editor().computation_digest(model.SerializeToString())


def model() -> onnx.ModelProto:
    """y = Concat(Relu(x) - w, Sigmoid(x) - w), whose branches are free."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Sigmoid", ["x"], ["b"], name="second"),
        helper.make_node("Sub", ["a", "w"], ["c"]),
        helper.make_node("Sub", ["b", "w"], ["d"]),
        helper.make_node("Concat", ["c", "d"], ["y"], axis=0),
    ]
    value = numpy_helper.from_array(np.ones(4, np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in (("x", 4), ("y", 8))]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [value]))


def rename(found: onnx.ModelProto) -> None:
    names = {name: f"other_{name}" for node in found.graph.node for name in node.output if name != "y"}
    for node in found.graph.node:
        node.name = f"{node.name}_again"
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def reorder(found: onnx.ModelProto) -> None:
    nodes = [found.graph.node[k] for k in (1, 3, 0, 2, 4)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del found.graph.node[:]
    found.graph.node.extend(copies)


@pytest.mark.parametrize("change", [rename, reorder])
def test_names_and_order_do_not_count(change: Callable[[onnx.ModelProto], None]) -> None:
    made = model()
    change(made)
    assert made != model()
    assert digest(made) == digest(model())
    large = onnx.load_from_string(small("inception_v3"))
    before = digest(large)
    rename_inner = {o for node in large.graph.node for o in node.output} - {v.name for v in large.graph.output}
    for node in large.graph.node:
        node.input[:] = [f"{n}!" if n in rename_inner else n for n in node.input]
        node.output[:] = [f"{n}!" if n in rename_inner else n for n in node.output]
    for value in large.graph.value_info:
        value.name = f"{value.name}!"
    assert digest(large) == before


CHANGES: dict[str, Callable[[onnx.ModelProto], object]] = {
    "an operator": lambda m: setattr(m.graph.node[0], "op_type", "Elu"),
    "a domain": lambda m: setattr(m.graph.node[0], "domain", "com.microsoft"),
    "an attribute": lambda m: setattr(m.graph.node[4].attribute[0], "i", -1),
    "swapped inputs": lambda m: m.graph.node[4].input.reverse(),
    "another input": lambda m: m.graph.node[2].input.__setitem__(0, "b"),
    "one value for two": lambda m: m.graph.node[4].input.__setitem__(1, "c"),
    "the sides of a difference": lambda m: m.graph.node[2].input.reverse(),
    "a constant": lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(16)),
    "a constant elsewhere": lambda m: m.graph.initializer[0].external_data.add(key="offset", value="64"),
    "a shape": lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 5),
    "a declared shape": lambda m: m.graph.value_info.append(helper.make_tensor_value_info("a", 1, [4])),
    "an opset": lambda m: setattr(m.opset_import[0], "version", 11),
    "one node more": lambda m: m.graph.node.add(op_type="Relu", input=["x"], output=["more"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_everything_else_counts(change: str) -> None:
    made = model()
    CHANGES[change](made)
    assert digest(made) != digest(model())


def test_the_graphs_of_branches_count() -> None:
    made = onnx.load_from_string(branching())
    before = digest(made)
    choice = next(node for node in made.graph.node if node.op_type == "If")
    inner = next(a.g for a in choice.attribute if a.name == "then_branch")
    inner.node[0].op_type = "Relu"
    assert digest(made) != before


def test_a_node_that_reads_what_nothing_makes_is_an_error() -> None:
    made = model()
    made.graph.node[0].input[0] = "nobody"
    with pytest.raises(ModelError, match="nobody"):
        digest(made)
    with pytest.raises(ModelError):
        onnx_editor().computation_digest(b"\xff\xff")
