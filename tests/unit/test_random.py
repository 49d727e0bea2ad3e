"""Which values depend on random numbers."""

from __future__ import annotations

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.random import random_values_of


def _graph(ops: list[tuple[str, str, str]], bodies: dict[int, tuple[Graph, ...]] | None = None) -> Graph:
    """Operators as (type, inputs, outputs), a letter a tensor; `x` comes from the caller."""
    names = sorted({c for _, read, written in ops for c in read + written} | {"x"})
    index = {name: k for k, name in enumerate(names)}
    made = tuple(
        Op(str(k), kind, tuple(index[c] for c in read), tuple(index[c] for c in written), (bodies or {}).get(k, ()))
        for k, (kind, read, written) in enumerate(ops)
    )
    tensors = tuple(Tensor(n, "float32", (1,)) for n in names)
    return Graph("g", tensors, made, (index["x"],), made[-1].outputs)


def test_all_that_follows_from_a_random_number() -> None:
    graph = _graph([("Relu", "x", "a"), ("RandomNormalLike", "x", "r"), ("Add", "ar", "s"), ("Exp", "a", "e")])
    assert random_values_of(graph) == {"r", "s"}
    assert random_values_of(graph, ("a",)) == {"a", "r", "s", "e"}
    assert random_values_of(_graph([("Relu", "x", "a")])) == frozenset()


def test_an_operator_with_a_random_body_is_random() -> None:
    inner = Graph(
        "body",
        (Tensor("i", "float32", (1,)), Tensor("o", "float32", (1,))),
        (Op("", "Bernoulli", (0,), (1,)),),
        (0,),
        (1,),
    )
    graph = _graph([("Loop", "x", "y"), ("Exp", "y", "z"), ("Sin", "x", "w")], {0: (inner,)})
    assert random_values_of(graph) == {"i", "o", "y", "z"}


def test_a_body_that_is_given_random_numbers() -> None:
    inner = Graph(
        "body", (Tensor("i", "float32", (1,)), Tensor("o", "float32", (1,))), (Op("", "Exp", (0,), (1,)),), (0,), (1,)
    )
    graph = _graph([("RandomUniformLike", "x", "r"), ("Loop", "r", "y")], {1: (inner,)})
    assert random_values_of(graph) == {"r", "i", "o", "y"}
    assert random_values_of(_graph([("Loop", "x", "y")], {0: (inner,)})) == frozenset()
