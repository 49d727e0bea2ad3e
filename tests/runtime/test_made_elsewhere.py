"""A graph that ONNX Runtime optimised runs where it was made, and is refused everywhere else."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.cli.main import main
from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

ort = pytest.importorskip("onnxruntime")
NOTE = "edgemem.baked"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def convolutions(path: Path) -> Path:
    """Two convolutions whose weights ONNX Runtime lays out for the processor."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("v", (32, 3, 3, 3)), ("w", (32, 32, 3, 3)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    forms = (("x", [1, 3, 16, 16]), ("y", [1, 32, 16, 16]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in forms)
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """What `shrink` wrote here, and what it said."""
    folder = tmp_path_factory.mktemp("shrunk")
    made = call("shrink", convolutions(folder / "m.onnx"), "--close", "--steps", "optimize", "-o", folder / "s.onnx")
    assert made.exit_code == 0, made.output
    if not any(node.domain == "com.microsoft.nchwc" for node in onnx.load(folder / "s.onnx").graph.node):
        pytest.skip("onnxruntime has no blocked kernels here")
    return folder / "s.onnx", made


def renoted(path: Path, out: Path, **changes: object) -> Path:
    """The same file with another note; without any if there are no changes. A change to None takes a field away."""
    model = onnx.load(path)
    entry = next(p for p in model.metadata_props if p.key == NOTE)
    note = {k: v for k, v in {**json.loads(entry.value), **changes}.items() if v is not None}
    if changes:
        entry.value = json.dumps(note)
    else:
        model.metadata_props.remove(entry)
    onnx.save(model, out)
    return out


def processor(path: Path) -> str:
    note = json.loads(next(p.value for p in onnx.load(path).metadata_props if p.key == NOTE))
    return str(note["processor"])


def test_it_runs_here_and_the_last_line_says_where_else_it_does_not(shrunk: tuple[Path, Result]) -> None:
    path, made = shrunk
    last = made.stdout.splitlines()[-1] if "wrote" in made.stdout.splitlines()[-1] else " ".join(made.stdout.split())
    assert "the file is for this processor and onnxruntime" in " ".join(last.split())
    assert processor(path) != platform.machine()  # but the instructions, too
    assert edgemem.InferenceSession(path).run(None, {"x": np.ones((1, 3, 16, 16), np.float32)})[0].shape[1] == 32
    assert call("verify", "--run", path).exit_code == 0


def cases(path: Path, folder: Path) -> dict[str, Path]:
    fewer = " ".join(word for word in processor(path).split() if "512" not in word) + " AVX9"
    return {
        "other instructions": renoted(path, folder / "a.onnx", processor=fewer),
        "other version": renoted(path, folder / "b.onnx", onnxruntime="1.0.0"),
        "older note": renoted(path, folder / "c.onnx", processor=None, machine=platform.machine()),
        "no note": renoted(path, folder / "d.onnx"),
    }


@pytest.mark.parametrize("case", ["other instructions", "other version", "older note", "no note"])
def test_what_was_made_elsewhere_is_refused(case: str, shrunk: tuple[Path, Result], tmp_path: Path) -> None:
    path = cases(shrunk[0], tmp_path)[case]
    why = "com.microsoft.nchwc" if case == "no note" else "was optimised for"
    with pytest.raises(RuntimeBindError, match=f"{why}.*edgemem shrink"):
        edgemem.InferenceSession(path)
    with pytest.raises(RuntimeBindError, match=why):
        edgemem.InferenceSession(path.read_bytes())
    for command in (
        ("run", path),
        ("run", path, "--compare"),
        ("run", path, "--executor", "io-binding"),
        ("verify", path),
        ("verify", "--run", path),
        ("shrink", path),
    ):
        done = call(*command)
        assert done.exit_code == 1, (command, done.output)
        assert why in done.output, (command, done.output)
        assert "edgemem shrink" in done.output
    out = tmp_path / "planned.onnx"
    planned = " ".join(call("plan", path, "-o", out).output.split())
    assert "runs as planned" not in planned
    assert why in planned


@pytest.mark.parametrize("command", [("measure", "--rounds", "1", "--repeats", "1"), ("size",)])
def test_commands_that_measure_refuse_it_too(
    command: tuple[str, ...], shrunk: tuple[Path, Result], tmp_path: Path
) -> None:
    done = call(command[0], renoted(shrunk[0], tmp_path / "d.onnx", onnxruntime="1.0.0"), *command[1:])
    assert done.exit_code == 1
    assert "was optimised for onnxruntime 1.0.0" in done.output


def test_what_no_processor_lays_out_is_not_refused(tmp_path: Path) -> None:
    path = convolutions(tmp_path / "m.onnx")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "extended.onnx")  # which imports every domain
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for file in (path, tmp_path / "extended.onnx"):
        edgemem.InferenceSession(file).run(None, {"x": np.ones((1, 3, 16, 16), np.float32)})


@pytest.mark.full
def test_another_processor_refuses_it(shrunk: tuple[Path, Result], tmp_path: Path) -> None:
    """As a user with an older processor has it."""
    qemu = shutil.which("qemu-x86_64")
    if qemu is None or "AVX2" not in processor(shrunk[0]):
        pytest.skip("no qemu-x86_64 here")
    script = tmp_path / "open.py"
    script.write_text(f"import edgemem\nedgemem.InferenceSession({str(shrunk[0])!r})\n")
    emulated = [qemu, "-cpu", "SandyBridge", "-E", f"VIRTUAL_ENV={sys.prefix}", sys.executable, str(script)]
    done = subprocess.run(emulated, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "was optimised for" in done.stderr
