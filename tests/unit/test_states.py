"""States and pins of a model's tensors, from Python and TOML to the plan, its proof and a run inside the arena."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import edgemem
from edgemem.errors import ModelError, PlanError, UnsupportedError
from edgemem.model.graph import Graph, Op, Tensor, digest
from edgemem.planning import choices, make_plans
from edgemem.planning.verification import right_plan
from edgemem.proof import Cause, verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem
from edgemem.schedule.order import find_order
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet

BYTES = 64  # of every tensor below
INSIDE = replace(BUILT_IN["generic"], alignment=16, inputs="until_last_use", outputs="to_end", name="inside")
Nodes = list[tuple[str, str, str]]


def graph_of(ops: Sequence[tuple[str, str, str]], inputs: str, outputs: str, **sizes: int) -> Graph:
    """A graph over tensors of 16 floats (or `sizes`), from (type, inputs, outputs) with names apart by spaces."""
    names = list(dict.fromkeys(f"{inputs} {' '.join(f'{r} {w}' for _, r, w in ops)}".split()))
    index = {name: i for i, name in enumerate(names)}
    made = tuple(
        Op(f"{kind}_{k}", kind, tuple(index[n] for n in r.split()), tuple(index[n] for n in w.split()))
        for k, (kind, r, w) in enumerate(ops)
    )
    tensors = tuple(Tensor(name, "float32", (sizes.get(name, 16),)) for name in names)
    return Graph("g", tensors, made, tuple(index[n] for n in inputs.split()), tuple(index[n] for n in outputs.split()))


# The cache is read by Mul, then updated in place by Add; y comes after.
CACHE: Nodes = [("Mul", "past x", "score"), ("Add", "past x", "present"), ("Softmax", "score", "y")]


def test_input_and_output_of_a_state_are_one_record() -> None:
    planset = edgemem.plan(graph_of(CACHE, "past x", "present y"), target=INSIDE, states={"past": "present"})
    (state,) = (r for r in planset.problem.records if r.kind == "state")
    assert (state.tensors, state.first_op, state.last_op, state.size) == (("past", "present"), 0, 2, BYTES)
    assert planset.problem.features == {"state"}
    assert planset.target is not None
    assert planset.target.states == {"past": "present"}
    without = edgemem.plan(graph_of(CACHE, "past x", "present y"), target=INSIDE)
    assert len(without.problem) == len(planset.problem) + 1


def test_a_state_is_in_the_arena_where_inputs_and_outputs_are_not() -> None:
    planset = edgemem.plan(graph_of(CACHE, "past x", "present y"), states={"past": "present"})
    assert {r.tensors for r in planset.problem.records} == {("past", "present"), ("score",)}
    assert {name for name, _ in planset.unplanned} == {"x", "y"}


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        (
            [("Add", "past x", "present"), ("Mul", "past x", "y")],
            "'Mul_1' still reads 'past' after 'Add_0' has written 'present' over it",
        ),
        (
            [("ScatterElements", "past x", "present"), ("Mul", "present x", "y")],
            r"'ScatterElements_0' \(ScatterElements\) would write 'present' over 'past' while it still reads it",
        ),
        ([("Softmax", "past", "present"), ("Mul", "present x", "y")], "only operators that work in place can"),
        ([("Split", "past", "y present")], "while it still reads it"),
        ([("Mul", "x x", "y")], "no operator writes 'present'"),
    ],
)
def test_a_state_that_would_be_overwritten_too_early_is_refused(nodes: Nodes, what: str) -> None:
    outputs = "y present" if any("present" in w.split() for _, _, w in nodes) else "y"
    with pytest.raises(ModelError, match=what):
        edgemem.plan(graph_of(nodes, "past x", outputs), target=INSIDE, states={"past": "present"})


def test_what_does_not_read_the_state_may_overwrite_it() -> None:
    nodes = [("Softmax", "past", "mixed"), ("MatMul", "mixed x", "present")]
    planset = edgemem.plan(graph_of(nodes, "past x", "present"), target=INSIDE, states={"past": "present"})
    assert any(r.tensors == ("past", "present") for r in planset.problem.records)


@pytest.mark.parametrize(
    ("states", "what"),
    [
        ({"pasts": "present"}, "'pasts' is no graph input; near names: 'past'"),
        ({"past": "y2"}, "no operator writes 'y2'.*near names: 'y'"),
        ({"past": "long"}, "'past' has 64 bytes, 'long' has 68"),
        ({"seen": "present"}, "'seen' is a graph output, too"),
    ],
)
def test_tensors_that_are_no_state_are_refused(states: dict[str, str], what: str) -> None:
    nodes = [*CACHE, ("Concat", "past x", "long")]
    graph = graph_of(nodes, "past x seen", "present y long seen", long=17)
    with pytest.raises(ModelError, match=what):
        lifetimes(graph, replace(INSIDE, states=states))


def test_the_rules_of_the_target_decide_what_works_in_place() -> None:
    graph = graph_of(CACHE, "past x", "present y")
    with pytest.raises(UnsupportedError, match="would write"):
        lifetimes(graph, replace(INSIDE, states={"past": "present"}, aliasing="none"))


def test_pins_are_of_tensors() -> None:
    planset = edgemem.plan(graph_of(CACHE, "past x", "present y"), target=INSIDE, pins={"score": 256, "x": 0})
    plan = planset.best_offsets
    assert plan is not None
    places = {r.name: int(o) for r, o in zip(planset.problem.records, plan.offsets, strict=True)}
    assert (places["score"], places["x"]) == (256, 0)
    assert plan.strategy in ("greedy_by_size", "search")


@pytest.mark.parametrize(
    ("pins", "what"),
    [
        ({"scores": 0}, "'scores' is pinned, but is none of those to plan; near names: 'score'"),
        ({"x": 8}, "no multiple of 16"),
        ({"x": 0, "past": 0}, "onto each other"),
        ({"past": 0, "present": 64}, "'past' and 'present' are one state, but are pinned at two offsets"),
    ],
)
def test_pins_that_cannot_be_are_refused(pins: dict[str, int], what: str) -> None:
    graph = graph_of(CACHE, "past x", "present y")
    with pytest.raises(ModelError, match=what):
        edgemem.plan(graph, target=INSIDE, pins=pins, states={"past": "present"})
    with pytest.raises(ModelError, match="has no place in the plan: a graph input, held by the caller"):
        edgemem.plan(graph, pins={"x": 0})


def test_a_pinned_tensor_shares_its_memory_with_no_other() -> None:
    nodes = [("Relu", "x", "a"), ("Relu", "a", "b"), ("Relu", "b", "y")]
    graph = graph_of(nodes, "x", "y")
    assert ("a", "b") in {r.tensors for r in lifetimes(graph, INSIDE).problem.records}
    planset = edgemem.plan(graph, target=INSIDE, pins={"b": 128})
    assert {("a",), ("b",)} <= {r.tensors for r in planset.problem.records}


def test_usage_records_say_it_themselves() -> None:
    with pytest.raises(ModelError, match="usage records say themselves"):
        edgemem.plan(Problem([]), pins={"a": 0})


def planned(graph: Graph, problem: Problem, **target: Any) -> PlanSet:
    """Plans of a problem that somebody says is the graph's."""
    rules = replace(INSIDE, **target)
    planset = make_plans(problem, choices("offsets/greedy_by_size"))
    steps = tuple(op.name for op in graph.ops)
    return replace(planset, target=rules, digest=digest(graph), steps=steps)


def test_the_proof_refuses_a_state_in_a_record_of_another_kind() -> None:
    graph = graph_of(CACHE, "past x", "present y")
    planset = edgemem.plan(graph, target=INSIDE, states={"past": "present"})
    records = [replace(r, kind="tensor") if r.kind == "state" else r for r in planset.problem.records]
    problem = Problem(records, alignment=planset.problem.alignment)
    found = edgemem.verify(replace(planset, problem=problem), graph)
    assert "'past' and 'present' are one state, but not one record of that kind" in {v.message for v in found}


def test_the_proof_refuses_a_state_in_two_records() -> None:
    graph = graph_of(CACHE, "past x", "present y")
    found = verify_planset(planned(graph, lifetimes(graph, INSIDE).problem, states={"past": "present"}), graph)
    assert Cause.STATE_NOT_KEPT in {v.cause for v in found}
    assert "are one state, but not one record" in str(found[0])
    right = planned(graph, lifetimes(graph, replace(INSIDE, states={"past": "present"})).problem)
    longer = replace(right, target=replace(INSIDE, states={"past": "present"}), steps=(*right.steps, "more"))
    assert Cause.STATE_NOT_KEPT in {v.cause for v in verify_planset(longer, graph)}
    missing = verify_planset(planned(graph, lifetimes(graph, INSIDE).problem, states={"gone": "present"}), graph)
    assert [v.cause for v in missing] == [Cause.STATE_NOT_KEPT]


@pytest.mark.parametrize(
    ("nodes", "cause"),
    [
        ([("Add", "past x", "present"), ("Mul", "past x", "y")], Cause.OVERWRITTEN),
        ([("ScatterElements", "past x", "present"), ("Mul", "present x", "y")], Cause.CLOBBERED_INPUT),
    ],
)
def test_the_proof_refuses_what_the_lifetimes_would(nodes: Nodes, cause: Cause) -> None:
    graph = graph_of(nodes, "past x", "present y")
    # As if nothing had checked: the records of a graph where it is right, in the same places.
    right = graph_of([*CACHE[1:2], ("Mul", "present x", "y")], "past x", "present y")
    problem = lifetimes(right, replace(INSIDE, states={"past": "present"})).problem
    assert cause in {v.cause for v in verify_planset(planned(graph, problem, states={"past": "present"}), graph)}


def test_the_proof_lets_nothing_lie_on_a_state() -> None:
    graph = graph_of(
        [("Softmax", "past", "a"), ("Softmax", "a", "b"), ("MatMul", "b x", "present")], "past x", "present"
    )
    problem = lifetimes(graph, replace(INSIDE, states={"past": "present"})).problem
    good = planned(graph, problem, states={"past": "present"})
    assert verify_planset(good, graph) == ()
    # b is on the state between its last reader and its writer: within one run that would even be right.
    names = [r.name for r in problem.records]
    offsets = good.offsets[0].offsets.copy()
    offsets[names.index("b")] = offsets[names.index("past")]
    size = int((offsets + problem.size).max())
    bad = replace(good, offsets=(replace(good.offsets[0], offsets=offsets, size=size, optimal=False),))
    causes = {v.cause for v in verify_planset(bad, graph)}
    assert Cause.STATE_NOT_KEPT in causes
    assert Cause.OVERLAP in causes


def test_the_proof_knows_where_tensors_are_pinned() -> None:
    graph = graph_of(CACHE, "past x", "present y")
    free = planned(graph, lifetimes(graph, INSIDE).problem, pins={"score": 512})
    assert [v.cause for v in verify_planset(free, graph)] == [Cause.NOT_WHERE_PINNED]


def model_file(path: Path) -> Path:
    """Two layers of a cache that is updated in place, with all that is read from it before."""
    nodes = []
    for k in range(2):
        source = "x" if k == 0 else f"h.{k - 1}"
        nodes += [
            helper.make_node("Mul", [f"past.{k}", source], [f"m.{k}"], name=f"read_{k}"),
            helper.make_node("Softmax", [f"m.{k}"], [f"h.{k}"], name=f"mix_{k}"),
            helper.make_node("Add", [f"past.{k}", f"h.{k}"], [f"present.{k}"], name=f"update_{k}"),
        ]
    nodes.append(helper.make_node("Add", ["present.0", "h.1"], ["y"], name="out"))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [16]) for n in ("x", "past.0", "past.1")]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [16]) for n in ("y", "present.0", "present.1")]
    graph = helper.make_graph(nodes, "cache", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run_in_arena(model: onnx.ModelProto, planset: PlanSet, feeds: dict[str, NDArray[Any]], arena: NDArray[Any]) -> Any:
    """y, computed one node after another on bytes of the arena; a node writes its result where the plan says."""
    plan = planset.best_offsets
    assert plan is not None
    place = {t: int(plan.offsets[i]) for i, r in enumerate(planset.problem.records) for t in r.tensors}

    def at(name: str) -> NDArray[Any]:
        return arena[place[name] : place[name] + BYTES].view(np.float32)

    for name, value in feeds.items():
        at(name)[:] = value
    for node in model.graph.node:
        alone = helper.make_graph(
            [node],
            "one",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, [16]) for n in node.input],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, [16]) for n in node.output],
        )
        one = helper.make_model(alone, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (result,) = ReferenceEvaluator(one).run(None, {n: at(n).copy() for n in node.input})
        at(node.output[0])[:] = result
    return at("y").copy()


def test_a_cache_keeps_its_bytes_from_run_to_run(tmp_path: Path) -> None:
    path = model_file(tmp_path / "cache.onnx")
    board = tmp_path / "board.toml"
    board.write_text(
        'alignment = 16\ninputs = "until_last_use"\noutputs = "to_end"\n'
        '[pins]\n"past.1" = "1KiB"\n[states]\n"past.*" = "present.*"\n'
    )
    planset = edgemem.plan(path, target=str(board))
    assert {r.tensors for r in planset.problem.records if r.kind == "state"} == {
        ("past.0", "present.0"),
        ("past.1", "present.1"),
    }
    assert edgemem.verify(planset, path) == ()
    plan = planset.best_offsets
    assert plan is not None
    assert {int(o) for r, o in zip(planset.problem.records, plan.offsets, strict=True) if r.offset is not None} == {
        1024
    }

    model = onnx.load(path)
    whole = ReferenceEvaluator(model)
    random = np.random.default_rng(1)
    caches = {f"past.{k}": random.random(16, np.float32) for k in range(2)}
    arena = np.zeros(plan.size, np.uint8)
    first = dict(caches)
    for _ in range(4):
        x = random.random(16, np.float32)
        y, *presents = map(np.asarray, whole.run(None, {"x": x, **caches}))
        caches = {f"past.{k}": present for k, present in enumerate(presents)}
        # From the second run on nobody puts the caches there; all else is poisoned.
        given = {"x": x, **first}
        kept = np.zeros(plan.size, bool)
        for record, offset in zip(planset.problem.records, plan.offsets, strict=True):
            if record.kind == "state":
                kept[offset : offset + BYTES] = True
        arena[~kept] = 0xFF
        np.testing.assert_allclose(run_in_arena(model, planset, given, arena), y, rtol=1e-6)
        first = {}


def test_states_from_python_are_those_from_toml(tmp_path: Path) -> None:
    path = model_file(tmp_path / "cache.onnx")
    planset = edgemem.plan(path, target=INSIDE, states={"past.*": "present.*"}, pins={"past.1": 1024})
    board = tmp_path / "inside.toml"
    board.write_text(
        'alignment = 16\ninputs = "until_last_use"\noutputs = "to_end"\n[pins]\n"past.1" = 1024\n'
        '[states]\n"past.0" = "present.0"\n"past.1" = "present.1"\n'
    )
    assert edgemem.plan(path, target=str(board)).problem.records == planset.problem.records
    with pytest.raises(ModelError, match="no graph input matches the state 'kv"):
        edgemem.plan(path, states={"kv.*": "present.*"})
    with pytest.raises(PlanError, match="naive cannot honour pinned offsets"):
        edgemem.plan(path, target=str(board), strategy="offsets/naive")


def test_states_and_pins_survive_a_file(tmp_path: Path) -> None:
    path = model_file(tmp_path / "cache.onnx")
    planset = edgemem.plan(path, target=INSIDE, states={"past.*": "present.*"}, pins={"past.1": 1024})
    planned = tmp_path / "planned.onnx"
    edgemem.save(path, planset, planned)
    assert edgemem.verify(planned) == ()
    back = right_plan(planned)[0].planset
    assert back.target == planset.target
    assert back.problem.records == planset.problem.records


def test_a_search_for_an_order_reads_a_state_before_it_is_written() -> None:
    # The writer comes last in the file; without the state it would be free to come first.
    nodes = [("Softmax", "x", "a"), ("Mul", "past a", "y"), ("Add", "past x", "present")]
    graph = graph_of(nodes, "past x", "present y")
    rules = replace(INSIDE, states={"past": "present"})
    assert order_problem(graph, INSIDE).before == ((), (0,), ())
    assert order_problem(graph, rules).before == ((), (0,), (1,))
    problem = lifetimes(graph.reordered(find_order(graph, rules).order), rules).problem
    assert any(r.kind == "state" for r in problem.records)
