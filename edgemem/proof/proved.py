"""Plans that were proved right: a type of their own, and the only function that makes it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Final, NoReturn, final
from weakref import WeakKeyDictionary

from edgemem.errors import InvalidPlanError, StalePlanError
from edgemem.model.graph import digest
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof.regions import sweep_capacity
from edgemem.proof.verify import verify_planset
from edgemem.proof.violations import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.proof.violations import Violation

__all__ = ["Proved", "examine", "prove", "refuse"]

_KEY: Final = object()
# Plan sets that were proved, and for which graphs ("" for their usage records alone); forgotten with the plan set.
_KNOWN: WeakKeyDictionary[PlanSet, set[str]] = WeakKeyDictionary()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Proved:
    """Plans that `prove` found right. Whatever runs, exports or shows a plan takes one of these.

    Attributes:
        planset: the plans; their offsets and object indices are read-only.
        graph: the digest of the graph that they were proved for; "" if only their usage records were.
    """

    planset: PlanSet
    graph: str
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        """Raises TypeError for everyone but `prove`."""
        if key is not _KEY:
            raise TypeError("only edgemem.proof.prove makes a Proved")

    def __reduce__(self) -> NoReturn:
        """A copy would not be proved."""
        raise TypeError("a Proved cannot be copied or pickled; copy its plan set, and prove it again")


def prove(planset: PlanSet, graph: Graph | None = None, *, remedy: str = "") -> Proved:
    """Prove a plan set; the very same object is not proved twice for one graph.

    The capacity of the target's regions is not checked here: a plan that exceeds it is still correct, and
    `edgemem.plan` reports the excess.

    Args:
        planset: the plans. Their offsets and object indices become read-only.
        graph: what they are for; without it only the usage records are proved.
        remedy: what the user can do about a wrong plan, for the error's message.

    Raises:
        InvalidPlanError: a plan is wrong; StalePlanError: it was made for another graph.
    """
    refuse([v for v in examine(planset, graph) if v.cause is not Cause.OVER_CAPACITY], remedy=remedy)
    return Proved(planset, _name(graph), _KEY)


def examine(planset: PlanSet, graph: Graph | None = None) -> tuple[Violation, ...]:
    """`verify_planset`, but what was found right for this graph before is not gone through again."""
    of, known = _name(graph), _KNOWN.get(planset, ())
    if of in known or (graph is None and known):
        return tuple(sweep_capacity(planset))
    found = verify_planset(planset, graph)
    if all(v.cause is Cause.OVER_CAPACITY for v in found):
        for plan in planset.plans:
            (plan.offsets if isinstance(plan, OffsetPlan) else plan.assignment).flags.writeable = False
            if isinstance(plan, OffsetPlan) and plan.regions is not None:
                plan.regions.flags.writeable = False
        _KNOWN.setdefault(planset, set()).add(of)
    return found


def _name(graph: Graph | None) -> str:
    return "" if graph is None else digest(graph)


def refuse(violations: Sequence[Violation], *, remedy: str = "") -> None:
    """Raise if there is a violation. The message has the first that names tensors; the error carries all of them."""
    if violations:
        kind = StalePlanError if violations[0].cause is Cause.STALE_DIGEST else InvalidPlanError
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        what = f"; {remedy}" if remedy else ""
        # The message has room for one: a violation that names tensors tells more than the size of an arena.
        told = next((v for v in violations if v.records), violations[0])
        raise kind(f"the plan is refused: {told}{more}{what}", violations=violations)
