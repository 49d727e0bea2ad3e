"""Plans that count texels: no runtime that runs a plan in bytes may take them for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime.split_model import split_model
from tests.runtime.networks import small
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

# Textures as the paper counts them, which edgemem's own executor does not run either.
_TEXELS = 'texels = true\nalignment = 16\naliasing = "none"\n'
_TEXELS_FOR_LITERT = 'texels = true\nalignment = 64\ninputs = "whole_run"\noutputs = "to_end"\nscratch = "litert"\n'


def _edgemem(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, result.output


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    tensors = [T(f"t{k}", shape=(1, 4, 4, 8)) for k in range(6)]
    ops = [O("TANH", (k,), (k + 1,)) for k in range(4)] + [O("ADD", (1, 4), (5,), (11, (0,)))]
    path = tmp_path / "chain.tflite"
    path.write_bytes(build(M([S(tensors, ops, (0,), (5,))])))
    return path


def test_tensorflow_lite_micro_is_told_no_texels(chain: Path, tmp_path: Path) -> None:
    planned = tmp_path / "planned.tflite"
    target = tmp_path / "texels.toml"
    target.write_text(_TEXELS)
    code, said = _edgemem("plan", chain, "-o", planned, "-t", target)
    assert code == 0
    assert "no executor runs this plan as it is; TensorFlow Lite Micro: plan with --target tflm" in said
    assert _edgemem("export", planned, "-f", "tflm-metadata")[0] == 4
    assert _edgemem("export", planned, "-f", "c-array")[0] == 1


@pytest.mark.full
@pytest.mark.parametrize("runtime", ["tflm", "litert"])
def test_no_runtime_of_tflite_files_runs_texels(chain: Path, tmp_path: Path, runtime: str) -> None:
    pytest.importorskip({"tflm": "tflite_micro", "litert": "ai_edge_litert"}[runtime])
    pytest.importorskip("ai_edge_litert")
    target = tmp_path / "texels.toml"
    target.write_text(_TEXELS_FOR_LITERT if runtime == "litert" else _TEXELS)
    planned = tmp_path / "planned.tflite"
    assert _edgemem("plan", chain, "-o", planned, "-t", target)[0] == 0
    for command in (["run", planned, "--runtime", runtime], ["verify", "--run", planned]):
        code, said = _edgemem(*command)
        assert code == 1
        assert "counts texels, not bytes" in said


def test_onnx_runtime_runs_no_texels(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, planned = small("resnet18", tmp_path), tmp_path / "planned.onnx"
    target = tmp_path / "texels.toml"
    target.write_text(_TEXELS)
    code, said = _edgemem("plan", model, "-o", planned, "-t", target)
    assert code == 0
    assert "node by node (edgemem run --executor io-binding): plan with --target onnxruntime" in said
    with pytest.raises(RuntimeBindError, match="counts texels, not bytes"):
        split_model(planned)
    code, said = _edgemem("verify", "--run", planned)
    assert code == 1
    assert "counts texels, not bytes" in said
