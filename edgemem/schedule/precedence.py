"""Which operators of a graph must run before which, and whether a graph may run in another order at all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.model.graph import Graph, Op

__all__ = ["find_precedence", "has_shared_bodies", "is_reorderable"]


def is_reorderable(graph: Graph) -> bool:
    """Whether each tensor is written once at most; otherwise the order alone tells which value a reader gets."""
    written = Counter(i for op in graph.ops for i in op.outputs if i >= 0)
    there = [i for i in graph.inputs if i in written and graph.tensors[i].kind != "variable"]
    return not there and max(written.values(), default=0) <= 1


def has_shared_bodies(graph: Graph) -> bool:
    """Whether several operators run one graph."""
    return max(Counter(n for op in graph.ops for n in _run_by(op)).values(), default=0) > 1


def _run_by(op: Op) -> set[int]:
    """The numbers of the graphs that an operator runs."""
    return {
        n for body in op.bodies for n in (body.number, *(m for inner in body.ops for m in _run_by(inner))) if n >= 0
    }


def find_precedence(graph: Graph, also: Iterable[tuple[int, int]] = ()) -> tuple[tuple[int, ...], ...]:
    """For each operator those that must run before it: what it reads, side effects, shared state, the graph's pairs.

    Operators that run one graph keep their order, too: its memory is there from the first of them to the last.
    `also` are more pairs (first, then).
    """
    before: list[set[int]] = [set() for _ in graph.ops]
    writer: dict[int, int] = {}
    state: dict[int, int] = {}
    run: dict[int, int] = {}
    effect = -1
    for k, op in enumerate(graph.ops):
        before[k].update(writer[i] for i in op.inputs if i in writer)
        for i in {*op.inputs, *op.outputs}:
            if i >= 0 and graph.tensors[i].kind == "variable":
                if i in state:
                    before[k].add(state[i])
                state[i] = k
        for number in _run_by(op):
            before[k].update((run[number],) if number in run else ())
            run[number] = k
        if op.ordered:
            if effect >= 0:
                before[k].add(effect)
            effect = k
        writer.update((i, k) for i in op.outputs if i >= 0)
    for first, then in (*graph.precedence, *also):
        before[then].add(first)
    return tuple(tuple(sorted(b)) for b in before)
