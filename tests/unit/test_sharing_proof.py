"""What the proof permits tensors to share beside views and results in place: overlaps at a distance, and slots."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from edgemem.errors import InvalidPlanError
from edgemem.model.graph import RUN_ONCE, Graph, Op, Tensor, digest
from edgemem.model.overlap import distance
from edgemem.plans import OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.proof import Cause, prove, verify_planset
from edgemem.proof.marks import Marks
from edgemem.proof.rehearsal import rehearse
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import Target

PLAIN = Target("test", alignment=4, inputs="until_last_use", outputs="to_end", aliasing="elementwise")
SLOTS = replace(PLAIN, slots=True)
OVERLAP = replace(PLAIN, kernels="tflm-reference")
Rows = list[tuple[int, int, int]]


def tensor(name: str, rows: int, kind: str = "activation", dtype: str = "float32") -> Tensor:
    """Of 16 bytes a row in float32."""
    return Tensor(name, dtype, (1, rows, 1, 4), kind)  # type: ignore[arg-type]


def cut(name: str, x: int, y: int, first: int, rows: int) -> Op:
    return Op(name, "SLICE", (x,), (y,), attributes={"begin": (0, first, 0, 0), "size": (1, rows, 1, 4)})


def join(name: str, inputs: tuple[int, ...], y: int) -> Op:
    return Op(name, "CONCATENATION", inputs, (y,), attributes={"axis": 1})


def conv(name: str, x: int, w: int, y: int) -> Op:
    about = {"kernel": (3, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (1, 0, 1, 0)}
    return Op(name, "CONV_2D", (x, w), (y,), attributes=about)


def plan_of(
    graph: Graph, offsets: dict[str, int], target: Target, overlap: Rows | None = None, within: Rows | None = None
) -> PlanSet:
    """A record for each tensor, in use from the operator that makes it to the last one that reads it."""
    end = len(graph.ops) - 1
    first = {i: k for k, op in reversed(list(enumerate(graph.ops))) for i in op.outputs}
    last = {i: k for k, op in enumerate(graph.ops) for i in op.inputs} | dict.fromkeys(graph.outputs, end)
    records = [
        UsageRecord(t.name, first.get(i, 0), last.get(i, first.get(i, 0)), t.size, "tensor", (t.name,))
        for i, t in enumerate(graph.tensors)
        if t.name in offsets
    ]
    problem = Problem(records, alignment=target.alignment, overlap=overlap or (), within=within or ())
    column = np.array([offsets[r.name] for r in records], np.int64)
    size = int((column + problem.size).max())
    bounds = lower_bounds(problem)
    return PlanSet(
        problem,
        naive_size(problem),
        bounds,
        (OffsetPlan("hand", {}, column, size, optimal=size == bounds.offsets),),
        (),
        target=target,
        digest=digest(graph),
        steps=tuple(op.name for op in graph.ops),
    )


def refused(graph: Graph, offsets: dict[str, int], target: Target) -> set[Cause]:
    return {v.cause for v in rehearse(plan_of(graph, offsets, target), graph)}


# x (4 rows) -> f -> p (4 rows); s = rows 1 to 3 of p; t = rows 1 and 2 of s; the output is made of t.
CHAIN = Graph(
    "g",
    (tensor("x", 4), tensor("p", 4), tensor("s", 3), tensor("t", 2), tensor("y", 2), tensor("w", 1, "constant")),
    (Op("f", "SOFTMAX", (0,), (1,)), cut("g", 1, 2, 1, 3), cut("h", 2, 3, 1, 2), Op("i", "SOFTMAX", (3,), (4,))),
    (0,),
    (4,),
)
APART = {"x": 0, "p": 64, "s": 128, "t": 192, "y": 256}


def test_only_the_profile_says_which_result_may_lie_on_its_input() -> None:
    for kind, kernels, causes in (
        ("NEG", "none", set()),
        ("NEG", "tflm-reference", set()),
        ("Neg", "none", set()),
        ("Neg", "tflm-reference", {Cause.CLOBBERED_INPUT}),  # no kernel of that library
    ):
        ops = (Op("f", "SOFTMAX", (0,), (1,)), Op("g", kind, (1,), (2,)), Op("h", "SOFTMAX", (2,), (3,)))
        graph = Graph("g", tuple(tensor(name, 4) for name in "xaby"), ops, (0,), (3,))
        places = {"x": 0, "a": 64, "b": 64, "y": 0}
        assert refused(graph, places, replace(PLAIN, kernels=kernels)) == causes, (kind, kernels)


def test_a_slice_of_a_slice_lies_in_its_place_alone() -> None:
    inside = {"x": 0, "p": 64, "s": 80, "t": 96, "y": 0}
    assert not refused(CHAIN, APART, PLAIN)
    assert not refused(CHAIN, inside, SLOTS)
    assert refused(CHAIN, inside, PLAIN) == {Cause.CLOBBERED_INPUT}
    for moved in ({"s": 84}, {"s": 76}, {"t": 100}, {"t": 92}, {"s": 64}, {"y": 112}):
        assert refused(CHAIN, inside | moved, SLOTS), moved
    # `s` is elsewhere, and so is what is in its place in `p`.
    assert not refused(CHAIN, inside | {"s": 128, "t": 144}, SLOTS)
    assert refused(CHAIN, inside | {"s": 128}, SLOTS) == set()


def test_slices_that_share_rows_lie_in_their_places() -> None:
    """s and t are rows 0 to 1 and 1 to 2 of p; both are read after p has ended, and r is made between the two."""
    tensors = (tensor("x", 4), tensor("p", 3), tensor("s", 2), tensor("t", 2), tensor("r", 1), tensor("y", 2))
    ops = (
        Op("f", "SOFTMAX", (0,), (1,)),
        cut("g", 1, 2, 0, 2),
        cut("h", 1, 3, 1, 2),
        Op("i", "MEAN", (2,), (4,)),
        Op("j", "SOFTMAX", (3,), (5,)),
    )
    graph = Graph("g", tensors, ops, (0,), (4, 5))
    places = {"x": 0, "p": 64, "s": 64, "t": 80, "r": 0, "y": 16}
    rows = [(2, 1, 0), (3, 1, 16)]
    planset = plan_of(graph, places, SLOTS, within=rows)
    assert verify_planset(planset, graph) == ()
    assert planset.bounds.offsets == 112  # f needs x and p
    assert not refused(graph, places, SLOTS)
    assert refused(graph, places, PLAIN)
    for moved in ({"s": 68}, {"s": 80}, {"t": 64}, {"t": 84}):
        assert refused(graph, places | moved, SLOTS), moved
    # r in the rows that s and t share, in those of s alone, which is still read, and in those of t alone.
    for at in (80, 64, 96):
        assert refused(graph, places | {"r": at}, SLOTS), at
        found = verify_planset(plan_of(graph, places | {"r": at}, SLOTS, within=rows), graph)
        assert Cause.OVERLAP in {v.cause for v in found}
    # Where t has ended before r is made, and s has too, r may be there.
    early = replace(graph, ops=(*ops[:3], ops[4], Op("i", "MEAN", (2,), (4,))))
    assert not refused(early, places | {"r": 96}, SLOTS)
    assert refused(early, places | {"y": 80}, SLOTS)  # over s, which is read next


def test_the_whole_is_gone_once_a_byte_of_a_piece_is() -> None:
    """`r` is made of the slice, over it, and `p` is read afterwards."""
    tensors = (tensor("x", 4), tensor("p", 4), tensor("s", 2), tensor("r", 2), tensor("y", 4))
    ops = (
        Op("f", "SOFTMAX", (0,), (1,)),
        cut("g", 1, 2, 2, 2),
        Op("h", "RELU", (2,), (3,)),
        Op("i", "SOFTMAX", (1,), (4,)),
    )
    graph = Graph("g", tensors, ops, (0,), (3, 4))
    inside = {"x": 0, "p": 64, "s": 96, "r": 96, "y": 0}
    assert refused(graph, inside, SLOTS) == {Cause.OVERWRITTEN}
    assert not refused(graph, inside | {"r": 128}, SLOTS)
    early = replace(graph, ops=(ops[0], ops[1], ops[3], ops[2]))
    assert not refused(early, inside, SLOTS)


def test_concatenations_in_concatenations_and_slices_of_them() -> None:
    # c = (a, b), d = (c, e), s = rows 1 to 3 of d: in one place, all of them.
    tensors = tuple(
        tensor(n, rows) for n, rows in (("a", 2), ("b", 1), ("e", 1), ("c", 3), ("d", 4), ("s", 3), ("y", 3))
    )
    ops = (
        join("f", (0, 1), 3),
        join("g", (3, 2), 4),
        cut("h", 4, 5, 1, 3),
        Op("i", "SOFTMAX", (5,), (6,)),
    )
    graph = Graph("g", tensors, ops, (0, 1, 2), (6,))
    places = {"a": 0, "b": 32, "e": 48, "c": 0, "d": 0, "s": 16, "y": 64}
    assert not refused(graph, places, SLOTS)
    assert not refused(graph, places | {"b": 112}, SLOTS)  # really copied into its slot
    assert refused(graph, places, PLAIN)
    for moved in ({"b": 28}, {"b": 36}, {"e": 44}, {"c": 4}, {"d": 4}, {"s": 20}, {"s": 12}, {"y": 60}):
        assert refused(graph, places | moved, SLOTS), moved
    # `e` is where a copy of `b` goes.
    assert refused(graph, places | {"b": 112, "e": 32}, SLOTS)
    # What was a piece is read again: all that was written is what it held.
    again = replace(graph, ops=(*ops[:3], Op("j", "SOFTMAX", (1,), (7,)), ops[3]), tensors=(*tensors, tensor("z", 1)))
    assert not refused(again, places | {"z": 112}, SLOTS)
    assert refused(again, places | {"z": 112, "s": 64, "y": 16}, SLOTS) == set()


def test_a_piece_that_stands_twice_in_a_concatenation_has_no_slot() -> None:
    tensors = (tensor("x", 1), tensor("a", 1), tensor("c", 2), tensor("y", 2))
    ops = (Op("f", "SOFTMAX", (0,), (1,)), join("g", (1, 1), 2), Op("h", "SOFTMAX", (2,), (3,)))
    graph = Graph("g", tensors, ops, (0,), (3,))
    assert refused(graph, {"x": 0, "a": 32, "c": 32, "y": 64}, SLOTS) == {Cause.CLOBBERED_INPUT}


def test_split_in_place() -> None:
    tensors = (
        tensor("x", 4),
        tensor("p", 4),
        tensor("a", 2),
        tensor("b", 2),
        tensor("y", 2),
        tensor("k", 1, "constant"),
    )
    split = Op("g", "SPLIT", (5, 1), (2, 3), attributes={"axis": 1})
    graph = Graph("g", tensors, (Op("f", "SOFTMAX", (0,), (1,)), split, Op("h", "ADD", (2, 3), (4,))), (0,), (4,))
    assert not refused(graph, {"x": 0, "p": 64, "a": 64, "b": 96, "y": 64}, SLOTS)
    assert refused(graph, {"x": 0, "p": 64, "a": 96, "b": 64, "y": 64}, SLOTS)
    assert refused(graph, {"x": 0, "p": 64, "a": 64, "b": 92, "y": 0}, SLOTS)


def test_slots_are_of_the_graph_itself_and_of_arenas() -> None:
    inside = {"x": 0, "p": 64, "s": 80, "t": 96, "y": 0}
    planset = plan_of(CHAIN, inside, SLOTS)
    objects = SharedObjectsPlan("hand", {}, np.array([0, 1, 1, 1, 0]), (64, 64), 128, optimal=False)
    shared = replace(planset, offsets=(), shared_objects=(objects,))
    assert {v.cause for v in rehearse(shared, CHAIN)} == {Cause.CLOBBERED_INPUT}
    body = replace(CHAIN, name="body", number=1)
    names = tuple(replace(t, name=f"o{t.name}") for t in (CHAIN.tensors[0], CHAIN.tensors[4]))
    assert "CALL" in RUN_ONCE
    outer = Graph("g", names, (Op("call", "CALL", (0,), (1,), (body,)),), (0,), (1,))
    steps = ("call/body/f", "call/body/g", "call/body/h", "call/body/i", "call")
    for places, right in ((APART, True), (inside, False)):
        offsets = {"ox": 512, "oy": 640} | places
        records = [
            UsageRecord(n, 0, 4, next(t.size for t in (*names, *body.tensors) if t.name == n), "tensor", (n,))
            for n in offsets
        ]
        problem = Problem(records, alignment=4)
        plan = OffsetPlan("hand", {}, np.array(list(offsets.values())), 700, optimal=False)
        made = replace(planset, problem=problem, offsets=(plan,), digest=digest(outer), steps=steps)
        assert (list(rehearse(made, outer)) == []) == right


# x -> f -> a -> conv -> b -> y, one row after the other.
DIAGONAL = Graph(
    "g",
    (
        tensor("x", 8),
        tensor("a", 8),
        Tensor("w", "float32", (4, 3, 1, 4), "constant"),
        tensor("b", 8),
        tensor("y", 8),
    ),
    (Op("f", "SOFTMAX", (0,), (1,)), conv("g", 1, 2, 3), Op("h", "SOFTMAX", (3,), (4,))),
    (0,),
    (4,),
)


def test_an_output_lies_on_its_input_at_the_distance_of_the_kernels() -> None:
    least = distance("tflm-reference", DIAGONAL, DIAGONAL.ops[1], 0)
    assert least is not None
    least = -(-least // 4) * 4
    assert 0 < least < 128
    places = {"x": 256, "a": least, "b": 0, "y": 256}
    assert not refused(DIAGONAL, places, OVERLAP)
    assert refused(DIAGONAL, places | {"a": least - 4}, OVERLAP) == {Cause.CLOBBERED_INPUT}
    assert refused(DIAGONAL, places, PLAIN) == {Cause.CLOBBERED_INPUT}
    assert refused(DIAGONAL, places, replace(OVERLAP, kernels="none"))
    assert refused(DIAGONAL, places | {"a": 0, "b": least}, OVERLAP) == {Cause.CLOBBERED_INPUT}
    # It is read again.
    again = replace(DIAGONAL, ops=(*DIAGONAL.ops[:2], Op("h", "ADD", (1, 3), (4,))))
    assert refused(again, places, OVERLAP) == {Cause.OVERWRITTEN}
    kept = replace(DIAGONAL, outputs=(1, 4))
    assert refused(kept, places, OVERLAP) == {Cause.OVERWRITTEN}


def test_rows_are_claims() -> None:
    least = distance("tflm-reference", DIAGONAL, DIAGONAL.ops[1], 0)
    assert least is not None
    least = -(-least // 4) * 4
    places = {"x": 256, "a": least, "b": 0, "y": 256}
    right = plan_of(DIAGONAL, places, OVERLAP, overlap=[(1, 2, least)])
    assert not verify_planset(right, DIAGONAL)
    for target, overlap, within in (
        (OVERLAP, [(1, 2, least - 4)], []),
        (PLAIN, [(1, 2, least)], []),
        (replace(OVERLAP, kernels="esp-nn", slots=True), [(0, 1, 0)], []),
        (OVERLAP, [(0, 1, least)], []),
        (replace(OVERLAP, slots=True), [], [(1, 0, 0)]),
    ):
        apart = {"x": 512, "a": 512 if within else 384, "b": 0, "y": 256}
        planset = plan_of(DIAGONAL, apart, target, overlap, within)
        assert Cause.NOT_PERMITTED in {v.cause for v in verify_planset(planset, DIAGONAL)}, (overlap, within)
    inside = {"x": 0, "p": 64, "s": 80, "t": 96, "y": 0}
    rows = [(2, 1, 16), (3, 2, 16)]
    assert not verify_planset(plan_of(CHAIN, inside, SLOTS, within=rows), CHAIN)
    found = verify_planset(plan_of(CHAIN, inside, PLAIN, within=rows), CHAIN)
    assert Cause.NOT_PERMITTED in {v.cause for v in found}


def test_a_proof_is_for_the_attributes_that_it_was_made_with() -> None:
    """The digest of a graph does not have them, and distances follow from them."""
    places = {"x": 256, "a": 20, "b": 0, "y": 256}
    tall = replace(DIAGONAL.ops[1], attributes={**DIAGONAL.ops[1].attributes, "kernel": (3, 1), "pads": (1, 0, 1, 0)})
    flat = replace(tall, attributes={**tall.attributes, "kernel": (1, 1), "pads": (0, 0, 0, 0)})
    other = replace(DIAGONAL, ops=(DIAGONAL.ops[0], flat, DIAGONAL.ops[2]))
    least = distance("tflm-reference", other, flat, 0)
    assert least is not None
    assert least <= 16
    assert digest(other) == digest(DIAGONAL)
    planset = plan_of(other, places, OVERLAP, overlap=[(1, 2, 16)])
    prove(planset, other)
    with pytest.raises(InvalidPlanError):
        prove(planset, DIAGONAL)


def test_a_plan_for_one_profile_is_proved_again_for_another() -> None:
    # With output channels outermost, a 1x1 convolution of int8 overlaps nothing in CMSIS-NN.
    tensors = tuple(
        replace(t, dtype="int8", shape=(1, 8, 1, 4)) if t.kind != "constant" else t for t in DIAGONAL.tensors
    )
    about = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    tensors = (*tensors[:2], Tensor("w", "int8", (4, 1, 1, 4), "constant"), *tensors[3:])
    op = Op("g", "CONV_2D", (1, 2), (3,), attributes=about)
    graph = Graph("g", tensors, (DIAGONAL.ops[0], op, DIAGONAL.ops[2]), (0,), (4,))
    least = distance("tflm-reference", graph, op, 0)
    assert least is not None
    assert distance("cmsis-nn-dsp", graph, op, 0) is None
    planset = plan_of(graph, {"x": 64, "a": 4, "b": 0, "y": 64}, OVERLAP, overlap=[(1, 2, 4)])
    prove(planset, graph)
    prove(planset, graph, kernels="tflm-reference")
    with pytest.raises(InvalidPlanError, match="lies on the input"):
        prove(planset, graph, kernels="cmsis-nn-dsp")
    with pytest.raises(InvalidPlanError, match="lies on the input"):
        prove(planset, graph, kernels="none")
    prove(
        plan_of(graph, {"x": 64, "a": 32, "b": 0, "y": 64}, OVERLAP, overlap=[(1, 2, 4)]), graph, kernels="cmsis-nn-dsp"
    )
    prove(planset, graph)


def test_marks_follow_bytes() -> None:
    marks = Marks({"p": (0, 100), "s": (20, 40), "t": (30, 40), "a": (10, 21), "b": (40, 50), "e": (60, 60)})
    for name, kept in (("p", ()), ("s", ((20, 40),)), ("t", ((30, 40),)), ("e", ())):
        marks.write(name, kept)
    assert all(map(marks.is_intact, "pste"))
    marks.write("a")
    assert [marks.is_intact(n) for n in "psta"] == [False, False, True, True]
    assert (marks.overwriter("p"), marks.overwriter("s"), marks.overwriter("t")) == ("a", "a", "")
    marks.write("b")
    assert marks.is_intact("t")
    marks.write("p", ((0, 30), (40, 100)))  # what is between is written
    assert [marks.is_intact(n) for n in "psabt"] == [True, False, True, True, False]


def nested(count: int) -> tuple[Graph, dict[str, int]]:
    """A concatenation of a concatenation of ..., all in one place."""
    tensors = [tensor("x0", 1)]
    ops = []
    offsets = {"x0": 0}
    for k in range(1, count):
        tensors += [tensor(f"x{k}", 1), tensor(f"c{k}", k + 1)]
        before = 0 if k == 1 else 2 * k - 2
        ops.append(join(f"op{k}", (before, 2 * k - 1), 2 * k))
        offsets |= {f"x{k}": 16 * k, f"c{k}": 0}
    inputs = tuple(i for i, t in enumerate(tensors) if t.name[0] == "x")
    return Graph("g", tuple(tensors), tuple(ops), inputs, (len(tensors) - 1,)), offsets


def test_deep_nests_take_bounded_time_and_memory() -> None:
    graph, offsets = nested(1000)
    begin = time.process_time()
    assert not refused(graph, offsets, SLOTS)
    assert time.process_time() - begin < 10


@pytest.mark.full
def test_thousands_of_operators_in_stripes_are_proved_in_seconds() -> None:
    """A window of three rows that moves on row by row: slice, concatenation, convolution; 4,000 operators."""
    tensors = [tensor("x", 1), Tensor("w", "float32", (4, 3, 1, 4), "constant"), tensor("w0", 3)]
    ops = [Op("first", "TILE", (0,), (2,))]
    offsets = {"x": 0, "w0": 64}
    window = 2
    about = {"kernel": (3, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    pieces = []
    for k in range(1000):
        base = len(tensors)
        tensors += [tensor(f"y{k}", 1), tensor(f"t{k}", 2), tensor(f"n{k}", 1), tensor(f"w{k + 1}", 3)]
        ops += [
            Op(f"conv{k}", "CONV_2D", (window, 1), (base,), attributes=about),
            cut(f"cut{k}", window, base + 1, 1, 2),
            Op(f"new{k}", "SOFTMAX", (base,), (base + 2,)),
            join(f"join{k}", (base + 1, base + 2), base + 3),
        ]
        # The tail moves to the front of the window, over rows that are read no more.
        offsets |= {f"y{k}": 256 + 16 * k, f"t{k}": 64, f"n{k}": 96, f"w{k + 1}": 64}
        pieces.append(base)
        window = base + 3
    tensors.append(tensor("y", 1000))
    ops.append(join("all", tuple(pieces), len(tensors) - 1))
    offsets["y"] = 256
    graph = Graph("g", tuple(tensors), tuple(ops), (0,), (len(tensors) - 1, window))
    target = replace(OVERLAP, slots=True)
    planset = plan_of(graph, offsets, target)
    begin = time.process_time()
    assert list(rehearse(planset, graph)) == []
    assert time.process_time() - begin < 5
    assert refused(graph, offsets | {"n500": 92}, target)


def test_what_has_no_place_is_in_no_slot_and_has_none() -> None:
    """`x` and `y` are outside the arena; one piece of `g` lies in its place there."""
    tensors = (tensor("x", 4), tensor("f", 2), tensor("g", 6), tensor("y", 6))
    ops = (cut("f", 0, 1, 0, 2), join("g", (0, 1), 2), Op("h", "SOFTMAX", (2,), (3,)))
    graph = Graph("g", tensors, ops, (0,), (3,))
    target = replace(SLOTS, inputs="outside", outputs="outside")
    prove(plan_of(graph, {"f": 64, "g": 0}, target, within=[(0, 1, 64)]), graph)
    with pytest.raises(InvalidPlanError):
        prove(plan_of(graph, {"f": 60, "g": 0}, target, within=[(0, 1, 60)]), graph)
