"""Random models in real runtimes, planned and not: the outputs are the same, bit for bit."""

from __future__ import annotations

from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.commands.run import run
from edgemem.errors import EdgememError, PlanError, RuntimeBindError
from edgemem.formats import open_bytes
from edgemem.runtime.tflm.execute import execute, input_values
from tests.oracle.memory_plans.random_onnx import random_onnx
from tests.oracle.memory_plans.random_tflite import random_tflite

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.oracle.memory_plans.campaign import Tally

__all__ = ["run_onnx", "run_tflite"]

_SECONDS = 20.0


def run_tflite(seed: int, folder: Path, tally: Tally) -> None:
    """A random file in TensorFlow Lite Micro with a plan for it and without, on random inputs."""
    data = random_tflite(Random(f"real {seed}"), runs=True)
    source, path = folder / f"{seed}.tflite", folder / f"{seed}.planned.tflite"
    source.write_bytes(data)
    graph = open_bytes(data, ".tflite").graph()
    values = input_values(graph, seed=seed)
    try:
        plain = execute(data, values, outputs=len(graph.outputs), runs=2, timeout_s=_SECONDS)
    except RuntimeBindError as e:  # without a plan: no finding
        tally.not_planned[f"TFLM: {' '.join(str(e).split()[:12])}"] += 1
        return
    try:
        edgemem.save(source, edgemem.plan(source, target="tflm", strategy="offsets/greedy_by_size"), path)
    except EdgememError as e:
        tally.findings.append(f"real tflite {seed}: no plan: {e}")
        return
    tally.graphs["run in TensorFlow Lite Micro"] += 1
    try:
        planned = execute(path.read_bytes(), values, outputs=len(graph.outputs), runs=2, timeout_s=_SECONDS)
    except RuntimeBindError as e:
        tally.findings.append(f"real tflite {seed}: does not run with its plan: {e}")
        return
    for name, a, b in zip(graph.outputs, plain.outputs, planned.outputs, strict=True):
        if not _same(a, b):
            tally.findings.append(f"real tflite {seed}: output {graph.tensors[name].name!r} is wrong in its plan")


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def run_onnx(seed: int, folder: Path, tally: Tally) -> None:
    """A random model in ONNX Runtime, node by node in its plan in poisoned memory, and as it is."""
    assert find_spec("onnxruntime")
    data, _ = random_onnx(Random(f"real {seed}"), runs=True)
    source, path = folder / f"{seed}.onnx", folder / f"{seed}.planned.onnx"
    source.write_bytes(data)
    try:
        edgemem.save(source, edgemem.plan(source, strategy="offsets/greedy_by_size"), path)
    except EdgememError as e:
        tally.findings.append(f"real onnx {seed}: no plan: {e}")
        return
    try:
        outcome = run(path, executor="io-binding", compare=True, poison=True)
    except (RuntimeBindError, PlanError, EdgememError) as e:
        tally.not_planned[f"ONNX Runtime: {' '.join(str(e).split()[:14])}"] += 1
        return
    tally.graphs["run in ONNX Runtime"] += 1
    if not outcome.identical:
        tally.findings.append(f"real onnx {seed}: {outcome.different} are wrong in its plan")
