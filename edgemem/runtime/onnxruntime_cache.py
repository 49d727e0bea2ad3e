"""A user's own store of recorded plans, for models whose file has none: one small file a fingerprint.

It lies in $EDGEMEM_CACHE/plans, or `edgemem/plans` in the platform's folder for caches, and may be deleted at any
time. What is damaged there counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from edgemem.files import atomic_write
from edgemem.runtime.onnxruntime_plan import decode, encode

if TYPE_CHECKING:
    from edgemem.runtime.onnxruntime_plan import Fingerprint, RecordedPlan

__all__ = ["PlanCache", "cache_folder"]


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
