"""Random graphs, tiled at random, give the outputs of the original bit for bit in ONNX Runtime without optimisation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgemem.errors import TilingError
from edgemem.formats import Rewritable, open_bytes
from edgemem.model.graph import digest
from edgemem.passes.reach import window_of
from edgemem.passes.tiling import cost
from edgemem.passes.tiling.choice import find_stages
from edgemem.passes.tiling.cost import Costs, needs_of
from edgemem.passes.tiling.stage import TileStage
from edgemem.passes.tiling.tile import find_region, tile
from edgemem.records.lifetime import lifetimes
from edgemem.strategy.bounds import operator_breadths
from edgemem.targets import BUILT_IN
from tests.row_local import row_local_models, stretch_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

ort = pytest.importorskip("onnxruntime")
RULES = replace(BUILT_IN["onnxruntime"], inputs="until_last_use")


def outputs(data: bytes, x: NDArray[np.float32]) -> list[NDArray[Any]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    results: list[NDArray[Any]] = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    return results


@pytest.mark.full
@given(model=row_local_models(), data=st.data())
def test_tiles_give_the_same_bits(model: ModelProto, data: st.DataObject) -> None:
    content = model.SerializeToString()
    opened = open_bytes(content, ".onnx")
    assert isinstance(opened, Rewritable)
    graph = opened.graph()
    stages, at = [], 0
    for _ in range(data.draw(st.integers(1, 2))):
        if at >= len(graph.ops):
            break
        first = data.draw(st.integers(at, len(graph.ops) - 1))
        last = data.draw(st.integers(first, len(graph.ops) - 1))
        stages.append(TileStage(first, last, data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))))
        at = last + 1
    try:
        rewrite = tile(graph, stages)
    except TilingError:
        assume(False)
    # A kernel may add up a part in other blocks; `is_same_sum` tells where none does.
    assume(all(Costs(graph, RULES).macs_of(stage) is not None for stage in stages))
    tiled = opened.rewritten(rewrite)
    again = open_bytes(tiled.content(), ".onnx").graph()
    assert {t.name: t.shape for t in again.tensors if t.kind == "activation"} == {
        t.name: t.shape for t in rewrite.graph.tensors if t.kind == "activation"
    }
    assert tiled.content() == opened.rewritten(tile(graph, stages)).content()
    x = np.random.default_rng(1).standard_normal(graph.tensors[graph.inputs[0]].shape).astype(np.float32)
    for here, there in zip(outputs(content, x), outputs(tiled.content(), x), strict=True):
        assert here.tobytes() == there.tobytes()


@pytest.mark.full
@given(model=row_local_models(), rows=st.integers(2, 6), ends=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_the_estimate_of_a_stage_is_not_below_its_peak(model: ModelProto, rows: int, ends: tuple[int, int]) -> None:
    """Against the lifetimes of the graph with its tiles; the workspace of kernels is in the estimate alone."""
    graph = open_bytes(model.SerializeToString(), ".onnx").graph()
    first, last = stretch_of(graph, *ends)
    stage = TileStage(first, last, rows)
    try:
        rewrite = tile(graph, [stage])
    except TilingError:
        assume(False)
    costs = Costs(graph, RULES)
    estimate = costs.peak(stage, frozenset())
    assume(estimate is not None)
    assert estimate is not None
    assume(not any(i in graph.outputs for i in find_region(graph, first, last).results))  # joined in the stage
    end = max(k for k, op in enumerate(rewrite.graph.ops) if "/tile0." in op.name) + 1
    breadths = operator_breadths(lifetimes(rewrite.graph, RULES).problem)
    assert estimate >= int(breadths[first:end].max(initial=0))


@pytest.mark.full
@given(model=row_local_models(), count=st.integers(1, 6))
def test_rows_of_all_tiles_at_once_are_those_of_each(model: ModelProto, count: int) -> None:
    graph = open_bytes(model.SerializeToString(), ".onnx").graph()
    for op in graph.ops:
        window = window_of(graph, op, "height")
        ends = np.arange(count + 1) * window.made // count
        begins, ends = ends[:-1][np.diff(ends) > 0], ends[1:][np.diff(ends) > 0]
        low, high = needs_of(window, begins, ends)
        each = [window.needs(int(b), int(e))[:2] for b, e in zip(begins, ends, strict=True)]
        assert list(zip(low.tolist(), high.tolist(), strict=True)) == each


@pytest.mark.full
@given(model=row_local_models())
def test_chosen_stages_are_the_same_again_and_keep_the_arithmetic(model: ModelProto) -> None:
    graph = open_bytes(model.SerializeToString(), ".onnx").graph()
    chosen = find_stages(graph, RULES, max_macs=1.2)
    assert chosen == find_stages(graph, RULES, max_macs=1.2)
    assert chosen.macs_ratio <= 1.2
    made = tile(graph, chosen.stages).graph
    assert chosen.stages or digest(made) == digest(replace(made, name=made.name))
    total = sum(Costs(graph, RULES).macs)
    assert sum(Costs(made, RULES).macs) <= 1.2 * total + len(graph.ops)


def test_rounding_of_sizes_is_that_of_the_target() -> None:
    assert BUILT_IN["onnxruntime"].alignment == cost.PADDING
