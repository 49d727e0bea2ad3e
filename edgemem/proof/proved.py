"""The mark of a plan set that was proved, and the only function that sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import InvalidPlanError, StalePlanError
from edgemem.model.graph import digest
from edgemem.plans import OffsetPlan
from edgemem.proof.verify import verify_planset
from edgemem.proof.violations import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.proof.violations import Violation

__all__ = ["is_proved_for", "prove", "refuse"]

_RECORDS_ALONE = "records"


def prove(planset: PlanSet, graph: Graph | None = None, *, remedy: str = "") -> PlanSet:
    """Prove a plan set and mark it as proved; gives back the same object.

    A copy does not have the mark, and the offsets and object indices of proved plans become read-only. A plan set that
    was proved for this graph before is not proved again. The capacity of the target's regions is not checked here: a
    plan that exceeds it is still correct, and `edgemem.plan` reports the excess.

    Args:
        planset: the plans.
        graph: what they are for; without it only the usage records are proved.
        remedy: what the user can do about a wrong plan, for the error's message.

    Raises:
        InvalidPlanError: a plan is wrong; StalePlanError: it was made for another graph.
    """
    if not is_proved_for(planset, graph):
        found = verify_planset(planset, graph)
        refuse([v for v in found if v.cause is not Cause.OVER_CAPACITY], remedy=remedy)
        for plan in planset.plans:
            (plan.offsets if isinstance(plan, OffsetPlan) else plan.assignment).flags.writeable = False
        object.__setattr__(planset, "proof_of", _RECORDS_ALONE if graph is None else digest(graph))
    return planset


def is_proved_for(planset: PlanSet, graph: Graph | None = None) -> bool:
    """Whether this very object was proved, against this graph if one is given."""
    if graph is None:
        return planset.proof_of is not None
    return planset.proof_of is not None and planset.proof_of == digest(graph)


def refuse(violations: Sequence[Violation], *, remedy: str = "") -> None:
    """Raise if there is a violation. The message has the first that names tensors; the error carries all of them."""
    if violations:
        kind = StalePlanError if violations[0].cause is Cause.STALE_DIGEST else InvalidPlanError
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        what = f"; {remedy}" if remedy else ""
        # The message has room for one: a violation that names tensors tells more than the size of an arena.
        told = next((v for v in violations if v.records), violations[0])
        raise kind(f"the plan is refused: {told}{more}{what}", violations=violations)
