"""Which orders a graph has, and the best of them by trying all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.oracle.orders.simulation import Machine
from tests.oracle.orders.stage import Stage, filled_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem import Target
    from edgemem.model.graph import Graph, Op

__all__ = ["all_orders", "before", "best_order", "faults", "keeps_its_order"]


def keeps_its_order(graph: Graph) -> bool:
    """Whether two operators write one tensor, so that only the order says which of the values a reader gets."""
    written = [i for op in graph.ops for i in op.outputs if i >= 0]
    there = [i for i in graph.inputs if graph.tensors[i].kind != "variable"]
    return len({*written, *there}) < len(written) + len(set(there))


def before(graph: Graph, target: Target) -> list[set[int]]:
    """For each operator those that must run before it."""
    if keeps_its_order(graph):
        return [set(range(k)) for k in range(len(graph.ops))]
    found: list[set[int]] = [set() for _ in graph.ops]
    for k, op in enumerate(graph.ops):
        for j, other in enumerate(graph.ops[:k]):
            reads = not {i for i in op.inputs if i >= 0}.isdisjoint(other.outputs)
            shares = not _kept(graph, op).isdisjoint(_kept(graph, other))
            if reads or shares or (op.ordered and other.ordered) or (j, k) in graph.precedence:
                found[k].add(j)
    for past, present in filled_states(graph, target).items():
        names = [[graph.tensors[i].name for i in op.outputs if i >= 0] for op in graph.ops]
        writer = next(k for k, made in enumerate(names) if present in made)
        for k, op in enumerate(graph.ops):
            if k != writer and past in [graph.tensors[i].name for i in op.inputs if i >= 0]:
                found[writer].add(k)
    return found


def _kept(graph: Graph, op: Op) -> set[object]:
    """What an operator has in common with others that keeps them in order: variables, and subgraphs that it runs.

    Those of its bodies are included. A variable of a subgraph that several operators run is one variable.
    """

    def walk(g: Graph, ops: Sequence[Op]) -> Iterator[object]:
        for o in ops:
            for i in (*o.inputs, *o.outputs):
                if i >= 0 and g.tensors[i].kind in ("variable", "captured"):
                    yield g.tensors[i].name
            for body in o.bodies:
                if body.number >= 0:
                    yield body.number
                yield from walk(body, body.ops)

    return set(walk(graph, [op])) - {t.name for t in graph.tensors if t.kind != "variable"}


def faults(graph: Graph, target: Target, order: Sequence[int]) -> list[str]:
    """What is wrong with an order, in words; empty when the graph may run so."""
    if sorted(order) != list(range(len(graph.ops))):
        return [f"{list(order)} is no permutation of {len(graph.ops)} operators"]
    place = {k: at for at, k in enumerate(order)}
    return [
        f"operator {j} must run before {k}"
        for k, earlier in enumerate(before(graph, target))
        for j in earlier
        if place[j] > place[k]
    ]


def all_orders(graph: Graph, target: Target) -> Iterator[tuple[int, ...]]:
    """Every order that the graph has."""
    needs = before(graph, target)

    def go(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(needs):
            yield done
        for k, earlier in enumerate(needs):
            if k not in done and earlier.issubset(done):
                yield from go((*done, k))

    return go(())


def best_order(graph: Graph, target: Target, *, padded: bool = False) -> tuple[int, tuple[int, ...]]:
    """The smallest peak of all orders, and an order that has it; peaks as `simulate` counts them.

    A beginning of an order is given up where its peak is no smaller than that of a whole order, or where the same
    operators have run in another order with no larger peak and the same memory is alive.
    """
    needs = before(graph, target)
    machine = Machine(Stage(graph, target), padded=padded)
    if not needs:
        return machine.end(), ()
    best: tuple[int, tuple[int, ...]] | None = None
    seen: dict[object, int] = {}

    def go(machine: Machine, done: tuple[int, ...]) -> None:
        nonlocal best
        if best is not None and machine.peak >= best[0]:
            return
        state = (frozenset(done), frozenset(machine.alive))
        if seen.get(state, machine.peak + 1) <= machine.peak:
            return
        seen[state] = machine.peak
        if len(done) == len(needs):
            best = machine.end(), done
            return
        for k, earlier in enumerate(needs):
            if k not in done and earlier.issubset(done):
                after = machine.copy()
                after.run(k)
                go(after, (*done, k))

    go(machine, ())
    assert best is not None
    return best
