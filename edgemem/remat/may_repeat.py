"""Which operators of a graph may run several times without changing what the graph computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.model.random import RANDOM

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["repeatable"]


def repeatable(graph: Graph, target: Target | None = None) -> frozenset[int]:
    """The operators that give the same results whenever they run after those that they wait for.

    All but those with side effects or bodies, or without results; those that draw random numbers or use a variable or
    an opaque value; and those that the graph itself gives a place before or after another one: what they read may be
    overwritten by then. Under a target, what reads a state does not run again either, since the next one overwrites it,
    nor what writes a graph output that the target leaves out of the arena.
    """
    fixed = {i for i, t in enumerate(graph.tensors) if t.kind in ("variable", "opaque")}
    if target is not None:
        fixed |= {i for i, t in enumerate(graph.tensors) if t.name in target.states}
        fixed |= set(graph.outputs) if target.outputs == "outside" else set()
    placed = {k for pair in graph.precedence for k in pair}
    return frozenset(
        k
        for k, op in enumerate(graph.ops)
        if not (op.ordered or op.bodies or op.type in RANDOM or k in placed)
        and any(i >= 0 for i in op.outputs)
        and fixed.isdisjoint((*op.inputs, *op.outputs))
    )
