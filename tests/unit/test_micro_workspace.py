"""Plans for TensorFlow Lite Micro say where its own planner puts workspace, and are no larger for it."""

from __future__ import annotations

import random

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
