"""Plans for TensorFlow Lite Micro say where its own planner puts workspace, and are no larger for it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from edgemem import api
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.micro_workspace import with_workspace
from edgemem.proof import verify_planset
from edgemem.records.micro_planner import predicted_head
from edgemem.targets import BUILT_IN
from tests.tflite_models import up16


def random_graph(seed: int) -> Graph:
    """Sums, and SVDF, which asks for two pieces of workspace."""
    rng = random.Random(seed)
    tensors, ops, made = [Tensor("x", "int8", (1, rng.randint(1, 300)))], [], [0]
    for k in range(rng.randint(3, 9)):
        read = rng.choice(made)
        if rng.random() < 0.5:
            tensors.append(Tensor(f"w{k}", "int8", (rng.randint(1, 60), tensors[read].shape[1]), "constant"))
            tensors.append(Tensor(f"y{k}", "int8", (1, rng.randint(1, 60))))
            ops.append(Op(f"svdf{k}", "SVDF", (read, len(tensors) - 2), (len(tensors) - 1,)))
        else:
            tensors.append(Tensor(f"y{k}", "int8", (1, rng.randint(1, 300))))
            ops.append(Op(f"sum{k}", "ADD", (read, rng.choice(made)), (len(tensors) - 1,)))
        made.append(len(tensors) - 1)
    outputs = tuple(i for i in made[1:] if not any(i in op.inputs for op in ops))
    return with_workspace(Graph("random", tuple(tensors), tuple(ops), (0,), outputs))


@pytest.mark.parametrize("seed", range(20))
def test_the_size_of_a_plan_is_the_head(seed: int) -> None:
    graph = random_graph(seed)
    planset = api.plan(graph, target=BUILT_IN["tflm"], effort="fast")
    assert verify_planset(planset, graph) == ()
    own = predicted_head(graph, {}).total
    for plan in planset.offsets:
        places = zip(planset.problem.records, plan.offsets.tolist(), strict=True)
        offline = {name: offset for record, offset in places for name in record.tensors}
        assert predicted_head(graph, offline).total == up16(plan.size)
    best = planset.best_offsets
    assert best is not None
    assert up16(best.size) <= own


def summed(name: str) -> Graph:
    """An input x that nothing reads, and the mean of z."""
    tensors = (
        Tensor(f"{name}x", "float32", (1, 4)),
        Tensor(f"{name}z", "float32", (1, 4)),
        Tensor(f"{name}axis", "int32", (1,), "constant"),
        Tensor(f"{name}y", "float32", (1, 1)),
    )
    return Graph(name, tensors, (Op("mean", "MEAN", (1, 2), (3,)),), (0, 1), (3,))


def test_workspace_lies_on_no_input_that_nothing_reads() -> None:
    """TensorFlow Lite Micro would put it there: to it, that input ends before the first operator."""
    graph = with_workspace(summed("g"))
    for strategy in ("greedy_by_size", "greedy_by_breadth", "search"):
        planset = api.plan(graph, target=BUILT_IN["tflm"], strategy=f"offsets/{strategy}")
        assert verify_planset(planset, graph) == ()


def test_such_an_input_is_moved_among_tensors_that_overlap() -> None:
    """They lie on each other while both are in use, as the kernels allow."""
    first = summed("g")
    tensors = (*first.tensors, *(Tensor(name, "float32", (1, 64)) for name in ("w", "v", "u")))
    ops = (*first.ops, Op("abs", "ABS", (4,), (5,)), Op("neg", "NEG", (5,), (6,)))
    graph = with_workspace(replace(first, tensors=tensors, ops=ops, inputs=(0, 1, 4), outputs=(3, 6)))
    target = BUILT_IN["tflm"].changed(kernels="tflm-reference", slots=True)
    planset = api.plan(graph, target=target, effort="fast")
    assert planset.problem.overlap is not None
    assert verify_planset(planset, graph) == ()


@pytest.mark.parametrize("kind", ["IF", "CALL", "STABLEHLO_COMPOSITE"])
@pytest.mark.parametrize("count", [1, 2])
def test_workspace_of_bodies(kind: str, count: int) -> None:
    """Of bodies that TensorFlow Lite Micro runs or not, and of two of one name."""
    bodies = tuple(replace(summed(f"b{k}"), name="b") for k in range(count))
    first = summed("g")
    tensors = (*first.tensors, Tensor("p", "bool", (1,)), Tensor("r", "float32", (1, 1)))
    call = Op("call", kind, (4, 0, 1) if kind == "IF" else (0, 1), (5,), bodies=bodies)
    graph = with_workspace(replace(first, tensors=tensors, ops=(*first.ops, call), inputs=(0, 1, 4), outputs=(3, 5)))
    planset = api.plan(graph, target=BUILT_IN["tflm"], strategy="offsets/greedy_by_size")
    assert verify_planset(planset, graph) == ()
    names = [record.name for record in planset.problem.records if record.kind == "scratch"]
    assert len(set(names)) == len(names) == 2 * (count + 1)
