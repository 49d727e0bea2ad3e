"""Random graphs with targets, by number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from edgemem.targets import BUILT_IN, Region
from tests.oracle.orders.graphs import random_graph, random_target
from tests.oracle.orders.shapes import SHAPES, shape_graph

if TYPE_CHECKING:
    from edgemem import Target
    from edgemem.model.graph import Graph

__all__ = ["Case", "large_case", "related_case", "small_case"]


@dataclass(frozen=True, slots=True)
class Case:
    """A graph and a target; `name` is what made it."""

    name: str
    graph: Graph
    target: Target


def small_case(seed: int) -> Case:
    """A graph of nine operators or fewer, and a target."""
    rng = Random(f"small {seed}")
    form = rng.choice(("any", "any", "any", *SHAPES))
    graph = random_graph(rng, rng.randint(1, 9)) if form == "any" else shape_graph(rng, form, rng.randint(3, 9))
    target = random_target(rng, graph)
    return Case(f"small {seed} ({form})", _fit(graph, target), target)


def large_case(seed: int, low: int = 20, high: int = 300) -> Case:
    """A graph of many operators, and a target."""
    rng = Random(f"large {seed} {low} {high}")
    form = rng.choice(("any", *SHAPES))
    count = round(low * (high / low) ** rng.random())
    graph = random_graph(rng, count, bodies=rng.random() < 0.5) if form == "any" else shape_graph(rng, form, count)
    target = random_target(rng, graph)
    return Case(f"large {seed} {low} {high} ({form})", _fit(graph, target), target)


def related_case(seed: int) -> Case:
    """A graph of six operators or fewer under a target with overlaps, slots, pins or reserved ranges."""
    rng = Random(f"related {seed}")
    form = rng.choice(("any", *SHAPES))
    graph = random_graph(rng, rng.randint(1, 6)) if form == "any" else shape_graph(rng, form, rng.randint(3, 6))
    target = replace(BUILT_IN["tflm"], name="related", alignment=rng.choice((1, 16, 64)))
    what = rng.choice(("kernels", "slots", "pins", "reserved", "kernels", "both"))
    if what in ("kernels", "both"):
        target = replace(target, kernels="tflm-reference")
    if what in ("slots", "both"):
        target = replace(target, slots=True)
    made = [graph.tensors[i].name for op in graph.ops for i in op.outputs if i >= 0 and graph.tensors[i].size]
    if what == "pins" and made:
        target = replace(target, pins={rng.choice(made): target.alignment * rng.choice((0, 1, 3))})
    if what == "reserved":
        target = replace(target, regions=(Region("arena", reserved=((64, 96), (256, 300))),))
    return Case(f"related {seed} ({form}, {what})", graph, target)


def _fit(graph: Graph, target: Target) -> Graph:
    """Without workspace where the target has textures, which it cannot be in."""
    if not target.texels:
        return graph
    bare = tuple(replace(op, scratch=(), bodies=tuple(_fit(b, target) for b in op.bodies)) for op in graph.ops)
    return replace(graph, ops=bare)
