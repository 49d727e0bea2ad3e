"""Models on a GPU inside their plan: the same results as with each tensor in memory of its own, and as the oracle's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.errors import RuntimeBindError, UnsupportedError
from edgemem.model.affine import pad
from edgemem.model.tensor_ops import IDENTITY, Binary, Unary
from edgemem.model.texture_layout import stored
from edgemem.targets import BUILT_IN
from tests.oracle.tensor_ops import run_program
from tests.webgpu import EVERY_REACH
from tests.webgpu_adapters import ADAPTERS, need_adapter
from tests.webgpu_programs import Net, classifier, constant_output, identity, indices, pyramid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.executor import OpTime
    from edgemem.runtime.webgpu.shaders import Precision
    from tests.webgpu_programs import Ready

pytest.importorskip("wgpu")

TOLERANCE = {"fp32": 1e-5, "fp16": 2e-2}


def feeds_of(ready: Ready, seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    graph = ready.graph()
    return {
        graph.tensors[i].name: rng.standard_normal(graph.tensors[i].shape).astype(graph.tensors[i].dtype)
        for i in graph.inputs
    }


def expected(ready: Ready, feeds: dict[str, NDArray[Any]], precision: Precision) -> list[NDArray[Any]]:
    graph = ready.graph()
    values = run_program(ready.program(), {i: feeds[graph.tensors[i].name] for i in graph.inputs}, precision)
    return [values[i] for i in graph.outputs]


@pytest.mark.full
@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(("storage", "precision"), EVERY_REACH)
@pytest.mark.parametrize("make", [classifier, lambda: classifier("nhwc")])
def test_a_planned_run_is_the_unshared_run_bit_for_bit_and_near_the_oracle(
    adapter: str, storage: str, precision: Precision, make: Callable[[], Ready]
) -> None:
    ready = make()
    options: dict[str, Any] = {
        "storage": storage,
        "precision": precision,
        "adapter": need_adapter(adapter),
        "poison": True,
    }
    feeds = feeds_of(ready)
    with (
        edgemem.GpuExecutor(ready, **options) as planned,
        edgemem.GpuExecutor(ready, sharing=False, **options) as apart,
    ):
        first, again, other = planned.run(None, feeds), planned.run(None, feeds), apart.run(None, feeds)
        for a, b, c in zip(first, again, other, strict=True):
            assert a.tobytes() == b.tobytes() == c.tobytes()
        assert planned.memory_report.reserved < apart.memory_report.reserved
    for found, wanted in zip(first, expected(ready, feeds, precision), strict=True):
        assert np.ptp(wanted) > 0
        assert np.abs(found - wanted).max() <= TOLERANCE[precision] * np.ptp(wanted)


@pytest.mark.parametrize(("storage", "precision"), EVERY_REACH)
def test_what_is_allocated_is_what_is_planned(storage: str, precision: str) -> None:
    need_adapter()
    ready = classifier()
    with edgemem.GpuExecutor(ready, storage=storage, precision=precision) as executor:
        report, planset = executor.memory_report, executor.planset
    if storage in ("buffer", "texture-array"):
        assert planset.best_offsets is not None
        planned = planset.best_offsets.size
    else:
        assert planset.best_shared_objects is not None
        objects = planset.best_shared_objects.objects
        planned = sum(o[0] * o[1] for o in objects if isinstance(o, tuple)) * (16 if precision == "fp32" else 8)
    assert report.reserved == report.planned == planned
    assert report.lower_bound is not None
    assert 0 < report.lower_bound <= report.planned
    assert (report.executor, report.mode, report.outside) == ("webgpu", "planned", 0)
    assert report.origin is not None
    assert report.origin.source == "made now"


def test_without_sharing_each_tensor_has_its_own_texels_and_no_more() -> None:
    need_adapter()
    ready = classifier()
    graph = ready.graph()
    with edgemem.GpuExecutor(ready, sharing=False) as executor:
        report = executor.memory_report
    whole = sum(stored(t.shape, graph.layout).texels * 16 for t in graph.tensors)
    assert report.reserved == report.planned == whole
    assert (report.mode, report.origin) == ("separate", None)
    assert (report.details["views"], report.details["in_place"]) == (0, 0)


def test_views_need_no_dispatch_and_results_in_place_one_binding() -> None:
    need_adapter()
    ready = classifier()
    with edgemem.GpuExecutor(ready) as executor:
        details = executor.memory_report.details
        assert details["views"] == 1
        assert details["in_place"] >= 3
        assert details["dispatches"] == len(ready.graph().ops) - 1
    with edgemem.GpuExecutor(ready, storage="texture2d") as executor:
        details = executor.memory_report.details
        assert (details["views"], details["in_place"]) == (1, 0)


def test_runs_do_not_depend_on_the_runs_before() -> None:
    need_adapter()
    ready = classifier()
    one, two = feeds_of(ready, 1), feeds_of(ready, 2)
    with edgemem.GpuExecutor(ready) as executor:
        before = executor.run(None, one)
        between = executor.run(None, two)
        after = executor.run(None, one)
    for a, b, c in zip(before, between, after, strict=True):
        assert a.tobytes() == c.tobytes() != b.tobytes()


def test_outputs_by_name_and_order() -> None:
    need_adapter()
    ready = classifier()
    feeds = feeds_of(ready)
    with edgemem.GpuExecutor(ready) as executor:
        both = executor.run(None, feeds)
        joined, probabilities = executor.run(["joined", "probabilities"], feeds)
        assert [a.name for a in executor.get_outputs()] == ["probabilities", "joined"]
        assert [(a.name, a.type, a.shape) for a in executor.get_inputs()] == [("x", "tensor(float)", [1, 6, 8, 8])]
        with pytest.raises(RuntimeBindError, match="there is no output 'nothing'; there are"):
            executor.run(["nothing"], feeds)
    assert np.array_equal(both[0], probabilities)
    assert np.array_equal(both[1], joined)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "no value for input 'x'"),
        ({"x": np.zeros((1, 6, 8, 8), np.float32), "y": 0}, "no input y"),
        ({"x": np.zeros((1, 6, 8, 7), np.float32)}, r"'x' has the shape \[1, 6, 8, 8\], not \[1, 6, 8, 7\]"),
        ({"x": np.zeros((1, 6, 8, 8), np.float64)}, "'x' takes float32, not float64"),
        ({"x": np.zeros((1, 6, 8, 8), np.int32)}, "'x' takes float32, not int32"),
    ],
)
def test_wrong_feeds_are_refused(feeds: dict[str, Any], message: str) -> None:
    need_adapter()
    with edgemem.GpuExecutor(classifier()) as executor, pytest.raises(RuntimeBindError, match=message):
        executor.run(None, feeds)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize(("storage", "precision"), EVERY_REACH)
def test_indices_come_back_as_integers(dtype: str, storage: str, precision: str) -> None:
    need_adapter()
    ready = indices(dtype=dtype)
    feeds = feeds_of(ready)
    with edgemem.GpuExecutor(ready, storage=storage, precision=precision) as executor:
        (found,) = executor.run(None, feeds)
    assert found.dtype == dtype
    assert found.tolist() == feeds["x"].argmax(1).tolist()


def test_indices_that_fp16_cannot_tell_apart_are_refused_and_fp32_gives_them() -> None:
    need_adapter()
    ready = indices(classes=3001)
    feeds = {"x": np.zeros((4, 3001), np.float32)}
    feeds["x"][:, 2999] = 1
    with edgemem.GpuExecutor(ready) as executor:
        assert executor.run(None, feeds)[0].tolist() == [2999] * 4
    with pytest.raises(UnsupportedError, match=r"'best' has indices up to 3,000, and fp16"):
        edgemem.GpuExecutor(ready, precision="fp16")


def test_inputs_that_are_outputs_and_outputs_that_are_known() -> None:
    need_adapter()
    x = np.array([[1.5, -2, 3], [-4, 5, 1e-3]], np.float32)
    for precision in ("fp32", "fp16"):
        with edgemem.GpuExecutor(identity(), precision=precision) as executor:
            same, positive = executor.run(None, {"x": x})
            assert same.tobytes() == x.tobytes()
            assert same is not x
            assert (positive > 0).tolist() == (x > 0).tolist()
    with edgemem.GpuExecutor(constant_output()) as executor:
        known, added = executor.run(None, {"x": x})
    assert (known.dtype, known.tolist()) == (np.dtype("int64"), [0, 1, 2])
    assert np.array_equal(added, x + np.arange(3, dtype=np.float32))


def test_times_of_operators_on_request() -> None:
    need_adapter()
    ready = pyramid()
    feeds = feeds_of(ready)
    with edgemem.GpuExecutor(ready, timings=True) as executor:
        assert not executor.times
        executor.run(None, feeds)
        times: tuple[OpTime, ...] = executor.times
        whole = executor.last_ms
    assert [t.type for t in times] == [op.type for op in ready.graph().ops]
    assert all(t.ms >= 0 and t.where == "gpu" for t in times)
    assert 0 < sum(t.ms for t in times) < whole
    with edgemem.GpuExecutor(ready) as executor:
        executor.run(None, feeds)
        assert not executor.times
        assert executor.last_ms > 0


@pytest.mark.parametrize("storage", ["buffer", "texture2d", "texture-array"])
def test_operators_are_observed_one_by_one(storage: str) -> None:
    need_adapter()
    ready = classifier()
    graph, feeds = ready.graph(), feeds_of(ready)
    values = run_program(ready.program(), {0: feeds["x"]})
    with (
        edgemem.GpuExecutor(ready, storage=storage, poison=True) as planned,
        edgemem.GpuExecutor(ready, storage=storage, sharing=False) as apart,
    ):
        seen = list(planned.observe(feeds))
        for (number, name, found), (_, _, other) in zip(seen, apart.observe(feeds), strict=True):
            (output,) = graph.ops[number].outputs
            assert name == graph.tensors[output].name
            assert found.tobytes() == other.tobytes()
            assert np.allclose(found, values[output], atol=1e-5)
    assert [number for number, _, _ in seen] == list(range(len(graph.ops)))


def test_a_closed_executor_says_so() -> None:
    need_adapter()
    executor = edgemem.GpuExecutor(pyramid())
    executor.close()
    executor.close()
    with pytest.raises(RuntimeBindError, match="the executor is closed"):
        executor.run(None, feeds_of(pyramid()))


def test_the_plan_of_another_storage_is_refused_with_the_target_to_plan_for() -> None:
    ready = pyramid()
    planset = edgemem.plan(ready.graph(), target="gpu-buffer")
    for storage, precision, target in (
        ("texture2d", None, "gpu-texture"),
        ("texture-linear", None, "gpu-texture-linear"),
        ("texture-array", None, "gpu-texture-array"),
        (None, "fp16", "gpu-buffer-fp16"),
        ("texture2d", "fp16", "gpu-texture-fp16"),
    ):
        with pytest.raises(
            UnsupportedError, match=f"(?m)needs '{target}'; plan with: edgemem plan net --target {target} -o PLANNED$"
        ):
            edgemem.GpuExecutor(ready, planset, storage=storage, precision=precision)
    with pytest.raises(UnsupportedError, match="is for 'generic', and this run needs 'gpu-buffer'"):
        edgemem.GpuExecutor(ready, edgemem.plan(ready.graph(), target="generic"))


def test_all_operators_without_a_kernel_are_named_at_once() -> None:
    net = Net()
    x = net.input("x", 2, 3)
    a = net.op("Loop", (x,), net.tensor("a", 2, 3), reason="Loop")
    b = net.unary("Relu", "relu", a)
    c = net.op("Einsum", (b,), net.tensor("c", 2, 3), reason="an equation of three tensors")
    ready = net.ready(net.unary("Strange", "strange", c))
    with pytest.raises(UnsupportedError) as caught:
        edgemem.GpuExecutor(ready)
    text = str(caught.value)
    for part in ("'loop_0' (Loop)", "'einsum_2' (Einsum): an equation of three tensors", "'strange_3' (Strange)"):
        assert part in text
    assert "relu" not in text
    assert "\n" not in text
    assert "--cpu-ops" in text


def test_what_floats_or_parameters_cannot_hold_is_refused_by_name() -> None:
    net = Net()
    x = net.input("x", 1, dtype="int64")
    large = net.constant("large", np.array([16777217], np.float32), "int64")
    result = net.tensor("result", 1, dtype="int64")
    net.op("Mul", (x, large), result, Binary(name="mul", a=x, b=large, output=result))
    with pytest.raises(UnsupportedError, match="the integers of 'large' are beyond 16,777,216"):
        edgemem.GpuExecutor(net.ready(result))
    net = Net()
    x, y = net.input("x", 3), net.tensor("y", 5)
    net.op("Pad", (x,), y, pad(x, y, (3,), (1,), (5,), value=1e300))
    with pytest.raises(UnsupportedError, match="too large"):
        edgemem.GpuExecutor(net.ready(y))


def test_an_operator_reads_its_own_inputs_alone() -> None:
    net = Net()
    x = net.input("x", 2, 3)
    a = net.unary("Relu", "relu", x)
    b = net.unary("Exp", "exp", a)
    c = net.tensor("c", 2, 3)
    net.op("Identity", (b,), c, Unary(function=IDENTITY, input=a, output=c))  # `a` is dead by then
    with pytest.raises(UnsupportedError, match="it would read 't1', which is no input of it"):
        edgemem.GpuExecutor(net.ready(c))


def test_graphs_within_operators_variables_and_odd_dtypes_are_refused() -> None:
    ready = pyramid()
    graph = ready.graph()
    inner = replace(graph.ops[0], bodies=(replace(graph, name="body", tensors=(), ops=(), inputs=(), outputs=()),))
    body = replace(ready.program(), graph=replace(graph, ops=(inner, *graph.ops[1:])))
    with pytest.raises(UnsupportedError, match="runs graphs of its own"):
        edgemem.GpuExecutor(replace(ready, made=body), cpu_ops=True)
    net = Net()
    x = net.input("x", 2, 3, dtype="float64")
    ready = net.ready(net.unary("Relu", "relu", x))
    with pytest.raises(UnsupportedError, match="'x' is float64"):
        edgemem.GpuExecutor(ready)
    net = Net()
    x = net.input("x", 2, 3)
    state = net.tensor("state", 2, 3, kind="variable")
    ready = net.ready(net.binary("Add", "add", x, state))
    with pytest.raises(UnsupportedError, match="'state' keeps its value between runs"):
        edgemem.GpuExecutor(ready)


def test_arguments_that_do_not_exist_are_refused() -> None:
    ready = pyramid()
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"storage": "texture3d"}, "no storage 'texture3d'; use one of buffer, texture2d, texture-linear"),
        ({"precision": "fp8"}, "no precision 'fp8'"),
    )
    for options, message in refused:
        with pytest.raises(RuntimeBindError, match=message):
            edgemem.GpuExecutor(ready, **options)
    need_adapter()
    with pytest.raises(RuntimeBindError, match="no profile 'huge'"):
        edgemem.GpuExecutor(ready, profile="huge")


def test_the_order_of_the_plan_is_the_order_of_the_run() -> None:
    need_adapter()
    net = Net()
    x = net.input("x", 2, 3)
    a, b = net.unary("Relu", "relu", x), net.unary("Tanh", "tanh", x)
    ready = net.ready(net.binary("Sub", "sub", a, b))
    graph = ready.graph()
    planset = edgemem.plan(graph.reordered((1, 0, 2)), target="gpu-buffer")
    feeds = feeds_of(ready)
    with edgemem.GpuExecutor(ready, replace(planset, order=(1, 0, 2)), timings=True) as executor:
        (found,) = executor.run(None, feeds)
        assert [t.type for t in executor.times] == ["Tanh", "Relu", "Sub"]
    assert np.allclose(found, np.maximum(feeds["x"], 0) - np.tanh(feeds["x"]), atol=1e-6)
    assert set(BUILT_IN) >= {"gpu-buffer", "gpu-texture", "gpu-texture-linear"}
