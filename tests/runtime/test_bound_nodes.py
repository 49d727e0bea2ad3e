"""Models whose nodes run in a poisoned arena give what ONNX Runtime gives, bit for bit."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as make

import edgemem
from edgemem.errors import InvalidPlanError, RuntimeBindError, StalePlanError
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.split_model import split_model
from tests.runtime.networks import DIMS, FETCHED, NETWORKS, equal, feeds_of, fetched, small

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet

ort = pytest.importorskip("onnxruntime")

POISON = 0xFF


def plain(
    path: Path, feeds: Mapping[str, NDArray[Any]], threads: int = 1, dims: Mapping[str, int] | None = None
) -> list[NDArray[Any]]:
    """What one ordinary session gives that changes nothing of the graph."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, value in (dims or {}).items():
        options.add_free_dimension_override_by_name(name, value)
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    results: list[NDArray[Any]] = session.run(None, feeds)
    return results


def bind(path: Path, planset: PlanSet | None = None, **how: Any) -> BoundNodes:
    """The nodes of a file, poisoned, in a plan that is made for it now unless one is given."""
    planset = planset or edgemem.plan(path, strategy="offsets/greedy_by_size")
    return BoundNodes(split_model(path, planset, **how), poison=POISON)


def assert_inside(nodes: BoundNodes, feeds: Mapping[str, NDArray[Any]], expected: Sequence[NDArray[Any]]) -> None:
    """The nodes give the expected twice."""
    for _ in range(2):
        assert equal(list(nodes.run(feeds).values()), expected)
    report = nodes.report
    assert report.mode == "planned"
    assert report.details["steps"] > 0
    assert report.lower_bound is not None
    assert report.lower_bound <= report.planned == report.reserved


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", ["generic", "tflm"])
def test_reference_networks(name: str, target: str, tmp_path: Path) -> None:
    """`tflm` has inputs and outputs inside the arena, too."""
    path, dims = small(name, tmp_path), DIMS.get(name, {})
    planset = edgemem.plan(path, dims=dims, target=target, strategy="offsets/greedy_by_size")
    feeds = feeds_of(path, dims=dims)
    nodes = bind(path, planset)
    assert_inside(nodes, feeds, plain(path, feeds, dims=dims))
    assert nodes.report.planned == planset.offsets[0].size
    assert (nodes.report.outside == 0) == (target == "tflm")


@pytest.mark.parametrize("name", FETCHED)
def test_fetched_models(name: str) -> None:
    path = fetched(name)
    feeds = feeds_of(path, shapes=FETCHED[name])
    sizes = {name: value.shape for name, value in feeds.items()}
    planset = edgemem.plan(path, input_shapes=sizes, strategy="offsets/greedy_by_size")
    assert_inside(bind(path, planset), feeds, plain(path, feeds))


@pytest.mark.parametrize("name", ["mobilenet_v2", "unet"])
def test_two_threads(name: str, tmp_path: Path) -> None:
    path = small(name, tmp_path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    feeds = feeds_of(path)
    assert_inside(bind(path, options=options), feeds, plain(path, feeds, threads=2))


def test_outputs_are_the_callers(tmp_path: Path) -> None:
    path = small("mobilenet_v1", tmp_path)
    one, two = (feeds_of(path, seed=seed) for seed in (1, 2))
    nodes = bind(path)
    kept = list(nodes.run(one).values())
    nodes.run(two)
    assert equal(kept, plain(path, one))


def test_tensors_live_in_the_arena(tmp_path: Path) -> None:
    """Whoever writes over a live tensor in the arena changes the result: nothing has a copy elsewhere."""
    path = small("resnet18", tmp_path)
    feeds = feeds_of(path)
    nodes = bind(path)
    expected = list(nodes.run(feeds).values())
    middle = nodes._nodes[len(nodes._nodes) // 2]

    class Vandal:
        def run_with_iobinding(self, binding: Any) -> None:
            nodes._arena.fill(0)
            middle.session.run_with_iobinding(binding)

    changed = list(nodes._nodes)
    changed[changed.index(middle)] = replace(middle, session=Vandal())
    nodes._nodes = tuple(changed)
    assert not equal(list(nodes.run(feeds).values()), expected)


def test_other_inputs_than_planned_are_refused(tmp_path: Path) -> None:
    path = small("dynamic", tmp_path)
    nodes = bind(path, edgemem.plan(path, dims={"T": 5}))
    good = feeds_of(path, dims={"T": 5})
    ((name, value),) = good.items()
    for wrong, said in (
        (feeds_of(path, dims={"T": 7}), r"is fed with the shape \(1, 7, 32\), planned as \(1, 5, 32\); .*--dim"),
        ({name: value.astype(np.float64)}, "is fed with float64, planned as float32"),
        ({"another": value}, f"the inputs are {name}, and not another"),
        ({}, "and not none"),
    ):
        with pytest.raises(RuntimeBindError, match=said):
            nodes.run(wrong)
    nodes.run(good)


def external(folder: Path) -> Path:
    """A network whose weights are in a file beside it."""
    path = folder / "external.onnx"
    model = onnx.load(small("mobilenet_v2", folder))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=100)
    return path


def functions(folder: Path) -> Path:
    """A function of the model's own, called twice, with a constant inside."""
    inner = [
        make.make_node("Constant", [], ["k"], value_float=2.0),
        make.make_node("Mul", ["a", "k"], ["m"]),
        make.make_node("Exp", ["m"], ["b"]),
    ]
    function = make.make_function("own", "F", ["a"], ["b"], inner, [make.make_opsetid("", 17)])
    nodes = [
        make.make_node("F", ["x"], ["p"], domain="own"),
        make.make_node("F", ["p"], ["q"], domain="own"),
        make.make_node("Add", ["p", "q"], ["y"]),
    ]
    ends = [make.make_tensor_value_info(n, TensorProto.FLOAT, [64]) for n in "xy"]
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [make.make_opsetid("", 17), make.make_opsetid("own", 1)]
    path = folder / "functions.onnx"
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function]), path)
    return path


def quantized(folder: Path) -> Path:
    """int8 with QuantizeLinear and DequantizeLinear around every operator, as ONNX Runtime's own tool writes it."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = small("mobilenet_v2", folder)
    rest = iter([feeds_of(path)])
    reader = type("Reader", (quantization.CalibrationDataReader,), {"get_next": lambda _: next(rest, None)})()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantization.quantize_static(str(path), str(folder / "int8.onnx"), reader)
    return folder / "int8.onnx"


@pytest.mark.parametrize("made", [external, functions, quantized], ids=lambda f: str(f.__name__))
def test_kinds_of_files(made: Callable[[Path], Path], tmp_path: Path) -> None:
    path = made(tmp_path)
    feeds = feeds_of(path)
    assert_inside(bind(path), feeds, plain(path, feeds))


def test_what_follows_from_constants_is_computed_once(tmp_path: Path) -> None:
    nodes = [
        make.make_node(
            "ConstantOfShape", ["shape"], ["ones"], value=make.make_tensor("v", TensorProto.FLOAT, [1], [1])
        ),
        make.make_node("Exp", ["ones"], ["weight"]),
        make.make_node("Add", ["x", "weight"], ["y"]),
    ]
    ends = [make.make_tensor_value_info(n, TensorProto.FLOAT, [4096]) for n in "xy"]
    shape = onnx.numpy_helper.from_array(np.array([4096], np.int64), "shape")
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:], [shape])
    path = tmp_path / "folded.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    bound = bind(path)
    feeds = feeds_of(path)
    assert_inside(bound, feeds, plain(path, feeds))
    details = bound.report.details
    assert (bound.report.planned, details["constants"], details["steps"]) == (0, 2 * 4096 * 4, 1)


def test_an_output_that_depends_on_constants_alone(tmp_path: Path) -> None:
    """It is computed at every run: the caller may change what the last one gave."""
    nodes = [
        make.make_node("ConstantOfShape", ["shape"], ["y"], value=make.make_tensor("v", TensorProto.FLOAT, [1], [3])),
        make.make_node("Exp", ["x"], ["z"]),
    ]
    x, y, z = (make.make_tensor_value_info(n, TensorProto.FLOAT, [64]) for n in "xyz")
    shape = onnx.numpy_helper.from_array(np.array([64], np.int64), "shape")
    graph = make.make_graph(nodes, "g", [x], [y, z], [shape])
    path = tmp_path / "constant.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    feeds = feeds_of(path)
    bound = bind(path)
    for _ in range(2):
        found = bound.run(feeds)
        assert equal(list(found.values()), plain(path, feeds))
        found["y"][:] = 0


def file_of(path: Path, nodes: list[onnx.NodeProto], output: onnx.ValueInfoProto) -> Path:
    inputs = [make.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    graph = make.make_graph(nodes, "g", inputs, [output])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_node_that_fails_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "gather.onnx"
    x, y = (make.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    index = make.make_tensor_value_info("i", TensorProto.INT64, [4])
    graph = make.make_graph([make.make_node("Gather", ["x", "i"], ["y"], name="take")], "g", [x, index], [y])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    nodes = bind(path)
    feeds: dict[str, NDArray[Any]] = {"x": np.ones(4, np.float32), "i": np.arange(4)}
    nodes.run(feeds)
    with pytest.raises(RuntimeBindError, match=r"gather\.onnx does not run inside the plan: .*running Gather node"):
        nodes.run({**feeds, "i": np.full(4, 9)})


def test_what_cannot_be_bound_is_refused(tmp_path: Path) -> None:
    nonzero = file_of(
        tmp_path / "nonzero.onnx",
        [make.make_node("NonZero", ["x"], ["where"]), make.make_node("Neg", ["where"], ["y"])],
        make.make_tensor_value_info("y", TensorProto.INT64, [1, "n"]),
    )
    sequence = file_of(
        tmp_path / "sequence.onnx",
        [make.make_node("SequenceConstruct", ["x", "x"], ["s"]), make.make_node("Neg", ["x"], ["unused"])],
        make.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [4]),
    )
    with pytest.raises(RuntimeBindError, match=r"'where' is of a size that depends on the data"):
        bind(nonzero)
    with pytest.raises(RuntimeBindError, match=r"sequence\.onnx does not run inside the plan: 's' is"):
        bind(sequence)


def test_wrong_plans_are_refused(tmp_path: Path) -> None:
    path = small("mobilenet_v1", tmp_path)
    planset = edgemem.plan(path, strategy="offsets/greedy_by_size")
    with pytest.raises(StalePlanError):
        split_model(small("mobilenet_v2", tmp_path), planset)
    best = planset.offsets[0]
    wrong = replace(best, offsets=np.zeros_like(best.offsets))
    with pytest.raises(InvalidPlanError):
        split_model(path, replace(planset, offsets=(wrong,)))
    with pytest.raises(RuntimeBindError, match="no offset plan of its graph"):
        split_model(path, replace(planset, offsets=()))
