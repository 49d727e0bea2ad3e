"""Forged plans, one for each thing that the proof knows: each is refused, and the honest plan beside it is right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import edgemem
from edgemem.errors import InvalidPlanError, ModelError, StalePlanError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.overlap import distance
from edgemem.plans import LEFT_TO_RUNTIME, SearchReport, SharedObjectsPlan
from edgemem.proof import Cause, prove
from edgemem.records.problem import Problem
from edgemem.strategy.bounds import lower_bounds
from edgemem.targets import BUILT_IN, Target
from tests.unit.test_rehearsal import CONVS, GOOD, INSIDE, RULES, by_hand, loop, record, tensor

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = replace(RULES, inputs="whole_run", outputs="to_end")
MICRO = Target("micro", alignment=16, aliasing="tflm", kernels="tflm-reference")


def found(planset: edgemem.PlanSet, graph: Graph) -> set[Cause]:
    return {v.cause for v in edgemem.verify(planset, graph)}


def messages(planset: edgemem.PlanSet, graph: Graph) -> list[str]:
    return [v.message for v in edgemem.verify(planset, graph)]


def in_objects(graph: Graph, target: Target, rows: list[tuple[object, int]], sizes: tuple[int, ...]) -> object:
    """A plan of shared objects with these records."""
    planset = by_hand(graph, target, [(r, 64 * k) for k, (r, _) in enumerate(rows)])  # type: ignore[misc]
    plan = SharedObjectsPlan("hand", {}, np.array([n for _, n in rows], np.int64), sizes, sum(sizes), optimal=True)
    bounds = planset.bounds
    plan = replace(plan, optimal=plan.size == bounds.shared_objects)
    return replace(planset, offsets=(), shared_objects=(plan,))


def test_an_input_that_is_kept_for_the_whole_run() -> None:
    rest = [(record("a", 0, 1, 16), 16), (record("b", 1, 2, 16), 32), (record("y", 2, 2, 16, kind="output"), 48)]
    kept = [(record("x", 0, 2, 16, kind="input"), 0), *rest]
    assert edgemem.verify(by_hand(CONVS, WHOLE, kept), CONVS) == ()
    # The record ends where the input is read last, and a later tensor takes its place.
    short = [(record("x", 0, 0, 16, kind="input"), 0), rest[0], (rest[1][0], 0), rest[2]]
    assert found(by_hand(CONVS, WHOLE, short), CONVS) == {Cause.OVERWRITTEN}
    assert edgemem.verify(by_hand(CONVS, INSIDE, short), CONVS) == ()
    state = replace(WHOLE, states={"x": "b"})  # an input that is a state holds its next value at the end
    rows = [(record("x", 0, 2, 16, "x", "b", kind="state"), 0), rest[0], rest[2]]
    assert edgemem.verify(by_hand(CONVS, state, rows), CONVS) == ()


def depthwise(scratch: tuple[int, ...] = ()) -> Graph:
    """x -> CONV_2D -> a -> DEPTHWISE_CONV_2D of 1x1 -> b -> CONV_2D -> y."""
    shape = (1, 4, 4, 4)
    tensors = (*(tensor(n, shape, "int8") for n in "xaby"), tensor("w", (1, 1, 1, 4), "int8", kind="constant"))
    about = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    ops = (
        Op("f", "CONV_2D", (0, 4), (1,)),
        Op("g", "DEPTHWISE_CONV_2D", (1, 4), (2,), attributes=about, scratch=scratch),
        Op("h", "CONV_2D", (2, 4), (3,)),
    )
    return Graph("g", tensors, ops, (0,), (3,))


def test_what_an_output_may_do_neither_workspace_nor_an_object_may() -> None:
    """A kernel that reads each element before it writes it may have its output on its input, in an arena."""
    graph = depthwise()
    assert distance("tflm-reference", graph, graph.ops[1], 0) == 0
    # The records' times do not meet, so that only the graph tells.
    apart = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 64), 0)]
    assert edgemem.verify(by_hand(graph, MICRO, apart), graph) == ()
    assert Cause.CLOBBERED_INPUT in found(in_objects(graph, MICRO, apart, (64,)), graph)  # type: ignore[arg-type]
    busy = depthwise((64,))
    place = replace(record("g:scratch0", 1, 1, 64, kind="scratch"), tensors=())
    honest = [(record("a", 0, 1, 64), 0), (record("b", 1, 2, 64), 64), (place, 128)]
    assert edgemem.verify(by_hand(busy, MICRO, honest), busy) == ()
    forged = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 64), 64), (place, 0)]
    assert Cause.CLOBBERED_INPUT in found(by_hand(busy, MICRO, forged), busy)


def cache(inputs: tuple[int, ...], kind: str = "ScatterND") -> Graph:
    """A state `past` into which an operator writes rows; the result is the first tensor of the graph."""
    tensors = (tensor("present"), tensor("past"), tensor("i", (1, 1), "int64"), tensor("u"), tensor("y"))
    ops = (Op("f", kind, inputs, (0,)), Op("g", "Conv", (0,), (4,)))
    return Graph("g", tensors, ops, (1, 2, 3), (4,))


def test_rows_are_written_into_a_state_that_nothing_else_reads() -> None:
    rules = replace(RULES, states={"past": "present"})
    rows = [(record("past", 0, 1, 16, "past", "present", kind="state"), 0)]
    once = cache((1, 2, 3))
    assert edgemem.verify(by_hand(once, rules, rows), once) == ()
    for wrong in (cache((1, 2, 1)), cache((3, 2, 1)), cache((1, 2, 3), "Conv")):
        assert found(replace(by_hand(wrong, RULES, rows), target=rules), wrong) == {Cause.CLOBBERED_INPUT}
    assert Cause.STATE_NOT_KEPT in found(by_hand(once, rules, [(record("past", 0, 1, 16, kind="state"), 0)]), once)
    # Rows are written into what was computed from the state, which is no state.
    tensors = (*once.tensors, tensor("q"))
    ops = (Op("e", "Relu", (1,), (5,)), Op("f", "ScatterND", (5, 2, 3), (0,)), once.ops[1])
    other = replace(once, tensors=tensors, ops=ops)
    whole = [(record("past", 0, 2, 16, "past", "present", "q", kind="state"), 0)]
    assert found(replace(by_hand(other, RULES, whole), target=rules), other) == {Cause.CLOBBERED_INPUT}


def test_rows_are_written_into_a_state_of_elements_alike() -> None:
    once = cache((1, 2, 3))
    longer = replace(once, tensors=(tensor("present", (8,)), *once.tensors[1:]))
    rules = replace(RULES, states={"past": "present"})
    rows = [(record("past", 0, 1, 32, "past", "present", kind="state"), 0)]
    planset = replace(by_hand(longer, RULES, rows), target=rules)
    assert messages(planset, longer) == ["'present' lies on the input 'past' (f)"]


def test_states_are_of_inputs_and_of_what_operators_write() -> None:
    absent = replace(CONVS, ops=(replace(CONVS.ops[0], outputs=(1, -1)), *CONVS.ops[1:]))  # the last tensor is `y`
    absent = replace(absent, tensors=(*absent.tensors, tensor("z")))
    with pytest.raises(ModelError):
        edgemem.plan(absent, target=replace(RULES, states={"x": "z"}))
    made = by_hand(absent, RULES, GOOD)
    assert found(replace(made, target=replace(RULES, states={"x": "z"})), absent) == {Cause.STATE_NOT_KEPT}


def test_a_plan_for_no_target() -> None:
    planset = replace(by_hand(CONVS, RULES, GOOD), target=None)
    assert edgemem.verify(planset, CONVS) == ()
    graph = loop()
    made = edgemem.plan(graph, target=replace(RULES, aliasing="none"))
    assert edgemem.verify(replace(made, target=None), graph) == ()  # what bodies have is planned with the rest
    with_variable = replace(CONVS, tensors=(*CONVS.tensors, tensor("v", kind="variable")))
    variable = replace(with_variable, ops=(replace(CONVS.ops[0], inputs=(0, 4)), *CONVS.ops[1:]))
    assert edgemem.verify(replace(by_hand(variable, RULES, GOOD), target=None), variable) == ()
    joined = by_hand(CONVS, RULES, [(record("a", 0, 2, 16, "a", "b"), 0)])
    assert found(replace(joined, target=None), CONVS) == {Cause.CLOBBERED_INPUT}


def test_operators_after_bodies_that_are_outside() -> None:
    graph = loop()
    outside = replace(INSIDE, bodies="outside")
    assert edgemem.verify(replace(edgemem.plan(graph, target=outside)), graph) == ()
    rows = [(record("x", 0, 0, 16, kind="input"), 0), (record("a", 0, 1, 16), 16), (record("o", 1, 1, 16), 32)]
    forged = by_hand(graph, outside, [*rows, (record("y", 2, 2, 16, kind="output"), 32)])
    assert messages(forged, graph) == ["'y' lies on the input 'o' (last)"]


def test_bodies_that_are_outside_have_no_places() -> None:
    graph = loop()
    outside = replace(RULES, bodies="outside")
    made = edgemem.plan(graph, target=outside)
    assert {n for r in made.problem.records for n in r.tensors} == {"a", "o"}
    assert edgemem.verify(made, graph) == ()
    inside = edgemem.plan(graph, target=RULES)
    assert Cause.UNKNOWN_TENSOR in found(replace(inside, target=outside), graph)
    named = by_hand(graph, RULES, [(record("a", 0, 1, 16), 0), (record("o", 1, 2, 16), 16)])
    assert Cause.MISSING_TENSOR in found(named, graph)


@pytest.mark.parametrize("name", ["x", "y"])
def test_inputs_and_outputs_have_places_where_the_target_says_so(name: str) -> None:
    rows = [(record("x", 0, 0, 16, kind="input"), 32), *GOOD, (record("y", 2, 2, 16, kind="output"), 48)]
    assert edgemem.verify(by_hand(CONVS, INSIDE, rows), CONVS) == ()
    assert found(by_hand(CONVS, INSIDE, [r for r in rows if r[0].name != name]), CONVS) == {Cause.MISSING_TENSOR}
    assert edgemem.verify(by_hand(CONVS, RULES, [r for r in rows if r[0].name != name]), CONVS) == ()


def test_what_no_operator_makes_needs_no_place() -> None:
    graph = replace(CONVS, tensors=(*CONVS.tensors, tensor("z")))
    assert edgemem.verify(by_hand(graph, RULES, GOOD), graph) == ()


def test_an_absent_input_is_no_tensor() -> None:
    """The last tensor of the graph is written last, and would be read before."""
    first = replace(CONVS.ops[0], inputs=(0, -1))
    graph = replace(CONVS, ops=(first, *CONVS.ops[1:]))
    rows = [*GOOD, (record("y", 2, 2, 16, kind="output"), 32)]
    assert edgemem.verify(by_hand(graph, replace(RULES, outputs="to_end"), rows), graph) == ()


def test_a_view_of_a_constant() -> None:
    """It has a place of its own."""
    tensors = (*CONVS.tensors, tensor("w", kind="constant"))
    graph = replace(CONVS, tensors=tensors, ops=(replace(CONVS.ops[0], type="Reshape", inputs=(4,)), *CONVS.ops[1:]))
    assert edgemem.verify(by_hand(graph, RULES, GOOD), graph) == ()


@pytest.mark.parametrize("kind", ["Reshape", "Relu"])
def test_a_view_or_a_result_in_place_is_where_its_input_is(kind: str) -> None:
    shape = (16,)
    tensors = tuple(tensor(n, shape) for n in "xaby")
    ops = (Op("f", "Conv", (0,), (1,)), Op("g", kind, (1,), (2,)), Op("h", "Conv", (2,), (3,)))
    graph = Graph("g", tensors, ops, (0,), (3,))
    same = [(record("a", 0, 2, 64, "a", "b"), 0)]
    assert edgemem.verify(by_hand(graph, RULES, same), graph) == ()
    moved = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 64), 16)]
    assert Cause.CLOBBERED_INPUT in found(by_hand(graph, RULES, moved), graph)


@pytest.mark.parametrize("kind", ["Reshape", "Relu"])
def test_the_first_output_alone_is_a_view_or_in_place(kind: str) -> None:
    tensors = tuple(tensor(n) for n in "xabyz")
    ops = (Op("f", "Conv", (0,), (1,)), Op("g", kind, (1,), (2, 4)), Op("h", "Conv", (2, 4), (3,)))
    graph = Graph("g", tensors, ops, (0,), (3,))
    for second, wrong in ((32, []), (0, ["'z' lies on the input 'a' (g)"])):
        rows = [(record("a", 0, 0, 16), 0), (record("b", 1, 2, 16), 16), (record("z", 1, 2, 16), second)]
        assert messages(by_hand(graph, RULES, rows), graph) == wrong
    second_on_first = [(record("a", 0, 0, 16), 0), (record("b", 1, 2, 16), 0), (record("z", 1, 2, 16), 32)]
    assert edgemem.verify(by_hand(graph, RULES, second_on_first), graph) == ()


@pytest.mark.parametrize(("inputs", "outputs"), [((1,), (0,)), ((), (0,)), ((1, 2, 3), ()), ((1, 2, 3), (4,))], ids=str)
def test_an_update_of_another_form_is_none(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    """ScatterND without its rows, without a result, or with one that is no state."""
    tensors = (tensor("present"), tensor("past"), tensor("i", (1, 1), "int64"), tensor("u"), tensor("other"))
    ops = (Op("f", "ScatterND", inputs, outputs), Op("g", "Relu", (1,), (0,)))
    graph = Graph("g", tensors, ops if 0 not in outputs else ops[:1], (1, 2, 3), (0,))
    rules = replace(RULES, states={"past": "present"})
    last = len(graph.ops) - 1
    rows = [(record("past", 0, last, 16, "past", "present", kind="state"), 0)]
    if 4 in outputs:
        rows.append((record("other", 0, 0, 16), 16))
    assert edgemem.verify(by_hand(graph, rules, rows), graph) == ()


def test_operators_without_outputs() -> None:
    graph = depthwise()
    more = replace(graph, ops=(*graph.ops, Op("v", "ASSIGN_VARIABLE", (3,), ())))
    honest = edgemem.plan(more, target=MICRO)
    assert honest.problem.overlap is not None
    assert edgemem.verify(honest, more) == ()


def test_rows_of_a_smaller_distance_than_the_kernels_need() -> None:
    graph = depthwise()
    honest = edgemem.plan(graph, target=MICRO)
    assert honest.problem.overlap is not None
    (row,) = honest.problem.overlap.tolist()
    problem = Problem(list(honest.problem.records), overlap=[(row[0], row[1], row[2] - 1)], alignment=16)
    words = messages(replace(honest, problem=problem), graph)
    assert any("and the kernels need" in message for message in words), words
    problem = Problem(list(honest.problem.records), overlap=[(row[0], row[1], row[2] + 16)], alignment=16)
    further = edgemem.verify(replace(honest, problem=problem), graph)
    assert Cause.NOT_PERMITTED not in {v.cause for v in further}


def test_a_slice_of_another_type_is_none() -> None:
    rules = replace(RULES, aliasing="none", slots=True)
    rows = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 32), 16)]
    graph = sliced(1)
    other = replace(graph, tensors=(*graph.tensors[:2], replace(graph.tensors[2], dtype="uint8"), graph.tensors[3]))
    assert Cause.CLOBBERED_INPUT in found(by_hand(other, rules, rows), other)


def test_an_output_lies_on_the_input_that_its_kernel_reads_ahead() -> None:
    """The kernel of ADD reads the second input element by element, and the first one again and again."""
    shapes = {"x": (1, 4, 4, 4), "s": (1, 1, 1, 4), "a": (1, 4, 4, 4), "b": (1, 4, 4, 4), "y": (1, 4, 4, 4)}
    tensors = tuple(tensor(n, shape, "int8") for n, shape in shapes.items())
    ops = (Op("f", "CONV_2D", (0,), (2,)), Op("g", "ADD", (1, 2), (3,)), Op("h", "CONV_2D", (3,), (4,)))
    graph = Graph("g", tensors, ops, (0, 1), (4,))
    rules = replace(RULES, aliasing="none", kernels="tflm-reference")
    assert [distance("tflm-reference", graph, ops[1], k) for k in range(2)] == [None, 0]
    rows = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 64), 0)]
    assert edgemem.verify(by_hand(graph, rules, rows), graph) == ()
    inside = replace(rules, inputs="until_last_use")
    rows = [(record("x", 0, 0, 64, kind="input"), 0), (record("s", 0, 0, 4, kind="input"), 64), (rows[0][0], 128)]
    assert Cause.CLOBBERED_INPUT in found(by_hand(graph, inside, [*rows, (record("b", 1, 2, 64), 64)]), graph)


def test_slots_are_for_targets_that_have_them() -> None:
    """The profile of these kernels knows no slice."""
    rules = replace(RULES, aliasing="none", slots=True, kernels="cmsis-nn")
    rows = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 32), 16)]
    graph = sliced(1)
    assert distance("cmsis-nn", graph, graph.ops[1], 0) is None
    assert edgemem.verify(by_hand(graph, rules, rows), graph) == ()
    forged = by_hand(graph, replace(rules, slots=False), rows)
    assert Cause.CLOBBERED_INPUT in found(forged, graph)
    problem = Problem([replace(rows[0][0], last_op=1), rows[1][0]], within=[(1, 0, 32)], alignment=16)
    for slots, words in ((True, "with slots"), (False, "without slots")):
        made = replace(forged, problem=problem, target=replace(rules, slots=slots))
        assert any(words in v.message for v in edgemem.verify(made, graph) if v.cause is Cause.NOT_PERMITTED)


def test_the_error_says_what_to_do() -> None:
    wrong = by_hand(CONVS, RULES, [(one, 0) for one, _ in GOOD])
    for remedy, end in (("", ")"), ("plan it again", "; plan it again")):
        with pytest.raises(InvalidPlanError) as error:
            prove(wrong, CONVS, remedy=remedy)
        assert str(error.value).splitlines()[0].endswith(end)
    for rows, end in ((GOOD[:1], "'b' has no place"), ([], "'a' has no place (and 1 more)")):
        with pytest.raises(InvalidPlanError) as error:
            prove(by_hand(CONVS, RULES, rows), CONVS)
        assert str(error.value).splitlines()[0] == f"the plan is refused: tensor without a place: {end}"


def test_a_search_that_proved_more_than_a_plan_needs() -> None:
    planset = by_hand(CONVS, RULES, GOOD)
    plan = replace(planset.offsets[0], search=SearchReport(planset.offsets[0].size + 16, "bound", 0, 1, claimed=True))
    assert found(replace(planset, offsets=(plan,)), CONVS) == {Cause.WRONG_BOUND}


def test_a_texture_that_is_too_long_needs_another_target() -> None:
    rules = replace(BUILT_IN["gpu-texture"], texture_side=12)
    tensors = tuple(tensor(name, (1, 6, 2, 8)) for name in "xay")
    graph = Graph("g", tensors, (Op("f", "CONV_2D", (0,), (1,)), Op("g", "CONV_2D", (1,), (2,))), (0,), (2,), "nhwc")
    honest = edgemem.plan(graph, target=rules)
    kept = [r for r in honest.problem.records if r.name != "a"]
    plan = SharedObjectsPlan("hand", {}, np.array([0, 1]), ((2, 12),) * 2, 48, optimal=False)
    forged = replace(
        honest, problem=Problem(kept), shared_objects=(plan,), target=replace(rules, texture_side=2, texel_row=1)
    )
    assert Cause.MISSING_TENSOR in found(forged, graph)


def test_inputs_that_no_operator_reads_are_there_before_the_first() -> None:
    """The caller may fill them in last, and then overwrites what lies on them."""
    graph = replace(CONVS, tensors=(*CONVS.tensors, tensor("u")), inputs=(4, 0))
    rest = [(record("x", 0, 0, 16, kind="input"), 0), *((r, at + 16) for r, at in GOOD), (record("y", 2, 2, 16), 48)]
    for at, wrong in ((64, []), (0, ["before the first operator nothing is left of 'u', which 'x' overwrote (f)"])):
        rows = [*rest, (record("u", 1, 1, 16, kind="input"), at)]
        assert messages(by_hand(graph, INSIDE, rows), graph) == wrong


def test_a_body_that_runs_again_writes_in_the_order_of_the_last_time() -> None:
    """The result of the inner loop, `l.o`, is written before its body, which may overwrite it, and again after it."""
    first, inner, last = loop().ops
    body = Graph("l", (tensor("l.i"), tensor("l.o")), (replace(inner, inputs=(0,), outputs=(1,)),), (0,), (1,))
    graph = replace(loop(), ops=(first, Op("loop", "Loop", (1,), (2,), (body,)), last))
    honest = edgemem.plan(graph, target=RULES)
    assert honest.best_offsets is not None
    rows = list(zip(honest.problem.records, honest.best_offsets.offsets.tolist(), strict=True))
    rest = [row for row in rows if row[0].name not in ("l.o", "b.t")]
    rest += [(record("l.o", 5, 5, 16), 1024), (record("b.t", 3, 4, 16), 1024)]
    for at, wrong in ((2048, []), (1024, ["'b.t' lies on the input 'b.i' (loop/l/while/body/f)"])):
        planset = by_hand(graph, RULES, [*rest, (record("b.i", 2, 2, 16), at)])
        assert messages(planset, graph) == wrong


def test_a_graph_of_one_operator_ends_at_it() -> None:
    graph = Graph(
        "g", (tensor("x"), tensor("v", kind="variable"), tensor("y")), (Op("f", "Conv", (0, 1), (2,)),), (0,), (2,)
    )
    rules = replace(RULES, variables="whole_run", outputs="to_end")
    rows = [(record("v", 0, 0, 16, kind="variable"), 0), (record("y", 0, 0, 16, kind="output"), 0)]
    steps = {v.op for v in edgemem.verify(by_hand(graph, rules, rows), graph) if v.cause is Cause.OVERWRITTEN}
    assert steps == {0}


def test_the_end_of_a_run_is_its_last_step() -> None:
    gone = [(record("a", 0, 1, 16), 0), (record("b", 1, 1, 16), 16), (record("y", 2, 2, 16, kind="output"), 32)]
    state = replace(RULES, outputs="to_end", variables="whole_run")
    tensors = (*CONVS.tensors, tensor("v", kind="variable"))
    graph = replace(CONVS, tensors=tensors, ops=(replace(CONVS.ops[0], inputs=(0, 4)), *CONVS.ops[1:]))
    forged = by_hand(graph, state, [*gone[:2], (gone[2][0], 48), (record("v", 0, 1, 16, kind="variable"), 48)])
    steps = {v.op for v in edgemem.verify(forged, graph) if v.cause is Cause.OVERWRITTEN}
    assert steps == {2}


def test_constants_and_what_is_empty_or_unknown() -> None:
    tensors = (*CONVS.tensors, tensor("w", kind="constant"), tensor("e", (0, 4)), Tensor("s", "string", (4,), "opaque"))
    first = replace(CONVS.ops[0], inputs=(0, 4, -1), outputs=(1, 5, 6))
    graph = replace(CONVS, tensors=tensors, ops=(first, *CONVS.ops[1:]))
    assert edgemem.verify(by_hand(graph, RULES, GOOD), graph) == ()
    assert edgemem.verify(by_hand(graph, RULES, [*GOOD, (record("e", 0, 0, 0), 32)]), graph) == ()
    for name, cause in (("w", Cause.UNKNOWN_TENSOR), ("s", Cause.RECORD_TOO_SMALL)):
        assert cause in found(by_hand(graph, RULES, [*GOOD, (record(name, 0, 0, 16), 32)]), graph)


@pytest.mark.parametrize(("numbers", "are_one"), [((1, 1), True), ((1, 2), False), ((-1, -1), False)])
def test_two_operators_that_run_one_graph_have_one_variable(numbers: tuple[int, int], are_one: bool) -> None:
    """Names in one record are of one variable only where the graphs of the file are one."""

    def body(path: str, number: int) -> Graph:
        tensors = (tensor(f"{path}0"), tensor(f"{path}1"), tensor(f"{path}v", kind="variable"))
        return Graph(path, tensors, (Op(f"{path}f", "Conv", (0, 2), (1,)),), (0,), (1,), number=number)

    names = ("x", "a", "b", "y")
    ops = (
        Op("f", "Conv", (0,), (1,)),
        Op("s", "Call", (1,), (2,), (body("s.", numbers[0]),)),
        Op("t", "Call", (2,), (3,), (body("t.", numbers[1]),)),
    )
    graph = Graph("g", tuple(tensor(n) for n in names), ops, (0,), (3,), number=0)
    rules = replace(RULES, variables="whole_run", aliasing="none")
    honest = edgemem.plan(graph, target=rules)
    assert edgemem.verify(honest, graph) == ()
    best = honest.best_offsets
    assert best is not None
    rows = [
        (one, at)
        for one, at in zip(honest.problem.records, best.offsets.tolist(), strict=True)
        if one.kind != "variable"
    ]
    last = len(honest.steps) - 1
    one = (record("s.v", 0, last, 16, "s.v", "t.v", kind="variable"), 1024)
    causes = found(by_hand(graph, rules, [*rows, one]), graph)
    assert causes == (set() if are_one else {Cause.OVERWRITTEN})


@pytest.mark.parametrize("where", ["outside", "whole_run"])
def test_variables(where: str) -> None:
    tensors = (*CONVS.tensors, tensor("v", kind="variable"))
    graph = replace(CONVS, tensors=tensors, ops=(CONVS.ops[0], replace(CONVS.ops[1], inputs=(1, 4)), CONVS.ops[2]))
    rules = replace(RULES, variables=where)  # type: ignore[arg-type]
    kept = [*GOOD, (record("v", 0, 2, 16, kind="variable"), 32)]
    assert edgemem.verify(by_hand(graph, rules, kept), graph) == ()
    without = found(by_hand(graph, rules, GOOD), graph)
    assert without == ({Cause.MISSING_TENSOR} if where == "whole_run" else set())
    short = [GOOD[0], (GOOD[1][0], 32), (record("v", 0, 1, 16, kind="variable"), 16), (record("y", 2, 2, 16), 16)]
    assert Cause.OVERWRITTEN in found(by_hand(graph, rules, short), graph)  # the next run reads it


@pytest.mark.parametrize(
    ("shape", "layout", "dtype", "size"),
    [
        ((2, 5, 4, 3), "nhwc", "float32", (2 * 4, 5 * 1)),
        ((2, 3, 5, 4), "nchw", "float32", (2 * 4, 5 * 1)),
        ((1, 9, 2, 3), "nchw", "float16", (3, 2 * 3)),
        ((3, 7, 6), "nhwc", "float32", (3 * 7, 2)),
        ((3, 7, 6), "nchw", "float32", (3 * 7, 2)),
        ((3, 6), "nhwc", "float32", (3, 2)),
        ((6,), "nhwc", "float32", (1, 2)),
        ((5,), "nhwc", "float32", (1, 2)),
        ((4,), "nhwc", "float32", (1, 1)),
    ],
)
def test_the_texture_of_a_tensor(shape: tuple[int, ...], layout: str, dtype: str, size: tuple[int, int]) -> None:
    target = Target("textures", alignment=1, aliasing="none", texels=True)
    tensors = tuple(tensor(name, shape, dtype) for name in "xay")
    ops = (Op("f", "CONV_2D", (0,), (1,)), Op("g", "CONV_2D", (1,), (2,)))
    graph = Graph("g", tensors, ops, (0,), (2,), layout)  # type: ignore[arg-type]
    honest = edgemem.plan(graph, target=target)
    assert honest.problem.records[0].size == size
    assert edgemem.verify(honest, graph) == ()
    for less in ((size[0] - 1, size[1]), (size[0], size[1] - 1)):
        problem = Problem([replace(honest.problem.records[0], size=less)])
        area = less[0] * less[1]
        plan = SharedObjectsPlan("hand", {}, np.zeros(1, np.int64), (less,), area, optimal=True)
        bounds = replace(honest.bounds, shared_objects=area)
        forged = replace(honest, problem=problem, shared_objects=(plan,), bounds=bounds, offsets=(), naive=area)
        assert Cause.RECORD_TOO_SMALL in found(forged, graph)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 2, 2, 2, 4), "float32"), ((1, 2, 2, 4), "int32"), ((0, 2, 2, 4), "float32")]
)
def test_what_is_no_texture(shape: tuple[int, ...], dtype: str) -> None:
    target = Target("textures", alignment=1, aliasing="none", texels=True)
    good = tuple(tensor(name, (1, 2, 2, 4)) for name in "xay")
    graph = Graph(
        "g", (*good, tensor("o", shape, dtype)), (Op("f", "C", (0,), (1, 3)), Op("g", "C", (1,), (2,))), (0,), (2,)
    )
    honest = edgemem.plan(graph, target=target)
    assert {n for r in honest.problem.records for n in r.tensors} == {"a"}
    assert edgemem.verify(honest, graph) == ()
    both = [*honest.problem.records, record("o", 0, 0, 0)]
    both[1] = replace(both[1], size=(4, 4))
    plan = SharedObjectsPlan("hand", {}, np.array([0, 1]), (honest.problem.records[0].size, (4, 4)), 20, optimal=False)
    forged = replace(honest, problem=Problem(both), shared_objects=(plan,), offsets=())
    assert Cause.RECORD_TOO_SMALL in found(forged, graph)


def test_a_texture_may_be_as_long_as_the_target_has_them_and_no_longer() -> None:
    rules = replace(BUILT_IN["gpu-texture"], texture_side=12)
    shape = (1, 6, 2, 8)  # 2 x 12 texels
    tensors = tuple(tensor(name, shape) for name in "xay")
    graph = Graph("g", tensors, (Op("f", "CONV_2D", (0,), (1,)), Op("g", "CONV_2D", (1,), (2,))), (0,), (2,), "nhwc")
    honest = edgemem.plan(graph, target=rules)
    assert edgemem.verify(honest, graph) == ()
    short = replace(honest, target=replace(rules, texture_side=11), shared_objects=honest.shared_objects[-1:])
    for _ in range(2):  # what was proved before is not proved again, and exceeds the same capacities
        assert Cause.OVER_CAPACITY in found(short, graph)
    wrong = SharedObjectsPlan("hand", {}, honest.shared_objects[0].assignment, (24,) * 3, 72, optimal=False)
    assert found(replace(honest, shared_objects=(wrong,)), graph)  # objects of bytes


def test_textures_of_no_target_and_of_one_without_a_form_have_no_longest_side() -> None:
    target = Target("textures", alignment=1, aliasing="none", texels=True, texture_side=4)
    graph = Graph("g", tuple(tensor(n, (1, 2, 5, 4)) for n in "xay"), CONVS.ops[:1], (0,), (1,))
    graph = replace(graph, ops=(*graph.ops, Op("g", "Conv", (1,), (2,))), outputs=(2,))
    honest = edgemem.plan(graph, target=target)
    assert honest.shared_objects[0].objects == ((5, 2),)
    assert edgemem.verify(honest, graph) == ()
    assert Cause.RECORD_TOO_SMALL in found(replace(honest, target=None), graph)


def test_messages_name_what_objects_need() -> None:
    rows = [(record("a", 0, 1, 16), 0), (record("b", 1, 2, 16), 1)]
    right = in_objects(CONVS, RULES, rows, (16, 16))  # type: ignore[arg-type]
    assert edgemem.verify(right, CONVS) == ()  # type: ignore[arg-type]
    small = in_objects(CONVS, RULES, rows, (8, 16))  # type: ignore[arg-type]
    assert "object 0 is [8], its records need [16]" in messages(small, CONVS)  # type: ignore[arg-type]
    large = in_objects(CONVS, RULES, rows, (24, 16))  # type: ignore[arg-type]
    assert "object 0 is [24], its records need only [16]" in messages(large, CONVS)  # type: ignore[arg-type]


def test_what_is_left_to_the_runtime_is_so_for_tensorflow_lite_micro_alone() -> None:
    for name, is_right in (("tflm", True), ("test", False)):
        rules = replace(RULES, name=name)
        planset = replace(by_hand(CONVS, rules, GOOD[:1]), unplanned=(("b", LEFT_TO_RUNTIME),))
        assert (edgemem.verify(planset, CONVS) == ()) is is_right
    other = replace(by_hand(CONVS, replace(RULES, name="tflm"), GOOD[:1]), unplanned=(("b", "empty"),))
    assert found(other, CONVS) == {Cause.MISSING_TENSOR}


def conditional() -> Graph:
    """x -> IF -> o -> y; the two branches compute with tensors of their own, and one reads a variable."""

    def branch(path: str, number: int, *kinds: str) -> Graph:
        count = len(kinds) + 1
        tensors = (*(tensor(f"{path}{k}") for k in range(count)), tensor(f"{path}v", kind="variable"))
        ops = tuple(Op(f"{path}f{k}", kind, (k, count), (k + 1,)) for k, kind in enumerate(kinds))
        return Graph(path, tensors, ops, (0,), (count - 1,), number=number)

    tensors = (tensor("x"), tensor("c", (1,), "bool"), tensor("a"), tensor("o"), tensor("y"))
    bodies = (branch("t.", 1, "Conv", "Conv"), branch("e.", 2, "Conv"))
    ops = (Op("f", "Conv", (0,), (2,)), Op("if", "IF", (1, 2), (3,), bodies), Op("g", "Conv", (3,), (4,)))
    return Graph("g", tensors, ops, (0, 1), (4,), number=0)


GRAPHS = {"loop": loop(), "if": conditional(), "chain": CONVS}
TARGETS = {
    "outside": RULES,
    "inside": INSIDE,
    "whole": WHOLE,
    "kept": replace(WHOLE, variables="whole_run", unread="to_end"),
    "unpacked": replace(INSIDE, sub_byte="unpacked"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GRAPHS)
def test_every_tensor_of_an_honest_plan_needs_its_place(name: str, target: str) -> None:
    """Taken out of its record, or of one byte less, or twice: each is refused."""
    graph, rules = GRAPHS[name], TARGETS[target]
    honest = edgemem.plan(graph, target=rules)
    assert edgemem.verify(honest, graph) == ()
    best = honest.best_offsets
    assert best is not None
    rows = list(zip(honest.problem.records, best.offsets.tolist(), strict=True))
    for k, (one, offset) in enumerate(rows):
        assert isinstance(one.size, int)
        less = [*rows[:k], (replace(one, size=one.size - 1), offset), *rows[k + 1 :]]
        assert Cause.RECORD_TOO_SMALL in found(by_hand(graph, rules, less), graph)
        for gone in one.tensors:
            rest = tuple(n for n in one.tensors if n != gone)
            left = [(replace(one, tensors=rest), offset)] if rest else []
            causes = found(by_hand(graph, rules, [*rows[:k], *left, *rows[k + 1 :]]), graph)
            assert Cause.MISSING_TENSOR in causes, (gone, causes)
            end = -(-(best.size + 16) // 16) * 16
            twice = [*rows, (replace(one, name="again", tensors=(gone,)), end)]
            assert Cause.TWO_PLACES in found(by_hand(graph, rules, twice), graph)
    named = dict.fromkeys(n for r, _ in rows for n in r.tensors)
    listed = replace(honest, unplanned=((next(iter(named)), "empty"),))
    assert found(listed, graph) == {Cause.TWO_PLACES}


def test_an_empty_variable_needs_no_place() -> None:
    tensors = (*CONVS.tensors, tensor("v", (0,), kind="variable"))
    graph = replace(CONVS, tensors=tensors, ops=(CONVS.ops[0], replace(CONVS.ops[1], inputs=(1, 4)), CONVS.ops[2]))
    assert edgemem.verify(by_hand(graph, replace(RULES, variables="whole_run"), GOOD), graph) == ()


def test_messages_name_what_textures_need() -> None:
    target = Target("textures", alignment=1, aliasing="none", texels=True)
    tensors = tuple(tensor(name, (1, 6, 2, 8)) for name in "xay")
    ops = (Op("f", "CONV_2D", (0,), (1,)), Op("g", "CONV_2D", (1,), (2,)))
    graph = Graph("g", tensors, ops, (0,), (2,), "nhwc")
    honest = edgemem.plan(graph, target=target)
    plan = SharedObjectsPlan("hand", {}, np.zeros(1, np.int64), ((2, 11),), 22, optimal=False)
    forged = replace(honest, shared_objects=(plan,))
    assert "object 0 is [2, 11], its records need [2, 12]" in messages(forged, graph)


def test_the_first_tensor_of_a_graph_may_be_written_over_too() -> None:
    shape = (1, 4, 4, 4)
    tensors = (*(tensor(n, shape, "int8") for n in "xy"), tensor("w", (1, 1, 1, 4), "int8", kind="constant"))
    about = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    graph = Graph("g", tensors, (Op("f", "DEPTHWISE_CONV_2D", (0, 2), (1,), attributes=about),), (0,), (1,))
    rules = replace(MICRO, inputs="until_last_use", outputs="to_end")
    # Each record is at its own time, so that the graph alone permits it.
    rows = [(record("x", 0, 0, 64, kind="input"), 0), (record("y", 1, 1, 64, kind="output"), 0)]
    assert found(by_hand(graph, rules, rows), graph) == set()
    assert Cause.CLOBBERED_INPUT in found(by_hand(graph, replace(rules, kernels="none"), rows), graph)


def sliced(begin: int, dtype: str = "int8") -> Graph:
    """x [4, 16] -> RELU -> a -> SLICE of two rows -> b -> CONV_2D -> y."""
    tensors = (
        tensor("x", (4, 16), dtype),
        tensor("a", (4, 16), dtype),
        tensor("b", (2, 16), dtype),
        tensor("y", (2, 16), dtype),
    )
    about = {"begin": (begin, 0), "size": (2, 16)}
    ops = (
        Op("f", "CONV_2D", (0,), (1,)),
        Op("s", "SLICE", (1,), (2,), attributes=about),
        Op("h", "CONV_2D", (2,), (3,)),
    )
    return Graph("g", tensors, ops, (0,), (3,))


def test_a_slice_lies_in_its_input_at_its_place_alone() -> None:
    rules = replace(RULES, aliasing="none", slots=True)
    rows = [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 32), 16)]
    first, second = sliced(1), sliced(2)
    planset = by_hand(first, rules, rows)
    assert edgemem.verify(planset, first) == ()
    assert found(planset, second) == {Cause.CLOBBERED_INPUT}  # the same plan, proved for another slice before
    assert edgemem.verify(planset, first) == ()
    assert Cause.CLOBBERED_INPUT in found(by_hand(first, replace(rules, slots=False), rows), first)
    half = sliced(2, "int4")  # whose rows begin in whole bytes, and whose elements do not
    packed = [(record("a", 0, 0, 32), 0), (record("b", 1, 2, 16), 16)]
    assert found(by_hand(half, rules, packed), half) == {Cause.CLOBBERED_INPUT}


def test_a_plan_for_kernels_without_its_model(tmp_path: Path) -> None:
    apart = [(record("a", 0, 1, 64), 0), (record("b", 1, 2, 64), 64)]
    planset = by_hand(depthwise(), MICRO, apart)
    edgemem.save(None, planset, tmp_path / "p.edgemem")
    assert edgemem.verify(tmp_path / "p.edgemem") == ()
    assert prove(planset, kernels="cmsis-nn").planset is planset


def test_a_plan_that_was_refused_is_refused_again() -> None:
    wrong = by_hand(CONVS, RULES, [(one, 0) for one, _ in GOOD])
    for graph in (CONVS, None, CONVS):
        with pytest.raises(InvalidPlanError):
            prove(wrong, graph)


def test_records_count_what_the_target_does() -> None:
    """Texels are no bytes, whatever their number is."""
    textures = Target("textures", alignment=1, aliasing="none", texels=True)
    graph = Graph("g", tuple(tensor(n, (1, 2, 2, 4)) for n in "xay"), CONVS.ops[:1], (0,), (1,))
    graph = replace(graph, ops=(*graph.ops, Op("g", "Conv", (1,), (2,))), outputs=(2,))
    bytes_ = by_hand(graph, RULES, [(record("a", 0, 1, 64), 0)])
    texels = edgemem.plan(graph, target=textures)
    assert edgemem.verify(bytes_, graph) == edgemem.verify(texels, graph) == ()
    assert Cause.RECORD_TOO_SMALL in found(replace(bytes_, target=textures), graph)
    assert Cause.RECORD_TOO_SMALL in found(replace(texels, target=replace(RULES, alignment=1)), graph)


def test_regions_that_a_plan_does_not_have() -> None:
    planset = by_hand(CONVS, RULES, GOOD)
    plan = planset.offsets[0]
    forged = replace(planset, offsets=(replace(plan, regions=np.array([0, 1], np.int64)),))
    assert edgemem.verify(forged, CONVS)
    first = replace(planset, offsets=(replace(plan, regions=np.array([0, 0], np.int64)),))
    assert edgemem.verify(replace(first, target=None), CONVS) == ()


def test_claims_of_a_plan_for_no_target() -> None:
    honest = edgemem.plan(depthwise(), target=MICRO)
    assert any("the plan is for no target" in words for words in messages(replace(honest, target=None), depthwise()))


def test_a_state_that_is_nowhere() -> None:
    graph, rules = cache((1, 2, 3)), replace(RULES, states={"past": "present"})
    assert Cause.STATE_NOT_KEPT in found(replace(by_hand(graph, RULES, []), target=rules), graph)


def test_workspace_is_no_texture() -> None:
    target = Target("textures", alignment=1, aliasing="none", texels=True)
    tensors = tuple(tensor(name, (1, 2, 2, 4)) for name in "xay")
    ops = (Op("f", "C", (0,), (1,), scratch=(64,)), Op("g", "C", (1,), (2,)))
    graph = Graph("g", tensors, ops, (0,), (2,))
    honest = edgemem.plan(replace(graph, ops=(replace(ops[0], scratch=()), ops[1])), target=target)
    records = [*honest.problem.records, replace(record("f:scratch0", 0, 0, 0, kind="scratch"), size=(4, 4), tensors=())]
    plan = SharedObjectsPlan("hand", {}, np.array([0, 1]), (honest.problem.records[0].size, (4, 4)), 20, optimal=False)
    forged = replace(honest, problem=Problem(records), shared_objects=(plan,), offsets=())
    assert "'f:scratch0' needs 64, its record has (4, 4)" in messages(forged, graph)


def test_rows_of_a_state_are_read_where_they_are() -> None:
    """A slice of a state lies inside it, and writes nothing there; elsewhere in the state it would."""
    tensors = (tensor("past", (4, 4)), tensor("s", (2, 4)), tensor("y", (2, 4)), tensor("present", (4, 4)))
    about = {"begin": (1, 0), "size": (2, 4)}
    cut = Op("c", "Slice", (0,), (1,), attributes=about)
    ops = (cut, Op("f", "Conv", (1,), (2,)), Op("g", "Conv", (2,), (3,)))
    graph = Graph("g", tensors, ops, (0,), (2, 3))
    rules = replace(RULES, states={"past": "present"}, slots=True)
    rows = [(record("past", 0, 2, 64, "past", "present", kind="state"), 0), (record("s", 0, 1, 32), 16)]
    for offset, within, is_right in ((16, [(1, 0, 16)], True), (32, [(1, 0, 16)], False), (16, [], False)):
        made = by_hand(graph, rules, [rows[0], (rows[1][0], offset)])
        problem = Problem(list(made.problem.records), within=within, alignment=16)
        made = replace(made, problem=problem, bounds=lower_bounds(problem))
        plan = replace(made.offsets[0], optimal=made.offsets[0].size == made.bounds.offsets)
        assert (edgemem.verify(replace(made, offsets=(plan,)), graph) == ()) is is_right


def test_a_plan_for_another_graph_is_stale_and_any_other_is_wrong() -> None:
    stale = replace(by_hand(CONVS, RULES, GOOD), digest="0" * 64)
    wrong = by_hand(CONVS, RULES, [(one, 0) for one, _ in GOOD])
    for planset, kind in ((stale, StalePlanError), (wrong, InvalidPlanError)):
        with pytest.raises(InvalidPlanError) as error:
            prove(planset, CONVS)
        assert type(error.value) is kind


def test_rows_are_of_the_input_that_they_name() -> None:
    """An absent input is none of the graph's tensors, and what an operator reads twice it may not overwrite."""
    graph = depthwise()
    for inputs, is_right in (((1, 4), True), ((1, 4, -1), True), ((1, 4, 1), False), ((1, 1), False)):
        op = replace(graph.ops[1], inputs=inputs)
        last = [*graph.tensors[:1], graph.tensors[4], *graph.tensors[2:4], graph.tensors[1]]  # `a` is the last one
        at = {0: 0, 1: 4, 2: 2, 3: 3, 4: 1, -1: -1}
        ops = tuple(
            replace(o, inputs=tuple(at[i] for i in o.inputs), outputs=tuple(at[i] for i in o.outputs))
            for o in (graph.ops[0], op, graph.ops[2])
        )
        other = replace(graph, tensors=tuple(last), ops=ops)
        made = by_hand(other, MICRO, [(record("a", 0, 0, 64), 0), (record("b", 1, 2, 64), 0)])
        assert (edgemem.verify(made, other) == ()) is is_right, inputs


def test_textures_lie_on_each_other_by_no_kernels_distance() -> None:
    target = replace(MICRO, alignment=1, aliasing="none", texels=True)
    shape = (1, 4, 4, 4)
    tensors = tuple(tensor(n, shape) if n != "w" else tensor(n, (1, 1, 1, 4), kind="constant") for n in "xabyw")
    graph = replace(depthwise(), tensors=tensors)
    assert distance("tflm-reference", graph, graph.ops[1], 0) == 0
    honest = edgemem.plan(graph, target=target)
    assert edgemem.verify(honest, graph) == ()
    forged = replace(honest, problem=Problem(list(honest.problem.records), overlap=[(0, 1, 0)]))
    assert Cause.NOT_PERMITTED in found(forged, graph)


def test_workspace_holds_no_tensor() -> None:
    graph = depthwise((64,))
    place = record("g:scratch0", 1, 1, 64, kind="scratch")
    rows = [(record("a", 0, 1, 64), 0), (record("b", 1, 2, 64), 64)]
    assert edgemem.verify(by_hand(graph, RULES, [*rows, (replace(place, tensors=()), 128)]), graph) == ()
    forged = by_hand(graph, RULES, [rows[0], (replace(place, tensors=("b",)), 64)])
    assert {Cause.UNKNOWN_TENSOR, Cause.MISSING_TENSOR} <= found(forged, graph)


def test_a_tensor_may_be_as_large_as_a_binding() -> None:
    planset = by_hand(CONVS, RULES, GOOD)
    for binding, causes in ((16, set()), (15, {Cause.OVER_CAPACITY})):
        assert found(replace(planset, target=replace(RULES, binding=binding)), CONVS) == causes


def test_what_lies_behind_a_slice_in_its_input_is_free_again() -> None:
    graph = sliced(0)
    ops = (*graph.ops[:2], Op("h", "CONV_2D", (2,), (3,)), Op("k", "CONV_2D", (2, 3), (4,)))
    graph = replace(graph, tensors=(*graph.tensors, tensor("z", (2, 16), "int8")), ops=ops, outputs=(4,))
    rules = replace(RULES, aliasing="none", slots=True)
    rows = [(record("a", 0, 1, 64), 0), (record("b", 1, 3, 32), 0), (record("y", 2, 3, 32), 32)]
    made = by_hand(graph, rules, rows)
    problem = Problem(list(made.problem.records), within=[(1, 0, 0)], alignment=16)
    bounds = lower_bounds(problem)
    plan = replace(made.offsets[0], optimal=made.offsets[0].size == bounds.offsets)
    assert edgemem.verify(replace(made, problem=problem, bounds=bounds, offsets=(plan,)), graph) == ()


def test_what_is_not_of_a_piece_is_the_concatenation_alone() -> None:
    """The half of `c` in front of the piece that lies in it is overwritten before `c` is read."""
    tensors = tuple(tensor(n, (rows, 16), "int8") for n, rows in zip("xabcty", (2, 2, 2, 4, 2, 2), strict=True))
    ops = (
        Op("f", "CONV_2D", (0,), (1,)),
        Op("g", "CONV_2D", (0,), (2,)),
        Op("j", "CONCATENATION", (1, 2), (3,), attributes={"axis": 0}),
        Op("h", "CONV_2D", (0,), (4,)),
        Op("k", "CONV_2D", (3, 4), (5,)),
    )
    graph = Graph("g", tensors, ops, (0,), (5,))
    rules = replace(RULES, aliasing="none", slots=True)
    for last, offset, cause in ((4, 96, set()), (2, 0, {Cause.OVERWRITTEN})):
        rows = [(record("a", 0, 2, 32), 64), (record("b", 1, 2, 32), 32)]
        rows += [(record("c", 2, last, 64), 0), (record("t", 3, 4, 32), offset)]
        made = by_hand(graph, rules, rows)
        problem = Problem(list(made.problem.records), within=[(1, 2, 32)], alignment=16)
        bounds = lower_bounds(problem)
        plan = replace(made.offsets[0], optimal=made.offsets[0].size == bounds.offsets)
        assert found(replace(made, problem=problem, bounds=bounds, offsets=(plan,)), graph) == cause


def test_a_pinned_tensor_is_somewhere() -> None:
    rules = replace(RULES, pins={"b": 16})
    assert edgemem.verify(replace(by_hand(CONVS, RULES, GOOD), target=rules), CONVS) == ()
    assert "'b' is nowhere, but is pinned at 16" in messages(
        replace(by_hand(CONVS, RULES, GOOD[:1]), target=rules), CONVS
    )


def test_inputs_of_a_graph_without_operators_are_apart() -> None:
    graph = Graph("g", (tensor("x"), tensor("z")), (), (0, 1), (0,))
    rows = [(record("x", 0, 0, 16, kind="input"), 0), (record("z", 0, 0, 16, kind="input"), 0)]
    assert any("(step 0)" in words for words in messages(by_hand(graph, INSIDE, rows), graph))


def test_a_plan_for_no_target_is_for_no_kernels() -> None:
    planset = replace(by_hand(CONVS, RULES, GOOD), target=None)
    assert prove(planset, CONVS, kernels="esp-nn").planset is planset


def test_offsets_may_be_of_any_integers() -> None:
    planset = by_hand(CONVS, RULES, GOOD)
    for dtype in (np.uint64, np.int32, np.uint8):
        plan = replace(planset.offsets[0], offsets=planset.offsets[0].offsets.astype(dtype))
        assert edgemem.verify(replace(planset, offsets=(plan,)), CONVS) == ()


def test_objects_of_any_integers() -> None:
    rows = [(record("a", 0, 1, 16), 0), (record("b", 1, 2, 16), 1)]
    right = in_objects(CONVS, RULES, rows, (np.int64(16), np.int64(16)))  # type: ignore[arg-type]
    assert edgemem.verify(right, CONVS) == ()  # type: ignore[arg-type]
    none = in_objects(CONVS, RULES, rows, ())  # type: ignore[arg-type]
    assert found(none, CONVS)  # type: ignore[arg-type]


def test_a_second_round_of_a_loop_reads_what_the_first_has_left() -> None:
    """The body reads `k` of the graph around it, and then writes over it: no record's time tells."""
    names = {"k": (4,), "p": (4,), "q": (4,), "r": (4,), "i": (), "c": ()}
    inner = [tensor(n, s, "int64" if n == "i" else "bool" if n == "c" else "float32") for n, s in names.items()]
    inner[0] = replace(inner[0], kind="captured")
    turns = (Op("m", "Conv", (1, 0), (2,)), Op("e", "Conv", (2,), (3,)))
    body = Graph("body", tuple(inner), turns, (4, 5, 1), (5, 3))
    tensors = (tensor("x"), tensor("k"), tensor("n", (), "int64"), tensor("t", (), "bool"), tensor("o"), tensor("y"))
    loops = Op("loop", "Loop", (2, 3, 0, 1), (4,), (body,))
    graph = Graph("g", tensors, (Op("f", "Conv", (0,), (1,)), loops, Op("g", "Conv", (4,), (5,))), (0, 2, 3), (5,))
    rules = replace(RULES, aliasing="none")
    honest = edgemem.plan(graph, target=rules)
    assert edgemem.verify(honest, graph) == ()
    records = {r.name: r for r in honest.problem.records}
    short = replace(records["k"], last_op=next(k for k, step in enumerate(honest.steps) if step.endswith("m")))
    rows = [(short if n == "k" else r, 64 * at) for at, (n, r) in enumerate(records.items())]
    place = {r.name: offset for r, offset in rows}
    forged = by_hand(graph, rules, [(r, place["k"] if r.name == "r" else offset) for r, offset in rows])
    assert any("in another round it reads 'k', which 'r' overwrote" in m for m in messages(forged, graph))


def test_the_answer_of_a_condition_is_there_when_it_has_run() -> None:
    """Nothing copies it: no record's time tells that a later operator of the condition writes over it."""
    graph = loop()
    (first, turns, last) = graph.ops
    condition, body = turns.bodies
    tensors = (*condition.tensors, tensor("c.z", (1,)))
    condition = replace(condition, tensors=tensors, ops=(*condition.ops, Op("z", "Conv", (0,), (3,))))
    graph = replace(graph, ops=(first, replace(turns, bodies=(condition, body)), last))
    answer = condition.tensors[condition.outputs[0]].name
    honest = edgemem.plan(graph, target=replace(RULES, aliasing="none"))
    assert edgemem.verify(honest, graph) == ()
    records = {r.name: r for r in honest.problem.records}
    short = replace(records[answer], last_op=records[answer].first_op)
    rows = [(short if n == answer else r, 64 * at) for at, (n, r) in enumerate(records.items())]
    place = {r.name: offset for r, offset in rows}
    forged = by_hand(
        graph, replace(RULES, aliasing="none"), [(r, place[answer] if r.name == "c.z" else o) for r, o in rows]
    )
    assert any("its body should still hold" in m for m in messages(forged, graph))


def test_what_is_proved_of_records_is_not_of_a_graph() -> None:
    planset = by_hand(CONVS, RULES, GOOD[:1])
    assert prove(planset).graph == ""
    with pytest.raises(InvalidPlanError):
        prove(planset, CONVS)
    right = by_hand(CONVS, RULES, GOOD)
    assert prove(right, CONVS).graph == right.digest
