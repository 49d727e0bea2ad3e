"""Networks from files on a GPU, inside the plan in the file: unshared runs bit for bit, and close to CPU runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as make

import edgemem
from edgemem.errors import EdgememError, PlanFileError, RuntimeBindError, StalePlanError, UnsupportedError
from edgemem.runtime.webgpu import executor
from edgemem.runtime.webgpu.gpu_model import target_name
from edgemem.targets import BUILT_IN
from models.build import build
from models.tflite_networks import mobilenet_v2
from tests.webgpu import EVERY_REACH
from tests.webgpu_adapters import ADAPTERS, need_adapter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("wgpu")
onnxruntime = pytest.importorskip("onnxruntime")

FIRST = [("mobilenet_v2", *reach) for reach in EVERY_REACH]
OTHERS = [
    ("deeplab_v3", "buffer", "fp32"),
    ("deeplab_v3", "texture2d", "fp16"),
    ("posenet", "texture-array", "fp32"),
    ("blazeface", "texture-linear", "fp32"),
    ("unet", "buffer", "fp16"),
    ("nas_cell", "texture2d", "fp32"),
]
# Largest difference from a CPU runtime, relative to the spread of the output.
TOLERANCE = {"fp32": 1e-4, "fp16": 0.2}


def planned(path: Path, target: str, **more: Any) -> Path:
    result = path.with_name(f"{path.stem}.{target}{path.suffix}")
    family = "shared_objects" if BUILT_IN[target].texels else "offsets"
    edgemem.save(path, edgemem.plan(path, target=target, strategy=f"{family}/greedy_by_size", **more), result)
    return result


def onnx_feeds(path: Path) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    inputs = onnx.load(path, load_external_data=False).graph.input
    return {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in inputs
    }


def close(found: NDArray[Any], wanted: NDArray[Any], precision: str) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert wanted.std() > 1e-3 * np.abs(wanted).max() > 0, "a constant output proves nothing"
    assert np.abs(found - wanted).max() <= TOLERANCE[precision] * np.ptp(wanted)


@pytest.fixture(scope="module")
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / f"{request.param}.onnx"
    onnx.save(build(request.param, size="small"), path)
    return path


@pytest.mark.full
@pytest.mark.parametrize(("network", "storage", "precision"), [*FIRST, *OTHERS], indirect=["network"])
def test_networks_run_inside_the_plan_in_their_file(network: Path, storage: str, precision: str) -> None:
    name = need_adapter()
    file = planned(network, target_name(storage, precision))
    feeds = onnx_feeds(network)
    wanted = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"]).run(None, feeds)
    with (
        edgemem.GpuExecutor(file, adapter=name, poison=True) as inside,
        edgemem.GpuExecutor(file, adapter=name, poison=True, sharing=False) as apart,
    ):
        first, again, other = inside.run(None, feeds), inside.run(None, feeds), apart.run(None, feeds)
        report = inside.memory_report
        assert (inside.storage, inside.precision) == (storage, precision)
    assert report.origin is not None
    assert (report.origin.source, report.origin.of) == ("file", f"graph under {target_name(storage, precision)}")
    assert report.reserved == report.planned
    for a, b, c, reference in zip(first, again, other, wanted, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
        close(a, reference, precision)


@pytest.mark.full
@pytest.mark.parametrize(
    ("network", "storage"), [("mobilenet_v2", "buffer"), ("deeplab_v3", "texture2d")], indirect=["network"]
)
def test_networks_run_on_a_second_driver(network: Path, storage: str) -> None:
    name = need_adapter(ADAPTERS[-1])
    file = planned(network, target_name(storage, "fp32"))
    feeds = onnx_feeds(network)
    wanted = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"]).run(None, feeds)
    with (
        edgemem.GpuExecutor(file, adapter=name, poison=True) as inside,
        edgemem.GpuExecutor(file, adapter=name, sharing=False) as apart,
    ):
        for a, b, reference in zip(inside.run(None, feeds), apart.run(None, feeds), wanted, strict=True):
            assert a.tobytes() == b.tobytes()
            close(a, reference, "fp32")


@pytest.mark.full
@pytest.mark.parametrize(
    ("network", "storage"), [("mobilenet_v2", "texture2d"), ("unet", "buffer")], indirect=["network"]
)
def test_networks_run_as_cut_for_a_large_gpu(network: Path, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = need_adapter()
    file = planned(network, target_name(storage, "fp32"))
    feeds = onnx_feeds(network)
    wanted = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"]).run(None, feeds)
    monkeypatch.setattr(executor, "busy_workgroups", lambda _: 1024)
    with (
        edgemem.GpuExecutor(file, adapter=name, poison=True) as inside,
        edgemem.GpuExecutor(file, adapter=name, sharing=False) as apart,
    ):
        for a, b, reference in zip(inside.run(None, feeds), apart.run(None, feeds), wanted, strict=True):
            assert a.tobytes() == b.tobytes()
            close(a, reference, "fp32")


@pytest.mark.full
@pytest.mark.parametrize("storage", ["buffer", "texture2d"])
def test_a_tflite_network_runs_inside_the_plan_in_its_file(storage: str, tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    need_adapter()
    path = tmp_path / "net.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.25, size=32, classes=20))
    file = planned(path, target_name(storage, "fp32"))
    x = np.random.default_rng(0).standard_normal((1, 32, 32, 3)).astype(np.float32)
    interpreter = litert.Interpreter(str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    results = []
    for model, sharing in ((file, True), (file.read_bytes(), True), (file, False)):
        with edgemem.GpuExecutor(model, poison=True, sharing=sharing) as executor:
            (name,) = (a.name for a in executor.get_inputs())
            results += executor.run(None, {name: x})
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    close(results[0], wanted, "fp32")


def small_model(*nodes: Any, shape: tuple[int | str, ...] = (2, 6)) -> onnx.ModelProto:
    graph = make.make_graph(
        list(nodes),
        "small",
        [make.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [make.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)


def test_a_plan_in_the_file_for_another_storage_names_the_command(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_model(make.make_node("Relu", ["x"], ["y"])), path)
    file = planned(path, "gpu-buffer")
    message = r"the plan of m\.gpu-buffer\.onnx is for 'gpu-buffer', and this run needs 'gpu-texture'; plan with: "
    with pytest.raises(
        UnsupportedError, match=message + "edgemem plan m.gpu-buffer.onnx --target gpu-texture -o PLANNED.onnx"
    ):
        edgemem.GpuExecutor(file, storage="texture2d")
    with pytest.raises(UnsupportedError, match="is for 'generic', and this run needs 'gpu-buffer'"):
        edgemem.GpuExecutor(planned(path, "generic"))


def test_a_plan_of_a_changed_model_is_stale_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_model(make.make_node("Relu", ["x"], ["y"])), path)
    file = planned(path, "gpu-buffer")
    model = onnx.load(file)
    model.graph.node[0].op_type = "Sigmoid"
    onnx.save(model, file)
    with pytest.raises(StalePlanError, match=r"make another with: edgemem plan m\.gpu-buffer\.onnx --target gpu"):
        edgemem.GpuExecutor(file)
    file = planned(path, "gpu-buffer")
    model = onnx.load(file)
    for entry in model.metadata_props:
        entry.value = entry.value[:-40] + "A" * 40
    onnx.save(model, file)
    with pytest.raises(PlanFileError):
        edgemem.GpuExecutor(file)


def test_sizes_other_than_the_plans_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_model(make.make_node("Relu", ["x"], ["y"]), shape=("n", 6)), path)
    file = planned(path, "gpu-buffer", dims={"n": 3})
    need_adapter()
    with edgemem.GpuExecutor(file, dims={"n": 3}) as executor:
        assert executor.get_inputs()[0].shape == [3, 6]
    with pytest.raises(RuntimeBindError, match="the plan is for other sizes than n=4; plan again with: edgemem plan"):
        edgemem.GpuExecutor(file, dims={"n": 4})
    with edgemem.GpuExecutor(path, dims={"n": 4}) as executor:
        assert executor.run(None, {"x": np.ones((4, 6), np.float32)})[0].shape == (4, 6)


@pytest.mark.parametrize("storage", ["buffer", "texture2d"])
def test_operators_without_a_kernel_run_on_the_cpu_when_asked(tmp_path: Path, storage: str) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(
        small_model(
            make.make_node("Relu", ["x"], ["a"]),
            make.make_node("CumSum", ["a", "axis"], ["b"]),
            make.make_node("Constant", [], ["axis"], value=make.make_tensor("axis", TensorProto.INT64, [], [1])),
            make.make_node("Sigmoid", ["b"], ["y"]),
        ),
        path,
    )
    model = onnx.load(path)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([nodes[2], nodes[0], nodes[1], nodes[3]])
    onnx.save(model, path)
    with pytest.raises(UnsupportedError, match=r"1 thing without a kernel: .*\(CumSum\).*--cpu-ops"):
        edgemem.GpuExecutor(path)
    need_adapter()
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    results = []
    for sharing in (True, False):
        with edgemem.GpuExecutor(
            path, storage=storage, cpu_ops=True, sharing=sharing, poison=True, timings=True
        ) as executor:
            results += executor.run(None, {"x": x})
            assert [(t.type, t.where) for t in executor.times] == [
                ("Relu", "gpu"),
                ("CumSum", "cpu"),
                ("Sigmoid", "gpu"),
            ]
            assert executor.memory_report.details["cpu_ops"] == 1
            seen = [name for _, name, _ in executor.observe({"x": x})]
            assert seen == ["a", "b", "y"]
    assert results[0].tobytes() == results[1].tobytes()
    assert np.allclose(results[0], wanted, atol=1e-6)


def test_an_output_that_nothing_reads_need_not_be_computed(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [make.make_node("Dropout", ["x"], ["a", "mask"]), make.make_node("Sigmoid", ["a"], ["y"])]
    onnx.save(small_model(*nodes, make.make_node("Exp", ["a"], ["unread"])), path)
    need_adapter()
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    with edgemem.GpuExecutor(path, poison=True) as executor:
        (found,) = executor.run(None, {"x": x})
    assert np.allclose(found, 1 / (1 + np.exp(-x)), atol=1e-6)


def test_loops_are_refused_by_name_also_with_the_cpu(tmp_path: Path) -> None:
    branches = [
        make.make_graph([make.make_node(op, ["x"], [out])], op, [], [make.make_tensor_value_info(out, 1, (2, 6))])
        for op, out in (("Relu", "t"), ("Neg", "e"))
    ]
    model = small_model(make.make_node("If", ["c"], ["y"], "branch", then_branch=branches[0], else_branch=branches[1]))
    model.graph.input.append(make.make_tensor_value_info("c", TensorProto.BOOL, ()))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    for cpu_ops in (False, True):
        with pytest.raises(EdgememError, match=r"'branch' \(If\): it runs graphs of its own"):
            edgemem.GpuExecutor(path, cpu_ops=cpu_ops)
