"""The planner of a session's recordings, which is imported only if a plan is made."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

from edgemem.replay.worker import worker
from edgemem.runtime.onnxruntime.beginning import BEGINNING

if TYPE_CHECKING:
    from edgemem.plans import PlanSet, Settings
    from edgemem.trace.recording import Recording

__all__ = ["import_planner", "plan_recording"]

_PLANNER: Final = "edgemem.planning.recording_plan"


def import_planner(*, background: bool) -> None:
    """Before the first run: beside the caller, or, where the first run waits for its plan, at once."""

    def work() -> None:
        with BEGINNING:  # a child that is forked meanwhile could never import it
            import_module(_PLANNER)

    if not background:
        work()
        return
    with suppress(RuntimeError):  # without a thread, nothing is planned either
        worker().submit(work)


def plan_recording(recording: Recording, settings: Settings, *, is_first: bool = False) -> PlanSet:
    """The plan of a recording within what a file may ask for; quickly if it `is_first`."""
    planset: PlanSet = import_module(_PLANNER).plan_recording(recording, settings, from_file=True, is_first=is_first)
    return planset
