"""The planned memory of a file: of the plan that it holds, of one made now, or of a report page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, PlanFileError
from edgemem.formats import Bindings, MicroPlanned, Model, load
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.planning.model_plan import plan_model, plan_problem
from edgemem.planning.verification import graph_for, recordings_beside, right_plan
from edgemem.plans import Settings
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import has_tail, predicted_tail
from edgemem.report.memory_data import memory_of_page
from edgemem.report.planned_memory import planned_memory
from edgemem.report.recorded_memory import recorded_memory
from edgemem.system.regular_files import read_bounded
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["PlannedFile", "memory_of", "memory_of_file", "planned_file"]

_LARGEST_PAGE: Final = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFile:
    """A proved plan, and the model that it is of.

    Attributes:
        planset: from the file, or made now.
        model: None for a stand-alone plan and for usage records.
        graph: that the plan was proved against; None without one.
        is_stored: the file held the plan.
        recordings: plans of recorded streams in the same file; () for a plan that is made now.
    """

    planset: PlanSet
    model: Model | None
    graph: Graph | None
    is_stored: bool
    recordings: tuple[PlanSet, ...] = ()


def planned_file(
    path: Path,
    *,
    target: str | Target | None = None,
    bindings: Bindings | None = None,
    settings: Settings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlannedFile:
    """The plan in a file, proved; or, where it holds none or other rules are asked for, one that is made now.

    Args:
        path: a model, a planned model, a .edgemem plan, or usage records (.csv).
        target: as for `edgemem.plan`; a plan in the file is then left alone.
        bindings: sizes that the file leaves open; a plan in the file is then left alone.
        settings: of a plan that is made now.
        progress: called with what is done next.

    Raises:
        InvalidPlanError: the plan in the file is wrong.
        Others as `edgemem.load` and `edgemem.plan`.
    """
    asked = target is not None or settings is not None or (bindings is not None and bindings != Bindings())
    if path.suffix == ".edgemem":
        if asked:
            raise ModelError(f"{path.name} is a plan: it has its target and sizes; name the model to plan it anew")
        proved, _ = right_plan(path)
        return PlannedFile(proved.planset, None, None, True, recordings_beside(path, None))
    source = load(path, bindings)
    if not isinstance(source, Model):
        if target is not None:
            raise ModelError(f"{path.name}: usage records carry no graph that a target could apply to")
        made = plan_problem(source.problem(), settings or Settings(), progress=progress)
        return PlannedFile(made, None, None, is_stored=False)
    if not asked and _holds_plan(source):
        proved, model = right_plan(path)
        graph = graph_for(proved.planset, model) if model is not None and proved.graph else None
        return PlannedFile(proved.planset, model, graph, True, recordings_beside(path, model))
    rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[source.default_target]
    made = plan_model(source, rules, settings or Settings(), progress=progress)
    return PlannedFile(made, source, graph_for(made, source), is_stored=False)


def memory_of(planned: PlannedFile, name: str) -> PlannedMemory:
    """The rows of a plan, with TensorFlow Lite Micro's tail where the plan is one for it, and what a session takes."""
    recorded = recorded_memory(planned.recordings, planned.graph)
    return planned_memory(planned.planset, planned.graph, name=name, recorded=recorded, **_micro(planned))


def memory_of_file(
    path: str | Path,
    *,
    target: str | Target | None = None,
    bindings: Bindings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlannedMemory:
    """As `planned_file`, for report pages (.html), too. Raises PlanFileError for a page that holds no data."""
    path = Path(path)
    if path.suffix.lower() != ".html":
        return memory_of(planned_file(path, target=target, bindings=bindings, progress=progress), path.name)
    try:
        text = read_bounded(path, _LARGEST_PAGE).decode()
    except UnicodeDecodeError:
        raise PlanFileError(f"{path.name} is no page that `edgemem report` made") from None
    try:
        return memory_of_page(text)
    except PlanFileError as e:
        raise PlanFileError(f"{path.name}: {e}") from None


def _holds_plan(model: Model) -> bool:
    return model.plan() is not None or (isinstance(model, MicroPlanned) and bool(model.offline_metadata()))


def _micro(planned: PlannedFile) -> dict[str, int]:
    """`tail` and `whole` of TensorFlow Lite Micro's arena; nothing for other runtimes."""
    target, model = planned.planset.target, planned.model
    if planned.graph is None or model is None or target is None or not has_tail(model.default_target, target):
        return {}
    arenas = micro_arenas(model, planned.planset)
    return {
        "tail": predicted_tail(planned.graph, build_of(target)),
        "whole": arenas.planned.total if arenas else 0,
    }
