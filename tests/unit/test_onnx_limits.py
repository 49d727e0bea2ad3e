"""Files that ask for more work or memory than their size allows: refused by a limit's name, or read all the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, parser

from edgemem.errors import ModelError, UnknownShapeError
from edgemem.formats import Bindings
from edgemem_converters.onnx import limits
from edgemem_converters.onnx.editor import Editor
from edgemem_converters.onnx.model import OnnxConverter
from tests.onnx_child import read_in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.model.graph import Graph


def node(
    kind: str, inputs: Sequence[str], *outputs: str, bodies: Sequence[GraphProto] = (), name: str = ""
) -> NodeProto:
    made = NodeProto(op_type=kind, input=inputs, output=outputs, name=name)
    names = ("then_branch", "else_branch") if kind == "If" else ("body",)
    for attribute, body in zip(names, bodies, strict=False):
        made.attribute.add(name=attribute, type=AttributeProto.GRAPH).g.CopyFrom(body)
    return made


def body(nodes: Sequence[NodeProto], *outputs: str) -> GraphProto:
    made = GraphProto(name="b", node=nodes)
    for name in outputs:
        made.output.add(name=name)
    return made


def model(
    nodes: Sequence[NodeProto], shape: Sequence[int | str] = (4,), initializers: Sequence[TensorProto] = ()
) -> ModelProto:
    """A model with an input x, conditions c and t, and an output y."""
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    ends += [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("t", TensorProto.INT64, []),
    ]
    graph = helper.make_graph([], "g", ends, [helper.make_empty_tensor_value_info("y")], initializers)
    graph.node.extend(nodes)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def chain(length: int) -> list[NodeProto]:
    names = ["x", *(f"v{k}" for k in range(1, length)), "y"]
    return [node("Relu", [a], b) for a, b in pairwise(names)]


def read(made: ModelProto) -> Graph:
    return OnnxConverter.from_bytes(made.SerializeToString()).graph()


def nested_ifs(depth: int) -> ModelProto:
    inner = body([node("Relu", ["x"], "o0")], "o0")
    for k in range(1, depth):
        inner = body([node("If", ["c"], f"o{k}", bodies=[inner])], f"o{k}")
    return model([node("If", ["c"], "y", bodies=[inner])])


def nested_bytes(depth: int) -> bytes:
    """A file with Ifs in Ifs, so many that protobuf would not write it."""

    def field(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2]) + _varint(len(payload)) + payload

    data = b""
    for _ in range(depth):
        data = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, data)))
    return field(7, data) + field(8, field(1, b"") + bytes([16, 17]))


def nested_loops(depth: int, states: int) -> ModelProto:
    """Each loop rotates the values of its states, of which the innermost makes one longer: all sizes become unknown."""

    def loop(level: int, inputs: Sequence[str], outputs: Sequence[str]) -> NodeProto:
        inner = GraphProto(name="b")
        inner.input.add(name=f"i{level}").type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, []))
        inner.input.add(name=f"go{level}").type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, []))
        values = [f"s{level}_{k}" for k in range(states)]
        for name in values:
            inner.input.add(name=name)
        if level < depth:
            results = [f"r{level}_{k}" for k in range(states)]
            inner.node.append(loop(level + 1, values, results))
        else:
            longer = node("Concat", [values[0], values[0]], "longer")
            longer.attribute.append(helper.make_attribute("axis", 0))
            inner.node.append(longer)
            results = ["longer", *values[1:]]
        ends = [f"e{level}_{k}" for k in range(states)]
        inner.node.append(node("Identity", [f"go{level}"], f"on{level}"))
        inner.node.extend(node("Identity", [a], b) for a, b in zip([*results[1:], results[0]], ends, strict=True))
        for name in (f"on{level}", *ends):
            inner.output.add(name=name)
        return node("Loop", ["t", "c", *inputs], *outputs, bodies=[inner])

    return model([loop(1, ["x"] * states, ["y", *(f"q{k}" for k in range(states - 1))])])


def doubling_functions(depth: int, *, attribute: bytes = b"") -> ModelProto:
    """A call of a function that calls another twice, which calls another twice, and so on."""
    made = model([NodeProto(op_type=f"f{depth}", domain="mine", input=["x"], output=["y"])])
    made.opset_import.add(domain="mine", version=1)
    for k in range(depth + 1):
        function = made.functions.add(name=f"f{k}", domain="mine", input=["a"], output=["b"])
        function.opset_import.add(domain="", version=17)
        function.opset_import.add(domain="mine", version=1)
        if k:
            inner = [NodeProto(op_type=f"f{k - 1}", domain="mine", input=[a], output=[b]) for a, b in ("ah", "hb")]
            function.node.extend(inner)
        else:
            function.node.append(node("Relu", ["a"], "b"))
            if attribute:
                function.node[0].attribute.append(helper.make_attribute("text", attribute))
    return made


def test_every_limit_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    named = {n for n in limits.__all__ if n.isupper()} | {"INFERENCE_WORK", "MAX_INLINED_NODES"}
    assert {n for n in named if n not in text} == set()


def test_graphs_in_graphs() -> None:
    for depth in (31, 32, 33, 40, 1000):  # protobuf itself refuses more than 32
        with pytest.raises(ModelError, match="MAX_DEPTH = 30"):
            OnnxConverter.from_bytes(nested_bytes(depth)).graph()


def test_ifs_as_deep_as_may_be() -> None:
    assert len(read(nested_ifs(limits.MAX_DEPTH)).ops) == 1


@pytest.mark.full
@pytest.mark.parametrize(("depth", "states"), [(30, 1), (12, 4), (1, 1000)])
def test_loops_that_take_many_turns_until_sizes_stay(depth: int, states: int) -> None:
    with pytest.raises(ModelError, match="INFERENCE_WORK"):
        read(nested_loops(depth, states))


def test_loops_that_take_few_turns() -> None:
    made = read(nested_loops(3, 4))
    assert {t.note for t in made.tensors if t.kind == "opaque"} == {
        "of a size that depends on the data (Loop), left to the runtime"
    }


def test_functions_that_double() -> None:
    with pytest.raises(ModelError, match=r"expand to more than 100,544 nodes.*MAX_INLINED_NODES"):
        read(doubling_functions(16))
    assert len(read(doubling_functions(5)).ops) == 32


def test_functions_with_large_attributes() -> None:
    with pytest.raises(ModelError, match="MAX_INLINED_BYTES"):
        read(doubling_functions(10, attribute=b"x" * 2**19))


def test_dimensions_of_a_tensor() -> None:
    with pytest.raises(ModelError, match=r"'x' has 65 dimensions.*MAX_RANK = 64"):
        read(model(chain(1), [1] * 65))
    assert len(read(model(chain(1), [1] * 64)).ops) == 1


def test_dimensions_of_a_sequences_elements() -> None:
    made = model(chain(1))
    made.graph.input.add(name="s").type.sequence_type.elem_type.CopyFrom(
        helper.make_tensor_type_proto(TensorProto.FLOAT, [1] * 65)
    )
    with pytest.raises(ModelError, match="'s' has 65 dimensions"):
        read(made)


def test_dimensions_of_a_constant() -> None:
    constant = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1] * 65, raw_data=bytes(4))
    with pytest.raises(ModelError, match="'w' has 65 dimensions"):
        read(model(chain(1), initializers=[constant]))


def test_dimensions_that_operators_add() -> None:
    made = model(
        [
            helper.make_node("Constant", [], ["axes"], value_ints=list(range(63))),
            node("Unsqueeze", ["x", "axes"], "u"),
            node("Unsqueeze", ["u", "axes"], "y"),
        ]
    )
    with pytest.raises(ModelError, match="MAX_RANK"):
        read(made)


@pytest.mark.parametrize("dims", [[2**62, 4], [2**31, 2**31], [2**48]])
def test_elements_of_a_constant(dims: list[int]) -> None:
    constant = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    with pytest.raises(ModelError, match="MAX_ELEMENTS"):
        read(model([node("Size", ["w"], "n"), *chain(1)], initializers=[constant]))


def test_values_of_bindings() -> None:
    data = model(chain(1), ["N"]).SerializeToString()
    for value in (-1, 2**47 + 1, 2**63, 10**5000, -(10**5000)):
        with pytest.raises(ModelError, match="cannot"):
            OnnxConverter.from_bytes(data, Bindings({"N": value})).graph()
        with pytest.raises(ModelError, match="cannot"):
            OnnxConverter.from_bytes(data, Bindings({}, {"x": (value,)})).graph()


@pytest.mark.parametrize("where", ["value", "symbol", "node"])
def test_names(where: str) -> None:
    name = "n" * 4097
    made = model(chain(1), [name] if where == "symbol" else [4])
    if where == "value":
        made.graph.node.append(node("Relu", ["x"], name))
    elif where == "node":
        made.graph.node[0].name = name
    with pytest.raises(ModelError, match=r"4,097 characters.*MAX_NAME_LENGTH"):
        read(made)


def test_names_with_long_paths() -> None:
    """A value of a body takes the path of the body into its name if another value has it."""
    inner = body([node("Relu", ["x"], f"{k}") for k in range(3000)], "0")
    for _ in range(2):
        inner = body([node("If", ["c"], "0", bodies=[inner], name="n" * 4000)], "0")
    with pytest.raises(ModelError, match="MAX_PATH_CHARACTERS"):
        read(model([node("If", ["c"], "y", bodies=[inner, inner], name="n" * 4000)]))


@pytest.mark.full
def test_types_of_many_symbols() -> None:
    shape = [f"{'s' * 200}{k}" for k in range(64)]
    with pytest.raises(ModelError, match="MAX_TYPE_BYTES"):
        read(model(chain(6000), shape))


def test_operator_sets() -> None:
    made = model(chain(1))
    for k in range(limits.MAX_OPSETS):
        made.opset_import.add(domain=f"d{k}", version=1)
    with pytest.raises(ModelError, match="MAX_OPSETS"):
        read(made)


@pytest.mark.full
def test_values_that_are_computed() -> None:
    """A node of 25 bytes makes a value of 32 KiB, and the next one adds to it."""
    made = [
        helper.make_node("Constant", [], ["n"], value_ints=[4096]),
        helper.make_node("ConstantOfShape", ["n"], ["k0"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1])),
        *(node("Add", [f"k{k}", "k0"], f"k{k + 1}") for k in range(5000)),
        *chain(1),
    ]
    with pytest.raises(ModelError, match="INFERENCE_WORK"):
        read(model(made))


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("r = Range (zero, far, one)", "float16[2] r"),
        ("r = Where (a, b, d)", "float[2] r"),
        ("r = Tile (d, many)", "float[2] r"),
        ("r = Expand (d, many)", "float[2] r"),
        ("r = ConstantOfShape (many)", "float[2] r"),
    ],
)
def test_values_that_are_declared_small(tmp_path: Path, text: str, declared: str) -> None:
    """They are computed only if they are small, whatever the file says."""
    made = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) <{declared}> {{ {text}  y = Relu (x) }}"""
    )
    arrays: dict[str, tuple[list[int], int, list[float]]] = {
        "zero": ([], TensorProto.FLOAT, [0.0]),
        "far": ([], TensorProto.FLOAT, [1e18]),
        "one": ([], TensorProto.FLOAT, [1.0]),
        "a": ([4096, 1, 1], TensorProto.BOOL, [True] * 4096),
        "b": ([4096, 1], TensorProto.FLOAT, [1.0] * 4096),
        "d": ([4096], TensorProto.FLOAT, [1.0] * 4096),
        "many": ([1], TensorProto.INT64, [2**40]),
    }
    used = set(made.graph.node[0].input)
    made.graph.initializer.extend(helper.make_tensor(n, t, d, v) for n, (d, t, v) in arrays.items() if n in used)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    assert read_in_child(path, memory=3 << 30).startswith(("read", "ModelError", "UnknownShapeError"))


def many_ifs() -> ModelProto:
    """3,000 nodes with two bodies each, where 200,000 values of the main graph are visible."""
    constants = [TensorProto(name=f"w{k}", data_type=TensorProto.STRING, dims=[0]) for k in range(200_000)]
    made = []
    for k in range(3_000):
        branches = [body([node("Relu", ["x"], f"{kind}{k}")], f"{kind}{k}") for kind in "ab"]
        made.append(node("If", ["c"], f"y{k}" if k else "y", bodies=branches))
    return model(made, initializers=constants)


def equal_names() -> ModelProto:
    """40,000 bodies with a value of the same name, under nodes of the same name."""
    branch = body([node("Relu", ["x"], "o")], "o")
    return model([node("If", ["c"], f"y{k}" if k else "y", bodies=[branch] * 2, name="n") for k in range(20_000)])


def captured_inputs() -> ModelProto:
    """A node that reads 100,000 values, with a body that reads them, too."""
    names = [f"v{k}" for k in range(100_000)]
    inner = body([node("Sum", names, "o")], "o")
    return model([*(node("Relu", ["x"], n) for n in names), node("If", ["c", *names], "y", bodies=[inner, inner])])


@pytest.mark.full
@pytest.mark.parametrize("make", [many_ifs, equal_names, captured_inputs])
def test_time_in_proportion_to_the_file(tmp_path: Path, make: Callable[[], ModelProto]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(make().SerializeToString())
    assert read_in_child(path).startswith(("read", "ModelError"))


def test_many_outputs_of_a_model_taken_apart() -> None:
    """Each is looked up among the outputs of all nodes."""
    made = model(chain(3000))
    for k in range(1, 3000):
        made.graph.output.add(name=f"v{k}")
    assert Editor().parts(made.SerializeToString(), Path()).refusals() == ()


@pytest.mark.parametrize("version", [2**31, 2**62, -1, -(2**63)])
def test_versions_of_operator_sets(version: int) -> None:
    made = model(chain(1))
    made.opset_import[0].version = version
    with pytest.raises(ModelError, match="no operator set"):
        read(made)


def test_a_constant_that_writes_nothing() -> None:
    constant = helper.make_node("Constant", [], [""], value_int=1)
    with pytest.raises(ModelError, match="a Constant"):
        read(model([constant, *chain(1)]))


def test_a_trip_count_that_is_no_number() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y, float[A, 4] z) <float trips = {nan}, bool yes = {1}> {
          y, z = Loop (trips, yes, x) <body = b (int64 i, bool go, float[4] v) => (bool k, float[4] u, float[4] o)
            { k = Identity (go)  u = Exp (v)  o = Relu (v) }> }"""
    made = parser.parse_model(text.replace("{nan}", "{0}"))
    made.graph.initializer[0].CopyFrom(helper.make_tensor("trips", TensorProto.FLOAT, [], [float("nan")]))
    with pytest.raises(ModelError):
        read(made)


def test_errors_name_a_few_flags() -> None:
    made = model(chain(1))
    for k in range(500):
        made.graph.input.append(helper.make_tensor_value_info(f"i{k}", TensorProto.FLOAT, [f"n{k}"]))
    with pytest.raises(UnknownShapeError, match=r"(?m)'i9' and 490 more; .* and \d+ more$") as caught:
        read(made)
    assert len(str(caught.value)) < 800
    assert len(caught.value.symbols) == 500


def test_deep_messages() -> None:
    """protobuf refuses these itself."""
    made = onnx.TypeProto()
    made.tensor_type.elem_type = 1
    data = made.SerializeToString()
    for _ in range(300):
        outer = onnx.TypeProto()
        outer.sequence_type.SetInParent()
        inner = b"\x0a" + _varint(len(data)) + data
        data = b"\x22" + _varint(len(inner)) + inner
    info = b"\x0a\x01s\x12" + _varint(len(data)) + data
    graph = b"\x5a" + _varint(len(info)) + info
    with pytest.raises(ModelError):
        OnnxConverter.from_bytes(b"\x3a" + _varint(len(graph)) + graph + b"\x42\x04\x0a\x00\x10\x11")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
