"""The stored plans of a session: those in its model file, and those in the user's cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.plans import PlanSet, Settings
    from edgemem.proof import Proved
    from edgemem.replay.cache import PlanCache
    from edgemem.trace.recording import Fingerprint, Signature

__all__ = ["FoundPlan", "PlanSource", "StoredPlans"]

PlanSource: TypeAlias = Literal["file", "cache", "made now"]


@dataclass(frozen=True, slots=True, eq=False)
class FoundPlan:
    """A recording's plans, and where they came from."""

    proved: Proved
    source: PlanSource

    @property
    def planset(self) -> PlanSet:
        """The plans."""
        return self.proved.planset


class StoredPlans:
    """The recorded plans of one session.

    Args:
        session: the fingerprint of the session; its signature does not matter.
        embedded: plans of recordings in the model file.
        settings: for plans that are not in the file.
        cache: where new plans are stored, or None.
    """

    def __init__(
        self, session: Fingerprint, embedded: Sequence[Proved], settings: Settings, cache: PlanCache | None
    ) -> None:
        self._session = session
        self._embedded = tuple(
            (p.planset.recording.fingerprint, p) for p in embedded if p.planset.recording is not None
        )
        self._settings = settings
        self._cache = cache

    def fingerprint(self, signature: Signature) -> Fingerprint:
        """The session's, when it is called like this."""
        return replace(self._session, signature=signature)

    def find(self, signature: Signature) -> FoundPlan | None:
        """The plan for this signature, or None."""
        wanted = self.fingerprint(signature)
        for fingerprint, proved in self._embedded:
            if fingerprint == wanted:
                return FoundPlan(proved, "file")
        cached = self._cache.load(wanted, self._settings) if self._cache is not None else None
        return None if cached is None else FoundPlan(cached, "cache")

    def why_not_embedded(self, signature: Signature) -> str:
        """Why no plan in the model file is for this signature; "" if one is, or the file has none."""
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
