"""The user's own store of recorded plans: one small plan file for the runs of a session that are called alike.

The folder is $EDGEMEM_CACHE/plans, or `edgemem/plans` in the platform's folder for caches, and may be deleted at any
time. A damaged file, or one whose content does not belong to its name, counts as absent. Files that were not used for
long, and the oldest of too many, are removed.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from edgemem import planfile
from edgemem.errors import EdgememError
from edgemem.proof import prove
from edgemem.replay.digest import sha256
from edgemem.system.caches import cache_folder, last_used, prune
from edgemem.system.files import write_entry
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet, Settings
    from edgemem.proof import Proved
    from edgemem.trace.recording import Fingerprint

__all__ = ["PlanCache", "cache_folder"]

MOST_BYTES: Final = 1 << 25  # of one file; the plan of a million events, the most that are recorded, is smaller
MOST_FILES: Final = 512
MOST_TOTAL: Final = 1 << 27  # bytes of all files
_MOST_OF_A_SESSION: Final = 32  # files that are read


class PlanCache:
    """Recorded plans by session and settings in a folder. No method raises: a failed access counts as no plan.

    Args:
        folder: where they are.
        place: what else the requests depend on, which a plan file does not tell: the processor, further options.
    """

    def __init__(self, folder: Path, place: str = "") -> None:
        self.folder = folder
        self._place = place

    def load(self, session: Fingerprint, settings: Settings) -> tuple[Proved, ...]:
        """The proved plans that such sessions recorded and made with these settings, the latest first."""
        found = []
        pattern = f"{_digest(_session_key(session), asdict(settings), self._place)}-*.edgemem"
        for path in last_used(self.folder, pattern)[:_MOST_OF_A_SESSION]:
            try:
                planset = planfile.decode(read_bounded(path, MOST_BYTES, follow=False))
                recording = planset.recording
                if recording is None or path != self._path(planset) or recording.fingerprint.session != session.session:
                    continue
                found.append(prove(planset))
                os.utime(path)
            except (OSError, ValueError, MemoryError, EdgememError):
                continue
        return tuple(found)

    def save(self, planset: PlanSet) -> None:
        """Keep the plan of a recording, whole or not at all, in place of an older one for as many requests."""
        with suppress(OSError, ValueError, EdgememError):
            write_entry(self._path(planset), planfile.encode(planset))
            prune(self.folder, "*.edgemem", MOST_FILES, MOST_TOTAL)

    def _path(self, planset: PlanSet) -> Path:
        recording = planset.recording
        assert recording is not None
        session = _digest(_session_key(recording.fingerprint), asdict(planset.settings), self._place)
        run = _digest(repr(recording.fingerprint.signature.family), len(recording.trace.requests))
        return self.folder / f"{session}-{run[:16]}.edgemem"


def _session_key(fingerprint: Fingerprint) -> str:
    return repr(fingerprint.session)


def _digest(*values: object) -> str:
    text = json.dumps(values, sort_keys=True)
    return sha256([text.encode()])[:40]
