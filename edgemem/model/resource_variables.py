"""The resource variables of a .tflite file, which operators reach by handles that VAR_HANDLE makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgemem.model.graph import Graph, Op

__all__ = ["all_operators", "variable_of", "variables_of"]


def all_operators(graph: Graph) -> Iterator[tuple[Graph, Op]]:
    """The operators of a graph with the graph that each is in: those of bodies, and of what no operator runs, too."""
    for op in graph.ops:
        yield graph, op
        for body in op.bodies:
            yield from all_operators(body)
    for other in graph.others:
        yield from all_operators(other)


def variable_of(graph: Graph, op: Op) -> str:
    """The variable that an operator of a graph reads or assigns; "" where its handle comes from elsewhere."""
    maker = next((o for o in graph.ops if o.type == "VAR_HANDLE" and o.outputs[:1] == op.inputs[:1]), None)
    return str(maker.attributes.get("variable", "")) if maker is not None else ""


def variables_of(operators: Iterable[tuple[Graph, Op]]) -> int:
    """How many resource variables operators have handles of."""
    return len({op.attributes.get("variable") for _, op in operators if op.type == "VAR_HANDLE"})
