"""`edgemem plan -o MODEL.onnx` adds a recording where ONNX Runtime can run the model; else it says why not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import onnx
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.runtime.onnxruntime.file import plans_in
from models.build import build

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")
UNKNOWN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x) => (float[k] y) { b = NonZero (x)  c = Cast <to = 1> (b)  y = Exp (c) }
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "unet.onnx"
    onnx.save(build("unet", size="small"), path)
    return path


def plan(*args: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["plan", *map(str, args)])
    assert done.exit_code == code, done.output
    return done.output


def kinds(path: Path) -> list[str]:
    return ["graph" if p.recording is None else "recording" for p in plans_in(path.read_bytes())]


def test_a_planned_model_has_both_plans(model: Path, tmp_path: Path) -> None:
    said = plan(model, "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph", "recording"]
    assert "recorded arena " in said
    assert said.splitlines()[-1].endswith("and in ONNX Runtime sessions (edgemem.InferenceSession)")
    assert "--record" not in said


def test_no_record_leaves_it_out(model: Path, tmp_path: Path) -> None:
    said = plan(model, "--no-record", "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph"]
    assert "recorded arena" not in said
    assert "no recording was added" not in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--target", "gpu-buffer"), "the plan is for the target gpu-buffer"),
        (("--strategy", "shared_objects/naive"), "there is no plan of offsets"),
    ],
)
def test_a_plan_for_something_else_has_none(model: Path, tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    said = plan(model, *options, "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph"]
    assert f"no recording was added: {why}\n" in said


def test_a_large_model_is_run_only_on_request(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemem.runtime.onnxruntime.file_recording._MOST_BYTES", 400_000)
    said = plan(model, "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph"]
    assert "no recording was added: the model takes " in said
    assert "; --record runs models of more than 390.62 KiB" in said
    plan(model, "--record", "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph", "recording"]


def test_without_onnx_runtime_the_line_names_the_package(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    said = plan(model, "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph"]
    assert "no recording was added: running an ONNX model needs onnxruntime: pip install 'onnxruntime>=1.23'" in said
    assert "pip install 'onnxruntime>=1.23'" in plan(model, "--record", "-o", tmp_path / "planned.onnx", code=1)


def test_what_onnx_runtime_refuses_is_planned_without(model: Path, tmp_path: Path) -> None:
    given = onnx.load(model)
    given.ir_version = 99
    onnx.save(given, tmp_path / "new.onnx")
    said = plan(tmp_path / "new.onnx", "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph"]
    (line,) = [line for line in said.splitlines() if line.startswith("no recording was added: ")]
    assert "ONNX Runtime cannot run planned.onnx: " in line
    plan(tmp_path / "new.onnx", "--record", "-o", tmp_path / "other.onnx", code=1)
    assert not (tmp_path / "other.onnx").exists()


def test_sizes_that_depend_on_data_are_in_the_recording(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(UNKNOWN), tmp_path / "m.onnx")
    plan(tmp_path / "m.onnx", "-o", tmp_path / "planned.onnx")
    assert kinds(tmp_path / "planned.onnx") == ["graph", "recording"]


def test_a_recording_above_the_budget_is_told_and_refused_on_request(model: Path, tmp_path: Path) -> None:
    """Node by node the tensors are all there is; ONNX Runtime's sessions need workspace besides."""
    naive = "--strategy", "offsets/naive"
    plan(model, *naive, "-o", tmp_path / "planned.onnx")
    graph, recording = (p.best_offsets for p in plans_in((tmp_path / "planned.onnx").read_bytes()))
    assert graph is not None
    assert recording is not None
    assert graph.size < recording.size
    said = plan(model, *naive, "--budget", graph.size, "-o", tmp_path / "planned.onnx")
    assert "sessions exceed the budget by " in said
    plan(model, *naive, "--budget", graph.size, "--record", "-o", tmp_path / "other.onnx", code=3)
    assert not (tmp_path / "other.onnx").exists()
