"""The one way from a model, a graph, a recording or plain usage records to a set of proved plans.

Every command and every executor that makes a plan makes it here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from edgemem.distribution import VERSION
from edgemem.formats import Assuming, Bindings, Model
from edgemem.model.graph import Graph, digest
from edgemem.planning.choice import choices
from edgemem.planning.limits import Limits, bounded
from edgemem.planning.plan_sets import make_plans
from edgemem.planning.workspace import with_workspace
from edgemem.proof import prove
from edgemem.records.lifetime import lifetimes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.planning.choice import Choice
    from edgemem.plans import PlanSet, Settings
    from edgemem.records.problem import Problem
    from edgemem.strategy.registry import Family
    from edgemem.targets import Target
    from edgemem.trace.recording import Recording

__all__ = ["FAMILIES", "graph_under", "plan_graph", "plan_model", "plan_problem", "plan_recording", "replan_recording"]

FAMILIES: tuple[Family, ...] = ("offsets", "shared_objects")

_Limit = TypeVar("_Limit")

# What ONNX Runtime and the allocator of edgemem align every block to, in bytes.
_BLOCK_ALIGNMENT = 64


def plan_model(
    model: Model,
    target: Target,
    settings: Settings,
    *,
    families: Sequence[Family] = FAMILIES,
    fits: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Proved plans of a model's graph under a target.

    Arguments and errors are those of `plan_graph`. The sizes of inputs that the file leaves open are kept with those
    that the user gave; UnknownShapeError if they are not to be had.
    """
    assumed = model.assumed_inputs() if isinstance(model, Assuming) else {}
    bindings = replace(model.bindings, input_shapes={**assumed, **model.bindings.input_shapes})
    return plan_graph(
        graph_under(model, target),
        target,
        settings,
        bindings=bindings,
        families=families,
        fits=fits,
        progress=progress,
    )


def graph_under(model: Model, target: Target) -> Graph:
    """The model's graph as the target's runtime runs it, with the workspace of its kernels if the target asks for it.

    Raises as `Model.graph` and the runtime that is asked.
    """
    return with_workspace(model.graph(), model, target)


def plan_graph(
    graph: Graph,
    target: Target,
    settings: Settings,
    *,
    bindings: Bindings | None = None,
    families: Sequence[Family] = FAMILIES,
    fits: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Proved plans of a graph under a target.

    Args:
        graph: operators in the order in which they run.
        target: the rules of the memory.
        settings: what the user asked for. An alignment replaces the target's.
        bindings: what the model's sizes were bound to; kept in the plan set.
        families: what `auto` covers.
        fits: bytes that the arena should not exceed; `auto` searches again where it does.
        progress: called with each strategy's name before it runs.

    Raises:
        UnknownStrategyError, PlanError: as `make_plans`.
        UnsupportedError: a tensor's dtype has no fixed width.
        InvalidPlanError: a strategy made a wrong plan (a bug).
    """
    bindings = bindings or Bindings()
    if settings.alignment is not None:
        target = replace(target, alignment=settings.alignment)
    lives = lifetimes(graph, target)
    # Under the rules of LiteRT the plan that LiteRT itself would make stands beside ours.
    also = choices("offsets/litert_arena") if target.scratch == "litert" else ()
    made = _plans(lives.problem, settings, families=families, also=also, fits=fits, progress=progress)
    planset = replace(
        made,
        target=target,
        digest=digest(graph),
        steps=lives.steps,
        unplanned=lives.unplanned,
        dims=dict(bindings.dims),
        input_shapes=dict(bindings.input_shapes),
    )
    return prove(planset, graph).planset


def plan_problem(
    problem: Problem,
    settings: Settings,
    *,
    families: Sequence[Family] = FAMILIES,
    fits: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Proved plans of plain usage records. Arguments and errors are those of `plan_graph`."""
    return prove(_plans(problem, settings, families=families, fits=fits, progress=progress)).planset


def plan_recording(
    recording: Recording, settings: Settings, *, names: Sequence[str] | None = None, from_file: bool = False
) -> PlanSet:
    """The smallest offset plan of a recorded stream, proved.

    Strategies for shared objects do not apply; if the settings name no other, all strategies are tried as for `auto`.
    A session plans while a caller waits, so `auto` stops at the first plan that meets the lower bound.

    Args:
        recording: the stream and what it belongs to.
        settings: what the user asked for; an alignment below 64 bytes is raised to 64.
        names: a label for every request; they default to `request 0`, `request 1`, ...
        from_file: the settings came with a file, and are followed as far as `edgemem.planning.limits.bounded` allows.

    Raises as `plan_graph`.
    """
    wanted = bounded(settings) if from_file else settings
    alignment = max(wanted.alignment or _BLOCK_ALIGNMENT, _BLOCK_ALIGNMENT)
    problem = recording.trace.problem(alignment=alignment, names=names, outlive=recording.fingerprint.signature.shared)
    made = _plans(problem, _for_offsets(wanted), families=("offsets",), quick=True)
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


def _for_offsets(settings: Settings) -> Settings:
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


def _plans(
    problem: Problem,
    settings: Settings,
    *,
    families: Sequence[Family],
    also: Sequence[Choice] = (),
    fits: int | None = None,
    quick: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    made = make_plans(
        problem,
        tuple(choice for name in settings.strategies for choice in choices(name)),
        also=also,
        families=families,
        limits=Limits(settings.effort, settings.seed, settings.time_limit, settings.threads),
        fits=fits,
        quick=quick,
        progress=progress,
    )
    return replace(made, settings=settings, versions={"edgemem": VERSION, **made.versions})
