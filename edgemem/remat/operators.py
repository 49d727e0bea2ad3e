"""Operators that may run again: which do so without changing what the graph computes, and what each run costs.

    time of an operator  ~  multiply-accumulate operations / how many are done while a byte is moved  +  bytes moved

A cost is that time in bytes: a cost of 1000 is the time in which 1000 bytes are read or written. Costs are only ever
compared and added up, so that the unit does not matter; measured times of operators, as whole numbers, do as well.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from edgemem.model.macs import macs_of
from edgemem.model.random import is_random

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.schedule.problem import OrderProblem
    from edgemem.targets import Target

__all__ = ["MACS_PER_BYTE", "estimated_costs", "repeatable"]

# A Cortex-M7 or a CPU with vectors does about as many multiply-accumulate operations of int8 as it moves bytes from or
# to its memory (not its cache), within a factor of four.
MACS_PER_BYTE = 1.0


def estimated_costs(graph: Graph, problem: OrderProblem, *, macs_per_byte: float = MACS_PER_BYTE) -> tuple[int, ...]:
    """For each operator the cost of one run, a whole number from 0.

    Bytes moved are those of all tensors that the operator reads and writes, weights too. An operator that is a view
    moves nothing and costs 0. Bodies that an operator runs are left out.

    Args:
        graph: whose operators are priced.
        problem: `order_problem` of it: its target's rules say what is a view.
        macs_per_byte: how many multiply-accumulate operations are done in the time in which a byte is moved.
    """
    sizes = [t.size if t.kind != "opaque" else 0 for t in graph.tensors]
    costs = []
    for k, op in enumerate(graph.ops):
        moved = sum(sizes[i] for i in {*op.inputs, *op.outputs} if i >= 0)
        is_view = not problem.writes[k] and any(graph.tensors[i].kind == "activation" for i in op.outputs if i >= 0)
        is_outside = any(i in graph.outputs for i in op.outputs)
        costs.append(0 if is_view and not is_outside else ceil(macs_of(graph, op) / macs_per_byte) + moved)
    return tuple(costs)


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
        if not (op.ordered or op.bodies or is_random(op.type, [i >= 0 for i in op.inputs]) or k in placed)
        and any(i >= 0 for i in op.outputs)
        and fixed.isdisjoint((*op.inputs, *op.outputs))
    )
