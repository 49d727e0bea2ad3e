"""Random graphs, split at random, give the outputs of the original: ONNX Runtime, LiteRT and TensorFlow Lite Micro."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgemem.errors import TilingError
from edgemem.formats import Rewritable, open_bytes
from edgemem.passes.splitting.split import find_region, split
from edgemem.passes.splitting.stage import SplitStage
from edgemem_converters.tflite import TfliteConverter
from tests import extent
from tests.split_onnx import KINDS, drawn_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

# Kernels add up in blocks or vectors, whose length and alignment may differ for a part.
SUMS = frozenset(
    {"MatMul", "Gemm", "Conv", "FusedConv", "FusedMatMul", "ConvTranspose", "InstanceNormalization"}
    | {"ReduceMean", "ReduceSum"}
)
TFLITE_KINDS = (
    *("convolution", "depthwise", "dense", "product", "softmax", "binary", "unary", "transpose", "reshape", "mean"),
    *("pool", "concatenation", "pad", "resize", "slice"),
)


def possible_stages(graph: Graph, parts: int) -> list[SplitStage]:
    found = []
    for last in range(len(graph.ops)):
        for first in range(last + 1):
            for axis in range(len(graph.tensors[graph.ops[last].outputs[0]].shape)):
                stage = SplitStage(first, last, parts, axis)
                try:
                    find_region(graph, stage)
                except TilingError:
                    continue
                found.append(stage)
    return found


def run_onnx(data: bytes, x: NDArray[np.float32]) -> list[NDArray[Any]]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    found: list[NDArray[Any]] = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    return found


def check_onnx(seed: int, kinds: tuple[str, ...], operators: int, parts: int) -> None:
    model = drawn_model(seed, kinds, operators)
    assume(model is not None)
    assert model is not None
    content = model.SerializeToString()
    opened = open_bytes(content, ".onnx")
    assert isinstance(opened, Rewritable)
    graph = opened.graph()
    stages = possible_stages(graph, parts)
    assume(stages)
    stage = stages[seed % len(stages)]
    rewrite = split(graph, [stage])
    made = opened.rewritten(rewrite)
    again = open_bytes(made.content(), ".onnx").graph()
    forms, wanted = (
        {t.name: (t.dtype, t.shape) for t in g.tensors if t.kind == "activation"} for g in (again, rewrite.graph)
    )
    assert forms == wanted
    x = np.random.default_rng(seed).standard_normal(graph.tensors[graph.inputs[0]].shape).astype(np.float32)
    cut = {graph.ops[k].type.rpartition("::")[2] for k in find_region(graph, stage).cuts}
    for here, there in zip(run_onnx(content, x), run_onnx(made.content(), x), strict=True):
        if cut & SUMS:
            np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5 * max(np.abs(here).max(), 1))
        else:
            assert here.tobytes() == there.tobytes()


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 20), parts=st.integers(2, 4))
def test_operators_of_a_kind_in_onnx_runtime(kind: str, seed: int, parts: int) -> None:
    check_onnx(seed, (kind,), 1 + seed % 2, parts)


@pytest.mark.full
@settings(max_examples=extent.examples(150))
@given(seed=st.integers(0, 1 << 20), parts=st.integers(2, 5))
def test_chains_in_onnx_runtime(seed: int, parts: int) -> None:
    check_onnx(seed, tuple(KINDS), 3 + seed % 6, parts)


def check_micro(seed: int, kinds: tuple[str, ...], operators: int, parts: int) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite_micro")
    from tests.row_models import run_litert, run_micro
    from tests.split_tflite import drawn_file

    data = drawn_file(seed, kinds, operators)
    assume(data is not None)
    assert data is not None
    model = TfliteConverter.from_bytes(data)
    graph = model.graph()
    stages = possible_stages(graph, parts)
    assume(stages)
    rewrite = split(graph, [stages[seed % len(stages)]])
    made = model.rewritten(rewrite)
    forms, wanted = (
        sorted((t.name, t.dtype, t.shape) for t in g.tensors if t.kind == "activation")
        for g in (made.graph(), rewrite.graph)
    )
    assert forms == wanted
    ends = len(graph.inputs), len(graph.outputs)
    assert run_micro(made.content(), *ends) == run_micro(data, *ends)
    assert run_litert(made.content(), reference=True) == run_litert(data, reference=True)


@pytest.mark.full
@pytest.mark.parametrize("kind", TFLITE_KINDS)
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 20), parts=st.integers(2, 4))
def test_operators_of_a_kind_in_tensorflow_lite_micro(kind: str, seed: int, parts: int) -> None:
    check_micro(seed, (kind,), 1 + seed % 2, parts)


@pytest.mark.full
@settings(max_examples=extent.examples(150))
@given(seed=st.integers(0, 1 << 20), parts=st.integers(2, 12))
def test_chains_in_tensorflow_lite_micro(seed: int, parts: int) -> None:
    check_micro(seed, TFLITE_KINDS, 2 + seed % 5, parts)
