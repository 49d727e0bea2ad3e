"""Models in parts, in their runtimes: `shrink` with `split` alone, by search and by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import edgemem
from edgemem.errors import ModelError, TilingError
from edgemem.runtime.onnxruntime.baking import bake_sized
from models.build import build
from models.tflite_networks import mobilenet_v1

if TYPE_CHECKING:
    from pathlib import Path

ALLOWED = ["optimize", "split"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("networks") / "transformer.onnx"
    path.write_bytes(build("transformer", size="small").SerializeToString())
    return path


@pytest.mark.full
def test_a_transformer_takes_less_in_a_session(encoder: Path) -> None:
    before = edgemem.shrink(encoder, steps="optimize=all").chosen
    made = edgemem.shrink(encoder, allow=ALLOWED, budget=int(0.8 * before.arena))
    assert [step.name for step in made.chosen.steps] == ALLOWED
    assert before.is_measured
    assert made.chosen.is_measured
    assert made.chosen.arena <= 0.8 * before.arena
    assert made.chosen.macs == pytest.approx(1)


@pytest.mark.full
def test_a_budget_takes_few_operators(encoder: Path) -> None:
    before = edgemem.shrink(encoder, steps="optimize=all").chosen
    least = edgemem.shrink(encoder, allow=ALLOWED, budget=int(0.65 * before.arena)).chosen
    middle = (least.arena + before.arena) // 2
    made = edgemem.shrink(encoder, allow=ALLOWED, budget=middle).chosen
    assert made.arena <= middle
    assert made.operators <= least.operators


@pytest.mark.full
def test_a_network_for_microcontrollers_keeps_every_bit(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = tmp_path / "person.tflite"
    path.write_bytes(mobilenet_v1(alpha=0.25, size=96, int8=True, classes=2))
    before = edgemem.shrink(path, steps="").chosen
    made = edgemem.shrink(path, allow=["split"]).chosen
    assert made.outputs == "identical"
    assert made.is_measured
    assert made.arena < 0.9 * before.arena


def test_parts_need_an_optimised_graph_and_one_that_can_be_cut(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="put optimize before it"):
        edgemem.shrink(encoder, steps="split=13:15:4/1")
    net = tmp_path / "net.onnx"
    net.write_bytes(build("mobilenet_v2", size="small").SerializeToString())
    baked = tmp_path / "baked.onnx"
    bake_sized(net, baked, "all")
    with pytest.raises(TilingError, match=r"the model that it was made from|not known to compute"):
        edgemem.shrink(baked, steps="optimize,split=0:0:2/1")


def test_levels_are_of_onnx_runtime(tmp_path: Path) -> None:
    path = tmp_path / "person.tflite"
    path.write_bytes(mobilenet_v1(alpha=0.25, size=96, int8=True, classes=2))
    with pytest.raises(ModelError, match="leave @all out"):
        edgemem.shrink(path, steps="split=2:3:2/3@all")
