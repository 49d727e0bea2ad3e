"""The one way from a model, a graph or plain usage records to a set of proved plans.

Every command and every executor that makes such a plan makes it here; `recording_plan` is the way from a recording.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.errors import UnsupportedError
from edgemem.formats import Assuming, Bindings, Model
from edgemem.formats.workspace import graph_under
from edgemem.model.graph import Graph, digest
from edgemem.model.profiles import kernel_versions
from edgemem.planning.choice import choices
from edgemem.planning.micro_regions import put_into_memories
from edgemem.planning.micro_workspace import settle_workspace
from edgemem.planning.problem_plan import plan_with_settings
from edgemem.planning.ranges import check_range, graphs_over, largest_sizes, widened
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.records.lifetime import lifetimes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.plans import PlanSet
    from edgemem.records.problem import Problem
    from edgemem.strategy.registry import Family
    from edgemem.targets import Target

__all__ = ["FAMILIES", "plan_graph", "plan_model", "plan_problem"]

FAMILIES: tuple[Family, ...] = ("offsets", "shared_objects")


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
    that the user gave; UnknownShapeError if they are not to be had. Where the model's dimensions have ranges, the plan
    holds for all sizes in them that `edgemem.planning.ranges` looks at; UnsupportedError if none was found that does.
    """
    assumed = model.assumed_inputs() if isinstance(model, Assuming) else {}
    bindings = replace(model.bindings, input_shapes={**assumed, **model.bindings.input_shapes})
    graph = graph_under(model, target)

    def planned(rules: Target, least: Mapping[str, int]) -> PlanSet:
        return plan_graph(
            graph, rules, settings, bindings=bindings, families=families, fits=fits, least=least, progress=progress
        )

    if not bindings.ranges:
        return planned(target, {})
    if target.texels or target.scratch != "unknown":
        raise UnsupportedError(f"plans for the target {target.name!r} have one size; give numbers instead of ranges")
    graphs, total = graphs_over(model, len(graph.ops))
    least = largest_sizes((g for _, g in graphs), target)
    # What may share memory at the largest sizes may not at others; without any sharing that depends on sizes it holds.
    for rules in (target, replace(target, aliasing="none")):
        planset = planned(rules, least)
        check = check_range(planset, graphs, bindings.ranges, total)
        if not check.violations:
            return planset
    raise UnsupportedError(f"no plan holds over the whole range: {check.violations[0]}; give a smaller range")


def plan_graph(
    graph: Graph,
    target: Target,
    settings: Settings,
    *,
    bindings: Bindings | None = None,
    families: Sequence[Family] = FAMILIES,
    fits: int | None = None,
    least: Mapping[str, int] | None = None,
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
        least: bytes that tensors need room for by name, where they may be larger than in this graph.
        progress: called before each strategy runs, with its name and the best size so far.

    Raises:
        UnknownStrategyError, PlanError: as `make_plans`.
        BudgetExceededError: the target's regions, of which there are several, do not hold the records.
        UnsupportedError: a tensor's dtype has no fixed width.
        InvalidPlanError: a strategy made a wrong plan (a bug).
    """
    bindings = bindings or Bindings()
    if settings.alignment is not None:
        target = replace(target, alignment=settings.alignment)
    lives = lifetimes(graph, target)
    problem = widened(lives.problem, least) if least else lives.problem
    if target.scratch == "litert" and settings.strategies == ("auto",):
        # LiteRT makes this plan by itself, and reads none. Its rules search nothing.
        (own,) = choices("offsets/litert_arena")
        if own.strategy.can_plan(problem):
            settings = Settings(("offsets/litert_arena",), alignment=settings.alignment)
    if "regions" in problem.features:
        from edgemem.planning.regions import plan_in_regions  # few targets have several

        made = plan_in_regions(problem, target.regions, settings, steps=lives.steps, progress=progress)
    else:
        made = plan_with_settings(problem, settings, families=families, fits=fits, progress=progress)
    if target.scratch == "tflm" and any(record.kind == "scratch" for record in problem.records):
        made = settle_workspace(made, graph, target)
    if target.scratch == "tflm" and len(target.regions) > 1:
        made = put_into_memories(made, graph, target)
    planset = replace(
        made,
        target=target,
        digest=digest(graph),
        steps=lives.steps,
        unplanned=lives.unplanned,
        dims=dict(bindings.dims),
        input_shapes=dict(bindings.input_shapes),
        ranges=dict(bindings.ranges),
        versions={**made.versions, **kernel_versions(target.kernels)},
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
    return prove(plan_with_settings(problem, settings, families=families, fits=fits, progress=progress)).planset
