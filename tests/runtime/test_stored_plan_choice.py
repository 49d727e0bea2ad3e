"""Which plan a session takes where there are several, and what it says of one that has headroom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgemem
from edgemem.formats import RecordFile
from tests.onnx_sessions import options

if TYPE_CHECKING:
    from pathlib import Path

onnxruntime = pytest.importorskip("onnxruntime")


def chain(folder: Path) -> Path:
    """Elementwise operators over rows of 256 floats, none of which may write over its input: it is read again."""
    nodes, last = [], "x"
    for k in range(4):
        nodes += [helper.make_node("Exp", [last], [f"e{k}"]), helper.make_node("MatMul", [f"e{k}", "w"], [f"m{k}"])]
        nodes.append(helper.make_node("Sub", [f"m{k}", f"e{k}"], [f"s{k}"]))
        last = f"s{k}"
    nodes.append(helper.make_node("ReduceMean", [last], ["y"], axes=[1]))
    return save(folder, nodes, ["n", 256], ["n", 1])


def branches(folder: Path) -> Path:
    """Six branches that grow a tensor and shrink it again: one after the other, or in the file's order all at once."""
    nodes = [helper.make_node("Concat", ["x"] * (8 + k), [f"a{k}"], axis=0) for k in range(6)]
    nodes += [helper.make_node("ReduceMax", [f"a{k}"], [f"r{k}"], axes=[0]) for k in range(6)]
    nodes.append(helper.make_node("Sum", [f"r{k}" for k in range(6)], ["y"]))
    return save(folder, nodes, [64, 256], [1, 256])


def save(folder: Path, nodes: list[onnx.NodeProto], given: list[Any], made: list[Any]) -> Path:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [256, 256], np.eye(256, dtype=np.float32).ravel())
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def rows(count: int) -> dict[str, Any]:
    return {"x": np.full((count, 256), 0.01, np.float32)}


def opened(model: Path, cache: Path, **named: Any) -> edgemem.InferenceSession:
    return edgemem.InferenceSession(model, options(), cache=cache, background=False, **named)


def test_headroom_is_not_called_the_lower_bound_and_not_handed_on(tmp_path: Path) -> None:
    model, cache = chain(tmp_path), tmp_path / "cache"
    with opened(model, tmp_path / "other") as session:
        session.run(None, rows(1024))
        needed = session.memory.planned
        assert " = lower bound" in str(session.memory_report)
    with opened(model, cache) as session:
        for count in (8, 1024, 1024):
            session.run(None, rows(count))
        memory = session.memory
        assert memory.planned > 1.5 * needed, "shapes that grow have headroom in the session that sees them grow"
        assert memory.bound == needed
        assert " = lower bound" not in str(session.memory_report)
    with opened(model, cache) as session:
        for count in (1024, 8):
            session.run(None, rows(count))
        assert (session.memory.planned, session.memory.bound, session.memory.bails) == (needed, needed, 0)
        assert session.memory_report.origin is not None
        assert session.memory_report.origin.source == "cache"


@pytest.mark.parametrize("record", ["first-run", "never"])
def test_the_plan_in_the_file_comes_before_a_larger_one_in_the_cache(tmp_path: Path, record: Any) -> None:
    model, cache, planned = chain(tmp_path), tmp_path / "cache", tmp_path / "planned.onnx"
    with opened(model, tmp_path / "other") as session:
        session.run(None, rows(64))
        assert session.recorded_plan is not None
        own = session.memory.planned
        loaded = edgemem.load(model, dims={"n": 64})
        assert not isinstance(loaded, RecordFile)
        edgemem.save(loaded, session.recorded_plan, planned)
    with opened(model, cache) as session:
        for count in (64, 512, 512):
            session.run(None, rows(count))
        assert session.memory.planned > 4 * own
    with opened(planned, cache, record=record) as session:
        session.run(None, rows(64))
        assert session.memory.planned == own
        assert session.memory.bails == 0
        assert session.memory_report.origin is not None
        assert session.memory_report.origin.source == "file"


def ordered(model: Path, cache: Path | bool, *, is_priority: bool, runs: int = 3) -> tuple[int, int, Any]:
    """The plan's size, its bound and the plan of a session with this order, after some runs."""
    chosen = options()
    if is_priority:
        chosen.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    with edgemem.InferenceSession(model, chosen, cache=cache, background=False) as session:
        for _ in range(runs):
            session.run(None, rows(64))
        return session.memory.planned, session.memory.bails, session.recorded_plan


def test_sessions_with_another_order_have_entries_of_their_own(tmp_path: Path) -> None:
    model = branches(tmp_path)
    alone = [ordered(model, cache=False, is_priority=p)[0] for p in (False, True)]
    for _ in range(2):
        for is_priority in (False, True):
            planned, bails, _ = ordered(model, tmp_path / "cache", is_priority=is_priority)
            assert (planned, bails) == (alone[is_priority], 0)


def test_a_plan_recorded_elsewhere_is_replaced_by_what_runs_need_here(tmp_path: Path) -> None:
    """Another order of operators stands for another processor, whose kernels make other requests."""
    model, cache, planned = branches(tmp_path), tmp_path / "cache", tmp_path / "planned.onnx"
    here, _, _ = ordered(model, cache=False, is_priority=False)
    elsewhere, _, plan = ordered(model, cache=False, is_priority=True)
    assert here != elsewhere
    edgemem.save(model, plan, planned)
    for bails in (2, 0):  # the second session finds in the cache what the first one learnt
        size, bailed, _ = ordered(planned, cache, is_priority=False)
        assert size <= 1.05 * here
        assert bailed == bails
