"""From a graph under a target to usage records.

Time is counted in steps. Every operator is one step; the operators of its bodies come right before it, one body
after the other, so that a body's tensors live no longer than the operator that runs it, and the two branches of an
`If` may share memory. What a loop's body takes in stays whole for as long as any body of that operator runs, because
it is read again; what a body gives back stays until the operator is done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.model.aliasing import RULES
from edgemem.model.graph import RUN_ONCE
from edgemem.records.problem import Extent, Kind, Problem, UsageRecord

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Layout, Op, Tensor
    from edgemem.targets import Target

__all__ = ["Lifetimes", "Step", "lifetimes", "steps_of"]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator at its place in time: its label with the path to it, and the names it reads and writes."""

    label: str
    op: Op
    reads: tuple[str, ...]  # one entry an input, "" for an absent one
    writes: tuple[str, ...]
    starts: tuple[int, ...]  # the first step of each of its bodies


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


def steps_of(graph: Graph, *, bodies: bool = True) -> tuple[Step, ...]:
    """All operators in the order of time, those of bodies (if wanted) before the operator that runs them."""
    steps: list[Step] = []

    def walk(g: Graph, path: str) -> None:
        def name(index: int) -> str:
            return g.tensors[index].name if index >= 0 else ""

        for op in g.ops:
            starts = []
            label = f"{path}{op.name or op.type}"
            for body in op.bodies if bodies else ():
                starts.append(len(steps))
                walk(body, f"{label}/{body.name}/")
            reads, writes = tuple(map(name, op.inputs)), tuple(map(name, op.outputs))
            steps.append(Step(label, op, reads, writes, tuple(starts)))

    walk(graph, "")
    return tuple(steps)


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
        size = _extent(life.tensor, graph.layout) if target.texels else life.tensor.size if not life.outside else 0
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


def _extent(tensor: Tensor, layout: Layout) -> Extent | str:
    """Texels of four channels as (width * batch, height * slices); or why the tensor is no texture."""
    if tensor.dtype not in ("float32", "float16"):
        return f"{tensor.dtype}, not a texture format"
    if len(tensor.shape) > 4:
        return f"rank {len(tensor.shape)}, a texture holds four"
    shape = tensor.shape
    if layout == "nchw" and len(shape) == 4:
        batch, channels, height, width = shape
    else:
        # Shorter shapes are batch and channels first, as TFLite GPU's BHWC reads them.
        batch, height, width, channels = {
            4: shape,
            3: (shape[0], 1, *shape[1:]) if len(shape) == 3 else (),
            2: (shape[0], 1, 1, *shape[1:]) if len(shape) == 2 else (),
            1: (1, 1, 1, *shape),
            0: (1, 1, 1, 1),
        }[len(shape)]
    if not all(shape):
        return "empty"
    return width * batch, height * ((channels + 3) // 4)


def _inner_tensors(graph: Graph) -> list[Tensor]:
    inner = [t for op in graph.ops for body in op.bodies for t in _inner_tensors(body)]
    return [t for t in graph.tensors if t.kind not in ("constant", "captured")] + inner
