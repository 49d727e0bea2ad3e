"""A share of the random graphs, changed plans, files and runs of `python -m tests.oracle.memory_plans`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import edgemem
from edgemem import Target
from edgemem.formats import open_bytes
from edgemem.targets import BUILT_IN
from tests import extent
from tests.oracle.memory_plans.campaign import Tally, check_random, random_case

if TYPE_CHECKING:
    from pathlib import Path

CHANGES = 40  # of the plans of one graph


def none_but_expected(tally: Tally) -> None:
    assert not tally.findings
    assert tally.honest["right"]
    assert not tally.honest["wrong"]
    # Without plans that are wrong nothing was tried.
    assert sum(n for (_, wrong, _), n in tally.changes.items() if wrong) > CHANGES
    assert sum(n for (_, wrong, accepted), n in tally.changes.items() if accepted and not wrong) > CHANGES / 10


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_onnx_graphs(first: int) -> None:
    tally = Tally()
    for seed in range(first, first + 10):
        check_random("onnx", seed, CHANGES, tally)
    none_but_expected(tally)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_tflite_graphs(first: int) -> None:
    pytest.importorskip("ai_edge_litert")
    tally = Tally()
    for seed in range(first, first + 10):
        check_random("tflite", seed, CHANGES, tally)
    none_but_expected(tally)


@pytest.mark.full
@pytest.mark.parametrize("form", ["onnx", "tflite"])
def test_random_graphs_on_gpus(form: str) -> None:
    if form == "tflite":
        pytest.importorskip("ai_edge_litert")
    # Sides that are too short for some tensors, so that these lie in rows.
    small = replace(BUILT_IN["gpu-texture"], texture_side=16)
    rows = replace(BUILT_IN["gpu-texture-linear"], texel_row=3)
    array = replace(BUILT_IN["gpu-texture-array"], texel_row=4, layer_rows=2, alignment=128)
    tally = Tally()
    for seed in range(100, 112):
        targets = (BUILT_IN["gpu-buffer"], BUILT_IN["gpu-buffer-fp16"], small, rows, array)
        check_random(form, seed, CHANGES, tally, targets)
    none_but_expected(tally)


@pytest.mark.full
def test_random_graphs_in_litert() -> None:
    pytest.importorskip("ai_edge_litert")
    tally = Tally()
    for seed in range(12 if extent.exhaustive else 5):
        check_random("litert", seed, CHANGES, tally)
    none_but_expected(tally)


@pytest.mark.full
def test_changed_files(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.oracle.memory_plans.files import change_onnx_files, change_tflite_files, reorder_tflite

    tally = Tally()
    for seed in range(8):
        change_onnx_files(seed, 5, tmp_path, tally)
        change_tflite_files(seed, 10, tmp_path, tally)
        reorder_tflite(seed, tmp_path, tally)
    assert not tally.findings
    assert sum(n for (_, wrong, _), n in tally.changes.items() if wrong) > 10


@pytest.mark.full
def test_random_models_run_in_their_plans(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from tests.oracle.memory_plans.real_runs import run_onnx

    tally = Tally()
    count = 15 if extent.exhaustive else 6
    for seed in range(count):
        run_onnx(seed, tmp_path, tally)
    assert not tally.findings
    assert tally.graphs["run in ONNX Runtime"] > count * 2 // 3


@pytest.mark.full
def test_random_models_run_in_tensorflow_lite_micro(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    from tests.oracle.memory_plans.real_runs import run_tflite

    tally = Tally()
    for seed in range(5):
        run_tflite(seed, tmp_path, tally)
    assert not tally.findings
    assert tally.graphs["run in TensorFlow Lite Micro"] > 3


def test_views_in_textures() -> None:
    file = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (float[1,2,1,8] x) => (float[16] y)
        { a = Sin(x) v = Flatten<axis = 0>(a) b = Sin(a) c = Softmax(v) y = Flatten(c) }"""
    )
    graph = open_bytes(file.SerializeToString(), ".onnx").graph()
    target = Target("textures", alignment=1, texels=True, aliasing="elementwise")
    assert not edgemem.verify(edgemem.plan(graph, target=target), graph)


def test_as_many_regions_as_records() -> None:
    case = random_case("onnx", 0)
    planset = edgemem.plan(case.graph, strategy="offsets/greedy_by_size")
    (plan,) = planset.offsets
    more = replace(plan, regions=np.zeros(len(plan.offsets) + 1, np.int64), region_sizes=(plan.size,))
    assert edgemem.verify(replace(planset, offsets=(more,)), case.graph)


@pytest.mark.parametrize("name", ["mobilenet_v2", "transformer", "branches", "dynamic"])
def test_reference_networks(name: str) -> None:
    pytest.importorskip("onnxruntime")
    from tests.oracle.memory_plans.catalogue import check_model

    tally = Tally()
    check_model(name, tally, mutations=10)
    assert not tally.findings
    assert tally.honest == {"right": 5}
