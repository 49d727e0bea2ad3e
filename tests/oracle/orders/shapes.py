"""Random graphs of the shapes that orders are made for: training steps, tiles, branches, cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.model.graph import Graph, Op, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from edgemem.model.graph import TensorKind

__all__ = ["SHAPES", "branchy", "cells", "shape_graph", "tiled", "training"]


class _Draft:
    """A graph that is added to, operator by operator; results are tensor indices."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.outputs: list[int] = []

    def tensor(self, size: int, kind: TensorKind = "activation") -> int:
        self.tensors.append(Tensor(f"t{len(self.tensors)}", "int8", (size,), kind))
        return len(self.tensors) - 1

    def add(self, kind: str, reads: Sequence[int], *sizes: int, scratch: int = 0) -> int:
        """Add an operator with results of these sizes; gives back the first of them."""
        outs = tuple(self.tensor(size) for size in sizes)
        work = (scratch,) if scratch else ()
        self.ops.append(Op(f"op{len(self.ops)}", kind, tuple(reads), outs, (), work))
        return outs[0]

    def graph(self, inputs: int) -> Graph:
        read = {i for op in self.ops for i in op.inputs}
        ends = [i for op in self.ops for i in op.outputs if i not in read]
        outputs = dict.fromkeys(self.outputs or ends[-1:])
        return Graph("m", tuple(self.tensors), tuple(self.ops), tuple(range(inputs)), tuple(outputs), "nhwc")


def training(rng: Random, count: int) -> Graph:
    """A training step of about `count` operators: forward, backward that reads activations, updates of weights."""
    layers = max(1, (count - 1) // 4)
    draft, unit = _Draft(), rng.choice((1, 16, 64))
    x = draft.tensor(unit * rng.randint(1, 6))
    weights = [
        draft.tensor(unit * rng.randint(1, 6), "variable" if rng.random() < 0.3 else "constant") for _ in range(layers)
    ]
    kept, at = [], x
    for weight in weights:
        kept.append(at)
        size = draft.tensors[at].shape[0]
        if rng.random() < 0.3:
            at = draft.add("RELU", [at], size)
        else:
            at = draft.add("CONV_2D", [at, weight], unit * rng.randint(1, 6), scratch=rng.choice((0, 0, unit)))
        if rng.random() < 0.3 and len(kept) > 1:
            skipped = rng.choice(kept)
            if draft.tensors[skipped].shape == draft.tensors[at].shape:
                at = draft.add("ADD", [at, skipped], draft.tensors[at].shape[0])
    gradient = draft.add("Loss", [at], draft.tensors[at].shape[0])
    gradients = []
    for weight, seen in reversed(list(zip(weights, kept, strict=True))):
        gradients.append((weight, draft.add("WeightGradient", [seen, gradient], draft.tensors[weight].shape[0])))
        if seen != x:
            gradient = draft.add("InputGradient", [gradient, weight, seen], draft.tensors[seen].shape[0])
    if rng.random() < 0.3:
        gradients.reverse()
    for weight, found in gradients:  # all updates at the end, as frameworks have them
        size = draft.tensors[weight].shape[0]
        if draft.tensors[weight].kind == "variable":
            draft.ops.append(Op(f"op{len(draft.ops)}", "Update", (found, weight), (draft.tensor(unit),)))
        else:
            kind = rng.choice(("MUL", "Update"))
            draft.outputs.append(draft.add(kind, [found], size if kind == "MUL" else unit))
    return draft.graph(1)


def tiled(rng: Random, count: int) -> Graph:
    """A fork of equal chains that a concatenation joins, in breadth-first order of the file."""
    length = rng.randint(1, 4)
    chains = max(2, (count - 1) // length)
    draft, unit = _Draft(), rng.choice((1, 16, 100))
    x = draft.tensor(unit * rng.randint(1, 8))
    if rng.random() < 0.5:
        x = draft.add("CONV_2D", [x], unit * chains)
    sizes = [unit * rng.randint(1, 8) for _ in range(length)]
    ends = [x] * chains
    for size in sizes:
        kind = rng.choice(("CONV_2D", "RELU"))
        ends = [draft.add(kind, [end], size) for end in ends]
    draft.add("CONCATENATION", ends, sizes[-1] * chains)
    return draft.graph(1)


def branchy(rng: Random, count: int) -> Graph:
    """Series and parallel parts, one within the other; the file's order is random."""
    draft, unit = _Draft(), rng.choice((1, 16, 64))

    def size() -> int:
        return unit * rng.randint(1, 9)

    def part(x: int, left: int, depth: int) -> int:
        if left <= 2 or depth > 3:
            for _ in range(max(left, 1)):
                x = draft.add(rng.choice(("CONV_2D", "RELU", "RESHAPE")), [x], size())
            return x
        if rng.random() < 0.4:
            return part(part(x, left // 2, depth + 1), left - left // 2, depth + 1)
        many = rng.randint(2, min(4, left - 1))
        ends = [part(x, (left - 1) // many, depth + 1) for _ in range(many)]
        return draft.add(rng.choice(("CONCATENATION", "ADD")), ends, size())

    x = draft.tensor(size())
    part(x, count, 0)
    return _shuffled(rng, draft.graph(1))


def cells(rng: Random, count: int) -> Graph:
    """Random wiring as in RandWire or NAS cells: each operator reads some of those before, ends are joined."""
    draft, unit = _Draft(), rng.choice((1, 16, 64))
    at = draft.tensor(unit * rng.randint(1, 8))
    left = count
    while left > 0:
        inner = min(left - 1, rng.randint(2, 12)) if left > 2 else left
        made, size = [at], unit * rng.randint(1, 8)
        for _ in range(inner):
            reads = rng.sample(made, min(len(made), rng.choice((1, 1, 2, 3))))
            kind = "ADD" if len(reads) == 2 else "CONV_2D"
            made.append(draft.add(kind, reads, rng.choice((size, unit * rng.randint(1, 8)))))
        read = {i for op in draft.ops for i in op.inputs}
        ends = [i for i in made if i not in read]
        if left > inner:
            at = draft.add("CONCATENATION", ends, unit * rng.randint(1, 8))
        left -= inner + 1
    return _shuffled(rng, draft.graph(1))


def _shuffled(rng: Random, graph: Graph) -> Graph:
    """The operators in another order of the file."""
    written = {i: k for k, op in enumerate(graph.ops) for i in op.outputs}
    order: list[int] = []
    while len(order) < len(graph.ops):
        ready = [
            k
            for k, op in enumerate(graph.ops)
            if k not in order and all(written.get(i, -1) in (-1, *order) for i in op.inputs)
        ]
        order.append(rng.choice(ready))
    return graph.reordered(tuple(order))


SHAPES = {"training": training, "tiled": tiled, "branchy": branchy, "cells": cells}


def shape_graph(rng: Random, shape: str, count: int) -> Graph:
    """A graph of a shape with about `count` operators."""
    return SHAPES[shape](rng, count)
