"""The layout of LiteRT's tensors by a plan that is in the file, given, or made now. Loads the planner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import EdgememError, InvalidPlanError, RuntimeBindError, StalePlanError
from edgemem.formats import open_bytes
from edgemem.model.graph import digest
from edgemem.model.steps import scratch_name
from edgemem.planning.limits import bounded
from edgemem.planning.model_plan import plan_graph
from edgemem.planning.verification import plans_of
from edgemem.plans import PlanSet, Settings
from edgemem.proof import prove
from edgemem.runtime.executors import LITERT
from edgemem.runtime.litert.arena_layout import ArenaLayout
from edgemem.runtime.litert.probe import annotate
from edgemem.runtime.memory import origin_of
from edgemem.targets import BUILT_IN, Target

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.proof import Proved
    from edgemem.runtime.litert.file import ModelSource
    from edgemem.runtime.litert.probe_data import Probe
    from edgemem.runtime.litert.request import Inputs, PlanRequest, Resized
    from edgemem.runtime.memory import Source

__all__ = ["bound_target", "choose_layout", "graph_of", "open_tflite"]

# Quick strategies; litert_arena gives the plan of LiteRT's own planner, so that ours is never larger.
_QUICK: Final = Settings(("offsets/greedy_by_size", "offsets/greedy_by_breadth", "offsets/litert_arena"))
_ALIGNMENT: Final = 64
_REMEDY: Final = "plan again with `edgemem plan --target litert`, or let one be made now: Interpreter(..., plan='make')"


def bound_target(inputs: Inputs | None) -> Target:
    """The rules of an arena that LiteRT's builtin kernels run in. None keeps inputs."""
    released = BUILT_IN["litert-release"]
    return released if inputs == "release" else replace(released, name="litert-keep", inputs="whole_run")


def open_tflite(data: bytes) -> Model:
    """A .tflite file in memory, as its converter gives it. Raises ModelError if it is damaged."""
    return open_bytes(data, ".tflite")


def graph_of(model: Any, probed: Probe) -> Graph:
    """The graph of a model as LiteRT runs it."""
    return annotate(model.graph(), probed)


def choose_layout(probed: Probe, source: ModelSource, request: PlanRequest, resized: Resized) -> ArenaLayout:
    """The layout that is asked for, proved.

    Args:
        probed: what LiteRT shows of the model.
        source: the model.
        request: which plan is wanted.
        resized: tensor index of an input -> the shape that the caller gave it.

    Raises RuntimeBindError if no plan can be run, InvalidPlanError if the plan is wrong.
    """
    model = open_tflite(source.data())
    graph = graph_of(model, probed)
    if isinstance(request.plan, PlanSet):
        return _given_layout(graph, probed, request.plan)
    settings = Settings(request.strategies) if request.strategies else None
    if request.plan == "make" or settings:
        return _plan_layout(graph, probed, request.inputs, settings)
    plansets: tuple[PlanSet, ...] = ()
    try:
        plansets = plans_of(model)
        if not plansets and request.plan is None:
            return _plan_layout(graph, probed, request.inputs)
        in_file, is_resized = model.graph(), bool(resized)
        return _file_layout(graph, probed, plansets, request.inputs, in_file=in_file, is_resized=is_resized)
    except EdgememError as e:
        if request.plan == "file" or request.is_strict:
            raise
        return _replacement_layout(graph, probed, request.inputs, str(e), plansets)


def _replacement_layout(
    graph: Graph, probed: Probe, inputs: Inputs | None, why: str, plansets: Sequence[PlanSet]
) -> ArenaLayout:
    """The layout by a plan that is made now, with the settings of the file's plan, which cannot be run."""
    reason = f"the plan in the file is not used: {why}"
    chosen = next((p.settings for p in plansets if p.recording is None and p.settings != Settings()), None)
    if chosen is not None:
        try:
            return _plan_layout(graph, probed, inputs, replace(bounded(chosen), alignment=None), reason=reason)
        except EdgememError:
            pass  # they are settings of another kind of plan
    return _plan_layout(graph, probed, inputs, reason=reason)


def _given_layout(graph: Graph, probed: Probe, planset: PlanSet) -> ArenaLayout:
    """The layout by a plan that the caller gave, once it is proved.

    Raises InvalidPlanError if the plan is not right for this graph inside this LiteRT.
    """
    if planset.best_offsets is None:
        raise InvalidPlanError(
            "the plan has no offsets, and LiteRT runs in one arena: plan with a strategy for offsets"
        )
    if planset.target is not None and (refusal := LITERT.refuse_plan(planset)) is not None:
        raise InvalidPlanError(f"LiteRT cannot run the plan that is given: {refusal.why}; {refusal.advice}")
    return _layout(graph, probed, prove(planset, graph, remedy="plan this model for the target litert"), "given")


def _file_layout(
    graph: Graph,
    probed: Probe,
    plansets: Collection[PlanSet],
    inputs: Inputs | None,
    *,
    in_file: Graph,
    is_resized: bool = False,
) -> ArenaLayout:
    """The layout by the plan that a file carries, proved against the model inside this LiteRT.

    Where the caller has given inputs other sizes than the plan is for, the plan cannot be run: a plan with the file's
    settings and rules is made, and the layout's reason says so.

    Args:
        graph: as this LiteRT runs it.
        probed: what LiteRT shows of it.
        plansets: what the file carries.
        inputs: whether they are to be kept after a run; None is as the plan has it.
        in_file: the graph in the sizes of the file.
        is_resized: whether the caller has resized inputs.

    Raises:
        RuntimeBindError: no plan in the file is one for LiteRT.
        InvalidPlanError, StalePlanError: it is wrong, or was made for another LiteRT or other sizes.
    """
    planset = next((p for p in plansets if LITERT.refuse_plan(p) is None), None)
    if planset is None:
        found = LITERT.refusal(tuple(plansets))
        assert found is not None
        raise RuntimeBindError(
            f"LiteRT cannot run the plan in the file: {found.why}; use `edgemem {found.command}`, or let a "
            "plan be made now: Interpreter(..., plan='make')"
        )
    rules = planset.target
    assert rules is not None
    if inputs == "keep" and rules.inputs == "until_last_use":
        raise RuntimeBindError(
            "the plan in the file gives the memory of inputs away after their last use: make the interpreter without "
            "inputs='keep' and set them before every run, or plan with `edgemem plan --target litert`"
        )
    if planset.digest != digest(graph) and _has_other_inputs(planset, graph, in_file):
        if is_resized:
            made = _made(graph, rules, replace(bounded(planset.settings), alignment=rules.alignment))
            return _layout(
                graph, probed, made, "made now", reason="inputs have other sizes than the file's plan is for"
            )
        shapes = ", ".join(f"{name} = {list(shape)}" for name, shape in planset.input_shapes.items())
        raise StalePlanError(f"the plan in the file is for the input {shapes}: call resize_tensor_input first")
    return _layout(graph, probed, prove(planset, graph, remedy=_REMEDY), "file")


def _has_other_inputs(planset: PlanSet, graph: Graph, in_file: Graph) -> bool:
    """Whether an input has another shape than the plan is for; the plan does not name shapes that are the file's."""
    return any(
        graph.tensors[i].shape != planset.input_shapes.get(in_file.tensors[i].name, in_file.tensors[i].shape)
        for i in in_file.inputs
    )


def _plan_layout(
    graph: Graph, probed: Probe, inputs: Inputs | None, settings: Settings | None = None, *, reason: str = ""
) -> ArenaLayout:
    """The layout by a plan that is made now: the smallest that the settings give, by default of a few quick strategies.

    `reason` says why it is not the plan in the file.

    Raises as `edgemem.planning.model_plan.plan_graph`.
    """
    # Under LiteRT's rules its own planner is among the strategies, so the plan is never larger than LiteRT's.
    rules = (bound_target(inputs), *(() if inputs == "release" else (BUILT_IN["litert"],)))
    candidates = [_made(graph, target, settings or _QUICK) for target in rules]
    proved = min(candidates, key=lambda p: p.planset.best_offsets.size if p.planset.best_offsets else 0)
    return _layout(graph, probed, proved, "made now", reason=reason)


def _made(graph: Graph, rules: Target, settings: Settings) -> Proved:
    planset = plan_graph(graph, rules, settings, families=("offsets",))
    if planset.best_offsets is None:
        raise InvalidPlanError("the strategies give no offsets, and LiteRT runs in one arena: name one for offsets")
    return prove(planset, graph)


def _layout(graph: Graph, probed: Probe, proved: Proved, source: Source, *, reason: str = "") -> ArenaLayout:
    """Where a plan's records go, by tensor index.

    Raises InvalidPlanError if a tensor in use has no place, StalePlanError if the kernels of this LiteRT take other
    workspace than those that the plan was made with.
    """
    planset = proved.planset
    best = planset.best_offsets
    assert best is not None
    if planset.has_regions:
        raise InvalidPlanError(f"the plan lies in several regions, and LiteRT runs in one arena; {_REMEDY}")
    tensors = probed.main.tensors
    index = {t.name: i for i, t in enumerate(graph.tensors)}
    workspace = _workspace(graph, probed)
    places: dict[int, int] = {}
    for record, offset in zip(planset.problem.records, best.offsets.tolist(), strict=True):
        if offset % _ALIGNMENT:
            raise InvalidPlanError(
                f"{record.name!r} is at offset {offset}; LiteRT's kernels want multiples of {_ALIGNMENT}: plan with "
                f"--alignment {_ALIGNMENT}"
            )
        if record.kind == "scratch":
            op, tensor = workspace.get(record.name, (-1, -1))
            if op != record.first_op or record.size != tensors[tensor].size:
                raise StalePlanError(f"this LiteRT's kernels take other workspace than {record.name!r}; {_REMEDY}")
            places[tensor] = offset
            continue
        for name in record.tensors:
            if name not in index:
                raise InvalidPlanError(f"the plan places {name!r}, which the model does not have; {_REMEDY}")
            i = index[name]
            if isinstance(record.size, int) and record.size < tensors[i].size and tensors[i].allocation == "arena":
                raise InvalidPlanError(
                    f"the plan is refused: {name!r} has {tensors[i].size} bytes in LiteRT, and {record.size} in the "
                    f"plan; {_REMEDY}"
                )
            if record.kind != "variable":
                places[i] = offset
    used = {i for op in graph.ops for i in (*op.inputs, *op.outputs)} | {*graph.inputs, *graph.outputs}
    used.difference_update(_left_out(graph, planset))  # they stay in LiteRT's arena, which keeps them during a run
    for i in sorted(used):
        if i >= 0 and i not in places and tensors[i].allocation == "arena" and tensors[i].size:
            raise InvalidPlanError(f"the plan has no place for {tensors[i].name!r}; {_REMEDY}")
    for name, (_, i) in workspace.items():
        if i not in places and tensors[i].size:
            raise StalePlanError(f"the plan has no place for the workspace {name!r} of this LiteRT; {_REMEDY}")
    sized = tuple((i, offset, tensors[i].size) for i, offset in sorted(places.items()))
    size = max((best.size, *(o + s for _, o, s in sized)))
    keeps = planset.target is not None and planset.target.inputs != "until_last_use"
    return ArenaLayout(sized, size, planset, origin_of(planset, best, source), reason, planset.bounds.offsets, keeps)


def _left_out(graph: Graph, planset: PlanSet) -> list[int]:
    """The inputs and outputs that a plan leaves to the runtime."""
    rules = planset.target
    if rules is None:
        return []
    return [
        *(graph.inputs if rules.inputs == "outside" else ()),
        *(graph.outputs if rules.outputs == "outside" else ()),
    ]


def _workspace(graph: Graph, probed: Probe) -> dict[str, tuple[int, int]]:
    """The workspace that LiteRT has in its arena: its record's name -> (operator, tensor)."""
    found: dict[str, tuple[int, int]] = {}
    for number, (op, temporaries) in enumerate(zip(graph.ops, probed.main.scratch, strict=True)):
        mine = [i for i in temporaries if probed.main.tensors[i].allocation == "arena"]
        found |= {scratch_name(op.name or op.type, k): (number, i) for k, i in enumerate(mine)}
    return found
