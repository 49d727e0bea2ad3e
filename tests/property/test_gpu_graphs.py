"""Random networks on a GPU: in the plan's memory, full of NaN before, they give bit for bit what they give without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import edgemem
from edgemem.runtime.webgpu.executor import GpuExecutor
from tests.extent import run_for_seeds
from tests.gpu_graphs import write_network
from tests.webgpu_adapters import ADAPTERS, need_adapter

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")

STRATEGIES = ("offsets/greedy_by_size", "shared_objects/greedy_by_size")
TARGETS = ("gpu-buffer", "gpu-texture", "gpu-texture-linear", "gpu-texture-array")
STEPS = 14
SEEDS = (23, 30, 35)  # with every kind of operator between them


def check(seed: int, target: str, adapter: str, folder: Path) -> None:
    path = write_network(seed, folder, STEPS)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    feeds = {i.name: rng.normal(size=i.shape).astype(np.float32) for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    expected = session.run(names, feeds)
    planset = edgemem.plan(path, target=target, strategy=STRATEGIES)
    with GpuExecutor(path, planset, adapter=adapter, poison=True) as executor:
        planned, again = executor.run(names, feeds), executor.run(names, feeds)
        report = executor.memory_report
    with GpuExecutor(path, planset, adapter=adapter, poison=True, sharing=False) as executor:
        alone = executor.run(names, feeds)
    assert report.planned == report.reserved > 0
    part = 5e-4 if not target.endswith("fp16") else 0.2  # of the spread of what is right
    for name, mine, second, other, right in zip(names, planned, again, alone, expected, strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=name)
        np.testing.assert_array_equal(mine, second, err_msg=name)
        spread = max(float(right.std()), 0.02 * float(np.abs(right).max()), 1e-6)
        np.testing.assert_allclose(mine, right, rtol=0, atol=part * spread, err_msg=name)


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
@run_for_seeds(SEEDS, quick=1)
def test_random_networks(seed: int, target: str, tmp_path: Path) -> None:
    check(seed, target, need_adapter(), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("adapter", ADAPTERS[1:])
@pytest.mark.parametrize("target", TARGETS)
def test_another_driver(target: str, adapter: str, tmp_path: Path) -> None:
    check(101, target, need_adapter(adapter), tmp_path)


@pytest.mark.parametrize("target", [f"{t}-fp16" for t in TARGETS])
def test_halves(target: str, tmp_path: Path) -> None:
    check(202, target, need_adapter(), tmp_path)


def test_the_networks_have_what_is_to_be_tested(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    seen = {node.op_type for seed in SEEDS for node in onnx.load(write_network(seed, tmp_path, STEPS)).graph.node}
    wanted = "Conv Concat Add Split Resize MaxPool Slice Pad ConvTranspose Transpose Gemm PRelu InstanceNormalization"
    assert seen >= set(wanted.split()), seen
