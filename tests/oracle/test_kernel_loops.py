"""The proof of plans with overlaps and slots against graphs that run byte by byte: it never calls a wrong one right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgemem.model.graph import Graph, Op, Tensor, digest
from edgemem.model.overlap import distance
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof.rehearsal import rehearse
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import Target
from tests.oracle.kernel_loops import first_difference
from tests.tiny_graphs import random_graph, random_places

RULES = Target("test", alignment=1, inputs="until_last_use", outputs="to_end", kernels="tflm-reference", slots=True)


def plan_of(graph: Graph, offsets: dict[str, int], target: Target) -> PlanSet:
    """A plan set with a record a tensor. What it claims of itself is not looked at here."""
    end = len(graph.ops) - 1
    names = [t.name for t in graph.tensors if t.name in offsets]
    sizes = {t.name: t.size for t in graph.tensors}
    problem = Problem([UsageRecord(name, 0, end, sizes[name], "tensor", (name,)) for name in names])
    column = np.array([offsets[name] for name in names], np.int64)
    plan = OffsetPlan("hand", {}, column, int((column + problem.size).max()), optimal=False)
    return PlanSet(
        problem,
        naive_size(problem),
        lower_bounds(problem),
        (plan,),
        (),
        target=target,
        digest=digest(graph),
        steps=tuple(op.name for op in graph.ops),
    )


def least_distances(graph: Graph) -> dict[tuple[str, str], int]:
    found = {}
    for op in graph.ops:
        for position, index in enumerate(op.inputs):
            least = distance("tflm-reference", graph, op, position)
            if least is not None and graph.tensors[index].kind == "activation":
                found[graph.tensors[index].name, graph.tensors[op.outputs[0]].name] = least
    return found


def shares(graph: Graph, offsets: dict[str, int]) -> bool:
    """Whether an operator has an output on one of its inputs."""
    for op in graph.ops:
        made = [graph.tensors[i] for i in op.outputs]
        read = [graph.tensors[i] for i in op.inputs if graph.tensors[i].name in offsets]
        for a, b in ((a, b) for a in made for b in read):
            if offsets[a.name] < offsets[b.name] + b.size and offsets[b.name] < offsets[a.name] + a.size:
                return True
    return False


@pytest.mark.full
@pytest.mark.parametrize("aliasing", ["none", "elementwise"])
def test_what_is_proved_computes_the_same(aliasing: str) -> None:
    rng = np.random.default_rng(7 if aliasing == "none" else 8)
    target = replace(RULES, aliasing=aliasing)
    right, accepted, sharing, wrong = 0, 0, 0, 0
    for _ in range(500):
        graph = random_graph(rng, int(rng.integers(2, 8)))
        reach = least_distances(graph)
        for _ in range(6):
            offsets = random_places(rng, graph, reach)
            found = list(rehearse(plan_of(graph, offsets, target), graph))
            difference = first_difference(graph, offsets)
            assert found or not difference, (graph, offsets, difference)
            wrong += bool(difference)
            right += not difference
            accepted += not found
            sharing += not found and shares(graph, offsets)
    assert wrong > 500
    assert sharing > 500
    # Without alias rules nothing is in place that reads an input twice, or that is a view.
    assert accepted > (0.7 if aliasing == "none" else 0.9) * right


def test_the_loops_find_what_the_proof_is_to_find() -> None:
    """An output one element nearer to its input than a row of the window allows."""
    tensors = (Tensor("x", "float32", (1, 4, 4, 1)), Tensor("y", "float32", (1, 4, 4, 1)))
    about = {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pads": (1, 1, 1, 1)}
    weights = Tensor("w", "float32", (1, 3, 3, 1), "constant")
    op = Op("conv", "CONV_2D", (0, 2), (1,), attributes=about)
    graph = Graph("g", (*tensors, weights), (op,), (0,), (1,))
    assert first_difference(graph, {"x": 20, "y": 0}) == ""
    assert first_difference(graph, {"x": 16, "y": 0})
