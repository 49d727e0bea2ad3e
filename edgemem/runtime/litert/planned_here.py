"""A plan's places, found in this process: the file is read, planned and proved here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError, RuntimeBindError
from edgemem.planning.limits import bounded
from edgemem.planning.verification import plans_of
from edgemem.plans import PlanSet, Settings
from edgemem.runtime.litert.layout import file_layout, given_layout, graph_of, open_tflite, plan_layout, refusal
from edgemem.runtime.litert.probe import probe
from edgemem.runtime.litert.request import PLAIN_HINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.runtime.litert.file import Source
    from edgemem.runtime.litert.memory import Mode
    from edgemem.runtime.litert.places import Layout
    from edgemem.runtime.litert.probed import Probe
    from edgemem.runtime.litert.request import Inputs, PlanRequest, Resized

__all__ = ["computed_tensors", "placed_by_litert", "plan_here"]


def plan_here(mode: Mode, probed: Probe, source: Source, request: PlanRequest, resized: Resized) -> Layout:
    """The layout that is asked for, proved.

    Args:
        mode: `repoint` or `custom`.
        probed: what LiteRT shows of the model.
        source: the model.
        request: which plan is wanted.
        resized: tensor index of an input -> the shape that the caller gave it.

    Raises RuntimeBindError if the model cannot run in an arena, InvalidPlanError if the plan is wrong.
    """
    model = open_tflite(source.data())
    graph = graph_of(model, probed)
    refused = refusal(graph, probed)
    if not refused and mode == "custom":
        refused = _changed(model, graph, probed, resized)
    if refused:
        raise RuntimeBindError(f"the model cannot run in a planned arena: {refused}{PLAIN_HINT}")
    if isinstance(request.plan, PlanSet):
        return given_layout(graph, probed, request.plan)
    settings = Settings(request.strategies) if request.strategies else None
    if request.plan == "make" or settings:
        return plan_layout(graph, probed, request.inputs, settings)
    plansets: tuple[PlanSet, ...] = ()
    try:
        plansets = plans_of(model)
        if not plansets and request.plan is None:
            return plan_layout(graph, probed, request.inputs)
        in_file, is_resized = model.graph(), bool(resized)
        return file_layout(graph, probed, plansets, request.inputs, in_file=in_file, is_resized=is_resized)
    except EdgememError as e:
        if request.plan == "file" or request.is_strict:
            raise
        return _instead(graph, probed, request.inputs, str(e), plansets)


def _instead(graph: Graph, probed: Probe, inputs: Inputs, why: str, plansets: Sequence[PlanSet]) -> Layout:
    """A plan that is made now, with the settings of the file's plan, which cannot be run."""
    reason = f"the plan in the file is not used: {why}"
    chosen = next((p.settings for p in plansets if p.recording is None and p.settings != Settings()), None)
    if chosen is not None:
        try:
            return plan_layout(graph, probed, inputs, replace(bounded(chosen), alignment=None), reason=reason)
        except EdgememError:
            pass  # they are settings of another kind of plan
    return plan_layout(graph, probed, inputs, reason=reason)


def _changed(model: Model, graph: Graph, probed: Probe, resized: Resized) -> str:
    """Why LiteRT's own placement has changed since tensors were taken out of its arena, or ""."""
    natural = probe(model.content(), {i: tuple(shape) for i, shape in resized.items()})
    refused = refusal(graph, natural)
    count = len(graph.tensors)
    ours = {i for i, t in enumerate(probed.main.tensors[:count]) if t.allocation in ("custom", "arena")}
    if not refused and not placed_by_litert(natural) & set(range(count)) <= ours:
        return "LiteRT treats tensors of other shapes in another way; make the interpreter anew"
    return refused


def placed_by_litert(probed: Probe) -> frozenset[int]:
    """The tensors that LiteRT places in its arena."""
    return frozenset(i for i, t in enumerate(probed.main.tensors) if t.allocation == "arena" and t.size)


def computed_tensors(model: Model) -> frozenset[int]:
    """Tensors that every run computes. Constants are not among them: kernels depend on where constants are."""
    return frozenset(i for i, t in enumerate(model.graph().tensors) if t.kind == "activation")
