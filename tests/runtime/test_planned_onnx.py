"""From a real ONNX file to a planned and proved one that ONNX Runtime runs as before, bit for bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from models.build import build, names
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")

# What binds each model's open sizes, as flags of `edgemem plan`.
REAL: dict[str, list[str]] = {
    "light_squeezenet": [],
    "light_shufflenet": [],
    "light_inception_v1": [],
    "light_resnet50": [],
    "basic_pitch_nmp_onnx": ["--input-shape", "serving_default_input_2:0=1,43844,1"],
    "silero_vad": ["--input-shape", "input=1,576", "--input-shape", "state=2,1,128"],
    "silero_vad_16k_op15": ["--dim", "batch=1", "--dim", "sequence=576"],
    "silero_vad_half": ["--dim", "batch=1", "--dim", "sequence=576"],
    "silero_vad_16k_sequence": ["--dim", "sequence_length=576"],
    "silero_vad_op18_ifless": ["--dim", "batch=1", "--dim", "sequence=576"],
    "silero_vad_openvino_16k": [],
    "magika": ["--input-shape", "bytes=1,2048"],
    "rapidocr_det": ["--input-shape", "x=1,3,320,320"],
    "rapidocr_rec": ["--input-shape", "x=1,3,48,320"],
    "rapidocr_cls": ["--input-shape", "x=1,3,48,192"],
}
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}


def outputs(path: Path, shapes: dict[str, tuple[int, ...]]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {}
    for value in session.get_inputs():
        shape = shapes.get(value.name) or tuple(d if isinstance(d, int) else 1 for d in value.shape)
        dtype = DTYPES[value.type]
        feeds[value.name] = (
            rng.random(shape, dtype=np.float32)
            if dtype is np.float32
            else np.full(shape, 16000 if not shape else 1, dtype)
        )
    return list(session.run(None, feeds))


def check(path: Path, flags: list[str], planned: Path) -> None:
    run = CliRunner()
    done = run.invoke(main, ["plan", str(path), *flags, "-o", str(planned)])
    assert done.exit_code == 0, done.output
    assert run.invoke(main, ["verify", str(planned)]).output.endswith(": right\n")
    shown = json.loads(run.invoke(main, ["show", str(planned), "--json"]).output)
    best = min(p["size"] for p in shown["plans"] if p["family"] == "offsets")
    assert shown["lower_bounds"]["offsets"] <= best <= shown["naive"]
    assert planned.read_bytes().startswith(path.read_bytes())
    onnx.checker.check_model(planned)
    dims = shown["model"]["dims"]
    shapes = {name: tuple(shape) for name, shape in shown["model"]["input_shapes"].items()}
    for value in onnx.load(path, load_external_data=False).graph.input:
        shapes.setdefault(
            value.name, tuple(dims.get(d.dim_param) or d.dim_value for d in value.type.tensor_type.shape.dim)
        )
    before, after = outputs(path, shapes), outputs(planned, shapes)
    assert len(before) == len(after) > 0
    for a, b in zip(before, after, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", names())
def test_built_networks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(build(name, size="small"), path)
    flags = ["--dim", "T=16"] if name == "dynamic" else []
    check(path, flags, tmp_path / "planned.onnx")


@pytest.mark.parametrize("name", REAL)
def test_real_models(name: str, tmp_path: Path) -> None:
    try:
        path = fetch(name)
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    check(path, REAL[name], tmp_path / "planned.onnx")
