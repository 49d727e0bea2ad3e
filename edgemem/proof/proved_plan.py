"""Plans that were proved right: a type of their own, and the only function that makes it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Final, NoReturn, final
from weakref import WeakKeyDictionary

from edgemem.errors import InvalidPlanError, StalePlanError
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof.regions import sweep_capacity
from edgemem.proof.verification import verify_kernels, verify_planset
from edgemem.proof.violations import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.proof.violations import Violation

__all__ = ["Proved", "examine", "prove", "refuse"]

_KEY: Final = object()
# Plan sets that were proved, for what (`_case`), and which capacities they exceed; forgotten with the plan set.
_KNOWN: WeakKeyDictionary[PlanSet, dict[tuple[str, ...], tuple[Violation, ...]]] = WeakKeyDictionary()


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


def prove(planset: PlanSet, graph: Graph | None = None, *, kernels: str | None = None, remedy: str = "") -> Proved:
    """Prove a plan set; the very same object is not proved twice for one graph.

    The capacity of the target's regions is not checked here: a plan that exceeds it is still correct, and
    `edgemem.plan` reports the excess.

    Args:
        planset: the plans. Their offsets and object indices become read-only.
        graph: what they are for; without it only the usage records are proved.
        kernels: the kernel profile of the runtime that is to run them (`edgemem.model.profiles.PROFILES`). Results that
            overlap inputs must be far enough from them for it and for the target's profile. None: the target's alone.
        remedy: what the user can do about a wrong plan, for the error's message.

    Raises:
        InvalidPlanError: a plan is wrong; StalePlanError: it was made for another graph.
    """
    found = examine(planset, graph, kernels)
    refuse([v for v in found if v.cause is not Cause.OVER_CAPACITY], remedy=remedy)
    return Proved(planset, _name(graph), _KEY)


def examine(planset: PlanSet, graph: Graph | None = None, kernels: str | None = None) -> tuple[Violation, ...]:
    """`verify_planset`, but what was found right for this graph before is not gone through again."""
    of, known = _case(planset, graph, kernels), _KNOWN.get(planset, {})
    if of in known:
        return known[of]
    if graph is None and known:
        return tuple(sweep_capacity(planset))
    found = verify_planset(planset, graph)
    if graph is not None and kernels is not None:
        found += verify_kernels(planset, graph, kernels)
    if all(v.cause is Cause.OVER_CAPACITY for v in found):
        for plan in planset.plans:
            (plan.offsets if isinstance(plan, OffsetPlan) else plan.assignment).flags.writeable = False
            if isinstance(plan, OffsetPlan) and plan.regions is not None:
                plan.regions.flags.writeable = False
        _KNOWN.setdefault(planset, {})[of] = found
    return found


def _name(graph: Graph | None) -> str:
    if graph is None:
        return ""
    from edgemem.model.graph import digest  # a session proves plans of recordings

    return digest(graph)


def _case(planset: PlanSet, graph: Graph | None, kernels: str | None) -> tuple[str, ...]:
    """What a plan set is proved for.

    That is the graph ("" for the usage records alone) and, where the target has any, the kernels and the attributes of
    operators on which distances and slots depend.
    """
    target = planset.target
    if graph is None or target is None or (target.kernels == "none" and not target.slots):
        return (_name(graph),)
    return _name(graph), kernels or target.kernels, _attributes(graph)


def _attributes(graph: Graph) -> str:
    """SHA-256 (hex) of the attributes of all operators in order, which are not in the graph's digest."""
    from hashlib import sha256  # as in `edgemem.model.graph.digest`

    sha = sha256()
    for op in graph.ops:
        data = repr(sorted(op.attributes.items())).encode()
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()


def refuse(violations: Sequence[Violation], *, remedy: str = "") -> None:
    """Raise if there is a violation. The message has the first that names tensors; the error carries all of them."""
    if violations:
        kind = StalePlanError if violations[0].cause is Cause.STALE_DIGEST else InvalidPlanError
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        what = f"; {remedy}" if remedy else ""
        # The message has room for one: a violation that names tensors tells more than the size of an arena.
        told = next((v for v in violations if v.records), violations[0])
        raise kind(f"the plan is refused: {told}{more}{what}", violations=violations)
