"""The library's verbs: load, plan, verify, save. The command line says the same with the same words."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from edgemem import converter, planfile
from edgemem.converter import Bindings, Model, OfflinePlanned, RecordFile
from edgemem.errors import BudgetExceededError, InvalidPlanError, ModelError, PlanFileError, StalePlanError
from edgemem.graph import Graph, digest
from edgemem.lifetime import lifetimes
from edgemem.planning import Choice, choices, make_plans
from edgemem.plans import PlanSet
from edgemem.proof import Cause, Violation, verify_planset
from edgemem.records import Problem
from edgemem.report.peak import find_peak
from edgemem.targets import BUILT_IN, Target
from edgemem.targets import target as find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["Source", "check_budget", "load", "offline_metadata", "plan", "read_plan", "save", "verify"]

Source: TypeAlias = "str | Path | Model | RecordFile | Graph | Problem"


def load(
    path: str | Path,
    *,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model | RecordFile:
    """Open a model (.onnx, .tflite) or a file of usage records (.csv).

    Args:
        path: the file; its suffix names the format.
        dims: values for symbolic dimensions, by name.
        input_shapes: shapes of graph inputs, by name.

    Raises:
        ModelError: no converter knows the suffix, or the file cannot be read.
    """
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    return converter.load(path, Bindings(dict(dims or {}), shapes))


def plan(
    source: Source,
    *,
    strategy: str | Iterable[str] = "auto",
    target: str | Target | None = None,
    alignment: int | None = None,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    budget: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Plan the memory of a model or of usage records, and prove every plan before giving it back.

    Args:
        source: a path, what `load` gave, a Graph, or a Problem.
        strategy: `auto`, or one or more of `[FAMILY/]NAME[:OPTION=VALUE,...]`; see `strategies()`.
        target: a built-in target's name, a .toml file, or a Target; the format's own by default. Usage records
            have none.
        alignment: of every offset in bytes, instead of the target's (1 for usage records).
        dims: as for `load`, when `source` is a path.
        input_shapes: as for `load`, when `source` is a path.
        budget: bytes that the chosen plan must not exceed.
        progress: called with each strategy's name before it runs.

    Raises:
        UnknownShapeError: sizes are missing; names the tensors and the flags that bind them.
        BudgetExceededError: the best plan exceeds the budget, or the capacity of the target's region.
        PlanError: an unknown strategy, or one that failed.
        InvalidPlanError: a strategy gave a wrong plan (a bug; nothing is returned).
    """
    if isinstance(source, str | Path):
        source = load(source, dims=dims, input_shapes=input_shapes)
    elif dims or input_shapes:
        raise ModelError("dims and input_shapes bind a file as it is opened: give them to load")
    names = (strategy,) if isinstance(strategy, str) else tuple(strategy)
    wanted = tuple(choice for name in names for choice in choices(name))
    if isinstance(source, RecordFile):
        source = source.problem()
    if isinstance(source, Problem):
        if target is not None:
            raise ModelError("usage records carry no graph that a target could apply to; only alignment")
        problem = source
        if alignment is not None:
            problem = Problem(source.records, alignment=alignment)
        planset = make_plans(problem, wanted, progress=progress)
        graph, rules = None, None
    else:
        graph, rules = _graph_for(source, target, alignment)
        planset = _plan_graph(source, graph, rules, wanted, progress)
    planset = replace(planset, versions={"edgemem": version("edgemem"), **planset.versions})
    _refuse_invalid(verify_planset(planset, graph))
    check_budget(planset, budget, rules)
    return planset


def _graph_for(source: Model | Graph, target: str | Target | None, alignment: int | None) -> tuple[Graph, Target]:
    default = BUILT_IN["generic" if isinstance(source, Graph) else source.default_target]
    rules = find_target(target) if isinstance(target, str) else target or default
    if alignment is not None:
        rules = replace(rules, alignment=alignment)
    graph = source if isinstance(source, Graph) else source.graph()
    if isinstance(source, Model) and rules.scratch == "litert":
        from edgemem.runtime import litert

        graph = litert.annotated(graph, source)
    return graph, rules


def _plan_graph(
    source: Model | Graph, graph: Graph, rules: Target, wanted: tuple[Choice, ...], progress: Callable[[str], None]
) -> PlanSet:
    lives = lifetimes(graph, rules)
    # With LiteRT's own rules, LiteRT's own plan stands beside ours.
    also = choices("offsets/litert_arena") if rules.scratch == "litert" else ()
    planset = make_plans(lives.problem, wanted, also=also, progress=progress)
    bindings = source.bindings if isinstance(source, Model) else Bindings()
    return replace(
        planset,
        target=rules,
        digest=digest(graph),
        steps=lives.steps,
        unplanned=lives.unplanned,
        dims=dict(bindings.dims),
        input_shapes=dict(bindings.input_shapes),
    )


def check_budget(planset: PlanSet, budget: int | None, target: Target | None = None) -> None:
    """Raise BudgetExceededError when the best plan exceeds the budget or the target's region."""
    limits = [(budget, "the budget")] if budget is not None else []
    if target and target.region.capacity is not None:
        limits.append((target.region.capacity, f"region {target.region.name!r}"))
    best = planset.best_offsets or planset.best_shared_objects
    for available, what in limits:
        if best and best.size > available:
            peak = find_peak(planset)
            alive = ", ".join(f"{name} {size:,}" for name, size in peak.alive[:5])
            more = f" and {len(peak.alive) - 5} more" if len(peak.alive) > 5 else ""
            bound = planset.bounds.offsets
            hint = (
                "no plan can fit it: the lower bound is above; change the model, its input size or the order"
                if bound > available
                else f"the lower bound is {bound:,}: another strategy may fit it"
            )
            raise BudgetExceededError(
                f"{best.size:,} bytes required, {available:,} available in {what}; "
                f"the peak is at {peak.label} with {peak.size:,} alive: {alive}{more}. {hint}",
                required=best.size,
                available=available,
                op=peak.label,
                tensors=peak.alive,
            )


def read_plan(path: str | Path) -> tuple[PlanSet, Model | None]:
    """The plan in a planned model or in a stand-alone `.edgemem` file, with the model it is in.

    The model is bound to the sizes the plan was made for. Raises PlanFileError when there is no plan.
    """
    path = Path(path)
    if path.suffix == ".edgemem":
        return planfile.load(path), None
    model = converter.load(path)
    if not isinstance(model, Model):
        raise PlanFileError(f"{path.name} holds usage records, not a plan")
    data = model.plan()
    if data is None:
        raise PlanFileError(f"{path.name} carries no plan; make one with: edgemem plan {path.name} -o PLANNED")
    planset = planfile.decode(data)
    bound = converter.load(path, Bindings(planset.dims, planset.input_shapes))
    assert isinstance(bound, Model)
    return planset, bound


def verify(source: str | Path | PlanSet, model: str | Path | Model | Graph | None = None) -> tuple[Violation, ...]:
    """Everything that is wrong with a plan; () proves it right.

    Args:
        source: a planned model, a stand-alone plan, or a PlanSet.
        model: the model a stand-alone plan or PlanSet belongs to; without it only the records are proved.

    Raises:
        PlanFileError: there is no plan, or it cannot be decoded.
        ModelError: the model cannot be read.
    """
    planset, inside = (source, None) if isinstance(source, PlanSet) else read_plan(source)
    if isinstance(model, str | Path):
        opened = converter.load(model, Bindings(planset.dims, planset.input_shapes))
        if not isinstance(opened, Model):
            raise ModelError(f"{model} holds usage records; a plan is proved against a model")
        model = opened
    model = model or inside
    if model is None:
        return verify_planset(planset)
    graph = model if isinstance(model, Graph) else model.graph()
    if isinstance(model, Model) and planset.target and planset.target.scratch == "litert":
        from edgemem.runtime import litert

        graph = litert.annotated(graph, model)
    return verify_planset(planset, graph)


def save(source: Model | str | Path | None, planset: PlanSet, path: str | Path) -> None:
    """Write a plan into a copy of the model it was made for, or to a stand-alone `.edgemem` file.

    Args:
        source: the model; None for a stand-alone plan.
        planset: what `plan` gave.
        path: the file to write, atomically: an existing one is replaced whole or stays as it is.

    Raises:
        InvalidPlanError, StalePlanError: the plan is wrong, or belongs to another model.
        ModelError: the model cannot be read or written.
    """
    path = Path(path)
    if path.suffix == ".edgemem":
        _refuse_invalid(verify_planset(planset))
        planfile.save(planset, path)
        return
    if isinstance(source, str | Path):
        opened = converter.load(source, Bindings(planset.dims, planset.input_shapes))
        source = opened if isinstance(opened, Model) else None
    if source is None:
        raise ModelError(f"there is no model to write to {path.name}; a plan alone goes into a .edgemem file")
    if path.suffix.lower() not in source.suffixes:
        raise ModelError(f"{path.name}: the planned model is still {' or '.join(source.suffixes)}, or .edgemem alone")
    _refuse_invalid(verify(planset, source))
    source.with_plan(planfile.encode(planset), planset).save(path)


def offline_metadata(model: object) -> bytes:
    """`OfflineMemoryAllocation` of a planned .tflite file as TFLite Micro reads it: int32, little-endian.

    Raises PlanFileError when the file has none.
    """
    data = model.offline_metadata() if isinstance(model, OfflinePlanned) else None
    if data is None:
        raise PlanFileError("there are no offsets for TFLite Micro: plan a .tflite file for the target tflm")
    return data


def _refuse_invalid(violations: tuple[Violation, ...]) -> None:
    if violations:
        kind = StalePlanError if violations[0].cause is Cause.STALE_DIGEST else InvalidPlanError
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise kind(f"the plan is refused: {violations[0]}{more}", violations=violations)
