"""Orders of a training step's operators, found without edgemem's own code for them."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.torch import TrainingGraph

__all__ = ["random_order"]


def random_order(graph: TrainingGraph, seed: int) -> tuple[int, ...]:
    """Any order that keeps to the graph's rules."""
    rng = random.Random(seed)
    writer = {t: k for k, op in enumerate(graph.ops) for t in op.outputs}
    before = [{writer[t] for t in op.inputs if t in writer} for op in graph.ops]
    for first, then in graph.precedence:
        before[then].add(first)
    for first, then in pairwise([k for k, op in enumerate(graph.ops) if op.ordered]):
        before[then].add(first)
    order: list[int] = []
    left = set(range(len(graph.ops)))
    while left:
        order.append(rng.choice([k for k in sorted(left) if not before[k] & left]))
        left.remove(order[-1])
    return tuple(order)
