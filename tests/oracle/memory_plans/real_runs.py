"""Random models in real runtimes, planned and not: the outputs are the same, bit for bit."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

import edgemem
from edgemem.commands.run import run
from edgemem.errors import EdgememError, PlanError, RuntimeBindError
from edgemem.formats import onnx_editor, open_bytes
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.tflm.execution import execute, input_values
from tests.oracle.memory_plans.random_onnx import random_onnx
from tests.oracle.memory_plans.random_tflite import random_tflite

if TYPE_CHECKING:
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
        written = edgemem.save(source, edgemem.plan(source, target="tflm", strategy="offsets/greedy_by_size"), path)
    except EdgememError as e:
        tally.findings.append(f"real tflite {seed}: no plan: {e}")
        return
    if not written:
        tally.not_planned["TFLM: larger than what it takes by itself"] += 1
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
    if not outcome.identical and not _writes_all(data):
        # Seen with 1.31: Scan does not write a state that its body hands through.
        tally.not_planned["ONNX Runtime does not write an output"] += 1
    elif not outcome.identical:
        tally.findings.append(f"real onnx {seed}: {outcome.different} are wrong in its plan")


def _writes_all(data: bytes) -> bool:
    """Whether ONNX Runtime by itself writes all outputs of a model: whatever was in their memory is gone."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = make_feeds(onnx_editor().parts(data, Path()).input_forms())
    values = session.run(None, feeds)
    for fill in (0x55, 0xAA):
        binding = session.io_binding()
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        places = [np.full(value.nbytes, fill, np.uint8).view(value.dtype).reshape(value.shape) for value in values]
        for output, place in zip(session.get_outputs(), places, strict=True):
            binding.bind_output(output.name, "cpu", 0, place.dtype, place.shape, place.ctypes.data)
        session.run_with_iobinding(binding)
        if not all(map(_same, values, places)):
            return False
    return True
