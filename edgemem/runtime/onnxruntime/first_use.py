"""What a session keeps of its file's plans when it is opened, and makes of them when it is first used.

A session that is opened and does not run needs none of what reads, proves and replays plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem import planfile
from edgemem.errors import PlanFileError
from edgemem.runtime.onnxruntime.file import plan_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.planfile.protobuf import Content
    from edgemem.replay.policy import ReplayPolicy
    from edgemem.replay.replayer import Replayer
    from edgemem.trace.recording import Fingerprint

__all__ = ["make_replayer", "stored_plans"]


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
