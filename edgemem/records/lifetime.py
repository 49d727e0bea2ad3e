"""From a graph under a target to usage records.

Time is counted in steps (`edgemem.model.steps`). What a loop's body takes in stays whole for as long as any body of
that operator runs, because it is read again; what a body gives back stays until the operator is done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.model.aliasing import RULES
from edgemem.model.graph import RUN_ONCE
from edgemem.model.steps import steps_of
from edgemem.records.problem import Kind, Problem, UsageRecord
from edgemem.records.textures import texel_extent

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Tensor
    from edgemem.model.steps import Step
    from edgemem.targets import Target

__all__ = ["Lifetimes", "lifetimes"]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The problem a graph makes under a target.

    Attributes:
        problem: its usage records; `first_op` and `last_op` count steps.
        steps: the label of the operator that runs at each step, with the path through the bodies it is in.
        unplanned: (tensor, reason) for every tensor that is no constant and has no place in the plan.
    """

    problem: Problem
    steps: tuple[str, ...]
    unplanned: tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class _Life:
    """A tensor's interval, or an alias class's once tensors are merged into it."""

    tensor: Tensor
    first: int
    last: int
    kind: Kind = "tensor"
    outside: str = ""  # why it has no place in the plan
    fixed: bool = False  # never shares its memory: graph inputs and outputs, variables, what crosses a body's border
    names: list[str] = field(default_factory=list)


def lifetimes(graph: Graph, target: Target) -> Lifetimes:
    """The usage records of a graph in the order of its operators.

    Tensors that alias under the target's rules (`edgemem.model.aliasing`) share one record. Raises UnsupportedError for
    an activation whose dtype has no fixed width.
    """
    steps = steps_of(graph, bodies=target.bodies == "inline")
    lives = _intervals(graph, steps, target)
    classes = _share(lives, steps, target)
    records, unplanned = [], []
    for life in lives.values():
        if classes[life.tensor.name] is not life:
            continue
        size = texel_extent(life.tensor, graph.layout) if target.texels else life.tensor.size if not life.outside else 0
        reason = life.outside or (size if isinstance(size, str) else "" if size else "empty")
        if reason:
            unplanned.append((life.tensor.name, reason))
        elif not isinstance(size, str):
            names = tuple(life.names)
            records.append(UsageRecord(names[0], life.first, life.last, size, life.kind, names))
    for number, step in enumerate(steps):
        records.extend(
            UsageRecord(f"{step.label}:scratch{k}", number, number, size, "scratch")
            for k, size in enumerate(step.op.scratch)
            if size
        )
    if target.bodies == "outside":
        unplanned.extend(
            (t.name, "in a body, which the runtime keeps elsewhere")
            for op in graph.ops
            for body in op.bodies
            for t in _inner_tensors(body)
        )
    problem = Problem(records, alignment=target.alignment, reserved=target.region.reserved)
    return Lifetimes(problem, tuple(s.label for s in steps), tuple(unplanned))


def _intervals(graph: Graph, steps: tuple[Step, ...], target: Target) -> dict[str, _Life]:
    end = max(len(steps) - 1, 0)
    lives: dict[str, _Life] = {}

    def add(tensor: Tensor, first: int, last: int, *, kind: Kind = "tensor", outside: str = "") -> None:
        reason = tensor.note or f"a {tensor.dtype}, not a dense tensor" if tensor.kind == "opaque" else outside
        lives[tensor.name] = _Life(tensor, first, last, kind, reason, kind != "tensor", [tensor.name])

    def enter(g: Graph, first: int, last: int, *, top: bool, keep_inputs: bool) -> None:
        """Declare a graph's tensors; its inputs are there from `first`, and what it gives back stays until `last`."""
        inputs, outputs = set(g.inputs), set(g.outputs)
        for index, tensor in enumerate(g.tensors):
            if tensor.kind in ("constant", "captured"):
                continue
            if tensor.kind == "variable":
                outside = "" if target.variables == "whole_run" else "a variable, which keeps its value between runs"
                add(tensor, 0, end, kind="variable", outside=outside)
            elif index in inputs:
                outside = "a graph input, held by the caller" if top and target.inputs == "outside" else ""
                kind: Kind = "input" if top else "tensor"
                add(tensor, first, last if keep_inputs else first, kind=kind, outside=outside)
            elif index in outputs and top:
                outside = "a graph output, held by the caller" if target.outputs == "outside" else ""
                add(tensor, end + 1, 0, kind="output", outside=outside)
            else:
                add(tensor, end + 1, 0)
            if index in inputs or index in outputs:
                lives[tensor.name].fixed = True
                if index in outputs:
                    lives[tensor.name].last = last

    enter(graph, 0, end, top=True, keep_inputs=target.inputs == "whole_run")
    for number, step in enumerate(steps):
        once = step.op.type in RUN_ONCE
        for body, start in zip(step.op.bodies, step.starts, strict=False):  # no starts: bodies are elsewhere
            enter(body, start if once else step.starts[0], number, top=False, keep_inputs=not once)
    for number, step in enumerate(steps):
        for name in step.writes:
            if life := lives.get(name):
                life.first = min(life.first, number)
                life.last = max(life.last, number)
        for name in step.reads:
            if life := lives.get(name):
                life.last = max(life.last, number)
    for life in lives.values():
        if life.first > life.last:
            life.outside = life.outside or "never written"
            life.first = life.last = 0
    return lives


def _share(lives: dict[str, _Life], steps: tuple[Step, ...], target: Target) -> dict[str, _Life]:
    """Merge outputs into the inputs whose memory they may use; name -> the class it ended in."""
    rules = RULES[target.aliasing]
    classes = dict(lives)
    readers = Counter(name for step in steps for name in step.reads)
    for number, step in enumerate(steps):
        out = lives.get(step.writes[0]) if step.writes else None
        if out is None or out.fixed or out.outside:
            continue
        view = step.op.type in rules.views
        positions = (0,) if view else rules.in_place.get(step.op.type, ())
        for position in positions:
            name = step.reads[position] if position < len(step.reads) else ""
            source = classes.get(name)
            if source is None or source.outside or source.tensor.size != out.tensor.size:
                continue
            if source.fixed and not (view and rules.views_of_outputs and source.kind == "output"):
                continue
            if not view and (out.tensor.size <= rules.over or (rules.sole_reader and readers[name] > 1)):
                continue
            others = {p for p, read in enumerate(step.reads) if classes.get(read) is source}
            if not view and (source.last != number or not others <= set(positions)):
                continue
            if not view and rules.sole_reader and readers[source.tensor.name] > 1:
                break
            source.last = max(source.last, out.last)
            source.names.append(out.tensor.name)
            classes[out.tensor.name] = source
            break
    if target.unread == "to_end":
        for name, life in lives.items():
            if classes[name] is life and not readers[name] and not life.fixed:
                life.kind, life.last = "output", len(steps) - 1
    return classes


def _inner_tensors(graph: Graph) -> list[Tensor]:
    inner = [t for op in graph.ops for body in op.bodies for t in _inner_tensors(body)]
    return [t for t in graph.tensors if t.kind not in ("constant", "captured")] + inner
