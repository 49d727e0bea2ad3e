"""Makes the replayer of a session; imported when the session first needs it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.cache import PlanCache, cache_folder
from edgemem.replay.cuda import DeviceMemory
from edgemem.replay.library import DEVICE, HOST
from edgemem.replay.replayer import Replayer
from edgemem.replay.store import StoredPlans
from edgemem.runtime.onnxruntime.session_plans import import_planner, plan_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.plans import PlanSet
    from edgemem.replay.arena import Arena
    from edgemem.replay.policy import ReplayPolicy
    from edgemem.trace.recording import Fingerprint

__all__ = ["replayer_for"]

_SILENT: Final = (
    "the run asked edgemem's allocator for nothing: it had nothing to compute, or another allocator was registered for "
    "the process"
)


def replayer_for(
    fingerprint: Fingerprint,
    plansets: Sequence[PlanSet],
    policy: ReplayPolicy,
    *,
    stored: bool,
    cache: bool | Path,
    place: Callable[[], str],
    arena: Arena | None,
    is_device: bool,
    guard: bool,
) -> Replayer:
    """The replayer of a session whose file has these plans; arguments as `InferenceSession` has them.

    `place`: as `PlanCache` has it.

    Raises InvalidPlanError for a wrong plan.
    """
    # The settings of the graph's plan apply to recordings, too, within what a file may ask for.
    settings = next((p.settings for p in plansets if p.recording is None), Settings())
    recordings = [prove(p, remedy="record it again") for p in plansets if p.recording is not None and stored]
    folder = cache_folder() if cache is True else Path(cache) if cache else None
    plans = StoredPlans(fingerprint, recordings, settings, PlanCache(folder, place()) if folder is not None else None)
    if plans.is_empty and policy.record != "never":
        import_planner(background=policy.background)
    make_replayer: Callable[..., Replayer] = Replayer
    if policy.max_bytes is not None:
        from edgemem.replay.budget import BudgetedReplayer  # for these sessions alone

        make_replayer = partial(BudgetedReplayer, most_bytes=policy.max_bytes)
    replayer = make_replayer(
        plans,
        first=partial(plan_recording, settings=settings, is_first=True),
        better=partial(plan_recording, settings=settings),
        policy=policy,
        silent=_SILENT,
        shared=arena,
        kind=DEVICE if is_device else HOST,
        make=DeviceMemory if is_device else partial(ArenaMemory, guard=guard),
    )
    if policy.idle_seconds is not None:
        from edgemem.replay.idle import watch  # as above

        watch(replayer, policy.idle_seconds)
    return replayer
