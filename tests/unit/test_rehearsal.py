"""What the rehearsal knows without the plan: sizes, forms, workspace, in-place operators and control flow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgemem
from edgemem.model.graph import Graph, Op, Tensor, digest
from edgemem.plans import LEFT_TO_RUNTIME, OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.proof import Cause, verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import Target

RULES = Target("test", alignment=16)
INSIDE = replace(RULES, inputs="until_last_use", outputs="to_end")


def tensor(name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32", **more: str) -> Tensor:
    return Tensor(name, dtype, shape, **more)  # type: ignore[arg-type]


def by_hand(graph: Graph, target: Target, rows: list[tuple[UsageRecord, int]], alignment: int = 0) -> PlanSet:
    """A plan set with these records at these offsets, whose claims about itself are right."""
    problem = Problem([record for record, _ in rows], alignment=alignment or target.alignment)
    offsets = np.array([offset for _, offset in rows], np.int64)
    bounds = lower_bounds(problem)
    size = int((offsets + problem.size).max(initial=0))
    plan = OffsetPlan("hand", {}, offsets, size, optimal=size == bounds.offsets)
    made = lifetimes(graph, target)
    return PlanSet(
        problem, naive_size(problem), bounds, (plan,), (), target=target, digest=digest(graph), steps=made.steps
    )


def record(name: str, first: int, last: int, size: int, *tensors: str, kind: str = "tensor") -> UsageRecord:
    return UsageRecord(name, first, last, size, kind, tensors or (name,))  # type: ignore[arg-type]


def causes(planset: PlanSet, graph: Graph) -> set[Cause]:
    return {v.cause for v in verify_planset(planset, graph)}


# x -> a (f) -> b (g) -> y (h); the caller holds x and y.
def chain(*types: str, shapes: tuple[tuple[int, ...], ...] = ((4,),) * 4, dtypes: tuple[str, ...] = ()) -> Graph:
    made = dtypes or ("float32",) * 4
    tensors = tuple(Tensor(n, d, s) for n, d, s in zip("xaby", made, shapes, strict=True))
    ops = tuple(Op(name, kind, (k,), (k + 1,)) for k, (name, kind) in enumerate(zip("fgh", types, strict=True)))
    return Graph("g", tensors, ops, (0,), (3,))


CONVS = chain("Conv", "Conv", "Conv")
GOOD = [(record("a", 0, 1, 16), 0), (record("b", 1, 2, 16), 16)]


def test_a_plan_by_hand_is_right() -> None:
    assert verify_planset(by_hand(CONVS, RULES, GOOD), CONVS) == ()


@pytest.mark.parametrize("extra", [(), ("a",), ("x",), ("gone",)])
def test_a_record_beyond_the_tensors_is_refused(extra: tuple[str, ...]) -> None:
    # At the end of the arena and over a tensor: executors would write there in the name of a tensor.
    for offset in (0, 32):
        rows = [*GOOD, (UsageRecord("b", 0, 0, 0, "tensor", extra), offset)]
        assert causes(by_hand(CONVS, RULES, rows), CONVS) & {Cause.UNKNOWN_TENSOR, Cause.TWO_PLACES} or extra == ("x",)
        assert verify_planset(by_hand(CONVS, RULES, rows), CONVS)


@pytest.mark.parametrize(
    ("kind", "shapes", "dtypes"),
    [
        ("Add", ((1,), (1,), (8,), (8,)), ("float32",) * 4),  # broadcast
        ("Cast", ((4,),) * 4, ("float32", "float32", "float64", "float64")),  # wider elements
        ("Cast", ((4,),) * 4, ("float32", "float32", "float16", "float16")),
        # As many bytes, but element k does not lie on element k: [4] of 8 bytes over [8] of 4.
        ("Pow", ((4,), (4,), (8,), (8,)), ("int64", "int64", "float32", "float32")),
    ],
)
def test_in_place_needs_elements_alike(kind: str, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]) -> None:
    graph = chain("Conv", kind, "Conv", shapes=shapes, dtypes=dtypes)
    size = max(t.size for t in graph.tensors)
    planset = by_hand(graph, RULES, [(record("a", 0, 2, size, "a", "b"), 0)])
    assert Cause.CLOBBERED_INPUT in causes(planset, graph)
    alike = chain("Conv", "Relu", "Conv")
    assert verify_planset(by_hand(alike, RULES, [(record("a", 0, 2, 16, "a", "b"), 0)]), alike) == ()


def test_in_place_in_a_shared_object_needs_elements_alike_too() -> None:
    graph = chain("Conv", "Cast", "Conv", dtypes=("float32", "float32", "float64", "float64"))
    planset = by_hand(graph, RULES, [(record("a", 0, 2, 32, "a", "b"), 0)])
    objects = SharedObjectsPlan("hand", {}, np.array([0]), (32,), 32, optimal=True)
    assert Cause.CLOBBERED_INPUT in causes(replace(planset, offsets=(), shared_objects=(objects,)), graph)


def test_workspace_comes_from_the_graph() -> None:
    graph = replace(CONVS, ops=(CONVS.ops[0], replace(CONVS.ops[1], scratch=(100, 0, 8)), CONVS.ops[2]))
    one, two = record("g:scratch0", 1, 1, 100, kind="scratch"), record("g:scratch2", 1, 1, 8, kind="scratch")
    one, two = replace(one, tensors=()), replace(two, tensors=())
    assert verify_planset(by_hand(graph, RULES, [*GOOD, (one, 32), (two, 144)]), graph) == ()
    for wrong, cause in (
        ([(two, 32)], Cause.MISSING_TENSOR),
        ([(one, 32), (replace(two, first_op=2, last_op=2), 144)], Cause.WRONG_STEPS),
        ([(one, 32), (replace(two, last_op=2), 144)], Cause.WRONG_STEPS),
        ([(one, 32), (replace(two, size=4), 144)], Cause.RECORD_TOO_SMALL),
        ([(one, 32), (two, 144), (two, 160)], Cause.TWO_PLACES),
        ([(one, 32), (two, 144), (replace(two, name="h:scratch0"), 160)], Cause.UNKNOWN_TENSOR),
        ([(one, 32), (two, 144), (replace(one, name="other", tensors=("x",)), 160)], Cause.UNKNOWN_TENSOR),
        ([(one, 32), (two, 32)], Cause.CLOBBERED_INPUT),
        ([(one, 16), (two, 144)], Cause.CLOBBERED_INPUT),
    ):
        assert cause in causes(by_hand(graph, RULES, [*GOOD, *wrong]), graph), wrong


def test_a_texture_has_the_form_of_its_tensor() -> None:
    target = Target("textures", alignment=1, aliasing="none", texels=True)
    shape = (1, 6, 2, 8)  # height 6, width 2, two slices: 2 x 12 texels
    tensors = tuple(tensor(name, shape) for name in "xay")
    graph = Graph("g", tensors, (Op("f", "CONV_2D", (0,), (1,)), Op("g", "CONV_2D", (1,), (2,))), (0,), (2,), "nhwc")
    planset = edgemem.plan(graph, target=target)
    assert planset.problem.records[0].size == (2, 12)
    assert verify_planset(planset, graph) == ()
    problem = Problem([replace(r, size=(12, 2)) for r in planset.problem.records])
    plan = SharedObjectsPlan("hand", {}, np.zeros(1, np.int64), ((12, 2),), 24, optimal=True)
    assert causes(replace(planset, problem=problem, shared_objects=(plan,)), graph) == {Cause.RECORD_TOO_SMALL}


def test_no_input_lies_on_another_even_if_nothing_reads_it() -> None:
    tensors = tuple(tensor(name) for name in "xuay")
    graph = Graph("g", tensors, (Op("f", "Conv", (0,), (2,)), Op("g", "Conv", (2,), (3,))), (0, 1), (3,))
    x, u = record("x", 0, 0, 16, kind="input"), record("u", 0, 0, 16, kind="input")
    rest = [(record("a", 0, 1, 16), 16), (record("y", 1, 1, 16, kind="output"), 0)]
    assert verify_planset(by_hand(graph, INSIDE, [(x, 0), (u, 32), *rest]), graph) == ()
    # Behind the sweep's back: the records do not meet.
    late = replace(u, first_op=1, last_op=1)
    found = verify_planset(by_hand(graph, INSIDE, [(x, 0), (late, 0), rest[0], (rest[1][0], 32)]), graph)
    assert Cause.OVERWRITTEN in {v.cause for v in found}


def test_elements_narrower_than_a_byte_take_what_the_target_says() -> None:
    graph = chain("Conv", "Conv", "Conv", shapes=((9,),) * 4, dtypes=("int4",) * 4)
    rows = [(record("a", 0, 1, 5), 0), (record("b", 1, 2, 5), 16)]
    assert verify_planset(by_hand(graph, RULES, rows), graph) == ()
    unpacked = replace(RULES, sub_byte="unpacked")
    assert causes(by_hand(graph, unpacked, rows), graph) == {Cause.RECORD_TOO_SMALL}
    rows = [(record("a", 0, 1, 9), 0), (record("b", 1, 2, 9), 16)]
    assert verify_planset(by_hand(graph, unpacked, rows), graph) == ()


def test_offsets_are_aligned_as_the_target_wants_them() -> None:
    assert causes(by_hand(CONVS, RULES, GOOD, alignment=1), CONVS) == {Cause.MISALIGNED}
    assert verify_planset(by_hand(CONVS, RULES, GOOD, alignment=16), CONVS) == ()


def test_what_has_no_place_needs_none_whatever_the_plan_says() -> None:
    planset = by_hand(CONVS, RULES, GOOD[:1])
    for why in ("a graph input, held by the caller", "empty", LEFT_TO_RUNTIME):
        assert causes(replace(planset, unplanned=(("b", why),)), CONVS) == {Cause.MISSING_TENSOR}
    twice = replace(by_hand(CONVS, RULES, GOOD), unplanned=(("b", "empty"),))
    assert causes(twice, CONVS) == {Cause.TWO_PLACES}


def test_kinds_are_those_of_the_tensors() -> None:
    for kind in ("variable", "state"):
        rows = [(replace(GOOD[0][0], kind=kind, last_op=2), 0), GOOD[1]]
        assert Cause.WRONG_KIND in causes(by_hand(CONVS, RULES, rows), CONVS)


# --- control flow -------------------------------------------------------------------------------------------------


def loop(*, depth: int = 1, kind: str = "WHILE") -> Graph:
    """x -> WHILE -> o -> y; the condition computes with a tensor of its own, and the body with another."""

    def body(path: str, depth: int) -> Graph:
        names = ("i", "t", "o")
        tensors = tuple(tensor(f"{path}{n}") for n in names)
        first = Op("w", kind, (0,), (1,), bodies(f"{path}w.", depth - 1)) if depth > 1 else Op("f", "Conv", (0,), (1,))
        return Graph("body", tensors, (first, Op("g", "Conv", (1,), (2,))), (0,), (2,))

    def condition(path: str) -> Graph:
        tensors = (tensor(f"{path}i"), tensor(f"{path}t"), tensor(f"{path}o", (1,), "bool"))
        ops = (Op("f", "Conv", (0,), (1,)), Op("less", "LESS", (1,), (2,)))
        return Graph("condition", tensors, ops, (0,), (2,))

    def bodies(path: str, depth: int) -> tuple[Graph, ...]:
        return (condition(f"{path}c."), body(f"{path}b.", depth))

    tensors = tuple(tensor(name) for name in ("x", "a", "o", "y"))
    ops = (
        Op("first", "Conv", (0,), (1,)),
        Op("while", kind, (1,), (2,), bodies("", depth)),
        Op("last", "Conv", (2,), (3,)),
    )
    return Graph("g", tensors, ops, (0,), (3,))


def test_a_loop_holds_its_values_in_its_outputs_before_the_condition_runs() -> None:
    graph = loop()
    planset = edgemem.plan(graph, target=RULES)
    assert verify_planset(planset, graph) == ()
    place = {name: k for k, r in enumerate(planset.problem.records) for name in r.tensors}
    offsets = planset.offsets[0].offsets.copy()
    offsets[place["o"]] = offsets[place["c.t"]]  # what the condition computes lies on the operator's output
    size = int((offsets + planset.problem.size).max())
    wrong = replace(planset, offsets=(replace(planset.offsets[0], offsets=offsets, size=size),), shared_objects=())
    assert Cause.OVERWRITTEN in causes(wrong, graph)


@pytest.mark.parametrize("kind", ["WHILE", "Loop"])
def test_nested_loops_take_time_in_proportion(kind: str) -> None:
    graph = loop(depth=30, kind=kind)
    assert verify_planset(edgemem.plan(graph, target=RULES, strategy="greedy_by_size"), graph) == ()
