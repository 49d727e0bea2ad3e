"""Operators in time: the steps that lifetimes, proofs, orders and rematerialisation count.

Every operator is one step. The operators of its bodies come right before it, one body after the other, so that a
body's tensors live no longer than the operator that runs it, and the two branches of an `If` may share memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Op

__all__ = ["Step", "body_path", "scratch_name", "steps_of"]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator at its place in time.

    Attributes:
        label: the operator's name, or its type if it has none, with the path through the bodies that it is in.
        op: the operator.
        graph: the one that the operator is in: the graph itself, or one of its bodies.
        reads: names of its inputs, "" for an absent one.
        writes: names of its outputs, "" for an absent one.
        starts: the first step of each of its bodies; empty where bodies are left out.
        depth: how many bodies it is in; 0 in the graph itself.
        index: its place among the operators of its own graph.
    """

    label: str
    op: Op
    graph: Graph
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    starts: tuple[int, ...]
    depth: int
    index: int


def steps_of(graph: Graph, *, bodies: bool = True) -> tuple[Step, ...]:
    """All operators in the order of time, those of bodies (if wanted) before the operator that runs them."""
    steps: list[Step] = []

    def walk(g: Graph, path: str, depth: int) -> None:
        names = [t.name for t in g.tensors]
        names.append("")  # index -1: absent
        for index, op in enumerate(g.ops):
            starts = []
            label = f"{path}{op.name or op.type}"
            for k, body in enumerate(op.bodies if bodies else ()):
                starts.append(len(steps))
                walk(body, body_path(label, op, k), depth + 1)
            reads, writes = tuple(names[i] for i in op.inputs), tuple(names[i] for i in op.outputs)
            steps.append(Step(label, op, g, reads, writes, tuple(starts), depth, index))

    walk(graph, "", 0)
    return tuple(steps)


def body_path(label: str, op: Op, k: int) -> str:
    """The path of the k-th body of the operator with this label; one that has run under this name says which it is."""
    name = op.bodies[k].name
    again = any(body.name == name for body in op.bodies[:k])
    return f"{label}/{name}#{k}/" if again else f"{label}/{name}/"


def scratch_name(label: str, k: int) -> str:
    """The name of the usage record for the k-th workspace of the operator with this label, counted from 0."""
    return f"{label}:scratch{k}"
