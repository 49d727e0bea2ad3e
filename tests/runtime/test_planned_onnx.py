"""From a real ONNX file to a planned and proved one that runs inside an arena as ONNX Runtime runs the original."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from models.build import build, names
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

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
CPU = ["CPUExecutionProvider"]
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}


def options() -> Any:
    made = ort.SessionOptions()
    made.log_severity_level = 3
    made.intra_op_num_threads = 1
    return made


def feeds_of(session: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    feeds: dict[str, NDArray[Any]] = {}
    for value in session.get_inputs():
        shape = shapes.get(value.name) or tuple(d if isinstance(d, int) else 1 for d in value.shape)
        dtype = DTYPES[value.type]
        feeds[value.name] = (
            rng.random(shape, dtype=np.float32)
            if dtype is np.float32
            else np.full(shape, 16000 if not shape else 1, dtype)
        )
    return feeds


def check(path: Path, flags: list[str], planned: Path) -> None:
    run = CliRunner()
    done = run.invoke(main, ["plan", str(path), *flags, "-o", str(planned)])
    assert done.exit_code == 0, done.output
    assert f"{planned}: right\n" in run.invoke(main, ["verify", str(planned)]).output
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
    plain = ort.InferenceSession(path, options(), providers=CPU)
    feeds = feeds_of(plain, shapes)
    expected = [np.asarray(a) for a in plain.run(None, feeds)]
    # Nothing is in the arena before a value is written: what is read too late, or from another place, is poison.
    with edgemem.InferenceSession(
        planned, options(), CPU, cache=False, background=False, poison=True, guard=True
    ) as session:
        # Where branches are equal, ONNX Runtime orders the operators of each session anew: the plan in the file is that
        # of another order then, and the session makes its own from what two runs ask for.
        for _ in range(4):
            found = [np.asarray(a) for a in session.run(None, feeds)]
            assert [(a.dtype, a.shape, a.tobytes()) for a in found] == [
                (a.dtype, a.shape, a.tobytes()) for a in expected
            ]
        memory = session.memory
    assert memory.mode == "replay"
    assert memory.replayed >= 2, memory.reason


@pytest.mark.full
@pytest.mark.parametrize("name", names())
def test_built_networks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(build(name, size="small"), path)
    flags = ["--dim", "T=16"] if name == "dynamic" else []
    check(path, flags, tmp_path / "planned.onnx")


@pytest.mark.full
@pytest.mark.parametrize("name", REAL)
def test_real_models(name: str, tmp_path: Path) -> None:
    try:
        path = fetch(name)
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    check(path, REAL[name], tmp_path / "planned.onnx")
