"""What a session keeps of its file's plans when it is opened, and makes of them when it is first used.

A session that is opened and does not run needs none of what reads, proves and replays plans.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from edgemem import planfile
from edgemem.errors import InvalidPlanError, PlanFileError
from edgemem.runtime.onnxruntime.file import plan_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.planfile.protobuf import Content
    from edgemem.replay.policy import ReplayPolicy
    from edgemem.replay.replayer import Replayer
    from edgemem.trace.recording import Fingerprint

__all__ = ["FirstUse", "stored_plans"]


def stored_plans(data: Content, *, stored: bool) -> bytes:
    """The plan sets in a model as they are coded. Damaged ones are an error only if stored plans are to be run."""
    try:
        return plan_bytes(data)
    except PlanFileError:
        if stored:
            raise
        return b""


class FirstUse:
    """Makes the replayer of a session when it is first needed; copies of the session share it.

    Args:
        fingerprint: of the session.
        plans: of its file (`stored_plans`).
        policy, stored, named: as `replayer_for` has them.
    """

    def __init__(
        self, fingerprint: Callable[[], Fingerprint], plans: bytes, policy: ReplayPolicy, *, stored: bool, **named: Any
    ) -> None:
        self._make: Callable[[], Replayer] | None = partial(
            _make_replayer, fingerprint, plans, policy, stored=stored, **named
        )
        self._replayer: Replayer | None = None
        self._refusal: Callable[[], Exception] | None = None

    def replayer(self) -> Replayer:
        """The replayer; the caller holds the lock of sessions that begin.

        Raises PlanFileError for plans that are malformed, and as `replayer_for`. A plan that was wrong is not proved
        again: the error is told anew.
        """
        if self._refusal is not None:
            raise self._refusal()
        if self._make is not None:
            try:
                self._replayer, self._make = self._make(), None  # which holds the session
            except InvalidPlanError as e:
                self._refusal = partial(type(e), *e.args, violations=e.violations)  # e itself holds the caller's frames
                raise
        assert self._replayer is not None
        return self._replayer


def _make_replayer(
    fingerprint: Callable[[], Fingerprint], plans: bytes, policy: ReplayPolicy, *, stored: bool, **named: Any
) -> Replayer:
    from edgemem.runtime.onnxruntime.session_replayer import replayer_for

    try:
        plansets = planfile.decode_all(plans) if plans else ()
    except PlanFileError:
        if stored:
            raise
        plansets = ()
    return replayer_for(fingerprint(), plansets, policy, stored=stored, **named)
