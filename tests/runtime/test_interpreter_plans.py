"""Which plan LiteRT runs: the one in the file as it stands, or an error that says which command makes one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

import edgemem
from edgemem import api, planfile
from edgemem.commands.verify_run_tflite import verify_run_tflite
from edgemem.errors import InvalidPlanError, RuntimeBindError, StalePlanError
from edgemem.formats import Bindings
from edgemem.formats.workspace import graph_under
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import Settings
from edgemem.runtime.litert.binding import Binding
from edgemem.runtime.litert.comparison import compare_run
from edgemem.runtime.litert.delegate import Delegate
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_interpreter import BUILTIN, allocated, resizable, run, same, small
from tests.runtime.test_litert import fetched

if TYPE_CHECKING:
    from pathlib import Path


def planned(data: bytes, **options: Any) -> bytes:
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, **options)
    return model.with_plan(planfile.encode(planset), planset).content()


def source_of(bound: Any) -> str:
    assert bound.memory.origin is not None
    return str(bound.memory.origin.source)


@pytest.mark.full
def test_the_plan_in_the_file_runs_as_it_stands() -> None:
    data = fetched("mp_hand_recrop")
    content = planned(data, target="litert", strategy="offsets/naive")
    expected = run(allocated(LiteRT, data, **BUILTIN))
    for options in ({}, {"plan": "file"}):
        bound = allocated(Interpreter, content, poison=True, **options, **BUILTIN)
        memory = bound.memory
        assert memory.origin is not None
        assert (memory.origin.source, memory.origin.strategy) == ("file", "naive")
        assert memory.origin.of == "graph under litert"
        assert memory.planned > 9_000_000
        assert memory.lower_bound is not None
        assert memory.lower_bound < memory.planned / 2
        assert memory.reserved >= memory.planned
        assert same(run(bound), expected)
    made = allocated(Interpreter, content, plan="make", **BUILTIN).memory
    assert made.origin.source == "made now"
    assert made.planned < memory.planned / 2


def test_a_plan_for_another_runtime_is_refused_with_the_command_that_makes_one() -> None:
    content = planned(small(), target="tflm")
    with pytest.raises(RuntimeBindError, match=r"leaves out the workspace.*edgemem plan --target litert"):
        allocated(Interpreter, content, plan="file", **BUILTIN)
    plain = allocated(Interpreter, content, plan="file", refuse="plain", **BUILTIN)
    assert plain.memory.mode == "plain"
    assert "workspace" in plain.memory.reason
    default = allocated(Interpreter, content, **BUILTIN).memory
    assert default.origin.source == "made now"
    assert "the plan in the file is not used: LiteRT cannot run the plan in the file" in default.reason
    assert "edgemem plan --target litert" in default.reason
    for options in ({"plan": "make"}, {"strategy": "offsets/naive"}):
        memory = allocated(Interpreter, content, **options, **BUILTIN).memory
        assert memory.origin.source == "made now"
        assert memory.reason == ""
    assert memory.origin.strategy == "naive"


def test_a_file_without_a_plan_gets_one_unless_the_file_s_is_wanted() -> None:
    assert allocated(Interpreter, small(), **BUILTIN).memory.origin.source == "made now"
    with pytest.raises(RuntimeBindError, match="the file has no plan"):
        allocated(Interpreter, small(), plan="file", **BUILTIN)


def test_delegates_do_not_run_the_plan_and_it_is_said() -> None:
    content = planned(small(), target="litert")
    memory = allocated(Interpreter, content, experimental_op_resolver_type=OpResolverType.BUILTIN).memory
    assert memory.mode == "plain"
    assert "the plan in the file is not used" in memory.reason
    assert "builtin kernels" in memory.reason
    xnnpack: dict[str, Any] = {"experimental_op_resolver_type": OpResolverType.BUILTIN}
    with pytest.raises(RuntimeBindError, match="a plan is for builtin kernels"):
        Interpreter(model_content=content, plan="file", **xnnpack)
    assert allocated(Interpreter, content, plan="file", refuse="plain", **xnnpack).memory.mode == "plain"


@pytest.mark.full
@pytest.mark.parametrize("change", ["larger", "missing", "more"])
def test_a_plan_for_other_workspace_is_stale(change: str) -> None:
    # As another version of LiteRT might have it: the model is the same, its kernels' workspace is not.
    model = TfliteConverter.from_bytes(fetched("mp_hand_recrop"))
    target = BUILT_IN["litert"]
    graph = graph_under(model, target)
    at = next(k for k, op in enumerate(graph.ops) if op.scratch)
    (size, *rest) = graph.ops[at].scratch
    scratch = {"larger": (size - 64, *rest), "missing": tuple(rest), "more": (size, *rest, 64)}[change]
    ops = (*graph.ops[:at], replace(graph.ops[at], scratch=scratch), *graph.ops[at + 1 :])
    planset = plan_graph(replace(graph, ops=ops), target, Settings(("offsets/greedy_by_size",)))
    content = model.with_plan(planfile.encode(planset), planset).content()
    with pytest.raises(InvalidPlanError, match="edgemem plan --target litert"):
        allocated(Interpreter, content, plan="file", **BUILTIN)
    memory = allocated(Interpreter, content, **BUILTIN).memory
    assert memory.origin.source == "made now"
    assert "the plan in the file is not used" in memory.reason


def test_a_plan_for_another_graph_is_stale() -> None:
    model = TfliteConverter.from_bytes(small(8))
    planset = api.plan(model, target="litert")
    content = TfliteConverter.from_bytes(small()).with_plan(planfile.encode(planset), planset).content()
    with pytest.raises(StalePlanError, match="edgemem plan --target litert"):
        allocated(Interpreter, content, plan="file", **BUILTIN)


def test_resized_inputs_are_planned_with_the_file_s_settings() -> None:
    content = planned(resizable(), target="litert", strategy="offsets/naive")
    bound = allocated(Interpreter, content, **BUILTIN)
    assert source_of(bound) == "file"
    bound.resize_tensor_input(0, [500, 4])
    bound.allocate_tensors()
    assert (bound.memory.origin.source, bound.memory.origin.strategy) == ("made now", "naive")
    assert "other sizes" in bound.memory.reason
    plain = LiteRT(model_content=resizable(), **BUILTIN)
    plain.resize_tensor_input(0, [500, 4])
    plain.allocate_tensors()
    assert same(run(bound), run(plain))
    bound.resize_tensor_input(0, [1, 4])  # the sizes of the file
    bound.allocate_tensors()
    assert source_of(bound) == "file"
    assert bound.memory.reason == ""


def test_a_plan_for_other_inputs_says_which() -> None:
    model = TfliteConverter.from_bytes(resizable(), Bindings({}, {"x": (7, 4)}))
    planset = api.plan(model, target="litert")
    planset = replace(planset, input_shapes={"x": (7, 4)})
    content = model.with_plan(planfile.encode(planset), planset).content()
    with pytest.raises(StalePlanError, match=r"x = \[7, 4\]: call resize_tensor_input first"):
        allocated(Interpreter, content, plan="file", **BUILTIN)
    assert "resize_tensor_input first" in allocated(Interpreter, content, **BUILTIN).memory.reason
    bound = Interpreter(model_content=content, **BUILTIN)
    bound.resize_tensor_input(0, [7, 4])
    bound.allocate_tensors()
    assert source_of(bound) == "file"


@pytest.mark.full
def test_a_stale_plan_for_other_inputs_is_not_replaced_by_another(tmp_path: Path) -> None:
    model = TfliteConverter.from_bytes(resizable(), Bindings({}, {"x": (7, 4)}))
    planset = api.plan(model, target="litert")
    planset = replace(planset, input_shapes={"x": (7, 4)}, digest="0" * 64)
    content = model.with_plan(planfile.encode(planset), planset).content()
    bound = Interpreter(model_content=content, plan="file", **BUILTIN)
    bound.resize_tensor_input(0, [7, 4])
    with pytest.raises(StalePlanError, match="edgemem plan --target litert"):
        bound.allocate_tensors()
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    with pytest.raises(StalePlanError):
        verify_run_tflite(path)
    bound.resize_tensor_input(0, [9, 4])
    bound.allocate_tensors()
    assert source_of(bound) == "made now"


def test_inputs_that_a_plan_gives_away_are_not_kept() -> None:
    rules = replace(BUILT_IN["litert"], name="release", inputs="until_last_use")
    content = planned(small(), target=rules)
    with pytest.raises(RuntimeBindError, match="without inputs='keep'"):
        allocated(Interpreter, content, plan="file", inputs="keep", **BUILTIN)
    assert "without inputs='keep'" in allocated(Interpreter, content, inputs="keep", **BUILTIN).memory.reason
    bound = allocated(Interpreter, content, poison=True, **BUILTIN)
    assert bound.memory.origin.of == "graph under release"
    assert same(run(bound), run(allocated(LiteRT, small(), **BUILTIN)))
    with pytest.raises(RuntimeBindError, match="was not set"):
        bound.invoke()


@pytest.mark.full
def test_the_default_call_runs_the_plan_in_the_file() -> None:
    data = fetched("mp_hand_recrop")
    content = planned(data, target="litert", strategy="offsets/naive")
    bound = allocated(Interpreter, content, poison=True)
    assert (bound.memory.mode, source_of(bound), bound.memory.origin.strategy) == ("planned", "file", "naive")
    assert same(run(bound), run(allocated(LiteRT, data, **BUILTIN)))
    # A plan that LiteRT cannot run leaves the choice of kernels to LiteRT.
    other = allocated(Interpreter, planned(data, target="tflm"))
    assert other.memory.mode == "plain"
    assert "edgemem plan --target litert" in other.memory.reason
    assert same(run(other), run(allocated(LiteRT, data)))


@pytest.mark.parametrize("options", [{"plan": "make"}, {"strategy": "offsets/naive"}])
def test_who_asks_for_a_plan_gets_the_kernels_that_run_it(options: dict[str, Any]) -> None:
    bound = allocated(Interpreter, small(), **options)
    assert bound.memory.mode == "planned"
    assert same(run(bound), run(allocated(LiteRT, small(), **BUILTIN)))


def test_sums_are_no_bounds() -> None:
    memory = allocated(Interpreter, small(64), **BUILTIN).memory
    assert memory.lower_bound <= memory.planned
    assert memory.details["without_sharing"] == 5 * 64 * 4
    assert not hasattr(memory, "bound")


def doubled_exp() -> tuple[bytes, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """An ONNX model, its input x and its output."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    make = onnx.helper
    nodes = [make.make_node("Relu", ["x"], ["a"]), make.make_node("Exp", ["a"], ["b"])]
    nodes.append(make.make_node("MatMul", ["b", "b"], ["y"]))
    ends = [[make.make_tensor_value_info(name, 1, [64, 64])] for name in "xy"]
    graph = make.make_graph(nodes, "g", *ends)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(0).random((64, 64), np.float32)
    return model.SerializeToString(), x, np.exp(x) @ np.exp(x)


def test_one_arena_for_sessions_and_interpreters() -> None:
    model, x, wanted = doubled_exp()
    expected = run(allocated(LiteRT, small(), **BUILTIN))
    arena = edgemem.Arena()
    bound = allocated(Interpreter, small(), arena=arena, poison=True, **BUILTIN)
    with edgemem.InferenceSession(model, arena=arena, cache=False, background=False) as session:
        for _ in range(4):
            assert same(run(bound), expected)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted, rtol=1e-5)
            if session.memory.replayed:
                # The session has overwritten its inputs, which is noticed.
                with pytest.raises(RuntimeBindError, match="has used the shared arena"):
                    bound.invoke()
        assert session.memory.replayed >= 2
    assert arena.size >= bound.memory.planned


def test_a_result_that_lies_in_the_arena_is_not_overwritten() -> None:
    model, x, wanted = doubled_exp()
    arena = edgemem.Arena()
    with edgemem.InferenceSession(model, arena=arena, cache=False, background=False, share_outputs=True) as session:
        for _ in range(3):
            (kept,) = session.run(None, {"x": x})
        assert session.memory.replayed
        bound = allocated(Interpreter, small(64), arena=arena, poison=True, **BUILTIN)
        run(bound)
        np.testing.assert_allclose(kept, wanted, rtol=1e-5)
        (kept,) = session.run(None, {"x": x})
        run(bound)
        np.testing.assert_allclose(kept, wanted, rtol=1e-5)


def test_a_closed_arena_runs_nothing() -> None:
    arena = edgemem.Arena()
    bound = allocated(Interpreter, small(), arena=arena, **BUILTIN)
    run(bound)
    arena.close()
    with pytest.raises(RuntimeBindError, match="closed"):
        run(bound)


@pytest.mark.parametrize("inputs", ["outside", "whole_run"])
@pytest.mark.parametrize("outputs", ["outside", "to_end"])
def test_a_plan_that_leaves_inputs_or_outputs_out_runs(inputs: Any, outputs: Any) -> None:
    target = replace(BUILT_IN["litert"], name="mine", inputs=inputs, outputs=outputs)
    data = small()
    planset = api.plan(TfliteConverter.from_bytes(data), target=target, strategy="offsets/greedy_by_size")
    assert planset.best_offsets is not None
    expected = run(allocated(LiteRT, data, **BUILTIN))
    content = planned(data, target=target, strategy="offsets/greedy_by_size")
    for file, plan in ((data, planset), (content, "file")):
        for refuse in ("raise", "plain"):
            bound = allocated(Interpreter, file, plan=plan, refuse=refuse, poison=True, **BUILTIN)
            assert source_of(bound) == ("file" if plan == "file" else "given")
            for seed in (3, 3):
                assert same(run(bound, seed), expected)
            names = {bound.get_tensor_details()[i]["name"] for i, _, _ in bound.layout.places}
            assert ("x" in names) == (inputs != "outside")
            assert ("y" in names) == (outputs != "outside")
    assert compare_run(content, plan="file").equal


def test_outputs_that_a_plan_leaves_out_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(BUILT_IN["litert"], name="mine", outputs="outside")
    planset = api.plan(TfliteConverter.from_bytes(small()), target=target, strategy="offsets/naive")
    (plan,) = planset.offsets
    where = {n: i for i, r in enumerate(planset.problem.records) for n in r.tensors}
    offsets = plan.offsets.copy()
    offsets[where["c"]] = offsets[where["a"]]
    wrong = replace(planset, offsets=(replace(plan, offsets=offsets),))
    monkeypatch.setattr("edgemem.proof.proved_plan.verify_planset", lambda *_: ())  # as if it were blind
    assert not compare_run(small(), plan=wrong).outputs_equal


def test_no_argument_runs_a_plan_without_proof() -> None:
    with pytest.raises((TypeError, ValueError), match="trust"):
        Interpreter(model_content=small(), trust=True, **BUILTIN)


def test_allocation_is_asked_for_as_litert_s_class_asks() -> None:
    # tflite-runtime applies its default delegates only where no subgraph is named.
    calls: list[tuple[int, ...]] = []

    class Native:
        def AllocateTensors(self, *subgraph: int) -> None:
            calls.append(subgraph)

    def no_place(*_: Any) -> Any:
        raise RuntimeBindError("no plan")

    untouched = lambda: pytest.fail("LiteRT's interpreter is as it was")  # noqa: E731
    bound = Binding(Native(), Mock(spec=Delegate), no_place, edgemem.Arena(), plain=untouched)
    bound.AllocateTensors()
    bound.AllocateTensors(0)
    bound.AllocateTensors(1)
    assert calls == [(), (0,), (1,)]
