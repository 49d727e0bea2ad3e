"""The stored plans of a session: those in its model file, and those in the user's cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.trace.merged_trace import is_part_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.plans import PlanSet, Settings
    from edgemem.proof import Proved
    from edgemem.replay.cache import PlanCache
    from edgemem.trace import Trace
    from edgemem.trace.recording import Fingerprint, Signature

__all__ = ["ENOUGH", "FoundPlan", "PlanSource", "StoredPlans"]

ENOUGH: Final = 1.05  # of what is needed; a plan that takes more is not kept

PlanSource: TypeAlias = Literal["file", "cache", "made now"]


@dataclass(frozen=True, slots=True, eq=False)
class FoundPlan:
    """A recording's plans, and where they came from.

    Attributes:
        proved: the plans.
        source: where they came from.
        exact: plans of what was recorded alone; None if these plans have no headroom beyond it.
    """

    proved: Proved
    source: PlanSource
    exact: PlanSet | None = None

    @property
    def planset(self) -> PlanSet:
        """The plans."""
        return self.proved.planset

    @property
    def trace(self) -> Trace:
        """What the plan is made for; AssertionError if it is none of a recording."""
        return _trace_of(self.planset)

    @property
    def recorded(self) -> Trace:
        """What was recorded: the trace without headroom."""
        return _trace_of(self.exact or self.planset)

    @property
    def bound(self) -> int:
        """Lower bound of the arena for what was recorded, in bytes."""
        return (self.exact or self.planset).bounds.offsets

    @property
    def outside(self) -> int:
        """Bytes of the requests without a place in the plan: results, and blocks that outlive the run."""
        return int(self.trace.size.sum() - self.planset.problem.size.sum())


class StoredPlans:
    """The recorded plans of one session.

    Args:
        session: the fingerprint of the session; its signature does not matter.
        embedded: plans of recordings in the model file.
        settings: for plans that are not in the file.
        cache: where new plans are stored, or None. It is read here, once.
    """

    def __init__(
        self, session: Fingerprint, embedded: Sequence[Proved], settings: Settings, cache: PlanCache | None
    ) -> None:
        self._session = session
        self._embedded = tuple((r.fingerprint, FoundPlan(p, "file")) for p in embedded if (r := p.planset.recording))
        self._cache = cache
        cached = cache.load(session, settings) if cache is not None else ()
        self._cached = tuple((r.fingerprint, FoundPlan(p, "cache")) for p in cached if (r := p.planset.recording))

    @property
    def is_empty(self) -> bool:
        """Whether there is no plan, of any call."""
        return not (self._embedded or self._cached)

    def fingerprint(self, signature: Signature) -> Fingerprint:
        """The session's, when it is called like this."""
        return replace(self._session, signature=signature)

    def find(self, signature: Signature) -> list[FoundPlan]:
        """The plans for calls like this, of any shapes, those that are to be preferred last.

        A plan in the model file comes before one in the cache. One of the same shapes that was recorded here, because
        the file's did not hold on this processor, is used instead if it takes no more memory.
        """
        wanted = self.fingerprint(signature)
        fitting = [
            found
            for fingerprint, found in (*reversed(self._cached), *self._embedded)
            if fingerprint.session == wanted.session and fingerprint.signature.family == signature.family
        ]
        embedded = [found for found in fitting if found.source == "file"]
        local = [found for found in fitting if found.source == "cache" and any(_replaces(found, e) for e in embedded)]
        return [found for found in fitting if found not in local] + local

    def why_not_embedded(self, signature: Signature) -> str:
        """Why no plan in the model file is for this call; "" if one is, or the file has none."""
        wanted = self.fingerprint(signature)
        differences = [fingerprint.differences(wanted) for fingerprint, _ in self._embedded]
        if not all(differences):
            return ""
        nearest = min(differences, key=len, default=())
        return f"the model file's recorded plan is not for this session: {'; '.join(nearest)}" if nearest else ""

    def keep(self, planset: PlanSet) -> None:
        """Store a new plan for the next session."""
        if self._cache is not None:
            self._cache.save(planset)


def _trace_of(planset: PlanSet) -> Trace:
    recording = planset.recording
    assert recording is not None
    return recording.trace


def _replaces(cached: FoundPlan, embedded: FoundPlan) -> bool:
    """Whether a cached plan serves runs of the file's shapes that the file's plan does not, in as much memory."""
    one, other = cached.planset, embedded.planset
    assert one.recording is not None
    assert other.recording is not None
    assert one.best_offsets is not None
    assert other.best_offsets is not None
    return (
        one.recording.fingerprint.signature.inputs == other.recording.fingerprint.signature.inputs
        and not is_part_of(cached.trace, embedded.trace)
        and one.best_offsets.size <= ENOUGH * other.best_offsets.size
    )
