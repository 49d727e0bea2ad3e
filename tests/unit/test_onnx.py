"""What an ONNX model becomes as a graph, and what the converter changes in its file."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from edgemem.errors import ModelError, PlanFileError, UnsupportedError
from edgemem.formats import Bindings, Model
from edgemem.formats.plan_summary import SUMMARY_KEY
from edgemem.model.graph import digest
from edgemem.plans import LowerBounds, PlanSet
from edgemem.records.problem import Problem
from edgemem_converters.onnx.model import PLAN_KEY, OnnxConverter

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.graph import Graph

PLANSET = PlanSet(Problem([]), 0, LowerBounds(0, 0), (), ())
BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool c, float[4] x, float[2] p) => (float[N] y)
{
  a = Relu (x)
  y = If (c) <
    then_branch = t () => (float[4] r) { k = Constant <value = float[4] {1, 2, 3, 4}> ()  t = Add (a, k)  r = Exp (t) },
    else_branch = e () => (float[4] r) <float[4] k = {1, 1, 1, 1}> { t = Mul (a, k)  r = Sub (t, x) }
  >
  unused = Exp (p)
}
"""


def save(tmp_path: Path, model: str | onnx.ModelProto, name: str = "model.onnx") -> Path:
    path = tmp_path / name
    path.write_bytes((parser.parse_model(model) if isinstance(model, str) else model).SerializeToString())
    return path


def opened(tmp_path: Path, model: str | onnx.ModelProto, **dims: int) -> OnnxConverter:
    return OnnxConverter.open(save(tmp_path, model), Bindings(dims))


def shapes(graph: Graph) -> dict[str, tuple[str, tuple[int, ...], str]]:
    return {t.name: (t.dtype, t.shape, t.kind) for t in graph.tensors}


def test_is_a_model(tmp_path: Path) -> None:
    assert isinstance(opened(tmp_path, BRANCHES), Model)


def test_a_branching_graph(tmp_path: Path) -> None:
    graph = opened(tmp_path, BRANCHES).graph()
    assert graph.layout == "nchw"
    assert [op.type for op in graph.ops] == ["Relu", "If", "Exp"]
    tensors = graph.tensors
    branch = graph.ops[1]
    names = [tensors[i].name for i in branch.inputs]
    assert names == ["c", "a", "x"]  # its condition, then what its bodies read of this graph
    then, other = branch.bodies
    assert (then.name, other.name) == ("then_branch", "else_branch")
    assert [op.type for op in then.ops] == ["Add", "Exp"]
    assert shapes(then) == {
        "a": ("float32", (4,), "captured"),
        "k": ("float32", (4,), "constant"),
        "t": ("float32", (4,), "activation"),
        "r": ("float32", (4,), "activation"),
    }
    assert shapes(other) == {
        "a": ("float32", (4,), "captured"),
        "x": ("float32", (4,), "captured"),
        "y/else_branch/k": ("float32", (4,), "constant"),
        "y/else_branch/t": ("float32", (4,), "activation"),
        "y/else_branch/r": ("float32", (4,), "activation"),
    }


def test_a_nested_body_captures_through_the_one_around_it(tmp_path: Path) -> None:
    graph = opened(
        tmp_path,
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[4] x) => (float[4] y)
        {
          y = If (c) <
            then_branch = t () => (float[4] r) {
              r = If (c) <then_branch = u () => (float[4] s) { s = Exp (x) },
                          else_branch = v () => (float[4] s) { s = Abs (x) }>
            },
            else_branch = e () => (float[4] r) { r = Neg (x) }
          >
        }""",
    ).graph()
    assert [graph.tensors[i].name for i in graph.ops[0].inputs] == ["c", "x"]
    outer = graph.ops[0].bodies[0]
    assert [outer.tensors[i].name for i in outer.ops[0].inputs] == ["c", "x"]
    assert {t.name: t.kind for t in outer.tensors} == {"c": "captured", "x": "captured", "r": "activation"}
    names = [t.name for body in outer.ops[0].bodies for t in body.tensors if t.kind == "activation"]
    assert names == ["s", "y/then_branch/r/else_branch/s"]


def test_absent_inputs_and_outputs(tmp_path: Path) -> None:
    graph = opened(
        tmp_path,
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, float high) => (float[4] y) { y = Clip (x, , high) }""",
    ).graph()
    x, high = graph.inputs
    assert graph.ops[0].inputs == (x, -1, high)
    assert graph.tensors[high].shape == ()


def test_an_initializer_that_is_an_input_too_is_a_constant(tmp_path: Path) -> None:
    model = parser.parse_model("""<ir_version: 3, opset_import: ["" : 8]>
        g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }""")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]))
    graph = opened(tmp_path, model).graph()
    assert [graph.tensors[i].name for i in graph.inputs] == ["x"]
    assert shapes(graph)["w"] == ("float32", (2,), "constant")


def test_what_is_no_dense_tensor_is_opaque(tmp_path: Path) -> None:
    graph = opened(
        tmp_path,
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, string[S] words) => (float[2] y)
        { s = SequenceConstruct (x, x)  zero = Constant <value_int = 0> ()  y = SequenceAt (s, zero)
          w = Identity (words) }""",
    ).graph()
    kinds = {t.name: (t.kind, t.note) for t in graph.tensors}
    assert kinds["s"] == ("opaque", "a sequence, not a dense tensor")
    assert kinds["words"] == kinds["w"] == ("opaque", "strings, which have no fixed width")
    assert kinds["y"][0] == "activation"


@pytest.mark.parametrize(
    ("elem_type", "dtype", "size"),
    [
        (TensorProto.FLOAT, "float32", 20),
        (TensorProto.DOUBLE, "float64", 40),
        (TensorProto.BFLOAT16, "bfloat16", 10),
        (TensorProto.FLOAT8E4M3FNUZ, "float8e4m3fnuz", 5),
        (TensorProto.FLOAT8E5M2, "float8e5m2", 5),
        (TensorProto.FLOAT4E2M1, "float4e2m1", 3),
        (TensorProto.INT4, "int4", 3),
        (TensorProto.UINT4, "uint4", 3),
        (TensorProto.COMPLEX64, "complex64", 40),
        (TensorProto.BOOL, "bool", 5),
    ],
)
def test_element_types(tmp_path: Path, elem_type: int, dtype: str, size: int) -> None:
    values = [helper.make_tensor_value_info(n, elem_type, [5]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:])
    made = opened(
        tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    ).graph()
    assert {(t.dtype, t.size) for t in made.tensors} == {(dtype, size)}


def test_functions_are_inlined(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[4] x) => (float[4] y) { a = mine.twice (x)  y = mine.twice (a) }
        <domain: "mine", opset_import: ["" : 17]>
        twice (v) => (w) { h = Add (v, v)  w = Relu (h) }"""
    model = opened(tmp_path, text)
    graph = model.graph()
    assert [op.type for op in graph.ops] == ["Add", "Relu", "Add", "Relu"]
    assert len({t.name for t in graph.tensors}) == 5
    assert opened(tmp_path, text).graph() == graph
    with pytest.raises(UnsupportedError, match="functions of its own"):
        model.with_order((1, 0, 2, 3))


@pytest.mark.parametrize(
    "calls",
    ["w = mine.b (v)", "w = mine.a (v)"],
    ids=["a function that calls another in turn", "one that calls itself"],
)
def test_functions_that_never_end(tmp_path: Path, calls: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[4] x) => (float[4] y) {{ y = mine.a (x) }}
        <domain: "mine", opset_import: ["" : 17, "mine" : 1]> a (v) => (w) {{ {calls} }}
        <domain: "mine", opset_import: ["" : 17, "mine" : 1]> b (v) => (w) {{ w = mine.a (v) }}"""
    with pytest.raises(ModelError, match="calls itself"):
        opened(tmp_path, text).graph()


def test_functions_that_expand_beyond_measure(tmp_path: Path) -> None:
    layers = "".join(
        f"""<domain: "mine", opset_import: ["" : 17, "mine" : 1]>
        f{k} (v) => (w) {{ h = mine.f{k + 1} (v)  w = mine.f{k + 1} (h) }}
        """
        for k in range(40)
    )
    text = f"""<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[4] x) => (float[4] y) {{ y = mine.f0 (x) }} {layers}
        <domain: "mine", opset_import: ["" : 17]> f40 (v) => (w) {{ w = Relu (v) }}"""
    with pytest.raises(ModelError, match="expand to more than"):
        opened(tmp_path, text).graph()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = Relu (a)  a = Exp (x)", "before it is written"),
        ("y = Relu (nowhere)", "which nothing writes"),
        ("a = Relu (x)  a = Exp (x)  y = Exp (a)", "written twice"),
        ("x = Relu (x)  y = Exp (x)", "written twice"),
    ],
)
def test_impossible_graphs(tmp_path: Path, nodes: str, message: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) {{ {nodes} }}'
    with pytest.raises(ModelError, match=message):
        opened(tmp_path, text).graph()


@pytest.mark.parametrize("data", [b"", b"hello, world", b"\x08\x07", bytes(1000)])
def test_files_that_are_no_models(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError):
        OnnxConverter.open(path, Bindings())


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = save(tmp_path, BRANCHES)
    path.write_bytes(path.read_bytes().replace(b"unused", b"unus\xff\xfe"))
    with pytest.raises(ModelError, match="no UTF-8"):
        OnnxConverter.open(path, Bindings()).graph()


def test_a_plan_is_appended_and_taken_off_again(tmp_path: Path) -> None:
    model = opened(tmp_path, BRANCHES)
    assert model.plan() is None
    planned = model.with_plan(b"\x00plan\xff", PLANSET)
    assert planned.plan() == b"\x00plan\xff"
    assert planned.content().startswith(model.content())
    proto = onnx.ModelProto.FromString(planned.content())
    assert [p.key for p in proto.metadata_props] == [SUMMARY_KEY, PLAN_KEY]
    assert proto.metadata_props[1].value == base64.b64encode(b"\x00plan\xff").decode()
    onnx.checker.check_model(proto, full_check=True)
    assert planned.with_plan(b"\x00plan\xff", PLANSET).content() == planned.content()
    assert planned.with_plan(b"new", PLANSET).content() == model.with_plan(b"new", PLANSET).content()
    assert digest(planned.graph()) == digest(model.graph())


def test_a_plan_that_another_tool_moved(tmp_path: Path) -> None:
    model = opened(tmp_path, BRANCHES).with_plan(b"old", PLANSET)
    proto = onnx.ModelProto.FromString(model.content())
    proto.metadata_props.add(key="author", value="someone")
    proto.producer_name = "another tool"
    moved = opened(tmp_path, proto)
    assert moved.plan() == b"old"
    again = moved.with_plan(b"new", PLANSET)
    assert again.plan() == b"new"
    keys = [p.key for p in onnx.ModelProto.FromString(again.content()).metadata_props]
    assert keys == ["author", SUMMARY_KEY, PLAN_KEY]


def test_a_damaged_plan(tmp_path: Path) -> None:
    proto = parser.parse_model(BRANCHES)
    proto.metadata_props.add(key=PLAN_KEY, value="not base64!")
    with pytest.raises(PlanFileError, match="damaged"):
        opened(tmp_path, proto).plan()


def test_another_order_moves_nodes_and_nothing_else(tmp_path: Path) -> None:
    model = opened(tmp_path, BRANCHES).with_plan(b"old", PLANSET)
    ordered = model.with_order((2, 0, 1))
    assert (model.note(SUMMARY_KEY) is None, ordered.note(SUMMARY_KEY)) == (False, None)
    before, after = (onnx.ModelProto.FromString(m.content()) for m in (model, ordered))
    assert list(after.graph.node) == [before.graph.node[k] for k in (2, 0, 1)]
    assert ordered.graph() == model.graph().reordered((2, 0, 1))
    assert digest(ordered.graph()) == digest(model.graph().reordered((2, 0, 1)))
    assert ordered.plan() is None  # it was for another order
    del before.graph.node[:], after.graph.node[:], before.metadata_props[:]
    assert before == after
    assert len(ordered.content()) == len(opened(tmp_path, BRANCHES).content())
    assert model.with_order((0, 1, 2)) is model


def test_constant_nodes_are_no_operators_and_come_first(tmp_path: Path) -> None:
    model = opened(
        tmp_path,
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y, float[2] z)
        { y = Exp (x)  k = Constant <value = float[2] {1, 2}> ()  z = Add (x, k) }""",
    )
    assert [op.type for op in model.graph().ops] == ["Exp", "Add"]
    ordered = model.with_order((1, 0))
    types = [n.op_type for n in onnx.ModelProto.FromString(ordered.content()).graph.node]
    assert types == ["Constant", "Add", "Exp"]
    assert ordered.graph() == model.graph().reordered((1, 0))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 1), (0, 0, 1), (0, 1, 2, 3)])
def test_orders_that_are_none(tmp_path: Path, order: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="order"):
        opened(tmp_path, BRANCHES).with_order(order)


def test_random_operators_keep_their_order(tmp_path: Path) -> None:
    graph = opened(
        tmp_path,
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y)
        { a = RandomNormalLike (x)  b = RandomUniformLike (x)  y = Add (a, b) }""",
    ).graph()
    assert [op.ordered for op in graph.ops] == [True, True, False]


def test_saving(tmp_path: Path) -> None:
    model = opened(tmp_path, BRANCHES)
    path = tmp_path / "out.onnx"
    model.with_plan(b"p", PLANSET).save(path)
    assert OnnxConverter.open(path, Bindings()).plan() == b"p"
    model.with_plan(b"q", PLANSET).save(tmp_path / "model.onnx")
    assert OnnxConverter.open(tmp_path / "model.onnx", Bindings()).plan() == b"q"
    with pytest.raises(ModelError, match="cannot write"):
        model.save(tmp_path / "nowhere" / "out.onnx")


def test_large_weights_are_not_looked_at(tmp_path: Path) -> None:
    proto = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,64] x) => (float[1,N] y) { y = MatMul (x, w) }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((64, 512), np.float32), "w"))
    proto.graph.initializer[0].raw_data = b"too short"
    assert shapes(opened(tmp_path, proto).graph())["y"] == ("float32", (1, 512), "activation")
