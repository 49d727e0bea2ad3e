"""Random changes of honest plan sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from tests.oracle.memory_plans import graph_mutations, place_mutations, record_mutations, rule_mutations
from tests.oracle.memory_plans.draft import MUTATIONS, Draft, draft_of, planset_of

if TYPE_CHECKING:
    from random import Random

    from edgemem import PlanSet
    from tests.oracle.memory_plans.program import Program

__all__ = ["mutated"]

del (
    graph_mutations,
    place_mutations,
    record_mutations,
    rule_mutations,
)  # they register their changes as they are imported


def mutated(rng: Random, planset: PlanSet, program: Program) -> tuple[str, PlanSet] | None:
    """A changed plan set and what was changed; None where the change does not apply or cannot be put together."""
    if not planset.problem.records or not planset.plans:
        return None
    name = rng.choice(list(MUTATIONS))
    draft = draft_of(program, planset, rng.choice(planset.plans))
    try:
        made = MUTATIONS[name](rng, draft)
        if made is None:
            return None
        if isinstance(made, Draft):
            made = planset_of(made, repaired=rng.random() < 0.8)
    except (EdgememError, TypeError, ValueError):
        return None
    return name, made
