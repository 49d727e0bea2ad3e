"""Whole ONNX models as tensor operations, values that need no operation, and damaged or hostile files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings, Computable
from edgemem.model.tensor_ops import FullyConnected
from edgemem_converters.onnx import OnnxConverter
from edgemem_converters.onnx.computation import constants as compute_values
from models.build import build, names
from tests.onnx_computed import by_operators, check_alike, differences, fed, mixed, one, outcome, program_of, session
from tests.onnx_kinds import KINDS, feeds_for

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def _numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def _opened(model: ModelProto, path: Path | None = None) -> OnnxConverter:
    data = model.SerializeToString()
    return OnnxConverter.from_bytes(data, Bindings(), path) if path else OnnxConverter.from_bytes(data)


def _wired(
    *nodes: onnx.NodeProto, weights: dict[str, NDArray[Any]] | None = None, shape: tuple[int, ...] = (2, 3)
) -> ModelProto:
    """A model of nodes from x, of a shape, to y."""
    x, y = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), helper.make_tensor_value_info("y", 1, None)
    constants = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", sorted(set(names()) - {"branches", "dynamic", "randwire", "transformer"}))
def test_networks(name: str) -> None:
    """All their operators have tensor operations, which give what ONNX Runtime gives."""
    model = build(name, size="small")
    found, reasons = mixed(model, feeds_for(model))
    assert reasons == set()
    expected = fed(model, feeds_for(model))
    assert min(float(np.ptp(value)) for value in expected.values()) > 1e-3
    assert max(differences(found, expected).values()) < 1e-5


@pytest.mark.parametrize(
    ("name", "expected_reasons"),
    [
        ("audio", set()),
        ("bert", set()),
        ("llama", set()),
        ("convolutions", set()),
        ("resizes", {"Resize with mode 'cubic'"}),
        ("layer_normalization_14", set()),
    ],
)
def test_exported_models(name: str, expected_reasons: set[str]) -> None:
    model = KINDS[name]()
    feeds = feeds_for(model)
    expected = fed(model, feeds)
    found, reasons = mixed(model, feeds)
    assert reasons == expected_reasons
    assert max(differences(found, expected).values()) < 1e-5
    assert max(differences(by_operators(model, feeds), expected).values()) < 1e-5


@pytest.mark.full
def test_operators_without_tensor_operations_have_reasons() -> None:
    assert {"Sum of 4 tensors, more than two", "Mean"} <= set(program_of(build("randwire", size="small")).steps)
    opened = _opened(build("branches", size="small"))
    program = opened.program()
    assert isinstance(opened, Computable)
    (number,) = (k for k, step in enumerate(program.steps) if step == "If with bodies")
    with pytest.raises(UnsupportedError, match="bodies"):
        opened.operator_model(number)
    ssd = _opened(KINDS["ssdlite"]())
    reasons = [step for step in ssd.program().steps if isinstance(step, str)]
    assert "NonMaxSuppression" in reasons
    assert any("depends on the data" in reason for reason in reasons)


def test_values_that_follow_from_shapes_are_constants() -> None:
    """Shape, Gather and Concat have no steps, and nothing but their values goes into a model of one operator."""
    model = _wired(
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["last"]),
        helper.make_node("Concat", ["last", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
        weights={"one": np.array([1], np.int64), "minus": np.array([-1], np.int64)},
    )
    opened = _opened(model)
    program, graph = opened.program(), opened.graph()
    assert program.steps[:3] == ((), (), ())
    number = {t.name: k for k, t in enumerate(graph.tensors)}
    assert program.constants[number["target"]].tolist() == [3, -1]
    assert [i.name for i in session(opened.operator_model(3)).get_inputs()] == ["x"]
    assert np.array_equal(outcome(program, {"x": _numbers(2, 3)})["y"], _numbers(2, 3).reshape(3, 2))


def test_outputs_that_nobody_reads_are_not_written() -> None:
    """A mask or indices that are read have no operation."""
    nodes = [
        helper.make_node("Dropout", ["x"], ["d", "mask"]),
        helper.make_node("MaxPool", ["d"], ["y", "places"], kernel_shape=[2, 2]),
    ]
    model = _wired(*nodes, shape=(1, 2, 4, 4))
    assert [len(steps) for steps in program_of(model).steps] == [1, 1]
    found, reasons = mixed(model, {"x": _numbers(1, 2, 4, 4)})
    assert reasons == set()
    assert np.array_equal(found["y"], fed(model, {"x": _numbers(1, 2, 4, 4)})["y"])
    model.graph.output.append(helper.make_tensor_value_info("places", TensorProto.INT64, None))
    assert program_of(model).steps[1] == "MaxPool with more than one output"


def test_an_output_that_no_input_changes_is_a_constant() -> None:
    model = _wired(
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    )
    program = program_of(model)
    assert program.steps == ((), ())
    assert outcome(program, {"x": _numbers(2, 3)})["y"].tolist() == [2, 3]


def test_weights_are_computed_from_constants_of_any_size() -> None:
    """A transposed, converted weight of 16 bits, and one that ConstantOfShape makes, as exporters leave them."""
    weight = _numbers(70, 80).astype(np.float16)
    model = _wired(
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["wide"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["m"]),
        helper.make_node("ConstantOfShape", ["size"], ["ones"], value=helper.make_tensor("", 1, (1,), [0.5])),
        helper.make_node("MatMul", ["m", "ones"], ["y"]),
        weights={"w": weight, "size": np.array([70, 90], np.int64)},
        shape=(2, 80),
    )
    steps = check_alike(model, {"x": _numbers(2, 80)})
    assert [len(s) for s in steps] == [0, 0, 1, 0, 1]
    assert isinstance(steps[2][0], FullyConnected)
    assert np.array_equal(steps[2][0].weights, weight.astype(np.float32))


def test_what_is_computed_from_constants_in_unknown_ways_is_left_to_the_runtime() -> None:
    """The model of one operator computes its weights itself."""
    model = _wired(
        helper.make_node("Hardmax", ["w"], ["lower"]),
        helper.make_node("MatMul", ["x", "lower"], ["y"]),
        weights={"w": _numbers(3, 3)},
    )
    opened = _opened(model)
    assert opened.program().steps == (
        (),
        "MatMul with weights that are computed",
    )
    feeds = {"x": _numbers(2, 3)}
    (found,) = session(opened.operator_model(1)).run(None, feeds)
    assert np.array_equal(found, fed(model, feeds)["y"])


def test_indices_that_follow_from_constants_alone_are_known() -> None:
    """As embeddings of positions and kinds of words are exported; the axis is longer than np.choose allows."""
    model = _wired(
        helper.make_node("GatherElements", ["wide", "places"], ["kinds"], axis=1),
        helper.make_node("IsNaN", ["table"], ["odd"]),
        helper.make_node("Where", ["odd", "zero", "table"], ["clean"]),
        helper.make_node("Gather", ["clean", "kinds"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["y"]),
        weights={
            "wide": np.arange(300, dtype=np.int64)[None] % 3,
            "places": np.arange(100, 132, dtype=np.int64)[None],
            "table": _numbers(3, 4),
            "zero": np.zeros((), np.float32),
        },
        shape=(1, 32, 4),
    )
    program = program_of(model)
    (value,) = [v for i, v in program.constants.items() if program.graph.tensors[i].name == "rows"]
    assert not any(isinstance(steps, str) for steps in program.steps)
    feeds = {"x": np.zeros((1, 32, 4), np.float32)}
    assert np.array_equal(value, fed(model, feeds)["y"])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, -1])
def test_scattered_constants_are_known(reduction: str, axis: int) -> None:
    """As places relative to each other are exported; the indices have fewer rows and columns than the table."""
    model = _wired(
        helper.make_node("ScatterElements", ["table", "places", "news"], ["made"], axis=axis, reduction=reduction),
        helper.make_node("Add", ["x", "made"], ["y"]),
        weights={
            "table": _numbers(5, 6),
            "places": np.array([[0, -1, 3], [4, 2, -3]], np.int64),  # no place twice
            "news": _numbers(2, 3),
        },
        shape=(5, 6),
    )
    model.opset_import[0].version = 18  # max and min are newer than others
    program = program_of(model)
    (value,) = [v for i, v in program.constants.items() if program.graph.tensors[i].name == "made"]
    assert np.array_equal(value, fed(model, {"x": np.zeros((5, 6), np.float32)})["y"])


def test_computed_constants_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_values, "MOST_COMPUTED", 10_000)
    model = _wired(
        helper.make_node("Expand", ["one", "size"], ["wide"]),
        helper.make_node("Add", ["x", "wide"], ["y"]),
        weights={"one": _numbers(1), "size": np.array([200, 300], np.int64)},
        shape=(200, 300),
    )
    (_, reason) = program_of(model).steps
    assert isinstance(reason, str)


def test_constants_of_half_precision_are_read_as_floats() -> None:
    for dtype in (np.float16, np.float64):
        x, w = _numbers(2, 3).astype(dtype), _numbers(3, 4, seed=1).astype(dtype)
        elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        (steps,) = program_of(one("MatMul", [x, w], fixed=(1,), elems=(elem,))[0]).steps
        step = steps[0]
        assert isinstance(step, FullyConnected)
        assert np.array_equal(step.weights, w.astype(np.float32).T)


def test_functions_of_the_model_are_inlined_with_their_weights() -> None:
    function = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [
            helper.make_node("MatMul", ["a", "k"], ["b"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    function.node.insert(0, helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(_numbers(80, 80))))
    model = _wired(helper.make_node("Twice", ["x"], ["y"], domain="mine"), shape=(2, 80))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    check_alike(model, {"x": _numbers(2, 80)})


# Weights in other files, and files from strangers.


def _external(tmp_path: Path) -> ModelProto:
    """A product with weights in a file, which is written, too."""
    weights = _numbers(70, 80)
    model = _wired(helper.make_node("MatMul", ["x", "w"], ["y"]), weights={"w": weights}, shape=(2, 70))
    onnx.external_data_helper.convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    onnx.save(model, tmp_path / "model.onnx")
    return onnx.load(tmp_path / "model.onnx", load_external_data=False)


def test_weights_in_another_file(tmp_path: Path) -> None:
    model = _external(tmp_path)
    opened = _opened(model, tmp_path / "model.onnx")
    (steps,) = opened.program().steps
    step = steps[0]
    assert isinstance(step, FullyConnected)
    assert np.array_equal(step.weights, _numbers(70, 80).T)
    (found,) = session(opened.operator_model(0)).run(None, {"x": _numbers(2, 70, seed=1)})
    assert np.allclose(found, _numbers(2, 70, seed=1) @ _numbers(70, 80), atol=1e-4)


def test_damaged_weights_in_another_file(tmp_path: Path) -> None:
    model = _external(tmp_path)
    content = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").write_bytes(content[:-4])
    with pytest.raises(ModelError, match="ends before"):
        _opened(model, tmp_path / "model.onnx").program()
    (tmp_path / "weights.bin").unlink()
    opened = _opened(model, tmp_path / "model.onnx")
    opened.graph()  # needs no weights
    with pytest.raises(ModelError, match="cannot be read"):
        opened.program()
    with pytest.raises(ModelError, match="cannot be read"):
        opened.operator_model(0)
    (tmp_path / "secret").write_bytes(content)
    (tmp_path / "weights.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="symbolic link"):
        opened.program()


def test_weights_of_another_size_than_they_say() -> None:
    model = _wired(helper.make_node("MatMul", ["x", "w"], ["y"]), weights={"w": _numbers(70, 80)}, shape=(2, 70))
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    with pytest.raises(ModelError, match="'w'"):
        _opened(model).program()


@pytest.mark.parametrize(
    ("kind", "shape", "attributes"),
    [
        ("MaxPool", (1, 2, 4, 4), {"kernel_shape": [2, 2], "strides": [2**62, 2**62]}),
        ("MaxPool", (1, 2, 4, 4), {"kernel_shape": [2**31, 1], "pads": [2**31, 0, 0, 0]}),
        ("MaxPool", (1, 2, 4, 4), {"kernel_shape": [2, 2], "strides": [0, 0]}),
        ("MaxPool", (1, 2, 4, 4), {"kernel_shape": [2]}),
        ("LRN", (1, 2, 4, 4), {"size": 2**62}),
        ("DepthToSpace", (1, 4, 2, 2), {"blocksize": 2**62}),
        ("DepthToSpace", (1, 4, 2, 2), {"blocksize": 0}),
        ("Transpose", (2, 3), {"perm": [0, 0]}),
        ("Transpose", (2, 3), {"perm": [0, 2**40]}),
        ("Softmax", (2, 3), {"axis": -(2**60)}),
        ("ArgMax", (2, 3), {"axis": 7}),
        ("Concat", (2, 3), {"axis": 5}),
        ("GlobalMaxPool", (2, 3), {}),
        ("Flatten", (2, 3), {"axis": 9}),
        ("ReduceMax", (2, 3), {"axes": [4]}),
        ("LayerNormalization", (2, 3), {}),
        ("BatchNormalization", (2, 3), {}),
        ("Gather", (2, 3), {}),
        ("Slice", (2, 3), {}),
        ("Conv", (2, 3, 4, 4), {}),
        ("Resize", (2, 3, 4, 4), {}),
        ("Clip", (2, 3), {"min": "text"}),
    ],
)
def test_attributes_that_make_no_sense_have_reasons_or_errors(
    kind: str, shape: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    """Whatever a stranger writes: the file is refused, or the operator has no operations, or it has such that run."""
    node = helper.make_node(kind, ["x"], ["y"], **attributes)
    model = _wired(node, shape=shape)
    model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(1, shape))
    try:
        program = program_of(model)
    except ModelError:
        return
    if isinstance(program.steps[0], tuple):
        outcome(program, {"x": _numbers(*shape)})
    else:
        assert program.steps[0].startswith(kind)
