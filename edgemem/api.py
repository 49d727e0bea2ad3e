"""The library's verbs: load, order, plan, verify, save. The command line says the same with the same words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from edgemem import formats, planfile
from edgemem.errors import BudgetExceededError, ModelError, PlanFileError
from edgemem.formats import Bindings, MicroPlanned, Model, RecordFile, load_model
from edgemem.formats.workspace import graph_under
from edgemem.model.graph import Graph
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.planning.model_plan import plan_graph, plan_model, plan_problem
from edgemem.planning.recording_plan import replan_recording
from edgemem.planning.verification import bindings_of, graph_for, plans_of, verdict_of
from edgemem.plans import OffsetPlan, PlanSet, Settings
from edgemem.proof import prove
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import has_tail, predicted_tail
from edgemem.records.problem import Problem
from edgemem.report.peak import find_peak
from edgemem.schedule.order import find_order
from edgemem.schedule.registry import SOLVERS
from edgemem.system.files import atomic_write
from edgemem.system.text import join_names
from edgemem.targets import BUILT_IN, Target, find_target, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from edgemem.plans import Plan
    from edgemem.proof import Violation
    from edgemem.records.micro_arena import MicroArena
    from edgemem.schedule.ordering import Ordering
    from edgemem.schedule.registry import Solver

__all__ = [
    "Source",
    "check_budget",
    "load",
    "offline_metadata",
    "order",
    "order_methods",
    "plan",
    "save",
    "verify",
]


Source: TypeAlias = "str | Path | Model | RecordFile | Graph | Problem"


def load(
    path: str | Path,
    *,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model | RecordFile:
    """Open a model (.onnx, .tflite) or a file of usage records (.csv).

    Args:
        path: the file; its suffix names the format.
        dims: values for symbolic dimensions, by name; or texts for what is not one number: "1..8" is a range with both
            ends, "past+1" the sum of other dimensions. A plan of the model then holds over the range.
        input_shapes: shapes of graph inputs, by name.

    Raises:
        ModelError: no converter knows the suffix, or the file cannot be read; a text is no range.
    """
    return formats.load(path, Bindings.of(dims, input_shapes))


def order(
    graph: str | Path | Model | Graph,
    method: str = "auto",
    *,
    target: str | Target | None = None,
    alignment: int | None = None,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    effort: str | None = None,
    seed: int | None = None,
    time_limit: float | None = None,
) -> Ordering:
    """The order of a graph's operators with the smallest peak that was found; never above that of its own order.

    Operators with side effects keep their order among themselves. Nothing is changed: `Graph.reordered` and
    `Model.with_order` take `Ordering.order`. ONNX Runtime runs the nodes of a file in an order of its own; what
    `edgemem.shrink` writes runs in the order that was found.

    Args:
        graph: a path, what `load` gave, or a Graph, in the order of its file.
        method: `auto` for the best of all solvers, or one of them; see `edgemem strategies`.
        target: as for `plan`: whose lifetimes, aliases and overlaps count.
        alignment: of every offset in bytes, instead of the target's.
        dims: as for `load`, when `graph` is a path.
        input_shapes: as for `load`, when `graph` is a path.
        effort: "fast", "default" or "max": work of every solver, the same on every machine.
        seed: of the solvers' random choices, 0 or more.
        time_limit: seconds for all solvers together; with it the order depends on the machine.

    Raises:
        ModelError: the file cannot be read, or holds usage records, which have no operators.
        UnknownShapeError: sizes are missing; names the tensors and the flags that bind them.
        UnsupportedError: a tensor's dtype has no fixed width.
        UnknownStrategyError: there is no such method, or an option is out of range.
    """
    source = _opened(graph, dims, input_shapes)
    if isinstance(source, Problem | RecordFile):
        raise ModelError("usage records have no operators to order; give the model that they were made from")
    rules = _target_of(source, target)
    if alignment is not None:
        rules = replace(rules, alignment=alignment)
    whole = source if isinstance(source, Graph) else graph_under(source, rules)
    return find_order(whole, rules, method=method, effort=effort, seed=seed, time_limit=time_limit)


def plan(
    source: Source,
    *,
    strategy: str | Iterable[str] = "auto",
    target: str | Target | None = None,
    alignment: int | None = None,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    budget: int | str | None = None,
    effort: str | None = None,
    seed: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    pins: Mapping[str, int] | None = None,
    states: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanSet:
    """Plan the memory of a model or of usage records, and prove every plan before giving it back.

    `effort`, `seed`, `time_limit` and `threads` apply to every search among the strategies, unless the strategy's own
    options say otherwise. Without a time limit, the same input gives the same plans on every machine.

    Args:
        source: a path, what `load` gave, a Graph, or a Problem.
        strategy: `auto`, or one or more of `[FAMILY/]NAME[:OPTION=VALUE,...]`; see `strategies()`.
        target: a built-in target's name, a .toml file, or a Target; the format's own by default. Usage records
            have none.
        alignment: of every offset in bytes, instead of the target's (1 for usage records).
        dims: as for `load`, when `source` is a path.
        input_shapes: as for `load`, when `source` is a path.
        budget: bytes that the chosen plan must not exceed, or text such as "64MiB"; for TensorFlow Lite Micro all of
            the arena, head and tail. Where a quick search does not find such a plan, `auto` searches with effort
            "default" before it gives up.
        effort: "fast", "default" or "max"; `auto` tries "fast", and where that
            proves nothing optimal among up to 20,000 records, "default".
        seed: of the searches' random choices, 0 or more.
        time_limit: seconds for making the plans, all strategies together; reading the source and proving the plans
            take their time besides. It ends searches, and keeps `auto` from strategies that cannot be ended.
        threads: of each search that has them, for a plan that is no larger.
        pins: tensor of the model -> offset in bytes where it must be, besides the target's.
        states: graph input -> the value that is this input in the next run, besides the target's: the two are one
            record, so that a cache needs no copy. One `*` in both stands for the same text: {"past.*": "present.*"}.
        progress: called before each strategy runs, with its name and the best size so far.

    Raises:
        ModelError: pins or states of tensors that there are not.
        UnsupportedError: a state whose input is still read after, or while, the value is written over it.
        UnknownShapeError: sizes are missing; names the tensors and the flags that bind them.
        BudgetExceededError: the best plan exceeds the budget, or the target's regions do not hold it.
        PlanError: an unknown strategy, or one that failed.
        InvalidPlanError: a strategy gave a wrong plan (a bug; nothing is returned).
    """
    budget = None if budget is None else size_of("budget", budget)
    source = _opened(source, dims, input_shapes)
    names = (strategy,) if isinstance(strategy, str) else tuple(strategy)
    settings = Settings(names or ("auto",), effort, seed, time_limit, threads, alignment)
    if isinstance(source, RecordFile):
        source = source.problem()
    if isinstance(source, Problem):
        if target is not None:
            raise ModelError("usage records carry no graph that a target could apply to; only alignment")
        if pins or states:
            raise ModelError("usage records say themselves what is pinned (offset) and a state (kind)")
        problem = source
        if alignment is not None:
            problem = source.aligned(alignment)
        planset = plan_problem(problem, settings, fits=budget, progress=progress)
        check_budget(planset, budget)
        return planset
    rules = _target_of(source, target)
    if pins or states:
        rules = replace(rules, pins={**rules.pins, **(pins or {})}, states={**rules.states, **(states or {})})
    available, tail = [bytes_ for bytes_, _ in _available(budget, rules)], 0
    if available and not isinstance(source, Graph) and has_tail(source.default_target, rules):
        tail = predicted_tail(source.graph(), build_of(rules))
    fits = max(min(available) - tail, 0) if available else None
    if isinstance(source, Graph):
        planset = plan_graph(source, rules, settings, fits=fits, progress=progress)
        check_budget(planset, budget, planset.target)
        return planset
    planset = plan_model(source, rules, settings, fits=fits, progress=progress)
    arenas = micro_arenas(source, planset) if available else None
    check_budget(planset, budget, planset.target, arenas.planned if arenas else None)
    return planset


def order_methods() -> tuple[Solver, ...]:
    """What `order` takes as a method beside `auto`, the quick ones first."""
    return tuple(sorted(SOLVERS.values(), key=lambda solver: solver.rank))


def _opened(
    source: Source, dims: Mapping[str, int | str] | None, input_shapes: Mapping[str, Sequence[int]] | None
) -> Model | RecordFile | Graph | Problem:
    if isinstance(source, str | Path):
        return load(source, dims=dims, input_shapes=input_shapes)
    if dims or input_shapes:
        raise ModelError("dims and input_shapes bind a file as it is opened: give them to load")
    return source


def _target_of(source: Model | Graph, target: str | Target | None) -> Target:
    if isinstance(target, str):
        return find_target(target)
    return target or BUILT_IN[source.default_target]


def _available(budget: int | None, target: Target | None) -> list[tuple[int, str]]:
    """Bytes that there are, and where. Of several regions, planning has kept the capacities."""
    limits = [(budget, "the budget")] if budget is not None else []
    if target and target.region.capacity is not None and len(target.regions) == 1:
        limits.append((target.region.capacity, f"region {target.region.name!r}"))
    return limits


def check_budget(
    planset: PlanSet, budget: int | None, target: Target | None = None, arena: MicroArena | None = None
) -> None:
    """Raise BudgetExceededError when the best plan exceeds the budget or the target's region.

    Both are for all of TensorFlow Lite Micro's `arena`, if that is given.
    """
    best = planset.best_offsets or planset.best_shared_objects
    for available, what in _available(budget, target):
        required = arena.total if arena is not None else best.size if best is not None else 0
        if best and required > available:
            peak = find_peak(planset)
            alive = join_names((f"{name} {size:,}" for name, size in peak.alive), most=5)
            hint, impossible = _hint(planset, best, available - (required - best.size))
            parts = f" (head {arena.head.total:,}, tail {arena.tail:,})" if arena is not None else ""
            raise BudgetExceededError(
                f"{required:,} bytes required{parts}, {available:,} available in {what}; "
                f"the peak is at {peak.label} with {peak.size:,} alive: {alive}. {hint}",
                required=required,
                available=available,
                op=peak.label,
                tensors=peak.alive,
                impossible=impossible,
            )


def _hint(planset: PlanSet, best: Plan, available: int) -> tuple[str, bool]:
    """Why a plan does not fit, and whether it is proved that none of these records does."""
    offsets = isinstance(best, OffsetPlan)
    load = planset.bounds.offsets if offsets else planset.bounds.shared_objects
    proved = planset.proved.offsets if offsets else planset.proved.shared_objects
    # Of a model only the graph as it is was planned.
    none, rest = "no plan can fit it", ""
    if planset.target is not None:
        none = "no plan of the model as it is can fit it"
        rest = ", but one of a changed model may (edgemem shrink MODEL --budget SIZE)"
    if load > available:
        return f"{none}: the lower bound is {load:,}{rest}", True
    if proved > available:
        plans = planset.offsets if offsets else planset.shared_objects
        prover = next(p.strategy for p in plans if p.search and p.search.bound == proved)
        return f"{none}: {prover} proved that all take {proved:,} or more{rest}", True
    hint = (
        "none was found that fits, which does not mean that there is none: it is proved only that all take "
        f"{proved:,} or more. A greater effort may find one, or prove it impossible"
    )
    return hint, False


def verify(
    source: str | Path | PlanSet, model: str | Path | Model | Graph | None = None, *, kernels: str | None = None
) -> tuple[Violation, ...]:
    """Everything that is wrong with a plan; () proves it right.

    The plan of a model's graph is proved against the graph, plans of recordings against what was recorded, and the
    offsets in a .tflite file against the plan beside them.

    Args:
        source: a planned model, a stand-alone plan, or a PlanSet.
        model: the model a stand-alone plan or PlanSet belongs to; without it only the records are proved.
        kernels: the kernel profile of the runtime (`edgemem.model.profiles.PROFILES`). A plan is then proved for it,
            too. Offsets in a .tflite file without a plan name none: without it no result may overlap an input.

    Raises:
        PlanFileError: there is no plan, or it cannot be decoded.
        ModelError: the model cannot be read, or there is no such profile.
    """
    return verdict_of(source, model, kernels).violations


def save(
    source: Model | str | Path | None, planset: PlanSet, path: str | Path, *, offsets_only: bool = False
) -> tuple[PlanSet, ...]:
    """Write a plan into a copy of the model it was made for, or to a stand-alone `.edgemem` file.

    Recordings that the model holds go along, planned anew if they were planned with other settings. A plan that makes
    the head of TensorFlow Lite Micro's arena larger than its own planner does is not written: the copy has none.

    Args:
        source: the model; None for a stand-alone plan.
        planset: what `plan` gave.
        path: the file to write, atomically: an existing one is replaced whole or stays as it is.
        offsets_only: write the offsets that TensorFlow Lite Micro reads into a .tflite file, and not the plan, which
            takes some kilobytes of flash that nothing on the device reads.

    Returns:
        `planset`, and behind it the plans of the recordings that went along; () if the copy has no plan.

    Raises:
        InvalidPlanError, StalePlanError: the plan is wrong, or belongs to another model; or only its offsets are
            wanted, and TensorFlow Lite Micro does not run it.
        ModelError: the model cannot be read or written.
    """
    path = Path(path)
    if path.suffix == ".edgemem" and not offsets_only:
        data = planfile.encode_all((prove(planset).planset,))
        try:
            with atomic_write(path) as file:
                file.write(data)
        except (OSError, ValueError) as e:  # ValueError: a NUL in the path
            raise ModelError(f"cannot write plan file {path}: {e}") from None
        return (planset,)
    if isinstance(source, str | Path):
        source = load_model(source, bindings_of(planset))
    if source is None:
        raise ModelError(f"there is no model to write to {path.name}; a plan alone goes into a .edgemem file")
    if path.suffix.lower() not in source.suffixes:
        raise ModelError(f"{path.name}: the planned model is still {' or '.join(source.suffixes)}, or .edgemem alone")
    prove(planset, graph_for(planset, source))
    arenas = micro_arenas(source, planset)
    if arenas is not None and arenas.is_larger and isinstance(source, MicroPlanned):
        source.without_plan().save(path)
        return ()
    if offsets_only:
        if not isinstance(source, MicroPlanned):
            raise ModelError(f"{path.name}: only .tflite files have offsets without a plan; leave --offsets-only away")
        source.with_offsets(planset).save(path)
        return (planset,)
    recordings = tuple(replan_recording(p, planset.settings) for p in _intact_recordings(source))
    plansets = (planset, *recordings)
    source.with_plan(planfile.encode_all(plansets), planset).save(path)
    return plansets


def _intact_recordings(model: Model) -> tuple[PlanSet, ...]:
    """The plan sets of recordings in a model, one a fingerprint; () if they are damaged or none."""
    try:
        plansets = plans_of(model)
    except PlanFileError:
        return ()
    first: dict[Hashable, PlanSet] = {}
    for planset in plansets:
        if planset.recording is not None:
            first.setdefault(planset.recording.fingerprint.key, planset)
    return tuple(first.values())


def offline_metadata(model: object) -> bytes:
    """`OfflineMemoryAllocation` of a planned .tflite file as TFLite Micro reads it: int32, little-endian.

    Raises PlanFileError when the file has none.
    """
    data = model.offline_metadata() if isinstance(model, MicroPlanned) else None
    if data is None:
        raise PlanFileError("there are no offsets for TFLite Micro: plan a .tflite file for the target tflm")
    return data
