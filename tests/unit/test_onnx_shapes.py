"""Sizes of an ONNX model's values: what the user binds, what follows from it, and what is said if it is not enough."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from edgemem.errors import ModelError, UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.graph import Graph

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
ADD = f"{HEAD} g (float[batch, N] x, float[batch, 1] s) => (float[batch, N] y) {{ y = Add (x, s) }}"
NONZERO = f"{HEAD} g (float[4, 5] x) => (int64[2, N] y) {{ i = NonZero (x)  y = Neg (i) }}"


def graph(
    tmp_path: Path,
    model: str | onnx.ModelProto,
    dims: dict[str, int] | None = None,
    **input_shapes: tuple[int, ...],
) -> Graph:
    path = tmp_path / "model.onnx"
    path.write_bytes((parser.parse_model(model) if isinstance(model, str) else model).SerializeToString())
    return OnnxConverter.open(path, Bindings(dims or {}, input_shapes)).graph()


def shapes(made: Graph) -> dict[str, tuple[int, ...]]:
    found = {t.name: t.shape for t in made.tensors if t.kind == "activation"}
    for op in made.ops:
        for body in op.bodies:
            found |= shapes(body)
    return found


def left_out(made: Graph) -> dict[str, str]:
    found = {t.name: t.note for t in made.tensors if t.kind == "opaque"}
    for op in made.ops:
        for body in op.bodies:
            found |= left_out(body)
    return found


def without_shape(model: str, *names: str) -> onnx.ModelProto:
    """The model with nothing said about the rank of these inputs."""
    proto = parser.parse_model(model)
    for value in proto.graph.input:
        if value.name in names:
            value.type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize(
    ("dims", "input_shapes"),
    [
        ({"batch": 3, "N": 5}, {}),
        ({}, {"x": (3, 5)}),
        ({"N": 5}, {"s": (3, 1)}),
        ({"batch": 3, "N": 5}, {"x": (3, 5), "s": (3, 1)}),
    ],
)
def test_symbols_are_bound_by_name_and_by_shape(
    tmp_path: Path, dims: dict[str, int], input_shapes: dict[str, tuple[int, ...]]
) -> None:
    assert shapes(graph(tmp_path, ADD, dims, **input_shapes)) == {"x": (3, 5), "s": (3, 1), "y": (3, 5)}


@pytest.mark.parametrize(
    ("dims", "input_shapes", "message"),
    [
        ({"batch": 3, "N": 5, "M": 1}, {}, r"no dimension is called 'M'; the model has N, batch"),
        ({"batch": 3}, {"x": (4, 5)}, r"'batch' cannot be 3 and, as input 'x' has it, 4"),
        ({}, {"x": (3, 5), "s": (4, 1)}, r"'batch' cannot be 3 and, as input 's' has it, 4"),
        ({}, {"s": (3, 2)}, r"input 's' is 1 long in axis 1, and cannot be 2"),
        ({}, {"x": (3, 5, 1)}, r"input 'x' has rank 2"),
        ({}, {"z": (3, 5)}, r"no input 'z'; there are 'x', 's'"),
        ({"batch": -1}, {}, r"'batch' cannot be -1"),
        ({}, {"x": (3, -5)}, r"input 'x' cannot have the shape"),
        ({"batch": 2**40, "N": 2**40}, {}, r"which no machine can hold"),
    ],
)
def test_bindings_that_contradict(
    tmp_path: Path, dims: dict[str, int], input_shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        graph(tmp_path, ADD, dims, **input_shapes)


def test_what_is_missing_is_named_with_the_flags(tmp_path: Path) -> None:
    with pytest.raises(UnknownShapeError) as error:
        graph(tmp_path, ADD, {"batch": 3})
    assert error.value.symbols == ("N",)
    assert error.value.tensors == ("x", "y")
    assert str(error.value).startswith("the size of 2 tensors is unknown: 'x', 'y';")
    assert str(error.value).endswith("--dim N=VALUE")


def test_many_missing_tensors_are_counted(tmp_path: Path) -> None:
    nodes = " ".join(f"v{k + 1} = Exp (v{k})" for k in range(30))
    with pytest.raises(UnknownShapeError, match=r"31 tensors .*'v9' and 21 more; ") as error:
        graph(tmp_path, f"{HEAD} g (float[N] v0) => (float[N] v30) {{ {nodes} }}")
    assert len(error.value.tensors) == 31


@pytest.mark.parametrize("mark", ["", "?"])
def test_dimensions_without_a_name(tmp_path: Path, mark: str) -> None:
    proto = parser.parse_model(f"{HEAD} g (float[A, 2, B] x) => (float[N] y) {{ y = Exp (x) }}")
    for axis in (0, 2):
        dim = proto.graph.input[0].type.tensor_type.shape.dim[axis]
        dim.Clear()
        if mark:
            dim.dim_param = mark
    with pytest.raises(UnknownShapeError, match=r"(?m)--input-shape x=N,2,N$"):
        graph(tmp_path, proto)
    expected = {"x": (1, 2, 3), "y": (1, 2, 3)}
    assert shapes(graph(tmp_path, proto, x=(1, 2, 3))) == expected
    assert shapes(graph(tmp_path, proto, {"x.0": 1, "x.2": 3})) == expected


def test_a_negative_dimension_is_an_unknown_one(tmp_path: Path) -> None:
    proto = parser.parse_model(f"{HEAD} g (float[A, 2] x) => (float[N] y) {{ y = Exp (x) }}")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert shapes(graph(tmp_path, proto, x=(4, 2)))["y"] == (4, 2)


def test_an_input_of_unknown_rank(tmp_path: Path) -> None:
    proto = without_shape(f"{HEAD} g (float[A] x) => (float[N] y) {{ y = Exp (x) }}", "x")
    with pytest.raises(UnknownShapeError, match=r"(?m)--input-shape x=SHAPE$"):
        graph(tmp_path, proto)
    assert shapes(graph(tmp_path, proto, x=(2, 3)))["y"] == (2, 3)
    assert shapes(graph(tmp_path, proto, x=()))["y"] == ()


def test_data_dependent_sizes_are_left_to_the_runtime_unless_the_user_bounds_them(tmp_path: Path) -> None:
    proto = parser.parse_model(NONZERO)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    made = graph(tmp_path, proto)
    assert shapes(made) == {"x": (4, 5)}
    note = "of a size that depends on the data (NonZero), left to the runtime"
    assert left_out(made) == {"i": note, "y": note}
    assert shapes(graph(tmp_path, proto, {"i.1": 20})) == {"x": (4, 5), "i": (2, 20), "y": (2, 20)}


def test_bounds_go_through_what_is_computed_from_them(tmp_path: Path) -> None:
    model = f"""{HEAD} g (float[4, 5] x) => (int64[M] y)
    {{ i = NonZero (x)  n = Size (i)  axis = Constant <value_ints = [0]> ()  s = Unsqueeze (n, axis)
       y = Reshape (i, s) }}"""
    assert shapes(graph(tmp_path, model, {"i.1": 20}))["y"] == (40,)


def test_reshaping_by_computed_shapes(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        f"""{HEAD} g (float[batch, 6, 4] x) => (float[M, N] y)
        {{ s = Shape (x)  zero = Constant <value_int = 0> ()  rest = Constant <value_ints = [-1]> ()
           axis = Constant <value_ints = [0]> ()  two = Constant <value_int = 2> ()
           b = Gather (s, zero)  b2 = Mul (b, two)  b1 = Unsqueeze (b2, axis)
           shape = Concat <axis = 0> (b1, rest)  y = Reshape (x, shape) }}""",
        {"batch": 3},
    )
    assert shapes(made)["y"] == (6, 12)


def test_inference_wins_over_what_the_file_declares(tmp_path: Path) -> None:
    model = f"{HEAD} g (float[batch, 2] x) => (float[7, 7] y) <float[1, 2] a> {{ a = Exp (x)  y = Exp (a) }}"
    assert shapes(graph(tmp_path, model, {"batch": 4})) == {"x": (4, 2), "a": (4, 2), "y": (4, 2)}


def test_the_file_is_believed_where_no_rule_knows(tmp_path: Path) -> None:
    model = f"{HEAD} g (float[batch, 2] x) => (float[N] y) <float[batch, 9] a> {{ a = mine.Magic (x)  y = Exp (a) }}"
    assert shapes(graph(tmp_path, model.replace("17,", '17, "mine" : 1,'), {"batch": 4}))["y"] == (4, 9)


def test_an_unknown_operator_without_a_declaration(tmp_path: Path) -> None:
    head = HEAD.replace("17,", '17, "mine" : 1,')
    proto = parser.parse_model(f"{head} g (float[2] x) => (float[N] y) {{ a = mine.Magic (x)  y = Exp (a) }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnknownShapeError, match=r"no flag binds it: .* gives 'a' a shape\. Add it to") as error:
        graph(tmp_path, proto)
    assert error.value.symbols == ()


@pytest.mark.parametrize("dims", ["N", "N, 4"])
@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        ("Scaler <offset = [0.5], scale = [2.0]>", "float"),
        ("Scaler <offset = [0.5], scale = [2.0]>", "int64"),
        ("Normalizer", "float"),
        ("Normalizer", "int64"),
        ("Imputer <imputed_value_floats = [1.0], replaced_value_float = 0.0>", "float"),
        ("Imputer <imputed_value_int64s = [1], replaced_value_int64 = 0>", "int64"),
    ],
)
def test_scalers_of_classifiers_make_what_onnx_runtime_does(
    tmp_path: Path, operator: str, dtype: str, dims: str
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    made_dtype = dtype if operator.startswith("Imputer") else "float"
    head = HEAD.replace("17,", '17, "ai.onnx.ml" : 3,')
    proto = parser.parse_model(
        f"{head} g ({dtype}[{dims}] x) => ({made_dtype}[A] y) {{ a = ai.onnx.ml.{operator} (x)  y = Abs (a) }}"
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    made = next(t for t in graph(tmp_path, proto, {"N": 3}).tensors if t.name == "a")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    values = 5 * np.random.default_rng(0).standard_normal(made.shape) + 1
    result = session.run(None, {"x": values.astype("float32" if dtype == "float" else dtype)})[0]
    assert (result.shape, str(result.dtype)) == (made.shape, made.dtype)


def test_what_a_classifier_makes_is_left_to_the_runtime(tmp_path: Path) -> None:
    """As scikit-learn's converters write it: scores of a size that no rule gives, and a sequence of maps."""
    head = HEAD.replace("17,", '17, "ai.onnx.ml" : 3,')
    proto = parser.parse_model(
        f"""{head} g (float[N, 4] x) => (int64[M] label, seq(map(int64, float)) scores)
        {{ a = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x)
           label, raw = ai.onnx.ml.SVMClassifier <classlabels_ints = [0, 1], kernel_type = "LINEAR"> (a)
           b = Neg (raw)  scores = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (b) }}"""
    )
    with pytest.raises(UnknownShapeError, match=r"--input-shape|--dim N=VALUE"):
        graph(tmp_path, proto)
    made = graph(tmp_path, proto, {"N": 3, "M": 3})
    assert shapes(made)["a"] == (3, 4)
    assert {"raw", "b", "scores"} <= left_out(made).keys()
    assert "ai.onnx.ml::SVMClassifier" in left_out(made)["raw"]


def test_sizes_that_an_operator_does_not_take(tmp_path: Path) -> None:
    proto = parser.parse_model(f"{HEAD} g (float[A] x, float[3] w) => (float[N] y) {{ y = Add (x, w) }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        UnknownShapeError, match=r"the operators do not take these sizes: 'y': .*ncompatible dimensions"
    ):
        graph(tmp_path, proto, {"A": 4})


def test_onnxruntimes_own_operators(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("sympy")
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign,assignment]
    logging.getLogger().addHandler(handler)
    try:
        made = graph(
            tmp_path,
            f"""{HEAD} g (float[batch, 8, 16] x, float[batch, 8, 16] r, float[16] w) => (float[N] y)
            {{ a, , , sum = com.microsoft.SkipLayerNormalization (x, r, w)  b = com.microsoft.FastGelu (a)
               y = Exp (b) }}""",
            {"batch": 2},
        )
    finally:
        logging.getLogger().removeHandler(handler)
    assert shapes(made)["y"] == shapes(made)["sum"] == (2, 8, 16)
    assert (capfd.readouterr(), records) == (("", ""), [])
    assert not list(tmp_path.glob("sym_shape*"))


def test_without_onnxruntime_its_operators_have_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime.tools.symbolic_shape_infer", None)
    model = f"{HEAD} g (float[2, 3] x) => (float[N] y) {{ a = com.microsoft.FastGelu (x)  y = Exp (a) }}"
    assert shapes(graph(tmp_path, model))["y"] == (2, 3)
    with pytest.raises(UnknownShapeError, match="'a', 'y'"):
        graph(tmp_path, model.replace("FastGelu", "GemmFloat8"))


@pytest.mark.parametrize(("channels", "blocked"), [(24, 24), (32, 32), (16, 16), (20, 32)])
def test_channels_in_blocks(tmp_path: Path, channels: int, blocked: int) -> None:
    """Weights tell how many channels ONNX Runtime has put into a block on the machine that wrote the file."""
    width = 24 if blocked == 24 else 32
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
        g (float[1, {channels}, 8, 8] x) => (float[A, B, C, D] y)
        {{ a = com.microsoft.nchwc.ReorderInput (x)  b = com.microsoft.nchwc.Conv (a, w)  c = Add (b, b)
           y = com.microsoft.nchwc.ReorderOutput <channels = {channels}> (c) }}"""
    proto = parser.parse_model(text)
    weight = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[width, blocked, 1, 1])
    weight.raw_data = bytes(4 * width * blocked)
    found = shapes(graph(tmp_path, proto))
    assert found["a"] == (1, blocked, 8, 8)
    assert found["b"] == (1, width, 8, 8)
    assert found["y"] == (1, channels, 8, 8)


CONDITIONAL = f"""{HEAD} g (float[1, N] x) => (float[M] y)
{{ s = Shape (x)  one = Constant <value_ints = [1, 4]> ()  same = Equal (s, one)  all = Cast <to = 6> (same)
   least = ReduceMin <keepdims = 0> (all)  c = Cast <to = 9> (least)
   y = If (c) <then_branch = t () => (float[A, B] r) {{ r = Exp (x) }},
               else_branch = e () => (float[C] r) {{ i = Abs (x)  r = Squeeze (i) }}> }}"""


def test_a_branch_that_is_never_taken_has_no_sizes(tmp_path: Path) -> None:
    made = graph(tmp_path, CONDITIONAL, {"N": 4})
    assert shapes(made)["y"] == (1, 4)
    then, other = made.ops[-1].bodies
    assert shapes(then) == {"r": (1, 4)}
    assert {t.kind for t in other.tensors} == {"captured", "opaque"}
    assert {t.note for t in other.tensors if t.kind == "opaque"} == {"in a branch that is never taken"}
    assert shapes(graph(tmp_path, CONDITIONAL, {"N": 5}))["y"] == (5,)


def test_a_branch_that_would_fail_has_no_sizes(tmp_path: Path) -> None:
    model = f"""{HEAD} g (bool c, float[N] x) => (float[M] y)
    {{ y = If (c) <then_branch = t () => (float[A] r) <float[3] k = {{1, 2, 3}}> {{ r = Add (x, k) }},
                   else_branch = e () => (float[B] r) <float[5] k = {{1, 2, 3, 4, 5}}>
                   {{ i = Exp (x)  r = Add (i, k) }}> }}"""
    made = graph(tmp_path, model, {"N": 3})
    assert shapes(made)["y"] == (3,)
    notes = {t.name.rsplit("/")[-1]: t.note for t in made.ops[0].bodies[1].tensors if t.kind == "opaque"}
    assert notes == dict.fromkeys(("i", "r"), "in a branch that fails at these sizes")
    assert shapes(graph(tmp_path, model, {"N": 5}))["y"] == (5,)
    with pytest.raises(UnknownShapeError):  # neither branch takes it
        graph(tmp_path, model, {"N": 4})


def test_branches_of_different_sizes(tmp_path: Path) -> None:
    model = f"""{HEAD} g (bool c, float[3] x, float[5] z) => (float[M] y)
    {{ y = If (c) <then_branch = t () => (float[A] r) {{ r = Exp (x) }},
                   else_branch = e () => (float[B] r) {{ r = Exp (z) }}> }}"""
    assert "(If)" in left_out(graph(tmp_path, model))["y"]
    assert shapes(graph(tmp_path, model, {"M": 5}))["y"] == (5,)


def loop(carried: str, *, condition: str = "keep = Identity (go)") -> str:
    return f"""{HEAD} g (float[2, N] x) => (float[A, B] last, float[C, D, E] all)
    {{ trips = Constant <value_int = 6> ()  yes = Constant <value = bool {{1}}> ()
       last, all = Loop (trips, yes, x) <
         body = b (int64 i, bool go, float[P, Q] v) => (bool keep, float[R, S] w, float[T, U] o)
       {{ {condition}  {carried}  o = Relu (v) }}> }}"""


def test_a_loop_that_keeps_its_sizes(tmp_path: Path) -> None:
    found = shapes(graph(tmp_path, loop("w = Exp (v)"), {"N": 3}))
    assert (found["v"], found["w"], found["o"], found["last"], found["all"]) == (*[(2, 3)] * 4, (6, 2, 3))
    assert found["i"] == found["go"] == ()


def test_a_loop_that_may_end_early(tmp_path: Path) -> None:
    stop = "n = ReduceSum <keepdims = 0> (v)  limit = Constant <value_float = 9.0> ()  keep = Less (n, limit)"
    assert "(Loop)" in left_out(graph(tmp_path, loop("w = Exp (v)", condition=stop), {"N": 3}))["all"]
    found = shapes(graph(tmp_path, loop("w = Exp (v)", condition=stop), {"N": 3, "C": 6}))
    assert found["all"] == (6, 2, 3)


def test_a_loop_that_grows_its_value(tmp_path: Path) -> None:
    grows = loop("one = Constant <value = float[2, 1] {0, 0}> ()  w = Concat <axis = 1> (v, one)")
    assert left_out(graph(tmp_path, grows, {"N": 3})).keys() == {"v", "w", "o", "last", "all"}
    found = shapes(graph(tmp_path, grows, {"N": 3, "Q": 8, "B": 9}))
    assert (found["v"], found["w"], found["o"], found["last"]) == ((2, 8), (2, 9), (2, 8), (2, 9))


def test_a_scan(tmp_path: Path) -> None:
    model = f"""{HEAD} g (float[4] h, float[N, 3, 4] x) => (float[A] last, float[B, C] all)
    {{ last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
       body = b (float[P] s, float[Q, R] v) => (float[T] t, float[U, V] o)
       {{ axes = Constant <value_ints = [0]> ()  m = ReduceSum <keepdims = 0> (v, axes)
          t = Add (s, m)  o = Mul (v, s) }}> (h, x) }}"""
    found = shapes(graph(tmp_path, model, {"N": 7}))
    assert (found["v"], found["o"], found["last"], found["all"]) == ((7, 4), (7, 4), (4,), (7, 3, 4))


def test_a_scan_of_opset_8_is_refused(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["v"], ["o"])],
        "b",
        [helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, [2])],
    )
    node = helper.make_node("Scan", ["", "x"], ["y"], num_scan_inputs=1, body=body)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, 2]) for n in "xy"]
    proto = helper.make_model(
        helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 8)]
    )
    with pytest.raises(UnsupportedError, match="opset 8"):
        graph(tmp_path, proto)


def test_a_map_over_a_sequence(tmp_path: Path) -> None:
    model = f"""{HEAD} g (float[2, 3] x) => (seq(float[2, 3]) y)
    {{ s = SequenceConstruct (x, x)
       y = SequenceMap (s) <body = b (float[A, B] v) => (float[C, D] w) {{ w = Exp (v) }}> }}"""
    made = graph(tmp_path, model)
    assert shapes(made) == {"x": (2, 3), "v": (2, 3), "w": (2, 3)}
    assert {t.name for t in made.tensors if t.kind == "opaque"} == {"s", "y"}


def test_small_external_shapes_are_read_if_they_are_there(tmp_path: Path) -> None:
    proto = parser.parse_model(f"{HEAD} g (float[2, 6] x) => (float[N] y) {{ y = Reshape (x, shape) }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    tensor = proto.graph.initializer.add(name="shape", data_type=TensorProto.INT64, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "8"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    with pytest.raises(UnknownShapeError):
        graph(tmp_path, proto)
    (tmp_path / "weights.bin").write_bytes(b"".join(n.to_bytes(8, "little") for n in (0, 4, 3)))
    assert shapes(graph(tmp_path, proto))["y"] == (4, 3)


def test_what_onnx_cannot_infer_imports_no_pytorch(tmp_path: Path) -> None:
    """The package of onnxruntime's tool imports it where it is installed, and a broken one would end the plan."""
    pytest.importorskip("sympy")
    pytest.importorskip("onnxruntime")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('cannot open shared object file')")
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4, 8] x) => (float[4, 8] y, float[2, n] z)
        { t = NonZero (x)  y = Relu (x)  z = Cast <to = 1> (t) }"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "edgemem", "plan", tmp_path / "m.onnx", "--no-record"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
