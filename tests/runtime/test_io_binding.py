"""Models run node by node inside a poisoned arena give what ONNX Runtime gives, bit for bit."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as make

import edgemem
from edgemem.errors import InvalidPlanError, RuntimeBindError, StalePlanError, UnknownShapeError
from edgemem.runtime.onnxruntime.io_binding import IoBindingSession, make_session
from edgemem.runtime.onnxruntime.optimise import LEVELS
from tests.runtime.networks import DIMS, FETCHED, NETWORKS, equal, feeds_of, fetched, small

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

ort = pytest.importorskip("onnxruntime")

POISON = 0xFF


def plain(
    path: Path, feeds: Mapping[str, NDArray[Any]], level: str, threads: int = 1, dims: Mapping[str, int] | None = None
) -> list[NDArray[Any]]:
    """What one ordinary session gives."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    for name, value in (dims or {}).items():
        options.add_free_dimension_override_by_name(name, value)
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    results: list[NDArray[Any]] = session.run(None, feeds)
    return results


def assert_inside(
    session: IoBindingSession, feeds: Mapping[str, NDArray[Any]], expected: Sequence[NDArray[Any]]
) -> None:
    """The session gives the expected twice, without leaving the plan."""
    for _ in range(2):
        assert equal(session.run(None, feeds), expected)
    memory = session.memory
    assert memory.reason == ""
    assert memory.steps > 0
    assert memory.bound <= memory.planned
    assert session.planset is not None
    assert not edgemem.verify(session.planset)


@pytest.mark.full
@pytest.mark.parametrize("level", ["basic", "extended", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_reference_networks(name: str, level: str, tmp_path: Path) -> None:
    path, dims = small(name, tmp_path), DIMS.get(name, {})
    feeds = feeds_of(path, dims=dims)
    session = make_session(path, plan="make", level=level, dims=dims, poison=POISON)
    assert_inside(session, feeds, plain(path, feeds, level, dims=dims))


@pytest.mark.full
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", ["generic", "tflm"])
def test_a_plan_for_the_file_itself(name: str, target: str, tmp_path: Path) -> None:
    """`tflm` has inputs and outputs inside the arena, too."""
    path, dims = small(name, tmp_path), DIMS.get(name, {})
    planset = edgemem.plan(path, dims=dims, target=target, strategy="offsets/greedy_by_size")
    feeds = feeds_of(path, dims=dims)
    session = make_session(path, planset, poison=POISON)
    assert_inside(session, feeds, plain(path, feeds, "none", dims=dims))
    assert session.memory.planned == planset.offsets[0].size
    assert (session.memory.outputs == 0) == (target == "tflm")


@pytest.mark.full
@pytest.mark.parametrize("level", ["none", "all"])
@pytest.mark.parametrize("name", FETCHED)
def test_fetched_models(name: str, level: str) -> None:
    path = fetched(name)
    feeds = feeds_of(path, shapes=FETCHED[name])
    session = make_session(path, plan="make", level=level, feeds=feeds, poison=POISON)
    assert_inside(session, feeds, plain(path, feeds, level))


@pytest.mark.parametrize("name", ["mobilenet_v2", "unet"])
def test_two_threads(name: str, tmp_path: Path) -> None:
    path = small(name, tmp_path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    feeds = feeds_of(path)
    session = make_session(path, plan="make", level="extended", sess_options=options, poison=POISON)
    assert_inside(session, feeds, plain(path, feeds, "extended", threads=2))


def test_the_surface_is_that_of_an_inference_session(tmp_path: Path) -> None:
    path = small("unet", tmp_path)
    feeds = feeds_of(path)
    reference = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    session = make_session(path, plan="make")
    for ours, theirs in (
        (session.get_inputs(), reference.get_inputs()),
        (session.get_outputs(), reference.get_outputs()),
    ):
        assert [(a.name, a.type, a.shape) for a in ours] == [(a.name, a.type, a.shape) for a in theirs]
    assert session.get_providers() == reference.get_providers()
    name = session.get_outputs()[0].name
    assert equal(session.run([name], feeds), session.run([], feeds)[:1])


def test_outputs_are_the_callers_or_stay_with_the_session(tmp_path: Path) -> None:
    path = small("mobilenet_v1", tmp_path)
    one, two = (feeds_of(path, seed=seed) for seed in (1, 2))
    expected = plain(path, one, "all")
    session = make_session(path, plan="make")
    kept = session.run(None, one)
    session.run(None, two)
    assert equal(kept, expected)
    bound = make_session(path, plan="make", bind_outputs=True)
    kept = bound.run(None, one)
    assert equal(kept, expected)
    again = bound.run(None, two)
    assert [a.ctypes.data for a in kept] == [a.ctypes.data for a in again]
    assert equal(again, plain(path, two, "all"))


def test_tensors_live_in_the_arena(tmp_path: Path) -> None:
    """Whoever writes over a live tensor in the arena changes the result: nothing has a copy elsewhere."""
    path = small("resnet18", tmp_path)
    feeds = feeds_of(path)
    session = make_session(path, plan="make", level="none", poison=POISON)
    expected = session.run(None, feeds)
    step = session._steps[len(session._steps) // 2]

    class Vandal:
        def run_with_iobinding(self, binding: Any, options: Any) -> None:
            session._arena.fill(0)
            step.session.run_with_iobinding(binding, options)

    steps = list(session._steps)
    steps[steps.index(step)] = replace(step, session=Vandal())
    session._steps = tuple(steps)
    assert not equal(session.run(None, feeds), expected)


def test_another_batch_runs_outside_the_plan(tmp_path: Path) -> None:
    path = small("dynamic", tmp_path)
    session = make_session(path, plan="make", dims={"T": 5})
    feeds = feeds_of(path, dims={"T": 7})
    with pytest.warns(RuntimeWarning, match=r"outside the plan: 'x' is fed with the shape \(1, 7, 32\)"):
        results = session.run(None, feeds)
    assert "(1, 7, 32)" in session.memory.reason
    assert equal(results, plain(path, feeds, "all"))
    session.run(None, feeds_of(path, dims={"T": 5}))
    assert session.memory.reason == ""


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


@pytest.mark.full
@pytest.mark.parametrize("level", ["none", "extended", "all"])
@pytest.mark.parametrize("made", [external, functions, quantized], ids=lambda f: str(f.__name__))
def test_kinds_of_files(made: Callable[[Path], Path], level: str, tmp_path: Path) -> None:
    path = made(tmp_path)
    feeds = feeds_of(path)
    assert_inside(make_session(path, plan="make", level=level, poison=POISON), feeds, plain(path, feeds, level))
    if level == "none":
        planset = edgemem.plan(path, strategy="offsets/greedy_by_size")
        assert_inside(make_session(path, planset, poison=POISON), feeds, plain(path, feeds, level))


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
    session = make_session(path, plan="make", level="none", poison=POISON)
    feeds = feeds_of(path)
    assert_inside(session, feeds, plain(path, feeds, "none"))
    assert (session.memory.planned, session.memory.constants, session.memory.steps) == (0, 2 * 4096 * 4, 1)


def test_threads_of_the_caller_take_turns(tmp_path: Path) -> None:
    path = small("unet", tmp_path)
    session = make_session(path, plan="make", poison=POISON)
    tasks = [feeds_of(path, seed=seed) for seed in range(4)]
    expected = [session.run(None, feeds) for feeds in tasks]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: session.run(None, tasks[k % 4]), range(40)))
    assert all(equal(results, expected[k % 4]) for k, results in enumerate(found))


def control_flow(path: Path) -> Path:
    """An If whose branches give 4 or 8 elements, and an operator that goes on with them."""

    def info(name: str, *shape: int | str) -> onnx.ValueInfoProto:
        return make.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    then = make.make_graph([make.make_node("Relu", ["x"], ["t"])], "then", [], [info("t", 4)])
    other = make.make_graph([make.make_node("Concat", ["x", "x"], ["e"], axis=0)], "else", [], [info("e", 8)])
    nodes = [
        make.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if"),
        make.make_node("Neg", ["y"], ["z"]),
    ]
    graph = make.make_graph(
        nodes, "g", [info("x", 4), make.make_tensor_value_info("c", TensorProto.BOOL, [])], [info("z", "k")]
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("level", ["none", "all"])
def test_another_branch_runs_outside_the_plan(level: str, tmp_path: Path) -> None:
    path = control_flow(tmp_path / "if.onnx")
    x = np.array([-1, 2, -3, 4], np.float32)
    feeds = {taken: {"x": x, "c": np.array(taken)} for taken in (True, False)}
    session = make_session(path, plan="make", level=level, feeds=feeds[True], poison=POISON)
    assert equal(session.run(None, feeds[True]), plain(path, feeds[True], level))
    assert session.memory.reason == ""
    with pytest.warns(RuntimeWarning, match="'y' of node 'if'"):
        results = session.run(None, feeds[False])
    assert equal(results, plain(path, feeds[False], level))
    assert "{8}" in session.memory.reason
    assert equal(session.run(None, feeds[True]), plain(path, feeds[True], level))
    assert session.memory.reason == ""


def file_of(path: Path, nodes: list[onnx.NodeProto], output: onnx.ValueInfoProto) -> Path:
    inputs = [make.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    graph = make.make_graph(nodes, "g", inputs, [output])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_what_cannot_be_bound_runs_as_a_plain_session(tmp_path: Path) -> None:
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
    feeds = {"x": np.array([1, 0, 3, 4], np.float32)}
    with pytest.warns(RuntimeWarning, match=r"the size of 'where' depends on the data \(NonZero\)"):
        session = make_session(nonzero, plan="make")
    assert session.planset is None
    assert session.memory.planned == session.memory.steps == 0
    assert equal(session.run(None, feeds), plain(nonzero, feeds, "all"))
    with pytest.warns(RuntimeWarning, match="'s' is no tensor"):
        session = make_session(sequence, plan="make")
    assert equal(*map(list, (session.run(None, feeds)[0], plain(sequence, feeds, "all")[0])))


def test_wrong_plans_are_refused(tmp_path: Path) -> None:
    path = small("mobilenet_v1", tmp_path)
    planset = edgemem.plan(path, strategy="offsets/greedy_by_size")
    with pytest.raises(StalePlanError):
        make_session(small("mobilenet_v2", tmp_path), planset)
    best = planset.offsets[0]
    wrong = replace(best, offsets=np.zeros_like(best.offsets))
    with pytest.raises(InvalidPlanError):
        make_session(path, replace(planset, offsets=(wrong,)))
    with pytest.raises(InvalidPlanError, match="no arena"):
        make_session(path, replace(planset, offsets=()))
    with pytest.raises(RuntimeBindError, match="a byte"):
        make_session(path, plan="make", poison=256)
    with pytest.raises(UnknownShapeError, match="--dim T=VALUE"):
        make_session(small("dynamic", tmp_path), plan="make")
