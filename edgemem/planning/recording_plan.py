"""The one way from a recording to its proved plan: for sessions, the command line and `edgemem.plan` alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from edgemem.planning.choice import choices
from edgemem.planning.limits import bounded
from edgemem.planning.problem_plan import plan_with_settings
from edgemem.proof import prove

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.plans import PlanSet, Settings
    from edgemem.trace.recording import Recording

__all__ = ["for_offsets", "plan_recording", "replan_recording"]

_Limit = TypeVar("_Limit")

# Meets the lower bound of almost every recording of a network.
_QUICK = ("offsets/greedy_by_size",)

# What ONNX Runtime and the allocator of edgemem align every block to, in bytes.
_BLOCK_ALIGNMENT = 64


def plan_recording(
    recording: Recording,
    settings: Settings,
    *,
    names: Sequence[str] | None = None,
    from_file: bool = False,
    is_first: bool = False,
) -> PlanSet:
    """The smallest offset plan of a recorded stream, proved.

    Strategies for shared objects do not apply; if the settings name no other, those of `auto` are tried.
    A session plans while a caller waits, so `auto` stops at the first plan that meets the lower bound.

    Args:
        recording: the stream and what it belongs to.
        settings: what the user asked for; an alignment below 64 bytes is raised to 64.
        names: a label for every request; they default to `request 0`, `request 1`, ...
        from_file: the settings came with a file, and are followed as far as `edgemem.planning.limits.bounded` allows.
        is_first: instead of `auto` run one quick strategy alone.

    Raises:
        UnknownStrategyError, PlanError: as `edgemem.planning.make_plans`.
        InvalidPlanError: a strategy made a wrong plan (a bug).
    """
    wanted = bounded(settings) if from_file else settings
    if is_first and "auto" in wanted.strategies:
        wanted = replace(wanted, strategies=_QUICK, effort=None, seed=None, time_limit=None)
    alignment = max(wanted.alignment or _BLOCK_ALIGNMENT, _BLOCK_ALIGNMENT)
    problem = recording.trace.problem(alignment=alignment, names=names, outlive=recording.fingerprint.signature.shared)
    made = plan_with_settings(problem, for_offsets(wanted), families=("offsets",), quick=True)
    best = made.best_offsets
    assert best is not None
    fingerprint = recording.fingerprint
    versions = {**made.versions, fingerprint.runtime: fingerprint.version}
    return prove(
        replace(made, offsets=(best,), shared_objects=(), settings=settings, versions=versions, recording=recording)
    ).planset


def replan_recording(planset: PlanSet, settings: Settings) -> PlanSet:
    """The plan of the same recording with these settings; the same plan set if it was made with them.

    Raises as `plan_recording`.
    """
    recording = planset.recording
    assert recording is not None
    if planset.settings == settings:
        return planset
    requests = recording.trace.requests
    names = [f"request {k}" for k in range(len(requests))]
    planned = requests.searchsorted(planset.problem.first_op).tolist()
    for request, name in zip(planned, planset.problem.names, strict=True):
        names[request] = name
    return plan_recording(recording, settings, names=names)


def for_offsets(settings: Settings) -> Settings:
    """The settings without strategies for shared objects, and without limits that only those have."""
    found = [choice for name in settings.strategies for choice in choices(name) if choice.strategy.family == "offsets"]
    names = tuple(name for name in map(_in_offsets, settings.strategies) if name)
    if not found or "auto" in settings.strategies:
        return replace(settings, strategies=names or ("auto",))

    def kept(name: str, value: _Limit) -> _Limit | None:
        return value if any(name in choice.strategy.options for choice in found) else None

    return replace(
        settings,
        strategies=names,
        effort=kept("effort", settings.effort),
        seed=kept("seed", settings.seed),
        time_limit=kept("time_limit", settings.time_limit),
    )


def _in_offsets(name: str) -> str:
    """What names the same strategy among those for offsets; "" if there is none."""
    if name == "auto" or name.partition(":")[0].rpartition("/")[0]:
        return name if name == "auto" or all(c.strategy.family == "offsets" for c in choices(name)) else ""
    return f"offsets/{name}" if any(c.strategy.family == "offsets" for c in choices(name)) else ""
