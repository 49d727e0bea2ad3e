"""Every cause appears for the corruption it names, and only a wrong plan is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.model.graph import Graph, Op, Tensor, digest
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.proof import Cause, verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem, UsageRecord
from edgemem.targets import BUILT_IN, Target

if TYPE_CHECKING:
    from collections.abc import Callable

# a 0-1, b 1-2, c 2-3, of 16 bytes: a and c may share.
RECORDS = [UsageRecord("a", 0, 1, 16), UsageRecord("b", 1, 2, 16), UsageRecord("c", 2, 3, 16)]


def _offsets(*offsets: int, size: int = 32, optimal: bool = True) -> OffsetPlan:
    return OffsetPlan("hand", {}, np.array(offsets), size, optimal)


def _objects(*assignment: int, objects: tuple[int, ...] = (16, 16), size: int = 32) -> SharedObjectsPlan:
    return SharedObjectsPlan("hand", {}, np.array(assignment), objects, size, optimal=True)


GOOD = PlanSet(Problem(RECORDS, alignment=16), 48, LowerBounds(32, 32), (_offsets(0, 16, 0),), (_objects(0, 1, 0),))


def _causes(planset: PlanSet, graph: Graph | None = None) -> set[Cause]:
    return {v.cause for v in verify_planset(planset, graph)}


def test_a_right_plan_is_right() -> None:
    assert verify_planset(GOOD) == ()


@pytest.mark.parametrize(
    ("planset", "cause"),
    [
        (replace(GOOD, offsets=(_offsets(0, 0, 16),)), Cause.OVERLAP),
        (replace(GOOD, offsets=(_offsets(0, 16),)), Cause.WRONG_LENGTH),
        (replace(GOOD, offsets=(_offsets(0, -16, 0),)), Cause.NEGATIVE_OFFSET),
        (replace(GOOD, offsets=(_offsets(0, 24, 0, size=40),)), Cause.MISALIGNED),
        (replace(GOOD, offsets=(_offsets(0, 32, 0),)), Cause.OUTSIDE_ARENA),
        (replace(GOOD, offsets=(_offsets(0, 16, 0, size=48),)), Cause.WRONG_SIZE),
        (replace(GOOD, offsets=(_offsets(0, 0, 0, size=16),)), Cause.BELOW_BOUND),
        (replace(GOOD, offsets=(_offsets(0, 16, 0, optimal=False),)), Cause.FALSE_OPTIMAL),
        (replace(GOOD, shared_objects=(replace(_objects(0, 1, 0), optimal=False),)), Cause.FALSE_OPTIMAL),
        (replace(GOOD, shared_objects=(_objects(0, 0, 1),)), Cause.OBJECT_SHARED),
        (replace(GOOD, shared_objects=(_objects(0, 1),)), Cause.WRONG_LENGTH),
        (replace(GOOD, shared_objects=(_objects(0, 2, 0),)), Cause.NO_SUCH_OBJECT),
        (replace(GOOD, shared_objects=(_objects(0, -1, 0),)), Cause.NO_SUCH_OBJECT),
        (replace(GOOD, shared_objects=(_objects(0, 1, 0, objects=(16, 15), size=31),)), Cause.OBJECT_TOO_SMALL),
        (replace(GOOD, shared_objects=(_objects(0, 1, 0, objects=(16, 17), size=33),)), Cause.WRONG_SIZE),
        (replace(GOOD, shared_objects=(_objects(0, 1, 0, size=40),)), Cause.WRONG_SIZE),
        (replace(GOOD, shared_objects=(_objects(0, 1, 0, objects=(16, 16, 16), size=48),)), Cause.EMPTY_OBJECT),
        (replace(GOOD, bounds=LowerBounds(16, 32)), Cause.WRONG_BOUND),
        (replace(GOOD, bounds=LowerBounds(32, 33)), Cause.WRONG_BOUND),
        (replace(GOOD, naive=47), Cause.WRONG_NAIVE),
    ],
)
def test_each_corruption_has_its_cause(planset: PlanSet, cause: Cause) -> None:
    assert cause in _causes(planset)


def test_texel_objects_are_checked_in_every_dimension() -> None:
    problem = Problem([UsageRecord("a", 0, 0, (4, 2)), UsageRecord("b", 1, 1, (2, 4))])
    bounds = LowerBounds(8, 8)
    plan = SharedObjectsPlan("hand", {}, np.array([0, 0]), ((4, 4),), 16, optimal=False)
    assert _causes(PlanSet(problem, 16, bounds, (), (plan,))) == set()
    for extent in ((4, 2), (4, 4, 1)):
        small = replace(plan, objects=(extent,), size=8)
        assert Cause.OBJECT_TOO_SMALL in _causes(PlanSet(problem, 16, bounds, (), (small,)))


# --- with a graph -------------------------------------------------------------------------------------------------

RULES = Target("test", alignment=16)


def _graph(*ops: Op, names: str = "xabcy", size: int = 4) -> Graph:
    tensors = tuple(Tensor(name, "float32", (size,)) for name in names)
    return Graph("g", tensors, ops, (0,), (len(names) - 1,))


CHAIN = _graph(
    Op("f", "Conv", (0,), (1,)), Op("g", "Conv", (1,), (2,)), Op("h", "Conv", (2,), (3,)), Op("i", "Conv", (3,), (4,))
)


def _planned(graph: Graph, *offsets: int, target: Target = RULES) -> PlanSet:
    """A plan with given offsets, whose claims are otherwise consistent with its records."""
    lives = lifetimes(graph, target)
    problem = lives.problem
    size = int((np.array(offsets) + problem.size).max())
    probe = PlanSet(problem, 0, LowerBounds(0, 0), (), ())
    bound = _true_bound(probe)
    plan = OffsetPlan("hand", {}, np.array(offsets), size, optimal=size == bound.offsets)
    naive = -(-problem.size // 16) * 16
    return PlanSet(
        problem,
        int(naive[:-1].sum() + problem.size[-1]),
        bound,
        (plan,),
        (),
        target=target,
        digest=digest(graph),
        steps=lives.steps,
        unplanned=lives.unplanned,
    )


def _true_bound(planset: PlanSet) -> LowerBounds:
    p = planset.problem
    last = int(p.last_op.max())
    alive = [p.size[(p.first_op <= op) & (op <= p.last_op)] for op in range(last + 1)]
    ranked = [sorted(sizes.tolist(), reverse=True) for sizes in alive]
    depth = max(map(len, ranked))
    return LowerBounds(
        max(sum(r) for r in ranked), sum(max((r[k] for r in ranked if k < len(r)), default=0) for k in range(depth))
    )


def test_a_right_plan_runs_its_graph() -> None:
    assert verify_planset(_planned(CHAIN, 0, 16, 0), CHAIN) == ()


def test_another_graph_is_stale() -> None:
    other = _graph(*CHAIN.ops, size=8)
    assert _causes(_planned(CHAIN, 0, 16, 0), other) == {Cause.STALE_DIGEST}


def test_other_steps_are_refused() -> None:
    planset = replace(_planned(CHAIN, 0, 16, 0), steps=("f", "g"))
    assert Cause.WRONG_STEPS in _causes(planset, CHAIN)


def _rewrite(planset: PlanSet, change: Callable[[UsageRecord], UsageRecord | None]) -> PlanSet:
    """The records changed behind the lifetime rules' back, with claims that fit them."""
    kept = [(r, i) for i, old in enumerate(planset.problem.records) if (r := change(old)) is not None]
    problem = Problem([r for r, _ in kept], alignment=16)
    offsets = planset.offsets[0].offsets[[i for _, i in kept]]
    size = int((offsets + problem.size).max())
    bound = _true_bound(PlanSet(problem, 0, LowerBounds(0, 0), (), ()))
    naive = int((-(-problem.size // 16) * 16)[:-1].sum() + problem.size[-1])
    plan = OffsetPlan("hand", {}, offsets, size, optimal=size == bound.offsets)
    return replace(planset, problem=problem, naive=naive, bounds=bound, offsets=(plan,))


def test_a_record_that_dies_too_early_is_caught_by_the_rehearsal() -> None:
    skip = _graph(
        Op("f", "Conv", (0,), (1,)),
        Op("g", "Conv", (1,), (2,)),
        Op("h", "Conv", (2,), (3,)),
        Op("i", "Add", (1, 3), (4,)),
    )
    # a is read by the last operator, but its record claims to end at op 1, and c lies on it.
    wrong = _rewrite(_planned(skip, 0, 16, 32), lambda r: replace(r, last_op=1) if r.name == "a" else r)
    wrong = replace(wrong, offsets=(replace(wrong.offsets[0], offsets=np.array([0, 16, 0]), size=32, optimal=True),))
    assert _causes(wrong) == set(), "by its own records the plan is right"
    violations = verify_planset(wrong, skip)
    assert {v.cause for v in violations} == {Cause.OVERWRITTEN}
    assert "'a', which 'c' overwrote (i)" in violations[0].message


def test_a_tensor_without_a_place_is_missing() -> None:
    wrong = _rewrite(_planned(CHAIN, 0, 16, 0), lambda r: None if r.name == "b" else r)
    assert Cause.MISSING_TENSOR in _causes(wrong, CHAIN)


def test_a_place_without_a_tensor_is_unknown() -> None:
    wrong = _rewrite(_planned(CHAIN, 0, 16, 0), lambda r: replace(r, tensors=(*r.tensors, "ghost")))
    assert Cause.UNKNOWN_TENSOR in _causes(wrong, CHAIN)


def test_a_record_smaller_than_its_tensor() -> None:
    wrong = _rewrite(_planned(CHAIN, 0, 16, 0), lambda r: replace(r, size=8) if r.name == "b" else r)
    assert Cause.RECORD_TOO_SMALL in _causes(wrong, CHAIN)


def test_an_alias_that_the_rules_forbid_clobbers_its_input() -> None:
    chain = CHAIN
    planset = _planned(chain, 0, 16, 0)
    merged = Problem(
        [UsageRecord("a", 0, 2, 16, "tensor", ("a", "b")), UsageRecord("c", 2, 3, 16, "tensor", ("c",))], alignment=16
    )
    wrong = replace(planset, problem=merged, naive=32, bounds=LowerBounds(32, 32), offsets=(_offsets(0, 16, size=32),))
    assert _causes(wrong) == set()
    assert _causes(wrong, chain) == {Cause.CLOBBERED_INPUT}


def test_an_alias_that_the_rules_allow() -> None:
    relu = _graph(
        Op("f", "Conv", (0,), (1,)),
        Op("g", "Relu", (1,), (2,)),
        Op("h", "Conv", (2,), (3,)),
        Op("i", "Conv", (3,), (4,)),
    )
    planset = _planned(relu, 0, 16)
    assert planset.problem.records[0].tensors == ("a", "b")
    assert verify_planset(planset, relu) == ()


def test_a_view_keeps_its_source_intact() -> None:
    view = _graph(
        Op("f", "Conv", (0,), (1,)),
        Op("g", "Reshape", (1,), (2,)),
        Op("h", "Conv", (1,), (3,)),
        Op("i", "Concat", (2, 3), (4,)),
    )
    planset = _planned(view, 0, 16)
    assert planset.problem.records[0].tensors == ("a", "b")
    assert verify_planset(planset, view) == ()


def _loop() -> Graph:
    """Body: t = f(outer); out = g(in, t). `outer` is captured and must survive every round."""
    body = Graph(
        "body",
        (
            Tensor("a", "float32", (4,), "captured"),
            Tensor("in", "float32", (4,)),
            Tensor("t", "float32", (4,)),
            Tensor("out", "float32", (4,)),
        ),
        (Op("f", "Conv", (0,), (2,)), Op("g", "Concat", (1, 2), (3,))),
        (1,),
        (3,),
    )
    tensors = tuple(Tensor(name, "float32", (4,)) for name in ("x", "a", "b", "y"))
    ops = (Op("m", "Conv", (0,), (1,)), Op("loop", "Loop", (0, 1), (2,), bodies=(body,)), Op("e", "Conv", (2,), (3,)))
    return Graph("g", tensors, ops, (0,), (3,))


def test_a_loop_that_wipes_out_what_its_next_round_reads() -> None:
    graph = _loop()
    good = _planned(graph, *[16 * i for i in range(5)])
    assert verify_planset(good, graph) == ()
    # In the first round nothing reads `a` after f; writing `out` over it only hurts the second.
    names = [r.name for r in good.problem.records]
    at = good.offsets[0].offsets.copy()
    at[names.index("out")] = at[names.index("a")]
    early = _rewrite(good, lambda r: replace(r, last_op=1) if r.name == "a" else r)
    wrong = replace(early, offsets=(replace(early.offsets[0], offsets=at),))
    assert Cause.OVERLAP not in _causes(wrong)
    violations = verify_planset(wrong, graph)
    assert any(v.cause is Cause.OVERWRITTEN and v.records == ("a",) for v in violations)


def test_a_scratch_that_lies_on_an_input() -> None:
    graph = replace(CHAIN, ops=(CHAIN.ops[0], replace(CHAIN.ops[1], scratch=(16,)), *CHAIN.ops[2:]))
    good = _planned(graph, 0, 16, 0, 32)
    assert verify_planset(good, graph) == ()
    bad = replace(good, offsets=(replace(good.offsets[0], offsets=np.array([0, 16, 0, 0])),))
    assert Cause.CLOBBERED_INPUT in _causes(bad, graph)


def test_an_output_that_is_overwritten_before_the_end() -> None:
    graph = Graph(
        "g",
        tuple(Tensor(name, "float32", (4,)) for name in ("x", "early", "b", "y")),
        (Op("f", "Conv", (0,), (1,)), Op("g", "Conv", (1,), (2,)), Op("h", "Conv", (2,), (3,))),
        (0,),
        (1, 3),
    )
    tflm = replace(BUILT_IN["tflm"], inputs="outside")
    good = _planned(graph, 0, 16, 32, target=tflm)
    assert verify_planset(good, graph) == ()
    bad = replace(good, offsets=(replace(good.offsets[0], offsets=np.array([0, 16, 0])),))
    assert {v.cause for v in verify_planset(bad, graph)} >= {Cause.OVERLAP, Cause.OVERWRITTEN}


def test_a_loop_may_take_a_view_of_what_it_captures_in_every_round() -> None:
    body = Graph(
        "body",
        (
            Tensor("a", "float32", (4,), "captured"),
            Tensor("view", "float32", (4,)),
            Tensor("out", "float32", (4,)),
        ),
        (Op("v", "Reshape", (0,), (1,)), Op("f", "Conv", (1,), (2,))),
        (),
        (2,),
    )
    tensors = tuple(Tensor(name, "float32", (4,)) for name in ("x", "a", "b", "y"))
    ops = (Op("m", "Conv", (0,), (1,)), Op("loop", "Loop", (1,), (2,), bodies=(body,)), Op("e", "Conv", (2,), (3,)))
    graph = Graph("g", tensors, ops, (0,), (3,))
    planset = _planned(graph, 0, 16, 32)
    assert planset.problem.records[0].tensors == ("a", "view")
    assert verify_planset(planset, graph) == ()
