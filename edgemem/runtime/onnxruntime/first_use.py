"""What a session keeps of its file's plans when it is opened, and makes of them when it is first used.

A session that is opened and does not run needs none of what reads, proves and replays plans.
"""

from __future__ import annotations

import _thread  # as in file.py
import os
from typing import TYPE_CHECKING, Any, Final

from edgemem import planfile
from edgemem.errors import PlanFileError
from edgemem.runtime.onnxruntime.file import plan_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.planfile.protobuf import Content
    from edgemem.replay.policy import ReplayPolicy
    from edgemem.replay.replayer import Replayer
    from edgemem.trace.recording import Fingerprint

__all__ = ["BEGINNING", "make_replayer", "stored_plans"]

# Held while a session makes its replayer, and by forks: a child has none of its parent's threads, so that it would wait
# for ever for a module that one of them was importing.
BEGINNING: Final = _thread.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=BEGINNING.acquire, after_in_parent=BEGINNING.release, after_in_child=BEGINNING.release)


def stored_plans(data: Content, *, stored: bool) -> bytes:
    """The plan sets in a model as they are coded. Damaged ones are an error only if stored plans are to be run."""
    try:
        return plan_bytes(data)
    except PlanFileError:
        if stored:
            raise
        return b""


def make_replayer(
    fingerprint: Callable[[], Fingerprint], plans: bytes, policy: ReplayPolicy, *, stored: bool, **named: Any
) -> Replayer:
    """The replayer of a session whose file has these plans (`stored_plans`); the rest as `replayer_for` has it.

    Raises PlanFileError for plans that are malformed, and as `replayer_for`.
    """
    from edgemem.runtime.onnxruntime.session_replayer import replayer_for

    try:
        plansets = planfile.decode_all(plans) if plans else ()
    except PlanFileError:
        if stored:
            raise
        plansets = ()
    return replayer_for(fingerprint(), plansets, policy, stored=stored, **named)
