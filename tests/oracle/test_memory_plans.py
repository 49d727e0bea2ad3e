"""The checker of memory plans itself: right plans made by hand are right, and each wrong one is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgemem import OffsetPlan, PlanSet, Problem, SharedObjectsPlan, Target, UsageRecord
from edgemem.plans import LowerBounds
from edgemem.targets import BUILT_IN, Region
from tests.oracle.memory_plans.checker import Checker
from tests.oracle.memory_plans.onnx_file import read_onnx
from tests.oracle.memory_plans.tflite_file import offline_offsets, patched_offsets, read_tflite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.oracle.memory_plans.program import Program

Rows = "Sequence[tuple[str, int, Any]]"  # names apart by spaces, offset or object, size

BYTES = Target("bytes", alignment=4)
INSIDE = Target("inside", alignment=4, inputs="until_last_use", outputs="to_end")


def model(text: str) -> Program:
    """An ONNX model in onnx's own text form."""
    return read_onnx(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}').SerializeToString())


def planset(rows: Sequence[tuple[str, int, Any]], target: Target, *, size: int | None = None, **plan: Any) -> PlanSet:
    """An offset plan; nothing else in it is of interest to the checker."""
    records = [UsageRecord(names.split()[0], 0, 0, n, tensors=tuple(names.split())) for names, _, n in rows]
    problem = Problem(records)
    places = np.array([place for _, place, _ in rows], np.int64)
    end = int((places + problem.size).max(initial=0)) if size is None else size
    made = OffsetPlan("by hand", {}, places, end, optimal=False, **plan)
    return PlanSet(problem, 0, LowerBounds(0, 0), (made,), (), target=target)


def objects(rows: Sequence[tuple[str, int, Any]], sizes: Sequence[Any], target: Target) -> PlanSet:
    """A shared-objects plan."""
    records = [UsageRecord(names.split()[0], 0, 0, n, tensors=tuple(names.split())) for names, _, n in rows]
    made = SharedObjectsPlan("by hand", {}, np.array([k for _, k, _ in rows], np.int64), tuple(sizes), 0, optimal=False)
    return PlanSet(Problem(records), 0, LowerBounds(0, 0), (), (made,), target=target)


CHAIN = model(
    """g (float[4] x) => (float[4] y)
    { a = Softmax(x) b = Softmax(a) c = Add(a, b) y = Softmax(c) }"""
)


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ([("a", 0, 16), ("b", 16, 16), ("c", 32, 16)], True),
        ([("a c", 0, 16), ("b", 16, 16)], True),  # Add over its first input
        ([("a", 0, 16), ("b c", 16, 16)], True),  # or its second
        ([("a b", 0, 16), ("c", 16, 16)], False),  # a is read after b
        ([("a", 0, 16), ("b", 8, 16), ("c", 32, 16)], False),
        ([("a", 0, 16), ("b", 16, 16), ("c", 4, 16)], False),  # over the input, but at another place
        ([("a", 0, 16), ("b", 16, 16)], False),  # c has no place
        ([("a", 0, 16), ("b", 16, 16), ("c", 32, 12)], False),  # too small a record
        ([("a", 0, 16), ("b", 16, 16), ("c", 34, 16)], False),  # no multiple of the alignment
        ([("a", 0, 16), ("b", 16, 16), ("c", -16, 16)], False),
    ],
)
def test_chain(rows: Any, right: bool) -> None:
    assert (Checker(CHAIN).wrongs(planset(rows, BYTES)) == []) == right


def test_an_arena_that_is_too_small() -> None:
    rows = [("a", 0, 16), ("b", 16, 16), ("c", 32, 16)]
    assert Checker(CHAIN).wrongs(planset(rows, BYTES, size=47))
    assert not Checker(CHAIN).wrongs(planset(rows, BYTES, size=48))


def test_nothing_is_in_place_where_nothing_may_be() -> None:
    rows = [("a c", 0, 16), ("b", 16, 16)]
    assert Checker(CHAIN).wrongs(planset(rows, replace(BYTES, aliasing="none")))


def test_a_tensor_with_two_places_is_right_at_both_or_wrong() -> None:
    rows = [("a", 0, 16), ("b", 16, 16), ("c", 32, 16)]
    assert not Checker(CHAIN).wrongs(planset([*rows, ("c", 48, 16)], BYTES))
    assert Checker(CHAIN).wrongs(planset([*rows, ("b", 0, 16)], BYTES))
    assert Checker(CHAIN).wrongs(planset([("b", 0, 16), *rows], BYTES))
    # A record that lists no tensors is one of the tensor that it is called after.
    wrong = planset([*rows, ("b", 0, 16)], BYTES)
    named = [*wrong.problem.records[:-1], UsageRecord("b", 0, 0, 0)]
    assert Checker(CHAIN).wrongs(replace(wrong, problem=Problem(named)))


@pytest.mark.parametrize("reader", ["Softmax(a)", "Cast<to = 11>(a)"])
def test_in_place_results_of_another_size(reader: str) -> None:
    program = model(
        f"g (float[4] x) => (double[4] y) {{ a = Softmax(x) b = {reader} c = Cast<to = 11>(b) y = Sin(c) }}"
    )
    size = 16 if reader == "Softmax(a)" else 32
    apart = [("a", 0, 16), ("b", 64, size), ("c", 128, 32)]
    assert not Checker(program).wrongs(planset(apart, BYTES))
    over = [("a", 0, 16), ("b", 64, 32), ("c", 64, 32)] if size == 16 else [("a", 0, 32), ("b", 0, 32), ("c", 128, 32)]
    assert Checker(program).wrongs(planset(over, BYTES))


def test_in_place_over_elements_of_another_width() -> None:
    # Two exponents of 8 bytes are as many bytes as four results, and one of them is read for two results.
    program = model(
        """g (float[2,2] x, int64[2,1] n) => (float[2,2] y)
        { e = Abs(n) b = Sin(x) p = Pow(b, e) y = Softmax(p) }"""
    )
    assert not Checker(program).wrongs(planset([("e", 0, 16), ("b", 16, 16), ("p", 32, 16)], BYTES))
    assert not Checker(program).wrongs(planset([("e", 0, 16), ("b p", 16, 16)], BYTES))
    assert Checker(program).wrongs(planset([("e p", 0, 16), ("b", 16, 16)], BYTES))


def test_views_are_where_their_input_is_or_copied() -> None:
    program = model("g (float[4] x) => (float[4] y) { a = Sin(x) v = Flatten<axis = 0>(a) y = Softmax(v) }")
    assert not Checker(program).wrongs(planset([("a v", 0, 16)], BYTES))
    assert not Checker(program).wrongs(planset([("a", 0, 16), ("v", 16, 16)], BYTES))
    assert Checker(program).wrongs(planset([("a", 0, 16), ("v", 8, 16)], BYTES))


def test_inputs_in_the_arena() -> None:
    program = model("g (float[4] x, float[4] unread) => (float[4] y) { a = Softmax(x) y = Softmax(a) }")
    right = [("x", 0, 16), ("unread", 16, 16), ("a", 32, 16), ("y", 0, 16)]
    assert not Checker(program).wrongs(planset(right, INSIDE))
    assert Checker(program).wrongs(planset([("unread", 0, 16), *right[:1], *right[2:]], INSIDE))
    assert Checker(program).wrongs(planset(right, replace(INSIDE, inputs="whole_run")))


def test_outputs_stay_to_the_end() -> None:
    program = model("g (float[4] x) => (float[4] y, float[4] z) { y = Sin(x) z = Softmax(y) }")
    rows = [("x", 0, 16), ("y", 0, 16), ("z", 16, 16)]
    assert not Checker(program).wrongs(planset(rows, INSIDE))
    assert Checker(program).wrongs(planset([("x", 0, 16), ("y", 0, 16), ("z", 0, 16)], INSIDE))


def test_states_keep_their_bytes_and_are_one() -> None:
    program = model(
        "g (float[4] past, float[4] x) => (float[4] present, float[4] y) "
        "{ s = Softmax(past) present = Add(past, x) y = Softmax(s) }"
    )
    target = replace(BYTES, states={"past": "present"})
    assert not Checker(program).wrongs(planset([("past present", 0, 16), ("s", 16, 16)], target))
    assert Checker(program).wrongs(planset([("past", 0, 16), ("present", 32, 16), ("s", 16, 16)], target))
    assert Checker(program).wrongs(planset([("past present", 0, 16), ("s", 0, 16)], target))


def test_regions_reserved_ranges_and_pins() -> None:
    rows = [("a", 0, 16), ("b", 16, 16), ("c", 32, 16)]
    two = replace(BYTES, regions=(Region("near", 32), Region("far")))
    plan: Mapping[str, Any] = {"regions": np.array([0, 0, 1]), "region_sizes": (32, 48)}
    assert not Checker(CHAIN).wrongs(planset(rows, two, size=80, **plan))
    assert Checker(CHAIN).wrongs(planset(rows, two))  # 48 bytes in a region of 32
    assert Checker(CHAIN).wrongs(planset(rows, BYTES, size=80, **plan))  # no second region
    assert Checker(CHAIN).wrongs(planset(rows, replace(BYTES, regions=(Region("r", None, ((40, 44),)),))))
    assert not Checker(CHAIN).wrongs(planset(rows, replace(BYTES, pins={"b": 16})))
    assert Checker(CHAIN).wrongs(planset(rows, replace(BYTES, pins={"b": 0})))


def test_orders() -> None:
    rows = [("a c", 0, 16), ("b", 16, 16)]
    assert not Checker(CHAIN).wrongs(replace(planset(rows, BYTES), order=(0, 1, 2, 3)))
    assert Checker(CHAIN).wrongs(replace(planset(rows, BYTES), order=(1, 0, 2, 3)))
    assert Checker(CHAIN).wrongs(replace(planset(rows, BYTES), order=(0, 1)))
    program = model("g (float[4] x) => (float[4] y) { a = Sin(x) b = Sin(a) c = Neg(b) d = Erf(a) y = Add(c, d) }")
    apart = planset([("a d", 0, 16), ("b c", 16, 16)], BYTES)
    assert not Checker(program).wrongs(apart)
    assert Checker(program).wrongs(replace(apart, order=(0, 3, 1, 2, 4)))  # d is over a before b reads it


TEXTURES = Target("textures", alignment=1, texels=True, aliasing="none")


def test_textures_have_a_form() -> None:
    program = model("g (float[1,8,1,2] x) => (float[1,8,1,2] y) { a = Sin(x) b = Sin(a) y = Sin(b) }")
    target = TEXTURES  # width 2, height 2
    rows = [("a", 0, (2, 2)), ("b", 1, (2, 2))]
    assert not Checker(program).wrongs(objects(rows, [(2, 2), (2, 3)], target))
    assert Checker(program).wrongs(objects(rows, [(2, 2), (4, 1)], target))
    assert Checker(program).wrongs(objects([("a", 0, (4, 1)), ("b", 1, (2, 2))], [(4, 1), (2, 2)], target))
    assert Checker(program).wrongs(objects([("a", 0, (2, 2)), ("b", 0, (2, 2))], [(2, 2)], target))


def test_a_view_of_another_form_is_no_view_in_textures() -> None:
    program = model("g (float[1,8,1,2] x) => (float[16] y) { a = Sin(x) v = Flatten<axis = 0>(a) y = Sin(v) }")
    target = replace(TEXTURES, aliasing="elementwise")
    assert not Checker(program).wrongs(objects([("a", 0, (2, 2)), ("v", 1, (1, 4))], [(2, 2), (1, 4)], target))
    assert Checker(program).wrongs(objects([("a v", 0, (2, 4))], [(2, 4)], target))


LOOP = """g (float[4] x, bool on) => (float[4] y) <int64 n = {3}> {
    s = Sin(x)
    l = Loop<body = b (int64 i, bool c, float[4] v) => (bool k, float[4] w)
        { k = Identity(c) t = Softmax(v) w = Add(t, v) }>(n, on, s)
    y = Softmax(l)
}"""
LOOP_ROWS = [("s", 0, 16), ("l", 16, 16), ("i", 32, 8), ("c k", 40, 1), ("v w", 48, 16), ("t", 64, 16)]


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"t": 32}, False),  # over the round's number and the condition
        ({"l": 48}, True),  # the last values are the results
        ({"t": 0}, True),  # the first values were copied before
        ({"l": 0}, True),
    ],
)
def test_loops(change: Mapping[str, int], right: bool) -> None:
    shapes = dict.fromkeys(("l", "s", "t", "w", "y"), ("float32", (4,)))
    file = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {LOOP}').SerializeToString()
    rows = [(names, change.get(names.split()[0], at), size) for names, at, size in LOOP_ROWS]
    assert (Checker(read_onnx(file, shapes=shapes)).wrongs(planset(rows, BYTES)) == []) == right


def test_what_a_body_reads_from_around_it_stays_for_all_rounds() -> None:
    text = LOOP.replace("Add(t, v)", "Add(t, s)")
    file = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}').SerializeToString()
    shapes = dict.fromkeys(("l", "s", "t", "w", "y"), ("float32", (4,)))
    rows = [("s", 0, 16), ("l", 16, 16), ("i", 32, 8), ("c k", 40, 1), ("v", 48, 16), ("t w", 64, 16)]
    assert not Checker(read_onnx(file, shapes=shapes)).wrongs(planset(rows, BYTES))
    over = [(names, 0 if names == "t w" else at, size) for names, at, size in rows]
    assert Checker(read_onnx(file, shapes=shapes)).wrongs(planset(over, BYTES))


# TensorFlow Lite.


def micro_loop() -> bytes:
    """A WHILE over a counter in the arena, with one temporary in its condition."""
    from tests.oracle.memory_plans.tflite_builder import File

    file = File()
    main, condition, body = (file.graph(n) for n in "mcb")
    x, zero = main.tensor("int32", (4,), name="x"), main.tensor("int32", (4,), np.zeros(4, np.int32))
    start, result, end = (main.tensor("int32", (4,), name=n) for n in ("start", "result", "end"))
    main.inputs, main.outputs = [x], [end]
    main.call("ADD", [x, zero], [start])
    main.call("WHILE", [start], [result], condSubgraphIndex=1, bodySubgraphIndex=2)
    main.call("ADD", [result, zero], [end])
    seen = condition.tensor("int32", (4,), name="seen")
    temporary, on = condition.tensor("int32", (4,), name="temporary"), condition.tensor("bool", (4,), name="on")
    limit = condition.tensor("int32", (4,), np.full(4, 3, np.int32))
    condition.inputs, condition.outputs = [seen], [on]
    condition.call("ADD", [seen, limit], [temporary])
    condition.call("LESS", [temporary, limit], [on])
    before, after = body.tensor("int32", (4,), name="before"), body.tensor("int32", (4,), name="after")
    body.inputs, body.outputs = [before], [after]
    body.call("ADD", [before, body.tensor("int32", (4,), np.ones(4, np.int32))], [after])
    return file.content()


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"WHILE_1.0/temporary": 32}, False),  # the loop's values are in the operator's result meanwhile
        ({"WHILE_1.0/on": 32}, False),
        ({"WHILE_1.0/temporary": 16}, True),  # what it began with is not needed any more
        ({"WHILE_1.1/before WHILE_1.1/after": 16}, True),
        ({"WHILE_1.1/before WHILE_1.1/after": 32}, True),  # at one place with it
        ({"WHILE_1.1/before WHILE_1.1/after": 40}, False),
        ({"WHILE_1.0/seen": 16}, True),
        ({"end": 0}, True),
    ],
)
def test_loops_of_tensorflow_lite_micro(change: Mapping[str, int], right: bool) -> None:
    pytest.importorskip("ai_edge_litert")
    target = replace(BUILT_IN["tflm"], alignment=4, aliasing="elementwise")  # the loop's ADD is in place
    names = ["x", "start", "result", "end", "WHILE_1.0/seen", "WHILE_1.0/temporary", "WHILE_1.0/on"]
    names.append("WHILE_1.1/before WHILE_1.1/after")
    rows = [(n, change.get(n, 16 * k), 4 if n.endswith("/on") else 16) for k, n in enumerate(names)]
    program = read_tflite(micro_loop())
    assert (Checker(program).wrongs(planset(rows, target)) == []) == right


def test_elements_narrower_than_a_byte() -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.oracle.memory_plans.tflite_builder import File

    file = File()
    main = file.graph("m")
    x, a, y = (
        main.tensor("float32", (7,), name="x"),
        main.tensor("int4", (7,), name="a"),
        main.tensor("int4", (7,), name="y"),
    )
    main.inputs, main.outputs = [x], [y]
    main.call("QUANTIZE", [x], [a])
    main.call("ABS", [a], [y])
    program = read_tflite(file.content())
    rows = [("x", 0, 28), ("a y", 32, 4)]
    assert not Checker(program).wrongs(planset(rows, replace(INSIDE, sub_byte="packed")))
    assert Checker(program).wrongs(planset(rows, replace(INSIDE, sub_byte="unpacked")))
    assert not Checker(program).wrongs(planset([("x", 0, 28), ("a y", 32, 7)], replace(INSIDE, sub_byte="unpacked")))


def test_workspace() -> None:
    target = replace(INSIDE, scratch="litert", bodies="outside")
    program = model("g (float[4] x) => (float[4] y) { a = Softmax(x) y = Softmax(a) }")
    label = program.main.calls[1].label
    checker = Checker(program, {label: (8,)})
    rows = [("x", 0, 16), ("a", 16, 16), ("y", 32, 16)]
    assert checker.wrongs(planset(rows, target))  # there is none for the second operator
    for at, size, right in ((0, 8, True), (48, 8, True), (16, 8, False), (40, 8, False), (0, 4, False)):
        made = planset([*rows, (f"{label}:scratch0", at, size)], target)
        assert (checker.wrongs(made) == []) == right


def test_offsets_in_a_file_are_read_and_changed() -> None:
    pytest.importorskip("ai_edge_litert")
    from edgemem import plan
    from edgemem.formats import open_bytes
    from tests.oracle.memory_plans.micro_file import wrongs_of_offsets
    from tests.oracle.memory_plans.tflite_builder import File

    file = File()
    main = file.graph("m")
    t = [main.tensor("float32", (4,), name=n) for n in "xaby"]
    main.inputs, main.outputs = t[:1], t[3:]
    for kind, ins, out in (("TANH", t[:1], t[1]), ("SOFTMAX", t[1:2], t[2]), ("ADD", t[1:3], t[3])):
        main.call(kind, ins, [out])
    source = open_bytes(file.content(), ".tflite")
    data = source.with_offsets(plan(source, target="tflm")).content()  # type: ignore[attr-defined]
    offsets = offline_offsets(data)
    assert offsets is not None
    assert set(offsets) == {(0, k) for k in range(4)}
    assert not wrongs_of_offsets(data)
    assert wrongs_of_offsets(patched_offsets(data, dict.fromkeys(range(4), 0)))
    assert wrongs_of_offsets(patched_offsets(data, {0: 8}))
    assert not wrongs_of_offsets(patched_offsets(data, dict.fromkeys(range(4), -1)))


def test_sizes_are_those_of_the_dtype() -> None:
    made = {
        TensorProto.FLOAT: 12, TensorProto.DOUBLE: 24, TensorProto.FLOAT16: 6, TensorProto.BOOL: 3,
        TensorProto.INT4: 2, TensorProto.INT64: 24,
    }  # fmt: skip
    for elem_type, size in made.items():
        info = helper.make_tensor_value_info("x", elem_type, (3,))
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "g",
            [info],
            [helper.make_tensor_value_info("y", elem_type, (3,))],
        )
        assert read_onnx(helper.make_model(graph).SerializeToString()).values["x"].size() == size
