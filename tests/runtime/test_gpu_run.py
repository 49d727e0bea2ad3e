"""`edgemem run --runtime webgpu` and `edgemem verify --run` on software GPUs: what they print, compare and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.cli.main import main
from edgemem.commands import run_gpu as command
from edgemem.commands.run_gpu import GpuOptions, run_gpu
from edgemem.commands.verify_run_gpu import verify_run_gpu
from edgemem.errors import RuntimeBindError
from edgemem.proof import Cause
from models.build import build, build_tflite
from tests.tflite_models import M, O, S, T
from tests.tflite_models import build as build_small
from tests.webgpu_adapters import ADAPTERS, need_adapter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

TARGETS = ("gpu-buffer", "gpu-texture", "gpu-texture-linear", "gpu-texture-array")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """A small MobileNet v2 (.onnx or .tflite) with a plan for a target."""
    folder = tmp_path_factory.mktemp("gpu")
    models = {
        ".onnx": build("mobilenet_v2", size="small").SerializeToString(),
        ".tflite": build_tflite("mobilenet_v2_tflite", size=32, alpha=0.25, classes=11),
    }

    def made(suffix: str, target: str) -> Path:
        path = folder / f"{target}{suffix}"
        if not path.exists():
            model = folder / f"model{suffix}"
            model.write_bytes(models[suffix])
            edgemem.save(model, edgemem.plan(model, target=target, effort="fast"), path)
        return path

    return made


@pytest.mark.full
@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_planned_model_runs_as_without_sharing_and_near_the_cpu(
    adapter: str, target: str, planned: Callable[[str, str], Path]
) -> None:
    name = need_adapter(adapter)
    path = planned(".onnx", target)
    done = run("run", path, "--runtime", "webgpu", "--adapter", adapter, "--compare", "--poison", "--runs", 1, "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.output)
    assert data["identical"] is True
    assert name in data["adapter"]
    assert data["report"]["reserved"] == data["report"]["planned"] > 0
    assert data["report"]["origin"]["of"] == f"graph under {target}"
    (error,) = data["reference"]["outputs"]
    assert error["spread"] > 1e-3
    assert error["largest"] < 1e-3 * error["spread"]


@pytest.mark.full
def test_a_file_for_gpus_needs_no_option(planned: Callable[[str, str], Path], tmp_path: Path) -> None:
    need_adapter()
    done = run("run", planned(".tflite", "gpu-texture"), "--compare", "--timings", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("textures ")
    assert "plan of the graph under gpu-texture, from the file" in lines[0]
    assert lines[1].startswith("allocated ")
    assert "outputs identical to a run in which no tensors share memory" in lines
    assert any(line.startswith("from LiteRT ") and line.endswith("of its spread") for line in lines)
    kinds = lines[lines.index("") + 1 :]
    assert kinds[0].split() == ["type", "operators", "ms", "share"]
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD"} <= {line.split()[0] for line in kinds if line}
    (saved,) = (tmp_path / "out").glob("*.npy")
    assert np.load(saved).std() > 0


def test_times_are_of_every_operator_on_either_side(tmp_path: Path) -> None:
    need_adapter()
    path = tmp_path / "model.tflite"
    path.write_bytes(build_tflite("mobilenet_v2_tflite", size=32, alpha=0.25, classes=11))
    made = run_gpu(path, options=GpuOptions(storage="texture2d"), runs=2, timings=True)
    assert made.outcome.report.origin is not None
    assert made.outcome.report.origin.source == "made now"
    graph = edgemem.load(path).graph()  # type: ignore[union-attr]
    assert [t.type for t in made.times] == [op.type for op in graph.ops]
    assert sum(count for _, count, _ in made.by_type()) == len(graph.ops)
    assert sum(ms for _, _, ms in made.by_type()) == pytest.approx(sum(t.ms for t in made.times))


@pytest.mark.full
def test_verify_runs_in_memory_full_of_nan(planned: Callable[[str, str], Path]) -> None:
    need_adapter()
    done = run("verify", planned(".onnx", "gpu-buffer"), "--run")
    assert done.exit_code == 0, done.output
    assert "webgpu: ran, arena " in done.output
    assert "io-binding: not run: the plan is for the target gpu-buffer" in done.output
    done = run("verify", planned(".tflite", "gpu-texture"), "--run", "--json")
    assert done.exit_code == 0, done.output
    runs = {entry["executor"]: entry for entry in json.loads(done.output)["runs"]}
    assert runs["webgpu"]["report"]["planned"] > 0
    assert runs["litert"]["report"] is None
    assert runs["tflm"]["report"] is None


@pytest.mark.full
def test_a_plan_above_the_portable_limits_says_so_and_is_verified(tmp_path: Path) -> None:
    tensors = [T(f"t{k}", shape=(1, 256, 256, 48)) for k in range(3)]  # 12 MiB each, 192 layers of the 256
    path, planned = tmp_path / "model.tflite", tmp_path / "planned.tflite"
    path.write_bytes(build_small(M([S(tensors, [O("RELU", (0,), (1,)), O("TANH", (1,), (2,))], (0,), (2,))])))
    done = run("plan", path, "-t", "gpu-texture-array", "-o", planned)
    assert "runs as planned in WebGPU (edgemem run --runtime webgpu) with --profile adapter" in done.output
    need_adapter()
    assert "--profile adapter" in run("run", planned).output
    assert run("run", planned, "--profile", "adapter", "--runs", 1).exit_code == 0
    assert run("verify", planned, "--run").exit_code == 0


class _Wrong:
    """An executor whose operators give something else from one of them on, where tensors share memory."""

    def __init__(self, real: Any, wrong_from: int | None) -> None:
        self._real, self._wrong_from = real, wrong_from

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run(self, names: Any, values: Any) -> Any:
        found = self._real.run(names, values)
        return found if self._wrong_from is None else [value + np.float32(1) for value in found]

    def observe(self, values: Any) -> Any:
        for number, tensor, value in self._real.observe(values):
            is_wrong = self._wrong_from is not None and number >= self._wrong_from
            yield number, tensor, value + np.float32(1) if is_wrong else value


@pytest.mark.full
def test_verify_names_the_first_operator_that_differs(
    planned: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_adapter()
    path = planned(".tflite", "gpu-buffer")
    real = command.executor_for

    def wrong(*arguments: Any, sharing: bool = True, **options: Any) -> Any:
        return _Wrong(real(*arguments, sharing=sharing, **options), 5 if sharing else None)

    monkeypatch.setattr("edgemem.commands.verify_run_gpu.executor_for", wrong)
    (violation,) = verify_run_gpu(path).violations
    op = edgemem.load(path).graph().ops[5]  # type: ignore[union-attr]
    assert violation.cause is Cause.DIFFERENT_OUTPUT
    assert f"the first operator that computes something else is {op.name} ({op.type})" in str(violation)
    monkeypatch.setattr("edgemem.commands.run_gpu.executor_for", wrong)
    done = run("run", path, "--compare", "--runs", 1)
    assert done.exit_code == 1
    assert "outputs DIFFERENT: " in done.output


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("gpu-texture", ("--storage", "buffer"), "is for 'gpu-texture', and this run needs 'gpu-buffer'"),
        ("gpu-buffer", ("--precision", "fp16"), "is for 'gpu-buffer', and this run needs 'gpu-buffer-fp16'"),
        ("gpu-buffer", ("--adapter", "no such card"), "there is no GPU adapter 'no such card'"),
        ("generic", ("--runtime", "webgpu"), "the plan is for the target generic"),
    ],
)
def test_what_a_plan_is_not_for_is_an_error_in_one_line(
    target: str, options: tuple[str, ...], said: str, planned: Callable[[str, str], Path]
) -> None:
    need_adapter()
    done = run("run", planned(".onnx", target), *options)
    assert done.exit_code != 0
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--storage", "buffer"), "--storage is for GPUs: give --runtime webgpu, too"),
        (("--timings",), "--timings is for GPUs"),
        (("--runtime", "webgpu", "--executor", "replay"), "--executor replay is for ONNX Runtime"),
        (("--runtime", "webgpu", "--threads", "2"), "--threads is for CPUs"),
        (("--runtime", "webgpu", "--timeout", "5"), "Ctrl-C ends a model on a GPU"),
        (("--runtime", "webgpu", "--storage", "tape"), "'tape' is not one of"),
    ],
)
def test_options_that_mean_nothing_are_usage_errors(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(build("mobilenet_v2", size="small").SerializeToString())
    done = run("run", path, *options)
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.full
def test_operators_without_a_kernel_are_named_or_run_on_the_cpu(tmp_path: Path) -> None:
    need_adapter()
    path = tmp_path / "model.tflite"
    tensors = [T("in", shape=(1, 4, 4, 3)), T("middle", shape=(1, 4, 4, 3)), T("out", shape=(1, 4, 4, 3))]
    ops = [O("RELU", (0,), (1,)), O("CUMSUM", (1, 3), (2,))]
    tensors.append(T("axis", dtype="int32", shape=(), data=np.array([1], np.int32).tobytes()))
    path.write_bytes(build_small(M([S(tensors, ops, (0,), (2,))])))
    done = run("run", path, "--runtime", "webgpu")
    assert done.exit_code != 0
    assert "CUMSUM" in done.output
    assert "RELU" not in done.output
    done = run("run", path, "--runtime", "webgpu", "--cpu-ops", "--compare", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.output)
    assert data["report"]["details"]["cpu_ops"] == 1
    assert [error["largest"] for error in data["reference"]["outputs"]] == [0.0]


@pytest.mark.full
def test_without_an_adapter_nothing_is_verified(
    planned: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_adapter()
    monkeypatch.setattr("edgemem.runtime.webgpu.device.adapters", lambda: ())
    path = planned(".onnx", "gpu-buffer")
    done = run("verify", path, "--run")
    assert done.exit_code != 0
    assert "webgpu: not run: there is no GPU adapter" in done.output
    with pytest.raises(RuntimeBindError, match="there is no GPU adapter"):
        run_gpu(path)


def test_plan_run_and_verify_say_the_same_of_an_operator_without_a_kernel(tmp_path: Path) -> None:
    """What ONNX Runtime's optimiser fuses further than the kernels go; `optimize=basic` helps, and it is said."""
    need_adapter()
    shape, weights = (1, 8, 16), np.linspace(0.5, 1.5, 16, dtype=np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("SkipLayerNormalization", ["a", "x", "w"], ["y"], name="fused", domain="com.microsoft"),
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "net", info[:1], info[1:], [numpy_helper.from_array(weights, "w")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path, planned = tmp_path / "net.onnx", tmp_path / "planned.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    said = "1 thing without a kernel: 'fused' (com.microsoft::SkipLayerNormalization)"
    remedy = "edgemem shrink --steps optimize=basic keeps ONNX Runtime's optimiser from making SkipLayerNormalization"
    done = run("plan", path, "--target", "gpu-buffer", "-o", planned)
    assert "runs as planned in WebGPU" not in done.output
    assert said in done.output
    assert remedy in done.output
    for words in (("run", planned), ("verify", planned, "--run")):
        refused = run(*words)
        assert refused.exit_code == 1
        assert said in refused.output
        assert remedy in refused.output


def test_a_size_that_the_file_leaves_open_is_asked_for(tmp_path: Path) -> None:
    tensors = [T("x", shape=(1, 1, 1, 4), signature=(1, -1, -1, 4)), T("y", shape=(1, 1, 1, 4))]
    path = tmp_path / "open.tflite"
    path.write_bytes(build_small(M([S(tensors, [O("ABS", (0,), (1,))], (0,), (1,))])))
    for words in (("plan", path), ("run", path, "--runtime", "webgpu")):
        refused = run(*words)
        assert refused.exit_code != 0
        assert "--input-shape x=1,N,N,4" in refused.output


@pytest.mark.full
def test_drivers_print_nothing(tmp_path: Path) -> None:
    need_adapter()
    code = "from edgemem.runtime.webgpu.device import open_device; open_device()"
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, check=True)
    assert done.stderr == b""
