"""Graphs whose operators run several times: every copy computes the same, and readers take the newest."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from edgemem.errors import ModelError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.remat.operators import repeatable

if TYPE_CHECKING:
    from edgemem.model.graph import TensorKind


def tensor(name: str, kind: TensorKind = "activation") -> Tensor:
    return Tensor(name, "int8", (16,), kind)


def chain() -> Graph:
    """x -> a -> b -> c, and d reads a and c."""
    tensors = tuple(tensor(n) for n in "xabcd")
    ops = (Op("A", "f", (0,), (1,)), Op("B", "g", (1,), (2,)), Op("C", "h", (2,), (3,)), Op("D", "k", (1, 3), (4,)))
    return Graph("chain", tensors, ops, (0,), (4,))


def values(graph: Graph) -> dict[str, str]:
    """What every tensor is, as an expression over the graph's inputs."""
    found = {i: graph.tensors[i].name for i in graph.inputs}
    for op in graph.ops:
        text = f"{op.type}({','.join(found[i] for i in op.inputs)})"
        found.update({i: f"{text}.{k}" for k, i in enumerate(op.outputs) if i >= 0})
    return {graph.tensors[i].name: text for i, text in found.items()}


def test_a_later_reader_takes_the_newest_copy() -> None:
    made = repeat(chain(), (0, 1, 2, 0, 3))
    graph = made.graph
    assert [op.name for op in graph.ops] == ["A", "B", "C", "A/again.1", "D"]
    assert made.sources == (0, 1, 2, 0, 3)
    last = graph.ops[-1]
    assert [graph.tensors[i].name for i in last.inputs] == ["a/again.1", "c"]
    assert made.likes[-1] == 1
    assert graph.outputs == (4,)


def test_the_last_copy_is_the_output() -> None:
    graph = chain()
    graph = Graph("chain", graph.tensors, graph.ops, graph.inputs, (1, 4))
    made = repeat(graph, (0, 1, 2, 0, 3)).graph
    assert [made.tensors[i].name for i in made.ops[0].outputs] == ["a/again.0"]
    assert made.ops[3].outputs == (1,)
    assert [made.tensors[i].name for i in made.outputs] == ["a", "d"]


def test_operators_with_effects_run_once() -> None:
    graph = chain()
    pair = Graph("chain", graph.tensors, graph.ops, graph.inputs, graph.outputs, precedence=((1, 2),))
    assert repeat(pair, (0, 1, 0, 2, 3)).graph.precedence == ((1, 3),)
    with pytest.raises(ModelError, match="operator 'B' must run once"):
        repeat(pair, (0, 1, 1, 2, 3))


def test_once_each_is_the_graph_itself() -> None:
    assert repeat(chain(), (0, 1, 2, 3)).graph == chain()


def test_values_do_not_change_in_random_sequences() -> None:
    rng = random.Random(1)
    for _ in range(200):
        count = rng.randrange(2, 8)
        tensors, ops = [tensor("x")], []
        for k in range(count):
            read = tuple(rng.randrange(len(tensors)) for _ in range(rng.randrange(1, 3)))
            results = rng.randrange(1, 3)
            ops.append(Op(f"op{k}", f"f{k}", read, tuple(range(len(tensors), len(tensors) + results))))
            tensors += [tensor(f"t{len(tensors) + r}") for r in range(results)]
        outputs = (len(tensors) - 1, *(k for k in range(1, len(tensors) - 1) if rng.random() < 0.2))
        graph = Graph("random", tuple(tensors), tuple(ops), (0,), outputs)
        may = sorted(repeatable(graph))
        runs: list[int] = []
        for k in range(count):
            runs += [k, *(rng.choice([j for j in may if j <= k] or [k]) for _ in range(rng.randrange(3)))]
        runs = [k for at, k in enumerate(runs) if k in may or k not in runs[:at]]
        made = repeat(graph, runs)
        after = values(made.graph)
        assert made.graph.outputs == graph.outputs
        assert [made.graph.tensors[i].name for i in made.graph.outputs] == [tensors[i].name for i in outputs]
        for index, like in enumerate(made.likes):
            assert after[made.graph.tensors[index].name] == values(graph)[graph.tensors[like].name]
        assert len({t.name for t in made.graph.tensors}) == len(made.graph.tensors)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ((0, 1, 2), "has each of the 4 operators once or more"),
        ((0, 1, 2, 3, 4), "has each of the 4 operators once or more"),
        ((1, 0, 2, 3), "reads 'a' before anything writes it"),
    ],
)
def test_sequences_that_are_refused(runs: tuple[int, ...], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        repeat(chain(), runs)


def test_names_that_are_taken() -> None:
    graph = chain()
    graph = Graph("chain", (*graph.tensors, tensor("a/again.1", "constant")), graph.ops, graph.inputs, graph.outputs)
    made = repeat(graph, (0, 1, 2, 0, 3)).graph
    assert [t.name for t in made.tensors][-2:] == ["a/again.1", "a/again.1_"]
