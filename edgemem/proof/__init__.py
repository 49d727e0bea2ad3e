"""Proof that a plan is right, independent of how it was made.

Nothing here imports a strategy, a kernel or the lifetime rules: records, plans, graphs and the aliasing table are
all it knows. Two arguments, either of which refutes a bad plan:

1. A sweep over time (`sweep`): records alive at the same operator never overlap in the arena, nor share an object;
   offsets are aligned, inside, where they are pinned and in no reserved range; sizes, bounds and counts are what they
   claim to be.
2. With the graph, a rehearsal (`rehearsal`): the graph runs inside the plan, and nothing is read after it was
   overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.proof.rehearsal import rehearse
from edgemem.proof.sweep import sweep_claims, sweep_plan
from edgemem.proof.violations import MOST, Cause, Violation

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = ["Cause", "Violation", "sweep_plan", "verify_planset"]


def verify_planset(planset: PlanSet, graph: Graph | None = None) -> tuple[Violation, ...]:
    """Everything that is wrong with a set of plans; () proves them right.

    With the graph they claim to belong to, also that they do, and that the graph runs inside each of them.
    """
    found = list(sweep_claims(planset))
    for plan in planset.plans:
        found += sweep_plan(planset.problem, plan, planset.target)
    if graph is not None:
        found += rehearse(planset, graph)
    return tuple(found[:MOST])
