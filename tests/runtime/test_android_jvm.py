"""The demo app's own package on a JVM: its dex as Java classes, its x86_64 libraries, stand-ins for Android's classes.

What onCreate leads to is read from the screen: the plan, the memory of a run, and the outputs, which are those of
ONNX Runtime on a desktop.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from tests.android.installed import downloaded
from tests.android.jvm import App, install
from tests.android.subjects import TOLERANCE, make
from tests.android.tools import abi, need
from tests.runtime.networks import fetched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("cryptography")
pytest.importorskip("onnxruntime")

DONE = ("until", "status", "^5 runs done")
REAL = ("blazeface_front",)
MODELS = ("convolutions", "mobilenet_v2", "dynamic", *REAL)
# Sizes that plans are made for, and the app then feeds; what a model leaves open is 1 else.
SIZES = {"dynamic": ["--dim", "T=5"]}
OPEN = {"dynamic": 5}


def edgemem(*given: object) -> str:
    """What the command printed."""
    done = CliRunner().invoke(main, [str(part) for part in given])
    assert done.exit_code == 0, done.output
    return done.stdout


def need_tools() -> None:
    """Skips the test without the tools that make an app, or run it here."""
    abi("x86_64")
    need(["enjarify", "java", "javac"])
    downloaded()


@dataclass(frozen=True, slots=True)
class Installed:
    """A model, the app that was packaged of it, and the text of the command."""

    model: Path
    app: App
    said: str


def package(name: str, folder: Path, *options: str) -> Installed:
    """Plans a model, packages it, and installs the package."""
    need_tools()
    path = fetched(name) if name in REAL else make(name, folder).path
    planned, apk = folder / "model.planned.onnx", folder / "demo.apk"
    edgemem("plan", path, *SIZES.get(name, ()), *options, "-o", planned)
    said = edgemem(
        "android",
        "package",
        planned,
        "-o",
        apk,
        "--abi",
        "x86_64",
        "--task",
        "tensors",
        "--preprocess",
        "minus_one_to_one",
    )
    return Installed(path, install(apk, folder / "installed"), said)


def fed(installed: Installed, opened: int = 1) -> dict[str, NDArray[Any]]:
    """What the app feeds: its picture to an input for images, and made-up values to others.

    Element k of input i is ((k + 1) 2654435761 + i) mod 2^32: its upper 24 bits as a fraction, rounded for integers.
    """
    graph = onnx.load(installed.model, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    made: dict[str, NDArray[Any]] = {}
    for i, info in enumerate(value for value in graph.input if value.name not in constants):
        dims = info.type.tensor_type.shape.dim
        shape = tuple(d.dim_value or (opened if at else 1) for at, d in enumerate(dims))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if len(shape) == 4 and 3 in {shape[1], shape[3]}:
            made[info.name] = installed.app.picture(shape)
            continue
        k = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
        bits = (k * np.uint64(2654435761) + np.uint64(i)) % np.uint64(1 << 32)
        values = (bits >> np.uint64(8)).astype(np.float32) / np.float32(1 << 24)
        made[info.name] = (values if dtype.kind == "f" else np.round(values)).astype(dtype).reshape(shape)
    assert all(np.count_nonzero(values) for values in made.values())
    return made


def on_the_desktop(path: Path, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs: list[NDArray[Any]] = session.run(None, dict(feeds))
    return outputs


def number(text: str) -> int:
    return int(text.replace(",", ""))


def memory(screen: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """The figures of the last run, in bytes or requests."""
    text = screen["memory"]["text"]
    figures = {
        name: number(value)
        for name, value in re.findall(r"^(planned|measured|lower bound|no sharing) +([\d,]+) bytes", text, re.MULTILINE)
    }
    hits, requests, heap = re.findall(
        r"^from the arena +([\d,]+) of ([\d,]+) requests\nfrom the heap +([\d,]+) bytes", text, re.MULTILINE
    )[0]
    return {**figures, "hits": number(hits), "requests": number(requests), "heap": number(heap)}


def check_memory(screen: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, int]:
    """The screen says that a plan of this source served every request, and that the measured bytes are the planned."""
    assert screen["source"]["text"] == f"plan: {source}"
    figures = memory(screen)
    assert figures["hits"] == figures["requests"] > 0
    assert figures["heap"] == 0
    assert figures["measured"] == figures["planned"] >= figures["lower bound"] > 0
    return figures


def digest(screen: Mapping[str, Mapping[str, Any]]) -> tuple[float, str]:
    """The sum of all outputs, and the SHA-256 of their bytes."""
    found = re.fullmatch(r"outputs: sum (\S+), sha256 ([0-9a-f]{64})", screen["digest"]["text"])
    assert found is not None, screen["digest"]
    return float(found[1]), found[2]


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_the_app_shows_the_plan_of_its_file_and_the_outputs(tmp_path: Path, name: str) -> None:
    installed = package(name, tmp_path, "--record", "--android")
    assert "as recorded" in installed.said
    planned, plain = installed.app.run(*DONE), installed.app.run("press", "planned", *DONE)

    figures = check_memory(planned, "file")
    assert planned["notes"]["text"] == ""
    assert f"{figures['planned']:,} bytes" in planned["memory"]["text"]
    assert planned["title"]["text"].endswith("in ONNX Runtime 1.29.0 on CPU")
    rectangles = [part for part in planned["map"]["drawn"] if part.startswith("rect ") and part.endswith("FILL")]
    assert len(rectangles) >= figures["requests"]

    assert not plain["planned"]["checked"]
    assert digest(plain) == digest(planned)
    expected = on_the_desktop(installed.model, fed(installed, OPEN.get(name, 1)))
    total = sum(float(output.astype(np.float64).sum()) for output in expected)
    scale = sum(float(np.abs(output.astype(np.float64)).sum()) for output in expected)
    assert scale > 0
    assert abs(digest(planned)[0] - total) <= TOLERANCE * scale
    assert digest(planned)[1] == sha256(expected)


def sha256(outputs: list[NDArray[Any]]) -> str:
    return hashlib.sha256(b"".join(output.tobytes() for output in outputs)).hexdigest()


@pytest.mark.full
def test_without_a_recording_the_first_run_is_planned_on_the_device(tmp_path: Path) -> None:
    installed = package("mobilenet_v2", tmp_path)
    screen = installed.app.run(*DONE)
    here = check_memory(screen, "made on this device, 1 change of plan")
    assert digest(screen)[1] == sha256(on_the_desktop(installed.model, fed(installed)))
    (tmp_path / "recorded").mkdir()
    recorded = package("mobilenet_v2", tmp_path / "recorded", "--record", "--android")
    assert check_memory(recorded.app.run(*DONE), "file") == here


@pytest.mark.full
def test_a_recording_of_a_desktop_session_does_not_fit_and_is_replaced(tmp_path: Path) -> None:
    installed = package("mobilenet_v2", tmp_path, "--record")
    check_memory(installed.app.run(*DONE), "made on this device, 1 change of plan")


@pytest.mark.full
def test_more_runs_and_a_turned_screen_keep_the_plan(tmp_path: Path) -> None:
    installed = package("convolutions", tmp_path, "--record", "--android")
    screen = installed.app.run(*DONE, "press", "again", "until", "status", "^55 runs done", "rotate", "leave", "back")
    check_memory(screen, "file")
    assert digest(screen) == digest(installed.app.run(*DONE))
