"""The user's own store of recorded plans: one small plan file a fingerprint.

The folder is $EDGEMEM_CACHE/plans, or `edgemem/plans` in the platform's folder for caches, and may be deleted at any
time. A damaged file, or one whose content does not belong to its name, counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem import planfile
from edgemem.errors import EdgememError
from edgemem.files import write_entry
from edgemem.proof import prove
from edgemem.reading import read_bounded

if TYPE_CHECKING:
    from edgemem.plans import PlanSet, Settings
    from edgemem.proof import Proved
    from edgemem.trace.recording import Fingerprint

__all__ = ["PlanCache", "cache_folder"]

MOST_BYTES: Final = 1 << 25  # of one file; the plan of a million events, the most that are recorded, is smaller


def cache_folder() -> Path | None:
    """The default folder of recorded plans; None if the user has no folder for caches."""
    if home := os.environ.get("EDGEMEM_CACHE"):
        return Path(home) / "plans"
    import platformdirs  # only where a session has no folder of its own

    try:
        folder = platformdirs.user_cache_path("edgemem", appauthor=False)
    except (RuntimeError, OSError):  # there is no home
        return None
    return folder / "plans" if folder.is_absolute() else None


class PlanCache:
    """Recorded plans by fingerprint and settings in a folder. No method raises: a failed access counts as no plan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, fingerprint: Fingerprint, settings: Settings) -> Proved | None:
        """The plan recorded with exactly this fingerprint and made with these settings, proved; or None."""
        try:
            planset = planfile.decode(read_bounded(self._path(fingerprint, settings), MOST_BYTES, follow=False))
            recording = planset.recording
            if recording is None or recording.fingerprint != fingerprint or planset.settings != settings:
                return None
            return prove(planset)
        except (OSError, ValueError, MemoryError, EdgememError):
            return None

    def save(self, planset: PlanSet) -> None:
        """Keep the plan of a recording in place of an older one, whole or not at all."""
        assert planset.recording is not None
        path = self._path(planset.recording.fingerprint, planset.settings)
        with suppress(OSError, ValueError, EdgememError):
            write_entry(path, planfile.encode(planset))

    def _path(self, fingerprint: Fingerprint, settings: Settings) -> Path:
        text = json.dumps([asdict(fingerprint), asdict(settings)], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.edgemem"
