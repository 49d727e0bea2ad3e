"""Plans in files, examined: what is in a file, everything that is wrong with it, and what was looked at.

Three arguments, which share no code: a sweep over the usage records, a rehearsal of the graph in each plan, and the
file itself, read as its runtime reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem import formats, planfile
from edgemem.errors import InvalidPlanError, ModelError, NoPlanError, PlanFileError, UnknownShapeError
from edgemem.formats import Bindings, Compiled, MicroPlanned, Model, load_model
from edgemem.formats.workspace import graph_under
from edgemem.model.graph import Graph
from edgemem.model.micro_workspace import with_workspace
from edgemem.model.profiles import PROFILES
from edgemem.planning.micro_offsets import plan_of_offsets, verify_offsets
from edgemem.planning.ranges import RangeCheck, check_range, graphs_over
from edgemem.planning.vela_offsets import VelaOffsets, examine_vela
from edgemem.plans import PlanSet
from edgemem.proof import Cause, Violation, examine, prove, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.proof import Proved

__all__ = ["Verdict", "bindings_of", "graph_for", "plans_of", "recordings_beside", "right_plan", "verdict_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What came of a file or a plan set.

    Attributes:
        planset: the plan of the graph, or else the first plan in the file.
        model: the model that holds it; None for a stand-alone plan and a plan set.
        graph: what the plan was rehearsed in; None if there was none, so that only the usage records were swept.
        recordings: all plans of recorded streams and of cycles, `planset` among them if it is one.
        offsets: how many of the file's offsets for TensorFlow Lite Micro were compared with the plan's; None if the
            file has none beside a plan.
        violations: everything that is wrong; () is right.
        vela: what came of Vela's offsets; None for a file that Vela has not compiled.
        range: what was looked at over the plan's range of sizes; None if it has no range, or there is no model.
    """

    planset: PlanSet
    model: Model | None
    graph: Graph | None
    recordings: tuple[PlanSet, ...]
    offsets: int | None
    violations: tuple[Violation, ...]
    range: RangeCheck | None = None
    vela: VelaOffsets | None = None


def verdict_of(
    source: str | Path | PlanSet, model: str | Path | Model | Graph | None = None, kernels: str | None = None
) -> Verdict:
    """Examine all plans of a file, or a plan set. Arguments and errors as `edgemem.verify`."""
    if not isinstance(source, PlanSet) and (vela := _vela(Path(source))) is not None:
        return Verdict(vela.planset, None, None, (), None, vela.violations, vela=vela)
    return _verdict_of_plans(source, model, kernels)


def _verdict_of_plans(
    source: str | Path | PlanSet, model: str | Path | Model | Graph | None = None, kernels: str | None = None
) -> Verdict:
    if kernels is not None and kernels not in PROFILES:
        raise ModelError(f"no kernel profile {kernels!r}; there are {', '.join(PROFILES)}")
    plansets, inside = ((source,), None) if isinstance(source, PlanSet) else _read(Path(source), kernels)
    planset = _of_graph(plansets)
    if isinstance(model, str | Path):
        model = load_model(model, bindings_of(planset))
    model = model or inside
    recordings = tuple(p for p in plansets if _is_recorded(p))
    graph = None if model is None or planset in recordings else _graph_of(planset, model, is_inside=model is inside)
    violations = [] if planset in recordings else list(examine(planset, graph, kernels))
    if violations and kernels is None and graph is not None and inside is not None and inside.plan() is None:
        violations = [*_right_for_profiles(inside, graph), *violations]
    violations += [v for recording in recordings for v in examine(recording)]
    over = None if violations or isinstance(model, Graph) else _over_range(planset, model, graph)
    violations += over.violations if over is not None else ()
    offsets = _offsets_beside_a_plan(inside)
    if offsets is not None:
        violations += verify_offsets(offsets, plansets)
    count = None if offsets is None else len(offsets)
    return Verdict(planset, inside, graph, recordings, count, tuple(violations), over)


def _over_range(planset: PlanSet, model: Model | None, graph: Graph | None) -> RangeCheck | None:
    if model is None or graph is None or not planset.ranges:
        return None
    graphs, total = graphs_over(model, len(graph.ops))
    return check_range(planset, graphs, planset.ranges, total)


def bindings_of(planset: PlanSet) -> Bindings:
    """The sizes that a plan set was made for."""
    return Bindings(planset.dims, planset.input_shapes, planset.ranges)


def right_plan(path: str | Path) -> tuple[Proved, Model | None]:
    """The plan in a file, proved, and the model that it is in.

    Raises InvalidPlanError if anything in the file is wrong, UnsupportedError for a file that Vela compiled, and as
    `verdict_of`.
    """
    verdict = _verdict_of_plans(path)
    found = [v for v in verdict.violations if v.cause is not Cause.OVER_CAPACITY]
    refuse(found, remedy="list all with `edgemem verify`, and plan again")
    return prove(verdict.planset, verdict.graph), verdict.model


def _read(path: Path, kernels: str | None) -> tuple[tuple[PlanSet, ...], Model | None]:
    """All plan sets in a file, and the model they are in, bound to the sizes of the graph's plan; nothing is proved.

    Offsets for TensorFlow Lite Micro without a plan are read as the plan that they amount to with the kernels of a
    profile. Raises PlanFileError when there is neither.
    """
    if path.suffix == ".edgemem":
        return planfile.load_all(path), None
    model = formats.load(path)
    if not isinstance(model, Model):
        raise PlanFileError(f"{path.name} holds usage records, not a plan")
    if model.plan() is None:
        bare = _plan_of_bare_offsets(model, kernels or "none")
        if bare is None:
            raise NoPlanError(f"{path.name} carries no plan; make one with: edgemem plan {path.name} -o PLANNED")
        return (bare,), model
    plansets = plans_of(model)
    planset = _of_graph(plansets)
    bindings = bindings_of(planset)
    return plansets, model if bindings == Bindings() else load_model(path, bindings)


def _graph_of(planset: PlanSet, model: Model | Graph, *, is_inside: bool) -> Graph:
    """The graph that a plan is for. Raises InvalidPlanError where the model that holds it cannot have its sizes."""
    try:
        return graph_for(planset, model)
    except ModelError as e:
        if not is_inside or type(e) not in (ModelError, UnknownShapeError):
            raise
        why = str(e).split("; ", maxsplit=1)[0]  # without the options that would give a model its sizes
        raise InvalidPlanError(f"the plan is for sizes that its model does not have: {why}; plan it again") from None


def _vela(path: Path) -> VelaOffsets | None:
    """What came of the offsets in a file that Vela compiled; None for any other. Raises NoPlanError without offsets."""
    model: object = formats.load(path) if path.suffix != ".edgemem" else None
    graph = model.compiled_graph() if isinstance(model, Compiled) else None
    if graph is None or not isinstance(model, MicroPlanned):
        return None
    if not model.offline_metadata():
        raise NoPlanError(f"{path.name} has none of the offsets that Vela writes; compile it with Vela again")
    try:
        return examine_vela(graph, model.offline())
    except ModelError as e:
        remedy = "Vela keeps the offsets of a model that is planned: compile one without a plan"
        raise ModelError(f"{path.name}: {e}; {remedy}") from None


def _of_graph(plansets: Sequence[PlanSet]) -> PlanSet:
    return next((p for p in plansets if not _is_recorded(p)), plansets[0])


def _is_recorded(planset: PlanSet) -> bool:
    """Whether a plan set is of what a program asked for, and not of a graph or of usage records."""
    return planset.recording is not None or planset.cycle is not None


def plans_of(model: Model) -> tuple[PlanSet, ...]:
    """All plan sets in a model; nothing is proved. Raises PlanFileError if they are damaged."""
    data = model.plan()
    return planfile.decode_all(data) if data is not None else ()


def recordings_beside(path: str | Path, model: Model | None) -> tuple[PlanSet, ...]:
    """The plans of recorded streams in a file whose plan `right_plan` gave, and in whose model they are."""
    plansets = planfile.load_all(Path(path)) if model is None else plans_of(model)
    return tuple(planset for planset in plansets if planset.recording is not None)


def _plan_of_bare_offsets(model: object, kernels: str) -> PlanSet | None:
    """What a file's offsets for TensorFlow Lite Micro amount to where no plan is beside them; None without any."""
    if not isinstance(model, MicroPlanned) or not model.offline_metadata():
        return None
    return plan_of_offsets(model.graph(), model.offline(), kernels)


def _right_for_profiles(model: Model, graph: Graph) -> tuple[Violation, ...]:
    """The kernel profiles under which offsets without a plan, which name none, are right; () if there are none."""
    right = []
    for kernels in PROFILES[1:]:
        planset = _plan_of_bare_offsets(model, kernels)
        if planset is not None and not examine(planset, graph):
            right.append(kernels)
    if not right:
        return ()
    message = (
        "results overlap inputs, and the file names no kernel profile; it is right with the kernels of "
        f"{' or '.join(right)} alone: name those of your firmware, as with `edgemem verify --overlap {right[0]}`"
    )
    return (Violation(Cause.NOT_PERMITTED, message),)


def _offsets_beside_a_plan(model: object) -> dict[str, int] | None:
    """A file's offsets for TensorFlow Lite Micro, by tensor; None without any, or without a plan."""
    if not isinstance(model, MicroPlanned) or model.plan() is None or model.offline_metadata() is None:
        return None
    return model.offline()


def graph_for(planset: PlanSet, model: Model | Graph) -> Graph:
    """The graph that a plan set is to be proved against: the model's under the plan set's target.

    A graph is taken as it is, with the workspace of TensorFlow Lite Micro's kernels if that is in the plan.
    """
    target = planset.target
    if isinstance(model, Graph):
        has_workspace = any(record.kind == "scratch" for record in planset.problem.records)
        is_micro = target is not None and target.scratch == "tflm" and has_workspace
        return with_workspace(model, target.pointer_bytes, target.kernels) if target and is_micro else model
    return model.graph() if target is None else graph_under(model, target)
