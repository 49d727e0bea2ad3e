"""Files in which operators run several times: the same outputs in every runtime, which runs every copy."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from edgemem.formats import Model, Rewritable, load_model
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.remat.operators import repeatable
from edgemem.runtime.onnxruntime.baked_file import bake, session_options_for
from edgemem_converters.tflite import TfliteConverter
from models.build import build
from tests.branchy import wired_tflite
from tests.row_models import run_litert, run_micro

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.graph import Graph

ort = pytest.importorskip("onnxruntime")

REFERENCE = {"builtin": False, "reference": True}
NETWORKS = ("blazeface", "deeplab_v3", "nas_cell", "randwire", "transformer", "unet")


def often(graph: Graph, seed: int) -> tuple[int, ...]:
    """A sequence in which about a third of the runs are repeated ones."""
    rng = random.Random(seed)
    may = sorted(repeatable(graph))
    runs: list[int] = []
    for k in range(len(graph.ops)):
        runs.append(k)
        if rng.random() < 0.5:
            runs += [rng.choice([j for j in may if j <= k] or [0])]
    return tuple(k for at, k in enumerate(runs) if k in may or k not in runs[:at])


def outputs_of(file: Path, feeds: dict[str, Any], *, level: str = "ORT_ENABLE_ALL") -> tuple[list[Any], int]:
    """What a session gives, and how many nodes it ran."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.enable_profiling = True
    options.profile_file_prefix = str(file.with_suffix(""))
    session_options_for(file.read_bytes(), options)
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    made = session.run(None, feeds)
    profile = file.parent / session.end_profiling()
    return made, profile.read_text(encoding="utf-8").count("_kernel_time")


def feeds_for(model: onnx.ModelProto, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = (
            rng.integers(1, 9, shape).astype(kind) if kind.kind == "i" else (rng.standard_normal(shape).astype(kind))
        )
    return feeds


def litert(data: bytes, kernels: str) -> list[bytes]:
    if kernels != "xnnpack":
        return run_litert(data, reference=REFERENCE[kernels])
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, num_threads=1)  # XNNPACK takes over what it can
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    values = np.random.default_rng(4).integers(-100, 100, given["shape"]).astype(given["dtype"])
    interpreter.set_tensor(given["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]).tobytes() for details in interpreter.get_output_details()]


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_runs_every_copy(name: str, tmp_path: Path) -> None:
    proto = build(name, size="small")
    original, baked, again = (tmp_path / f"{n}.onnx" for n in ("original", "baked", "again"))
    onnx.save(proto, original)
    bake(original, baked, "extended")
    model = load_model(baked)
    assert isinstance(model, Rewritable)
    runs = often(model.graph(), 1)
    assert len(runs) > len(set(runs))
    made = model.rewritten(repeat(model.graph(), runs))
    made.save(again)
    assert isinstance(made, Model)
    feeds = feeds_for(proto, 2)
    here, count = outputs_of(baked, feeds)
    there, copies = outputs_of(again, feeds)
    assert copies - count == len(runs) - len(set(runs))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(here, there, strict=True))


def test_only_baked_files_keep_their_copies(tmp_path: Path) -> None:
    """ONNX Runtime merges equal nodes of other files, which is why the pass wants baked ones."""
    proto = build("blazeface", size="small")
    original, again = tmp_path / "original.onnx", tmp_path / "again.onnx"
    onnx.save(proto, original)
    model = load_model(original)
    assert isinstance(model, Rewritable)
    model.rewritten(repeat(model.graph(), often(model.graph(), 1))).save(again)
    counts = [outputs_of(path, feeds_for(proto, 2), level="ORT_ENABLE_BASIC")[1] for path in (original, again)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("int8", [False, True])
def test_litert_and_micro_give_the_same(int8: bool) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite_micro")
    data = wired_tflite(16, 1, int8=int8)
    model = TfliteConverter.from_bytes(data)
    graph = model.graph()
    runs = often(graph, 3)
    made = model.rewritten(repeat(graph, runs))
    assert len(made.graph().ops) == len(runs) > len(graph.ops)
    for kernels in (*REFERENCE, "xnnpack"):
        here, there = (litert(content, kernels) for content in (data, made.content()))
        assert here == there
    ends = len(graph.inputs), len(graph.outputs)
    assert run_micro(made.content(), *ends) == run_micro(data, *ends)
