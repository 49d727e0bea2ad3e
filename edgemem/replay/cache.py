"""Where a session finds its plans: in the model file, or in the user's own store, one small file a fingerprint.

The store lies in $EDGEMEM_CACHE/plans, or `edgemem/plans` in the platform's folder for caches, and may be deleted at
any time. What is damaged there counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from edgemem.files import atomic_write
from edgemem.replay.recording import decode, encode

if TYPE_CHECKING:
    from edgemem.replay.recording import Fingerprint, RecordedPlan, Signature

__all__ = ["PlanCache", "StoredPlans", "cache_folder"]


def cache_folder() -> Path:
    """Where recorded plans are kept when nothing else is said."""
    home = os.environ.get("EDGEMEM_CACHE")
    if home:
        return Path(home) / "plans"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "edgemem" / "plans"


class PlanCache:
    """Recorded plans by fingerprint in a folder. Nothing here raises: a cache that fails is an empty one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, fingerprint: Fingerprint) -> RecordedPlan | None:
        """The plan recorded with exactly this fingerprint, or None."""
        try:
            plans = decode(self._path(fingerprint).read_bytes())
        except (OSError, EdgememError):
            return None
        return next((p for p in plans if p.fingerprint == fingerprint), None)

    def save(self, plan: RecordedPlan) -> None:
        """Keep a plan in place of an older one, whole or not at all."""
        path = self._path(plan.fingerprint)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(encode((plan,)))

    def _path(self, fingerprint: Fingerprint) -> Path:
        text = json.dumps(asdict(fingerprint), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.trace"


class StoredPlans:
    """The plans of one session, from its model file and from a cache.

    Args:
        session: the fingerprint of the session; its signature does not matter.
        embedded: the encoded plans in the model file, or None.
        cache: where new plans are kept, or None.

    Raises PlanFileError or InvalidPlanError if the plans in the file are damaged or wrong.
    """

    def __init__(self, session: Fingerprint, embedded: bytes | None, cache: PlanCache | None) -> None:
        self._session = session
        self._embedded = decode(embedded) if embedded is not None else ()
        self._cache = cache
        self.stale = ""  # why the model file's plans were not used the last time

    def fingerprint(self, signature: Signature) -> Fingerprint:
        """The session's, when it is called like this."""
        return replace(self._session, signature=signature)

    def find(self, signature: Signature) -> RecordedPlan | None:
        """The plan for this signature, or None."""
        wanted = self.fingerprint(signature)
        for plan in self._embedded:
            if plan.fingerprint == wanted:
                self.stale = ""
                return plan
        if self._embedded:
            nearest = min((p.fingerprint.differences(wanted) for p in self._embedded), key=len)
            self.stale = f"the model file's recorded plan is not for this session: {'; '.join(nearest)}"
        return self._cache.load(wanted) if self._cache is not None else None

    def keep(self, plan: RecordedPlan) -> None:
        """Store a new plan for the next session."""
        if self._cache is not None:
            self._cache.save(plan)
